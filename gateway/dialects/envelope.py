"""The error envelope of the REST reference: the status and type of every code.

Owns the HTTP status codes of OpenAI's and llama-server's routes, which are those of the reference's
error table. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from gateway.dialects.base import ErrorReply, headers_of
from shared.errors import CODES, ServiceError

_INVALID: Final = "invalid_request_error"
_SERVER: Final = "server_error"

# Code → status and type.
FORMS: Final[Mapping[str, tuple[int, str]]] = {
    "invalid_request": (400, _INVALID),
    "context_length_exceeded": (400, _INVALID),
    "unsupported_tokenizer": (400, _INVALID),
    "payload_too_large": (413, _INVALID),
    "unsupported_encoding": (415, _INVALID),
    "upgrade_required": (426, _INVALID),
    "missing_api_key": (401, "missing_api_key"),
    "invalid_api_key": (401, "invalid_api_key"),
    "feature_disabled": (403, "feature_disabled"),
    "not_found": (404, "not_found"),
    "model_not_found": (404, "not_found"),
    "method_not_allowed": (405, _INVALID),
    "cancelled": (499, "cancelled"),
    "not_implemented": (501, "not_implemented"),
    "not_supported": (501, "not_supported_error"),
    "server_busy": (503, "server_busy"),
    "request_memory_budget_exceeded": (503, "request_memory_budget_exceeded"),
    "model_loading": (503, "server_busy"),
    "worker_unavailable": (503, _SERVER),
    "store_unavailable": (503, _SERVER),
    "watch_missing": (503, _SERVER),
    "timeout": (504, "server_timeout"),
    "out_of_vocabulary": (500, _SERVER),
    "engine_failed": (500, _SERVER),
    "worker_hung": (500, _SERVER),
    "internal": (500, _SERVER),
}
# `code` is null in the reference except for these, on which clients branch.
_NAMED: Final = {"context_length_exceeded", "request_memory_budget_exceeded", "model_not_found"}

assert FORMS.keys() == CODES.keys()


def envelope(failure: ServiceError) -> dict[str, Any]:
    """Return the value of the field `error`."""
    fields: dict[str, Any] = {
        "message": failure.message,
        "type": FORMS[failure.code][1],
        "code": failure.code if failure.code in _NAMED else None,
        # OpenAI's errors always have this field.
        "param": failure.param,
    }
    return fields | failure.details


def error(failure: ServiceError, _request_id: str | None = None) -> ErrorReply:
    status = FORMS[failure.code][0]
    return ErrorReply(status, orjson.dumps({"error": envelope(failure)}), headers_of(failure))
