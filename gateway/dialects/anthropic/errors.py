"""Anthropic's error envelope: the status and type of every code.

Owns the HTTP status codes of these routes. Messages that Anthropic's coding agent matches on have
the wording it expects. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from gateway.dialects.base import ErrorReply, headers_of
from shared.errors import CODES, ServiceError

_INVALID: Final = "invalid_request_error"
_API: Final = "api_error"
_OVERLOADED: Final = "overloaded_error"

# Code → status and type.
FORMS: Final[Mapping[str, tuple[int, str]]] = {
    "invalid_request": (400, _INVALID),
    "context_length_exceeded": (400, _INVALID),
    "unsupported_tokenizer": (400, _INVALID),
    "payload_too_large": (413, "request_too_large"),
    "unsupported_encoding": (415, _INVALID),
    "upgrade_required": (426, _INVALID),
    "missing_api_key": (401, "authentication_error"),
    "invalid_api_key": (401, "authentication_error"),
    "feature_disabled": (403, "permission_error"),
    "not_found": (404, "not_found_error"),
    "model_not_found": (404, "not_found_error"),
    "method_not_allowed": (405, _INVALID),
    "cancelled": (499, _API),
    "not_implemented": (501, "not_implemented"),
    "not_supported": (501, "not_supported_error"),
    "server_busy": (503, _OVERLOADED),
    "request_memory_budget_exceeded": (503, "request_memory_budget_exceeded"),
    "model_loading": (503, _OVERLOADED),
    "worker_unavailable": (503, _API),
    "store_unavailable": (503, _API),
    "watch_missing": (503, _API),
    "timeout": (504, "timeout_error"),
    "out_of_vocabulary": (500, _API),
    "engine_failed": (500, _API),
    "worker_hung": (500, _API),
    "internal": (500, _API),
}
# Invalid field → details on which clients branch: they send the whole conversation then.
_DETAILS: Final = {"thread": {"error_code": "thread_unsupported_request", "unsupported": []}}

assert FORMS.keys() == CODES.keys()


def envelope(failure: ServiceError, request_id: str | None = None) -> dict[str, Any]:
    """Return the error object, which is the same as a response and inside a stream."""
    fields = {"type": FORMS[failure.code][1], "message": _message(failure), **failure.details}
    if failure.param in _DETAILS:
        fields["details"] = _DETAILS[failure.param]
    return {"type": "error", "error": fields, "request_id": request_id}


def error(failure: ServiceError, request_id: str | None = None) -> ErrorReply:
    status = FORMS[failure.code][0]
    return ErrorReply(status, orjson.dumps(envelope(failure, request_id)), headers_of(failure))


def _message(failure: ServiceError) -> str:
    details = failure.details
    if failure.code == "context_length_exceeded" and {"n_prompt_tokens", "n_ctx"} <= details.keys():
        # Claude Code shortens its history on this message. One token is reserved for the answer.
        most = details["n_ctx"] - 1
        return f"prompt is too long: {details['n_prompt_tokens']} tokens > {most} maximum"
    return failure.message
