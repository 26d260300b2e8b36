"""The events of a streamed message.

Owns their order: message start, blocks one after the other, stop reason, message end. The start is
sent after the cache lookup, whose result it contains. The constant parts of a block's events are
rendered once, so that a token costs one JSON string and a join. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.dialects.anthropic import answer
from gateway.dialects.anthropic.errors import envelope
from gateway.generation.fold import Item
from shared.errors import from_message
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

_PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
_ANSWER: Final = pb.BlockStart.KIND_ANSWER
_REASONING: Final = pb.BlockStart.KIND_REASONING
_TOOL_CALL: Final = pb.BlockStart.KIND_TOOL_CALL
_DELTAS: Final = {
    _ANSWER: b'{"type":"text_delta","text":',
    _REASONING: b'{"type":"thinking_delta","estimated_tokens":null,"thinking":',
    _TOOL_CALL: b'{"type":"input_json_delta","partial_json":',
}


class MessageStream:
    """The stream of one message."""

    def __init__(self, parsed: answer.ParsedMessage, model: str) -> None:
        self._parsed = parsed
        self._model = model
        self._prompt_tokens = 0
        self._open: pb.BlockStart | None = None
        # Of the open block: its thinking, or its arguments until their first character is known.
        self._pieces: list[str] = []
        self._is_object: bool | None = None
        self._delta = b""
        self._blocks = 0
        self._called = False
        self._has_started = False
        self._has_ended = False

    def feed(self, item: Item) -> bytes:
        if isinstance(item, pb.Accepted):
            self._prompt_tokens = item.prompt_tokens
            return b""
        match item.WhichOneof("event"):
            case "delta":
                return self._feed_delta(item.delta.text)
            case "block_start":
                return self._start() + self._feed_block(item.block_start)
            case "block_stop":
                return self._close()
            case "started":
                return self._start(item.started.cached_tokens)
            case "finished":
                return self._start() + self._feed_finished(item.finished)
            case "failed":
                return self._feed_failed(item.failed)
        return b""

    def ping(self) -> bytes:
        return _PING if self._has_started and not self._has_ended else b""

    def _start(self, cached_tokens: int = 0) -> bytes:
        if self._has_started:
            return b""
        self._has_started = True
        counts = common.Usage(prompt_tokens=self._prompt_tokens, cached_tokens=cached_tokens)
        stop = answer.stop_fields(None, pb.Finished())
        usage = answer.whole_usage(counts)
        message = answer.message(self._parsed, self._model, [], stop, usage)
        return _event("message_start", message=message)

    def _feed_block(self, block: pb.BlockStart) -> bytes:
        if not self._parsed.shows(block.kind):
            return b""
        self._open, self._pieces, self._is_object = block, [], None
        self._called = self._called or block.kind == _TOOL_CALL
        prefix = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d'
        self._delta = prefix % self._blocks + b',"delta":'
        return _event("content_block_start", index=self._blocks, content_block=answer.block(block))

    def _feed_delta(self, text: str) -> bytes:
        if self._open is None or not text:
            return b""
        kind = self._open.kind
        if kind == _TOOL_CALL:
            text = self._feed_arguments(text)
        elif kind == _REASONING:
            self._pieces.append(text)
            text = text if self._parsed.thoughts == "shown" else ""
        return self._render_delta(kind, text) if text else b""

    def _feed_arguments(self, piece: str) -> str:
        """Return the arguments that can be sent; none if they are not a JSON object."""
        if self._is_object is None:
            self._pieces.append(piece)
            piece = "".join(self._pieces)
            if head := piece.lstrip()[:1]:
                self._is_object = head == "{"
        return piece if self._is_object else ""

    def _render_delta(self, kind: pb.BlockStart.Kind.ValueType, text: str) -> bytes:
        return b"".join((self._delta, _DELTAS[kind], orjson.dumps(text), b"}}\n\n"))

    def _close(self, *, sign: bool = True) -> bytes:
        if self._open is None:
            return b""
        block, self._open = self._open, None
        signed = b""
        if sign and block.kind == _REASONING and self._pieces:
            name = answer.signature("".join(self._pieces), self._parsed.thoughts)
            delta = orjson.dumps({"type": "signature_delta", "signature": name})
            signed = b"".join((self._delta, delta, b"}\n\n"))
        self._blocks += 1
        return signed + _event("content_block_stop", index=self._blocks - 1)

    def _feed_finished(self, finished: pb.Finished) -> bytes:
        self._has_ended = True
        empty = b""
        if not self._blocks and not self._parsed.warms:
            empty = self._feed_block(pb.BlockStart(kind=_ANSWER)) + self._close()
        reason = answer.stop_reason(self._parsed, finished, called=self._called)
        end = _event(
            "message_delta",
            delta=answer.stop_fields(reason, finished),
            usage=answer.usage(answer.counts(self._parsed, finished)),
            context_management=None,
        )
        return empty + end + _event("message_stop")

    def _feed_failed(self, failed: pb.Failed) -> bytes:
        self._has_ended = True
        fields = envelope(from_message(failed.error))
        return self._close(sign=False) + b"event: error\ndata: %b\n\n" % orjson.dumps(fields)


def _event(name: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps({"type": name} | fields))
