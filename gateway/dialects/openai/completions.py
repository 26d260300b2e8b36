"""OpenAI text completions: the four functions of the dialect.

Prompts and answers are raw text: no template, no roles, no tool calls, and reasoning is part of the
text. A body may hold several prompts, each a request and a choice. wire.py declares fields,
token_logprob.py renders log-probabilities, completion_stream.py the stream. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from gateway.dialects.base import Parsed, Renderer, Stamp
from gateway.dialects.json_body import decode
from gateway.dialects.openai import chunk, errors, wire
from gateway.dialects.openai.cache import parse_cache
from gateway.dialects.openai.completion_stream import OBJECT, CompletionStream
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
from gateway.generation.fold import Completion
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

ID_PREFIX: Final = "cmpl-"
KNOWN: Final = frozenset(wire.CompletionBody.__struct_fields__) | wire.COMPLETION_IGNORED.keys()

error = errors.error

_BODY: Final = msgspec.json.Decoder(wire.CompletionBody)
_MAX_PROMPTS: Final = 128
_SEEDS: Final = 2**63


@dataclass(frozen=True)
class ParsedCompletions(Parsed):
    """One request per prompt.

    Attributes:
        others: the requests of all prompts but the first.
    """

    others: Sequence[pb.GenerateRequest] = ()


def parse(body: bytes, stamp: Stamp) -> ParsedCompletions:
    """Return the request of a body.

    Raises:
        ServiceError: `invalid_request`, naming the field.
    """
    fields = decode(_BODY, body)
    refuse_unserved(fields, wire.COMPLETION_REFUSED)
    first, *others = _read_prompts(fields.prompt)
    request = pb.GenerateRequest(
        request_id=stamp.request_id,
        **first,
        sampling=parse_sampling(fields, stamp),
        stop=parse_stop(fields),
        max_tokens=parse_max_tokens(fields),
        grammar=parse_grammar(fields, stamp.policy),
        logprobs=_parse_logprobs(fields),
        reasoning=pb.Reasoning(budget_tokens=parse_budget(fields)),
        cache=parse_cache(fields, stamp),
        arrival_ns=stamp.arrival_ns,
    )
    return ParsedCompletions(
        request=request,
        others=[
            _copy(request, prompt, index, reseed=fields.seed is None)
            for index, prompt in enumerate(others, 1)
        ],
        model=fields.model,
        stream=bool(fields.stream),
        include_usage=fields.includes_usage,
        created_unix_s=stamp.unix_s,
        counted=not fields.stream,
        policy=stamp.policy,
    )


def _read_prompts(given: str | list[Any]) -> list[dict[str, Any]]:
    """Return each prompt as a field of the canonical request."""
    prompts: list[Any] = [given] if isinstance(given, str) or _is_ids(given) else given
    if not 0 < len(prompts) <= _MAX_PROMPTS:
        raise invalid("prompt", f"must hold 1 to {_MAX_PROMPTS} prompts")
    many = len(prompts) > 1
    return [_read_prompt(p, f"prompt[{i}]" if many else "prompt") for i, p in enumerate(prompts)]


def _read_prompt(prompt: Any, path: str) -> dict[str, Any]:
    if isinstance(prompt, str):
        if prompt and not prompt.strip():
            raise invalid(path, "must not be only white space")
        return {"text": prompt}
    if not isinstance(prompt, list) or not _is_ids(prompt):
        raise invalid(path, "must be a text or an array of token ids")
    return {"tokens": pb.TokenIds(ids=prompt)}


def _is_ids(given: list[Any]) -> bool:
    return bool(given) and all(isinstance(item, int) for item in given)


def _copy(
    request: pb.GenerateRequest, prompt: dict[str, Any], index: int, *, reseed: bool
) -> pb.GenerateRequest:
    """Return the request of another prompt."""
    other = pb.GenerateRequest()
    other.CopyFrom(request)
    for name in ("text", "tokens"):
        other.ClearField(name)
    other.MergeFrom(pb.GenerateRequest(request_id=f"{request.request_id}-{index}", **prompt))
    if reseed:
        # Equal prompts get different answers.
        other.sampling.seed = (request.sampling.seed + index) % _SEEDS
    return other


def renderer(parsed: ParsedCompletions, model: str) -> Renderer:
    return CompletionStream(parsed, model)


def body(parsed: ParsedCompletions, model: str, completion: Completion) -> bytes:
    return render_all(parsed, model, [completion])


def render_all(parsed: Parsed, model: str, completions: Sequence[Completion]) -> bytes:
    """Return the response body with one choice per completion."""
    counts = common.Usage()
    for completion in completions:
        chunk.add_usage(counts, completion.finished.usage)
    answer = {
        "id": parsed.request.request_id,
        "object": OBJECT,
        "created": parsed.created_unix_s,
        "model": model,
        "system_fingerprint": None,
        "choices": [_choice(parsed, *item) for item in enumerate(completions)],
        "usage": chunk.usage(counts, completions[0].accepted),
    }
    return orjson.dumps(answer)


def _choice(parsed: Parsed, index: int, completion: Completion) -> dict[str, Any]:
    return {
        "index": index,
        "text": completion.whole_text,
        "finish_reason": chunk.finish_reason(completion.finished.reason, called=False),
        "logprobs": LogprobTable().take(completion.infos) if parsed.logprobs else None,
    }


def _parse_logprobs(fields: wire.CompletionBody) -> pb.Logprobs | None:
    if fields.logprobs is None:
        return None
    if not 0 <= fields.logprobs <= 5:
        raise invalid("logprobs", "must be between 0 and 5")
    return pb.Logprobs(top=fields.logprobs)
