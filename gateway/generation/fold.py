"""Folds the events of a request into a completion.

Requests with and without streaming produce the same events; without it they are folded. Pure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field

from shared.errors import from_message
from shared.pb import text_pb2 as pb

# A request yields one Accepted, then events in the order that text.proto states.
Item = pb.Accepted | pb.Event


@dataclass
class Block:
    """One block with its whole text."""

    start: pb.BlockStart
    pieces: list[str] = field(default_factory=list)
    infos: list[pb.TokenInfo] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The deltas of the block, joined."""
        return "".join(self.pieces)

    def add(self, delta: pb.Delta) -> None:
        self.infos.extend(delta.infos)
        if delta.text:
            self.pieces.append(delta.text)


@dataclass
class Completion:
    """Everything a request has yielded."""

    accepted: pb.Accepted = field(default_factory=pb.Accepted)
    blocks: list[Block] = field(default_factory=list)
    infos: list[pb.TokenInfo] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    started: pb.Started = field(default_factory=pb.Started)
    finished: pb.Finished = field(default_factory=pb.Finished)

    def text(self, kind: pb.BlockStart.Kind.ValueType) -> str:
        """Return the text of all blocks of a kind."""
        return "".join(block.text for block in self.blocks if block.start.kind == kind)

    @property
    def whole_text(self) -> str:
        """The text of all blocks, whatever their kind."""
        return "".join(block.text for block in self.blocks)

    def tool_calls(self) -> list[Block]:
        """Return the tool-call blocks."""
        return [b for b in self.blocks if b.start.kind == pb.BlockStart.KIND_TOOL_CALL]


async def fold(batches: AsyncIterator[Sequence[Item]]) -> Completion:
    """Return the completion of a request's items.

    Raises:
        ServiceError: the request failed.
    """
    completion = Completion()
    async for batch in batches:
        fold_batch(completion, batch)
    return completion


def fold_batch(completion: Completion, batch: Iterable[Item]) -> None:
    """Add items to a completion.

    Raises:
        ServiceError: an item is `Failed`.
    """
    for item in batch:
        if isinstance(item, pb.Accepted):
            completion.accepted = item
            continue
        match item.WhichOneof("event"):
            case "started":
                completion.started = item.started
            case "block_start":
                completion.blocks.append(Block(item.block_start))
            case "delta":
                completion.infos.extend(item.delta.infos)
                completion.ids.extend(item.delta.ids)
                completion.blocks[-1].add(item.delta)
            case "finished":
                completion.finished = item.finished
            case "failed":
                raise from_message(item.failed.error)
