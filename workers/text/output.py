"""Token ids to events: the text of one sequence.

A pure function of the request and the ids, so that a resumed request replays its ids and goes
on as if nothing had happened. Owns UTF-8 assembly, control tokens and stop strings. Runs on
the engine thread.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from shared.pb import text_pb2 as pb
from workers.text.stop import StopMatcher
from workers.text.vocabulary import Vocabulary

ANSWER = pb.BlockStart.KIND_ANSWER


class Output:
    """Assembles the events of one sequence.

    Args:
        vocabulary: of the model.
        stop_strings: texts that end the sequence.
        trims_space: drop one space before the first word (chat on SentencePiece models).
    """

    def __init__(
        self, vocabulary: Vocabulary, stop_strings: Sequence[str], *, trims_space: bool
    ) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = StopMatcher(stop_strings)
        self._trims_space = trims_space
        self._open = False

    @property
    def stop_string(self) -> str | None:
        """The stop string that matched, once one has."""
        return self._stop.matched

    def feed(self, token: int, info: pb.TokenInfo | None = None) -> list[pb.Event]:
        """Take one sampled id and return the events it gives."""
        if info is not None:
            self._name(info)
        text = ""
        if token not in self._vocabulary.control_ids:
            text = self._stop.feed(self._trim(self._decode(token)))
        return self._show(text, info)

    def finish(self) -> list[pb.Event]:
        """Return what was held back, and the end of the open block.

        Half a character becomes U+FFFD.
        """
        text = self._stop.feed(self._trim(self._decoder.decode(b"", True)))
        events = self._show(text + self._stop.flush(), None)
        if self._open:
            events.append(pb.Event(block_stop=pb.BlockStop()))
        return events

    def _name(self, info: pb.TokenInfo) -> None:
        """Fill in the bytes of a token and of its alternatives."""
        for entry in (info, *info.top):
            entry.text = self._vocabulary.pieces[entry.id]

    def _decode(self, token: int) -> str:
        return self._decoder.decode(self._vocabulary.pieces[token])

    def _trim(self, text: str) -> str:
        if self._trims_space and text:
            self._trims_space = False
            return text.removeprefix(" ")
        return text

    def _show(self, text: str, info: pb.TokenInfo | None) -> list[pb.Event]:
        if not text and info is None:
            return []
        events = []
        if not self._open:
            self._open = True
            events.append(pb.Event(block_start=pb.BlockStart(kind=ANSWER)))
        infos = () if info is None else (info,)
        events.append(pb.Event(delta=pb.Delta(text=text, infos=infos)))
        return events
