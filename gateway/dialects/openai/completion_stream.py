"""The events of streamed text completions: of one choice, and of several that interleave. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from gateway.dialects.base import Parsed
from gateway.dialects.openai import chunk
from gateway.dialects.openai.token_logprob import LogprobTable
from gateway.generation.fold import Item
from shared.pb import text_pb2 as pb

OBJECT: Final = "text_completion"


class CompletionStream:
    """The stream of one choice.

    Clients read a choice's `text`; the reference also has `delta.text`, which a setting leaves out.

    Args:
        index: of the choice; it is the only one unless `ends` is false.
        ends: end the stream with the choice.
    """

    def __init__(self, parsed: Parsed, model: str, index: int = 0, *, ends: bool = True) -> None:
        self._head = chunk.begin_chunk(parsed, model, OBJECT)
        self._choice = self._head + b',"choices":[{"index":%d,"text":' % index
        self._ends = ends
        self._has_delta = parsed.policy.completions_delta
        self._empty = b'"","delta":{}' if self._has_delta else b'""'
        self._include_usage = parsed.include_usage
        self._accepted = pb.Accepted()
        self._table = LogprobTable()

    def feed(self, item: Item) -> bytes:
        if isinstance(item, pb.Accepted):
            self._accepted = item
            return b""
        match item.WhichOneof("event"):
            case "delta":
                return self._feed_delta(item.delta.text, item.delta.infos)
            case "finished":
                return self._feed_finished(item.finished)
            case "failed":
                return self._choice + self._empty + chunk.failed_tail(item.failed)
        return b""

    def ping(self) -> bytes:
        return b""

    def _feed_delta(self, text: str, infos: Sequence[pb.TokenInfo]) -> bytes:
        if not text and not infos:
            return b""
        quoted = orjson.dumps(text)
        logprobs = orjson.dumps(self._table.take(infos)) if infos else b"null"
        delta = (b',"delta":{"text":', quoted, b"}") if self._has_delta else ()
        middle = b',"finish_reason":null,"logprobs":'
        return b"".join((self._choice, quoted, *delta, middle, logprobs, b"}]}\n\n"))

    def _feed_finished(self, finished: pb.Finished) -> bytes:
        reason = chunk.finish_reason(finished.reason, called=False).encode()
        end = b',"finish_reason":"%b","logprobs":null}]}\n\n' % reason
        parts = [self._choice, self._empty, end]
        if not self._ends:
            return b"".join(parts)
        if self._include_usage:
            parts.append(chunk.usage_chunk(self._head, finished, self._accepted))
        return b"".join([*parts, chunk.DONE])


class CompletionsStream:
    """The stream of several choices, whose events come in any order."""

    def __init__(self, parsed: Parsed, model: str, count: int) -> None:
        self._choices = [CompletionStream(parsed, model, i, ends=False) for i in range(count)]
        self._head = chunk.begin_chunk(parsed, model, OBJECT)
        self._include_usage = parsed.include_usage
        self._left = count
        self._accepted = pb.Accepted()
        self._total = pb.Finished()

    def feed_choice(self, index: int, item: Item) -> bytes:
        """Return the bytes for an item of one choice."""
        data = self._choices[index].feed(item)
        if isinstance(item, pb.Accepted):
            self._accepted = item
        elif item.HasField("finished"):
            chunk.add_usage(self._total.usage, item.finished.usage)
            self._left -= 1
            data += self._end() if not self._left else b""
        return data

    def feed(self, item: Item) -> bytes:
        """Return the bytes for the failure of the whole request."""
        return self._choices[0].feed(item)

    def ping(self) -> bytes:
        return b""

    def _end(self) -> bytes:
        usage = b""
        if self._include_usage:
            usage = chunk.usage_chunk(self._head, self._total, self._accepted)
        return usage + chunk.DONE
