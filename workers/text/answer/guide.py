"""Which ids a sequence may sample next: the end of its reasoning, or what its grammar allows.

Owns the reasoning budget and applies the grammar after the reasoning. Its state is a function of
the ids followed, so a replay restores it. Runs on the engine thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from llguidance import LLMatcher

from workers.text.answer.reasoning import Splitter

UNLIMITED = -1


class Guide:
    """Constrains one sequence; a `workers.text.sampling.mask.NextTokenRule`.

    Args:
        splitter: of the same sequence's output; it sees each id before `follow` does.
        matcher: at the start of the answer's grammar, if there is one.
        budget_tokens: ids allowed inside a reasoning block, or `UNLIMITED`.
        closing: returns the ids that end the reasoning, given the part of the closing tag that
            has been sampled.
        opening_id: the single token that opens reasoning; the model may choose it instead of
            beginning the answer. None if there is no such token.
        end_ids: tokens that end a sequence.
    """

    def __init__(
        self,
        splitter: Splitter,
        matcher: LLMatcher | None,
        budget_tokens: int,
        closing: Callable[[str], Sequence[int]],
        opening_id: int | None,
        end_ids: Sequence[int] = (),
    ) -> None:
        self._splitter = splitter
        self._matcher = matcher
        self._budget_tokens = budget_tokens
        self._closing = closing
        self._opening_id = opening_id
        self._end_ids = end_ids
        self._reasoning_tokens = 0
        self._forced: deque[int] = deque()
        # As of the last id.
        self._was_in_reasoning = False
        self._constrains = False
        self._update()

    @property
    def forced(self) -> int | None:
        """The id that must come next, whatever the logits are."""
        return self._forced[0] if self._forced else None

    @property
    def matcher(self) -> LLMatcher | None:
        """The grammar that constrains the next id, if any."""
        return self._matcher if self._constrains else None

    @property
    def alternative(self) -> int | None:
        """An id that is allowed next besides those of the grammar."""
        begun = self._splitter.answer_begun or self._splitter.in_reasoning
        return None if begun else self._opening_id

    @property
    def barred(self) -> Sequence[int]:
        """Ids that may not come next: with a grammar, reasoning can't end the sequence."""
        free = self._matcher is None or self._constrains or self._splitter.in_call
        return () if free else self._end_ids

    @property
    def complete(self) -> bool:
        """Whether the grammar allows nothing more."""
        matcher = self._matcher
        return matcher is not None and self._constrains and bool(matcher.is_stopped())

    @property
    def broken(self) -> bool:
        """Whether an id was sampled that the grammar does not allow."""
        return self._matcher is not None and bool(self._matcher.is_error())

    def follow(self, token: int) -> None:
        """Update the state with a sampled id."""
        if self._forced and token == self._forced[0]:
            self._forced.popleft()
        elif self._was_in_reasoning and self._splitter.in_reasoning:
            self._reasoning_tokens += 1
        chose_reasoning = token == self._opening_id and self._splitter.in_reasoning
        if self._constrains and self._matcher is not None and not chose_reasoning:
            self._matcher.consume_token(token)
        self._update()

    def _update(self) -> None:
        """Set the constraints of the next id."""
        in_reasoning = self._was_in_reasoning = self._splitter.in_reasoning
        bound = not in_reasoning and not self._splitter.in_call
        self._constrains = self._matcher is not None and bound
        limited = self._budget_tokens != UNLIMITED
        if in_reasoning and limited and not self._forced:
            if self._reasoning_tokens >= self._budget_tokens:
                self._forced.extend(self._closing(self._splitter.held))
        elif not in_reasoning:
            self._forced.clear()
