"""What a sequence needs of its answer: ids turned into events, and limits on what is sampled.

Both are implemented in the answer room, which the engine does not import.
"""

from __future__ import annotations

from typing import Protocol

from shared.pb import text_pb2 as pb
from workers.text.sampling.mask import NextTokenRule


class EventDecoder(Protocol):
    """Turns the ids of one sequence into events; the same ids give the same events.

    Attributes:
        called: whether a tool call was found.
        reasoning_tokens: ids sampled inside blocks of thoughts.
    """

    called: bool
    reasoning_tokens: int

    @property
    def stop_string(self) -> str | None:
        """The stop string that matched, once one has."""

    def feed(self, token: int, info: pb.TokenInfo | None = None) -> list[pb.Event]:
        """Return the events that one more id gives."""

    def finish(self, *, cut: bool = False) -> list[pb.Event]:
        """Return the events of text that was held back, and the end of the open block.

        Args:
            cut: a limit has ended the sequence, not the model.
        """


class Constraint(NextTokenRule, Protocol):
    """Limits what one sequence may sample, by the ids it has sampled."""

    @property
    def complete(self) -> bool:
        """Whether the sequence ends here."""

    @property
    def broken(self) -> bool:
        """Whether an id came that is not allowed."""

    def follow(self, token: int) -> None:
        """Take in an id that was sampled; the decoder has been fed it."""
