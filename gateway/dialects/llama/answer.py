"""The response of a native completion, which is also the last event of its stream. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.dialects.llama import probability, setting, timing
from gateway.dialects.llama.parsed import NativeParsed
from gateway.generation.fold import Completion
from shared.pb import text_pb2 as pb

_STOP_TYPES: Final = {
    pb.Finished.REASON_STOP: "word",
    pb.Finished.REASON_MAX_TOKENS: "limit",
    pb.Finished.REASON_CONTEXT: "limit",
}


def describe(
    parsed: NativeParsed, model: str, completion: Completion, *, has_new_line: bool
) -> dict[str, Any]:
    """Return the response, or the fields of it that the request names.

    Args:
        completion: without its text if that was streamed.
        has_new_line: whether the text contains a line break.
    """
    finished, usage = completion.finished, completion.finished.usage
    fields: dict[str, Any] = {
        "index": 0,
        "content": completion.whole_text,
        "tokens": completion.ids if parsed.request.with_ids else [],
        "id_slot": completion.started.slot,
        "stop": True,
        "model": model,
        "tokens_predicted": usage.completion_tokens,
        "tokens_evaluated": usage.prompt_tokens,
        "generation_settings": setting.describe(parsed.fields, completion.accepted),
        "prompt": completion.accepted.prompt or parsed.request.text,
        "has_new_line": has_new_line,
        "truncated": finished.reason == pb.Finished.REASON_CONTEXT,
        # llama-server knows no further reasons.
        "stop_type": _STOP_TYPES.get(finished.reason, "eos"),
        "stopping_word": finished.stop_string,
        "tokens_cached": usage.cached_tokens,
        "timings": timing.describe(usage, finished.timings),
    }
    if parsed.logprobs and not parsed.stream:
        fields["completion_probabilities"] = describe_infos(parsed, completion.infos)
    return select(fields, parsed.fields.response_fields)


def describe_infos(parsed: NativeParsed, infos: Sequence[pb.TokenInfo]) -> list[dict[str, Any]]:
    """Return the probabilities of tokens in the requested form."""
    post_sampling = parsed.request.logprobs.post_sampling
    return probability.describe(infos, post_sampling=post_sampling)


def select(fields: dict[str, Any], paths: Any) -> dict[str, Any]:
    """Return the fields at paths like `a/b`, keyed by path; all fields without paths."""
    if not isinstance(paths, list) or not paths or not all(isinstance(p, str) for p in paths):
        return fields
    found = {path: _look_up(fields, path.split("/")) for path in paths}
    return {path: hit[0] for path, hit in found.items() if hit}


def _look_up(value: Any, keys: list[str]) -> list[Any]:
    """Return a list with the value at a path, or an empty list."""
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return []
        value = value[key]
    return [value]
