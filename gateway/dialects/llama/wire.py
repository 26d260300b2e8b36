"""The fields of llama-server's own routes: those read, ignored and refused.

Owns the form of the JSON, not its meaning. The two tables list the known fields that are not
served; the documentation is generated from them. Pure data.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from gateway.dialects.sampling import SamplingFields
from gateway.dialects.unserved import Ignored, Refused

# Ids may be out of the vocabulary, but must fit the protobuf type.
TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
AnyId = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class NativeBody(SamplingFields, kw_only=True):
    prompt: str | list[TokenId | str]
    model: str | None = None
    stream: bool | None = None
    stream_options: Any = None
    sse_ping_interval: Int32 | None = None
    cache_prompt: bool | None = None
    grammar: str | None = None
    json_schema: msgspec.Raw = msgspec.Raw(b"null")
    n_probs: Int32 | None = None
    logprobs: Int32 | None = None
    post_sampling_probs: bool | None = None
    return_tokens: bool | None = None
    return_progress: bool | None = None
    timings_per_token: bool | None = None
    # An array of strings; any other value selects all fields.
    response_fields: Any = None
    # Repeated in generation_settings; no other effect, as contexts are not shifted.
    n_keep: Int32 | None = None
    n_discard: Int32 | None = None
    # Read only to be refused: see NATIVE_REFUSED.
    n: Any = None
    n_cmpl: Any = None
    n_indent: Any = None
    min_keep: Any = None
    t_max_predict_ms: Any = None
    verbose: Any = None
    samplers: Any = None
    response_format: Any = None
    mirostat: Any = None
    dynatemp_range: Any = None
    adaptive_target: Any = None
    grammar_lazy: Any = None
    lora: Any = None
    image_data: Any = None


class Snippet(msgspec.Struct):
    """Context from another file."""

    text: str
    filename: str | None = None


class InfillBody(NativeBody, kw_only=True):
    """The body of an infill: a native completion between prefix and suffix."""

    input_prefix: str
    input_suffix: str
    prompt: str = ""
    input_extra: list[Snippet] | None = None


class TokenizeBody(msgspec.Struct):
    # Checked in tokenization.py, whose errors have a form of their own.
    content: Any = None
    model: str | None = None
    add_special: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None


class DetokenizeBody(msgspec.Struct):
    tokens: list[AnyId] | None = None
    model: str | None = None


# The only order of the samplers, as names and as letters.
SAMPLERS: Final = [
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typ_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
]
SAMPLER_LETTERS: Final = "edskypmxt"

# Known fields without effect, and the reason.
NATIVE_IGNORED: Final[Ignored] = {
    "id_slot": "slots are assigned by the scheduler",
    "n_cache_reuse": "the cache's own limits apply",
    "adaptive_decay": "without adaptive_target it does nothing",
    "mirostat_tau": "without mirostat it does nothing",
    "mirostat_eta": "without mirostat it does nothing",
    "dynatemp_exponent": "without dynatemp_range it does nothing",
    "grammar_triggers": "without grammar_lazy they do nothing",
    "preserved_tokens": "without grammar_lazy they do nothing",
    "backend_sampling": "does not change the result",
    "reasoning_format": "raw text is not parsed",
    "speculative.n_max": "affects speed only",
    "speculative.n_min": "affects speed only",
    "speculative.p_min": "affects speed only",
    "speculative.types": "affects speed only",
    "user": "not evaluated",
}

# Known fields that would change the answer and are not supported: the values without effect, and
# the message for all others.
NATIVE_REFUSED: Final[Refused] = {
    "n": ((1,), "must be 1: one completion is generated per request"),
    "n_cmpl": ((1,), "must be 1: one completion is generated per request"),
    "n_indent": ((0,), "is not supported"),
    "min_keep": ((0,), "is not supported"),
    "t_max_predict_ms": ((0, -1), "is not supported: use n_predict"),
    "verbose": ((False,), "is not supported"),
    "samplers": ((SAMPLERS, SAMPLER_LETTERS), "can't be reordered: leave it out"),
    "response_format": (({"type": "text"},), "is not supported: use json_schema or grammar"),
    "mirostat": ((0,), "is not supported"),
    "dynatemp_range": ((0,), "is not supported"),
    "adaptive_target": ((-1,), "is not supported"),
    "grammar_lazy": ((False,), "is not supported: a grammar holds from the first token"),
    "lora": (([],), "is not supported: adapters are not served"),
    "image_data": (([],), "is not supported: this route takes text"),
}
