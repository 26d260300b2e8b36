"""The chunks of a chat completion stream.

Owns their order and keys: the role, then content, reasoning and tool calls, the finish reason, the
usage if requested, and `[DONE]`. The constant parts are rendered once, so that a token costs one
JSON string and a few joins. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway.dialects.base import Parsed, Policy
from gateway.dialects.envelope import envelope
from gateway.generation.fold import Item
from shared.errors import from_message
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

DONE: Final = b"data: [DONE]\n\n"
# OpenAI's value for impossible tokens; JSON has no minus infinity.
LOWEST_LOGPROB: Final = -9999.0
_REASONS: Final = {
    pb.Finished.REASON_MAX_TOKENS: "length",
    pb.Finished.REASON_CONTEXT: "length",
}
_ANSWER: Final = pb.BlockStart.KIND_ANSWER
_REASONING: Final = pb.BlockStart.KIND_REASONING
_TOOL_CALL: Final = pb.BlockStart.KIND_TOOL_CALL


def finish_reason(reason: pb.Finished.Reason.ValueType, *, called: bool) -> str:
    """Return the finish reason. A limit takes precedence over calls: the last may be cut."""
    return _REASONS.get(reason, "tool_calls" if called else "stop")


def usage(counts: common.Usage, accepted: pb.Accepted) -> dict[str, Any]:
    """Return the `usage` object; without a prompt cache it has no cache details."""
    fields: dict[str, Any] = {
        "prompt_tokens": counts.prompt_tokens,
        "completion_tokens": counts.completion_tokens,
        "total_tokens": counts.prompt_tokens + counts.completion_tokens,
    }
    if not accepted.without_cache:
        fields["prompt_tokens_details"] = {"cached_tokens": counts.cached_tokens}
    if counts.reasoning_tokens:
        fields["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning_tokens}
    return fields


def add_usage(total: common.Usage, more: common.Usage) -> None:
    """Add the counts of one answer to those of a request with several."""
    total.prompt_tokens += more.prompt_tokens
    total.completion_tokens += more.completion_tokens
    total.cached_tokens += more.cached_tokens
    total.reasoning_tokens += more.reasoning_tokens


def begin_chunk(parsed: Parsed, model: str, kind: str) -> bytes:
    """Return the common start of all events of a stream: an open JSON object."""
    head = {
        "id": parsed.request.request_id,
        "object": kind,
        "created": parsed.created_unix_s,
        "model": model,
        "system_fingerprint": None,
    }
    return b"data: " + orjson.dumps(head)[:-1]


def usage_chunk(head: bytes, finished: pb.Finished, accepted: pb.Accepted) -> bytes:
    """Return the event with the usage, which has no choices."""
    counts = orjson.dumps(usage(finished.usage, accepted))
    return b"".join((head, b',"choices":[],"usage":', counts, b"}\n\n"))


def logprobs(infos: Sequence[pb.TokenInfo]) -> dict[str, Any]:
    """Return the `logprobs` object of a choice."""
    content = [
        _logprob(info) | {"top_logprobs": [_logprob(other) for other in info.top]} for info in infos
    ]
    return {"content": content, "refusal": None}


def _logprob(info: pb.TokenInfo) -> dict[str, Any]:
    return {
        "token": info.text.decode("utf-8", "replace"),
        "logprob": max(info.logprob, LOWEST_LOGPROB),
        "bytes": list(info.text),
    }


def reasoning_names(policy: Policy) -> tuple[str, ...]:
    """Return the keys of reasoning."""
    return ("reasoning_content", "reasoning") if policy.reasoning_alias else ("reasoning_content",)


class ChatStream:
    """The stream of one chat completion."""

    def __init__(self, parsed: Parsed, model: str) -> None:
        self._head = begin_chunk(parsed, model, "chat.completion.chunk")
        self._delta = self._head + b',"choices":[{"index":0,"delta":'
        self._content = self._delta + b'{"content":'
        self._reasoning_names = reasoning_names(parsed.policy)
        self._include_usage = parsed.include_usage
        self._accepted = pb.Accepted()
        self._kind = _ANSWER
        self._calls = 0
        self._has_content = False
        self._has_reasoning = False

    def feed(self, item: Item) -> bytes:
        if isinstance(item, pb.Accepted):
            self._accepted = item
            return self._chunk(b'{"role":"assistant"}')
        match item.WhichOneof("event"):
            case "delta":
                return self._feed_delta(item.delta)
            case "block_start":
                return self._feed_block(item.block_start)
            case "finished":
                return self._feed_finished(item.finished)
            case "failed":
                return self._feed_failed(item.failed)
        return b""

    def ping(self) -> bytes:
        return b""

    def _feed_delta(self, delta: pb.Delta) -> bytes:
        if not delta.infos:
            return self._text(delta.text) if delta.text else b""
        # One chunk per token, so that clients can match logprobs to chunks.
        *held_back, last = delta.infos
        marks = [self._chunk(b'{"content":""}', [info]) for info in held_back]
        return b"".join([*marks, self._text(delta.text, [last])])

    def _text(self, text: str, infos: Sequence[pb.TokenInfo] = ()) -> bytes:
        quoted = orjson.dumps(text)
        if not text:
            return self._chunk(b'{"content":""}', infos)
        if self._kind == _ANSWER:
            self._has_content = True
            return b"".join((self._content, quoted, b"}", _tail(infos)))
        if self._kind == _REASONING:
            self._has_reasoning = True
            delta = dict.fromkeys(self._reasoning_names, orjson.Fragment(quoted))
            return self._chunk(orjson.dumps(delta), infos)
        prefix = b'{"tool_calls":[{"index":%d,"function":{"arguments":' % (self._calls - 1)
        return self._chunk(b"".join((prefix, quoted, b"}}]}")), infos)

    def _feed_block(self, block: pb.BlockStart) -> bytes:
        self._kind = block.kind
        if block.kind != _TOOL_CALL:
            return b""
        call = {
            "index": self._calls,
            "id": block.tool_call_id,
            "type": "function",
            "function": {"name": block.tool_name},
        }
        self._calls += 1
        return self._chunk(orjson.dumps({"tool_calls": [call]}))

    def _feed_finished(self, finished: pb.Finished) -> bytes:
        only_thoughts = self._has_reasoning and not self._has_content and not self._calls
        delta = b'{"reasoning_only":true}' if only_thoughts else b"{}"
        reason = finish_reason(finished.reason, called=self._calls > 0).encode()
        parts = [self._delta, delta, b',"finish_reason":"', reason, b'","logprobs":null}]}\n\n']
        if self._include_usage:
            parts.append(usage_chunk(self._head, finished, self._accepted))
        return b"".join([*parts, DONE])

    def _feed_failed(self, failed: pb.Failed) -> bytes:
        return b"".join((self._delta, b"{}", failed_tail(failed)))

    def _chunk(self, delta: bytes, infos: Sequence[pb.TokenInfo] = ()) -> bytes:
        return b"".join((self._delta, delta, _tail(infos)))


def failed_tail(failed: pb.Failed) -> bytes:
    """Return the end of the stream of a request that failed, from within its choice on."""
    failure = orjson.dumps(envelope(from_message(failed.error)))
    return b',"finish_reason":"error","logprobs":null}],"error":%b}\n\n%b' % (failure, DONE)


def _tail(infos: Sequence[pb.TokenInfo]) -> bytes:
    if not infos:
        return b',"finish_reason":null,"logprobs":null}]}\n\n'
    return b',"finish_reason":null,"logprobs":%b}]}\n\n' % orjson.dumps(logprobs(infos))
