"""OpenAI text completions: the four functions of the dialect, and its stream.

Prompt and answer are raw text: no template, no roles, no tool calls, and reasoning is part of the
text. wire.py declares fields, token_logprob.py renders log-probabilities. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import orjson

from gateway.dialects.base import Parsed, Renderer, Stamp
from gateway.dialects.json_body import decode
from gateway.dialects.openai import chunk, errors, wire
from gateway.dialects.openai.cache import parse_cache
from gateway.dialects.openai.grammar import parse_grammar
from gateway.dialects.openai.token_logprob import LogprobTable
from gateway.dialects.sampling import (
    invalid,
    parse_budget,
    parse_max_tokens,
    parse_sampling,
    parse_stop,
)
from gateway.dialects.unserved import refuse_unserved
from gateway.generation.fold import Completion, Item
from shared.pb import text_pb2 as pb

ID_PREFIX: Final = "cmpl-"
KNOWN: Final = frozenset(wire.CompletionBody.__struct_fields__) | wire.COMPLETION_IGNORED.keys()

error = errors.error

_BODY: Final = msgspec.json.Decoder(wire.CompletionBody)
_OBJECT: Final = "text_completion"


def parse(body: bytes, stamp: Stamp) -> Parsed:
    """Return the request of a body.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    fields = decode(_BODY, body)
    refuse_unserved(fields, wire.COMPLETION_REFUSED)
    if fields.prompt and not fields.prompt.strip():
        raise invalid("prompt", "must not be only white space")
    request = pb.GenerateRequest(
        request_id=stamp.request_id,
        text=fields.prompt,
        sampling=parse_sampling(fields, stamp),
        stop=parse_stop(fields),
        max_tokens=parse_max_tokens(fields),
        grammar=parse_grammar(fields, stamp.policy),
        logprobs=_parse_logprobs(fields),
        reasoning=pb.Reasoning(budget_tokens=parse_budget(fields)),
        cache=parse_cache(fields, stamp),
        arrival_ns=stamp.arrival_ns,
    )
    return Parsed(
        request=request,
        model=fields.model,
        stream=bool(fields.stream),
        include_usage=fields.includes_usage,
        created_unix_s=stamp.unix_s,
        counted=not fields.stream,
        policy=stamp.policy,
    )


def renderer(parsed: Parsed, model: str) -> Renderer:
    return CompletionStream(parsed, model)


def body(parsed: Parsed, model: str, completion: Completion) -> bytes:
    choice = {
        "index": 0,
        "text": completion.whole_text,
        "finish_reason": chunk.finish_reason(completion.finished.reason, called=False),
        "logprobs": LogprobTable().take(completion.infos) if parsed.logprobs else None,
    }
    answer = {
        "id": parsed.request.request_id,
        "object": _OBJECT,
        "created": parsed.created_unix_s,
        "model": model,
        "system_fingerprint": None,
        "choices": [choice],
        "usage": chunk.usage(completion.finished.usage, completion.accepted),
    }
    return orjson.dumps(answer)


def _parse_logprobs(fields: wire.CompletionBody) -> pb.Logprobs | None:
    if fields.logprobs is None:
        return None
    if not 0 <= fields.logprobs <= 5:
        raise invalid("logprobs", "must be between 0 and 5")
    return pb.Logprobs(top=fields.logprobs)


class CompletionStream:
    """The stream of one completion.

    Clients read a choice's `text`; the reference also has `delta.text`, which a setting leaves out.
    """

    def __init__(self, parsed: Parsed, model: str) -> None:
        self._head = chunk.begin_chunk(parsed, model, _OBJECT)
        self._choice = self._head + b',"choices":[{"index":0,"text":'
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
        if self._include_usage:
            parts.append(chunk.usage_chunk(self._head, finished, self._accepted))
        return b"".join([*parts, chunk.DONE])
