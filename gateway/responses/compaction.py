"""Compacting a history: count its tokens, summarise it, check that it became shorter.

Owns the order of those steps and their failures; the dialect knows where a history may be cut and
the form of a compaction item. A failure leaves the history unchanged. Runs in the handler's task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import orjson

from gateway.dialects.base import Stamp
from gateway.dialects.openai.responses import compaction
from gateway.dialects.openai.responses.answer import Item
from gateway.dialects.openai.responses.capsule import expand
from gateway.dialects.openai.wire import TurnFields
from gateway.fleet.text_worker import TextWorker
from gateway.generation.fold import fold
from gateway.generation.generate import Generator
from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2

# The reference's defaults for what a compaction keeps and writes.
_KEEP_SHARE: Final = 16
_MOST_KEPT_TOKENS: Final = 8192
_SUMMARY_TOKENS: Final = 1024
# A summary must be much shorter than what it replaces.
_SUMMARY_SHARE: Final = 4
_SHORTEST_SUMMARY_TOKENS: Final = 16


def default_keep_tokens(card: worker_pb2.ModelCard, threshold: int | None = None) -> int:
    """Return how many tokens of the newest turns are kept.

    Args:
        threshold: token count at which compaction starts; at most half of it is kept.
    """
    most = _MOST_KEPT_TOKENS if threshold is None else min(_MOST_KEPT_TOKENS, threshold // 2)
    return max(1, min(card.context_tokens // _KEEP_SHARE, most))


def default_summary_tokens(before_tokens: int) -> int:
    return min(_SUMMARY_TOKENS, max(_SHORTEST_SUMMARY_TOKENS, before_tokens // _SUMMARY_SHARE))


@dataclass(frozen=True)
class CompactionJob:
    """One compaction.

    Attributes:
        items: the whole history.
        rebuild: builds the request whose prompt is to be shortened from items.
        keep_tokens: how many tokens of the newest turns are kept.
        max_tokens: of the summary; None for the default.
        counted: whether metrics count the summary as a request of a client.
    """

    fields: TurnFields
    items: list[msgspec.Raw]
    stamp: Stamp
    rebuild: Callable[[list[msgspec.Raw]], pb.GenerateRequest]
    keep_tokens: int
    max_tokens: int | None
    priority: common.Priority.ValueType
    counted: bool


@dataclass(frozen=True)
class Compacted:
    """A compacted history.

    Attributes:
        item: replaces everything that is not pinned.
        pinned, kept: unchanged items; `item` contains the kept ones too.
        tokens: of the new prompt.
        usage: of the generation of the summary.
    """

    item: Item
    pinned: list[msgspec.Raw]
    kept: Sequence[msgspec.Raw]
    tokens: int
    usage: common.Usage

    @property
    def items(self) -> list[msgspec.Raw]:
        """The new history."""
        return [*self.pinned, msgspec.Raw(orjson.dumps(self.item))]


class Compactor:
    """Compacts histories with one worker."""

    def __init__(
        self, generator: Generator, worker: TextWorker, card: worker_pb2.ModelCard
    ) -> None:
        self._generator = generator
        self._worker = worker
        self._context_tokens = card.context_tokens

    async def count(self, request: pb.GenerateRequest) -> int:
        """Return the token count of a request's prompt."""
        return (await self._worker.client().render(request)).prompt_tokens

    async def is_due(self, request: pb.GenerateRequest, threshold: int | None) -> int | None:
        """Return the token count of a prompt that must be compacted; None if it need not be."""
        tokens = await self.count(request)
        is_full = tokens >= self._context_tokens
        return tokens if is_full or (threshold is not None and tokens >= threshold) else None

    async def compact(self, job: CompactionJob, before_tokens: int) -> Compacted:
        """Return the compacted history of a job.

        Args:
            before_tokens: of the present prompt.

        Raises:
            ServiceError: `context_length_exceeded` when it can't become shorter, or a failure of
                the generation of the summary.
        """
        items, _ = expand(job.items, lambda _: "input")
        pinned, rest = compaction.split_pinned(items)
        await self._refuse_overlong(job, [*pinned, *rest])
        division = compaction.divide(rest, await self._find_cut(rest, job.keep_tokens))
        if division.gone <= 0:
            raise _refusal("There is nothing to compact: every item would be kept.")
        limit = job.max_tokens or default_summary_tokens(before_tokens)
        summary, usage = await self._summarise(job, [*pinned, *division.summarised], limit)
        item = compaction.make_compaction(summary, division.kept, job.stamp.request_id)
        compacted = Compacted(item, pinned, division.kept, 0, usage)
        tokens = await self.count(job.rebuild(compacted.items))
        if tokens >= before_tokens:
            raise _refusal(
                f"Compacting would not make the history shorter: {tokens} tokens "
                f"instead of {before_tokens}."
            )
        return Compacted(item, pinned, division.kept, tokens, usage)

    async def _refuse_overlong(self, job: CompactionJob, items: Sequence[msgspec.Raw]) -> None:
        """Refuse a history larger than the context, which can't be summarised either."""
        request = compaction.ask_summary(job.fields, items, job.stamp, 1)
        del request.chat.messages[-1]
        tokens = await self.count(request)
        if tokens > self._context_tokens:
            raise _refusal(
                f"The history has {tokens} tokens, but the context holds {self._context_tokens}."
            )

    async def _find_cut(self, items: Sequence[msgspec.Raw], keep_tokens: int) -> int:
        """Return the first cut after which at most `keep_tokens` remain, else the last cut."""
        cuts = compaction.list_cuts(items)
        if not cuts:
            return 0
        low, high = 0, len(cuts) - 1
        while low < high:
            middle = (low + high) // 2
            text = compaction.read_text(items[cuts[middle] :])
            if await self.count(pb.GenerateRequest(text=text)) <= keep_tokens:
                high = middle
            else:
                low = middle + 1
        return cuts[low]

    async def _summarise(
        self, job: CompactionJob, items: Sequence[msgspec.Raw], max_tokens: int
    ) -> tuple[str, common.Usage]:
        request = compaction.ask_summary(job.fields, items, job.stamp, max_tokens)
        request.priority = job.priority
        batches = self._generator.run(request, self._worker, counted=job.counted)
        async with contextlib.aclosing(batches):
            completion = await fold(batches)
        summary = completion.text(pb.BlockStart.KIND_ANSWER).strip()
        if not summary:
            raise ServiceError("internal", "The model wrote no summary of the history.")
        return summary, completion.finished.usage


def _refusal(sentence: str) -> ServiceError:
    return ServiceError("context_length_exceeded", sentence, "input")
