"""Decodes the token ids of one sequence to events, grouped in blocks.

A pure function of the request and the ids, so a resumed request replays its ids and continues
with the same events. Text passes four stages: UTF-8 assembly, stop strings (on the raw text,
including reasoning), the split of reasoning and answer, the split of tool calls and content. Runs
on the engine thread.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from shared.pb import text_pb2 as pb
from workers.text.answer.reasoning import AnswerPart, NoSplitter, Part, ReasoningPart, Splitter
from workers.text.answer.spelling import SpellingGuard, remove_guards
from workers.text.answer.stop import StopMatcher
from workers.text.toolcalls.call_stream import CallStream, StreamPiece
from workers.text.toolcalls.format import CallArguments, CallEnd, ContentText
from workers.text.vocabulary import Vocabulary

ANSWER = pb.BlockStart.KIND_ANSWER
REASONING = pb.BlockStart.KIND_REASONING
TOOL_CALL = pb.BlockStart.KIND_TOOL_CALL


@dataclass(frozen=True)
class Style:
    """How the parts of an answer are shown.

    Attributes:
        visible: control tokens that are kept in the text: tags, call delimiters.
        trims_space: drop one space before the first word (chat on SentencePiece models).
        constrained: a grammar begins with the answer: text beyond the end of the reasoning in the
            token that closes it is dropped.
        raw: reasoning and its tags are part of the answer.
        duplicates_reasoning: reasoning has its own block and is, with its tags, in the answer too.
        with_ids: text carries the ids it was decoded from.
        guarded: markers that are tokens: a text that only spells one is text.
    """

    visible: frozenset[int] = frozenset()
    trims_space: bool = False
    constrained: bool = False
    raw: bool = False
    duplicates_reasoning: bool = False
    with_ids: bool = False
    guarded: tuple[str, ...] = ()


class Output:
    """Decodes one sequence.

    Args:
        stop_strings: texts that end the sequence.
        splitter: splits reasoning from the answer; None where there is no reasoning.
        calls: finds tool calls in the answer; None where no calls are expected.

    Attributes:
        called: whether a tool call was found.
        reasoning_tokens: ids sampled inside reasoning blocks.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        stop_strings: Sequence[str],
        style: Style,
        splitter: Splitter | None = None,
        calls: CallStream | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self._hidden = vocabulary.control_ids - style.visible
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = StopMatcher(stop_strings)
        self._guard = SpellingGuard(style.guarded) if style.guarded else None
        self._marker_ids = frozenset(map(vocabulary.added_names.get, style.guarded))
        self._trims_space = style.trims_space
        self.splitter = splitter or NoSplitter()
        self._calls = calls
        self._style = style
        self._block: pb.BlockStart | None = None
        # Ids whose text has not been shown yet.
        self._ids: list[int] = []
        self.called = False
        self.reasoning_tokens = 0

    @property
    def stop_string(self) -> str | None:
        """The stop string that matched, once one has."""
        return self._stop.matched

    def feed(self, token: int, info: pb.TokenInfo | None = None) -> list[pb.Event]:
        """Return the events that one more sampled id adds."""
        if info is not None:
            self._name(info)
        if self._style.with_ids:
            self._ids.append(token)
        self.reasoning_tokens += self.splitter.in_reasoning
        text = ""
        if token not in self._hidden:
            text = self._trim(self._decode(token))
            text = self._stop.feed(text) if self._guard is None else self._pass(text, token)
        was_in_reasoning = self.splitter.in_reasoning
        parts = self._split(text)
        if self._style.constrained and was_in_reasoning and not self.splitter.in_call:
            parts = [part for part in parts if isinstance(part, ReasoningPart)]
        events = self._show(parts)
        return self._attach_ids(events if info is None else self._attach(info, events))

    def finish(self, *, cut: bool = False) -> list[pb.Event]:
        """Return the events of the text held back, and the end of the open block.

        An incomplete character becomes U+FFFD.
        """
        text = self._pass(self._trim(self._decoder.decode(b"", True)))
        rest = self._stop.flush()
        cut = cut and self._stop.matched is None
        parts = self._split(text + (rest if self._guard is None else self._guard.guard(rest)))
        if not self._style.raw:
            parts = [*parts, *self.splitter.finish(cut=cut)]
        events = self._show(parts)
        if self._calls is not None:
            for piece in self._calls.finish(cut=cut):
                events += self._show_piece(piece)
        return self._attach_ids(events) + self._close()

    def _pass(self, text: str, token: int | None = None) -> str:
        """Return what the stop strings let through, with guards in spelled markers."""
        if self._guard is None:
            return self._stop.feed(text)
        if token in self._marker_ids:
            self._guard.note_marker(text)
        else:
            self._guard.note(text)
        return self._guard.guard(self._stop.feed(text))

    def _split(self, text: str) -> Sequence[Part]:
        """Split reasoning from the answer; raw text is all answer, but the splitter follows it."""
        parts = self.splitter.feed(text) if text else []
        if not text or not (self._style.raw or self._style.duplicates_reasoning):
            return parts
        reasoning = (
            [part for part in parts if isinstance(part, ReasoningPart)]
            if self._style.duplicates_reasoning
            else []
        )
        return [*reasoning, AnswerPart(text)]

    def _name(self, info: pb.TokenInfo) -> None:
        """Set the bytes of a token and of its alternatives."""
        for entry in (info, *info.top):
            entry.text = self._vocabulary.pieces[entry.id]

    def _decode(self, token: int) -> str:
        return self._decoder.decode(self._vocabulary.pieces[token])

    def _trim(self, text: str) -> str:
        if self._trims_space and text:
            self._trims_space = False
            return text.removeprefix(" ")
        return text

    def _show(self, parts: Sequence[Part]) -> list[pb.Event]:
        events: list[pb.Event] = []
        for part in parts:
            if isinstance(part, ReasoningPart):
                events += self._add_text(REASONING, part.text)
            elif self._calls is None:
                events += self._add_text(ANSWER, part.text)
            else:
                for piece in self._calls.feed(part.text):
                    events += self._show_piece(piece)
        return events

    def _show_piece(self, piece: StreamPiece) -> list[pb.Event]:
        if isinstance(piece, ContentText):
            return self._add_text(ANSWER, piece.text)
        if isinstance(piece, CallArguments):
            return [self._delta(piece.text)]
        if isinstance(piece, CallEnd):
            return self._close()
        self.called = True
        name = self._clean(piece.name)
        call = pb.BlockStart(kind=TOOL_CALL, tool_call_id=piece.id, tool_name=name)
        return self._open(call)

    def _add_text(self, kind: pb.BlockStart.Kind.ValueType, text: str) -> list[pb.Event]:
        """Return the events that add text to the block of a kind, opening it if needed."""
        events = []
        if self._block is None or self._block.kind != kind:
            events = self._open(pb.BlockStart(kind=kind))
        return [*events, self._delta(text)]

    def _open(self, block: pb.BlockStart) -> list[pb.Event]:
        events = self._close()
        self._block = block
        return [*events, pb.Event(block_start=block)]

    def _close(self) -> list[pb.Event]:
        if self._block is None:
            return []
        self._block = None
        return [pb.Event(block_stop=pb.BlockStop())]

    def _attach(self, info: pb.TokenInfo, events: list[pb.Event]) -> list[pb.Event]:
        """Attach a token's log-probability to its text, or else to an empty delta.

        Clients index token infos by position in the stream, so a token whose text is held back
        or is markup still needs one.
        """
        for event in events:
            if event.HasField("delta"):
                event.delta.infos.append(info)
                return events
        if self._block is None:
            kind = REASONING if self.splitter.in_reasoning else ANSWER
            events += self._open(pb.BlockStart(kind=kind))
        return [*events, pb.Event(delta=pb.Delta(infos=(info,)))]

    def _attach_ids(self, events: list[pb.Event]) -> list[pb.Event]:
        """Attach the ids since the last delta to the first delta here, if there is one."""
        if self._ids:
            for event in events:
                if event.HasField("delta"):
                    event.delta.ids.extend(self._ids)
                    self._ids.clear()
                    break
        return events

    def _delta(self, text: str) -> pb.Event:
        return pb.Event(delta=pb.Delta(text=self._clean(text)))

    def _clean(self, text: str) -> str:
        """Return a text as the model wrote it."""
        used = self._guard is not None and self._guard.used
        return remove_guards(text) if used else text
