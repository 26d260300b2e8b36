"""The closed list of error codes, and how an error is sent over gRPC.

A `ServiceError` may be raised anywhere. It is sent to another process as a serialised `Error` in
the trailing metadata, and the dialect that owns the path renders it as an HTTP response. Its code
is also the metric label and the log field. HTTP status codes are set by the dialects. Pure, but
for `abort`, which runs on the server's event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

import grpc
import grpc.aio

from shared.pb import common_pb2 as pb

ERROR_METADATA_KEY: Final = "mlxcel-error-bin"

_STATUS = grpc.StatusCode

CODES: Final[Mapping[str, grpc.StatusCode]] = {
    # Client errors.
    "invalid_request": _STATUS.INVALID_ARGUMENT,
    "context_length_exceeded": _STATUS.INVALID_ARGUMENT,
    "unsupported_tokenizer": _STATUS.INVALID_ARGUMENT,
    "payload_too_large": _STATUS.INVALID_ARGUMENT,
    "unsupported_encoding": _STATUS.INVALID_ARGUMENT,
    "upgrade_required": _STATUS.INVALID_ARGUMENT,
    "missing_api_key": _STATUS.UNAUTHENTICATED,
    "invalid_api_key": _STATUS.UNAUTHENTICATED,
    "feature_disabled": _STATUS.PERMISSION_DENIED,
    "not_found": _STATUS.NOT_FOUND,
    "model_not_found": _STATUS.NOT_FOUND,
    "method_not_allowed": _STATUS.UNIMPLEMENTED,
    "cancelled": _STATUS.CANCELLED,
    # Not served by this server.
    "not_implemented": _STATUS.UNIMPLEMENTED,
    "not_supported": _STATUS.UNIMPLEMENTED,
    # Temporary.
    "server_busy": _STATUS.RESOURCE_EXHAUSTED,
    "request_memory_budget_exceeded": _STATUS.RESOURCE_EXHAUSTED,
    "model_loading": _STATUS.UNAVAILABLE,
    "worker_unavailable": _STATUS.UNAVAILABLE,
    "store_unavailable": _STATUS.UNAVAILABLE,
    "watch_missing": _STATUS.FAILED_PRECONDITION,
    "timeout": _STATUS.DEADLINE_EXCEEDED,
    # Server errors.
    "out_of_vocabulary": _STATUS.OUT_OF_RANGE,
    "engine_failed": _STATUS.ABORTED,
    "worker_hung": _STATUS.ABORTED,
    "internal": _STATUS.INTERNAL,
}

# Codes for a status without our metadata: it comes from the transport, not from a worker.
_TRANSPORT: Final[Mapping[grpc.StatusCode, str]] = {
    _STATUS.UNAVAILABLE: "worker_unavailable",
    _STATUS.DEADLINE_EXCEEDED: "timeout",
    _STATUS.CANCELLED: "worker_unavailable",
}


class ServiceError(Exception):
    """An error with a code from `CODES`.

    Args:
        code: one of `CODES`.
        message: one sentence for the user; no prompts, keys or schemas.
        param: JSON path of the invalid request field.
        retry_after_s: seconds after which a retry may succeed.
        details: numbers that belong to the message, by name.
    """

    def __init__(
        self,
        code: str,
        message: str,
        param: str | None = None,
        retry_after_s: float | None = None,
        details: Mapping[str, int] | None = None,
    ) -> None:
        if code not in CODES:
            raise ValueError(f"unknown error code {code!r}")
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        self.details = dict(details or {})

    def __repr__(self) -> str:
        return f"ServiceError({self.code!r}, {self.message!r}, param={self.param!r})"


def busy() -> ServiceError:
    return ServiceError(
        "server_busy", "All slots are busy. Please try again later.", retry_after_s=1.0
    )


def to_message(error: ServiceError) -> pb.Error:
    return pb.Error(
        code=error.code,
        message=error.message,
        param=error.param,
        retry_after_s=error.retry_after_s,
        details=error.details,
    )


def from_message(message: pb.Error) -> ServiceError:
    """Convert a wire message to an error; an unknown code becomes `internal`."""
    return ServiceError(
        message.code if message.code in CODES else "internal",
        message.message,
        message.param if message.HasField("param") else None,
        message.retry_after_s if message.HasField("retry_after_s") else None,
        dict(message.details),
    )


async def abort(context: grpc.aio.ServicerContext, error: ServiceError) -> NoReturn:  # type: ignore[type-arg]
    """End an RPC with an error; never returns."""
    trailer = ((ERROR_METADATA_KEY, to_message(error).SerializeToString()),)
    await context.abort(CODES[error.code], error.message, trailer)
    raise AssertionError("context.abort returned")


def from_rpc(failure: grpc.aio.AioRpcError) -> ServiceError:
    """Convert a failed RPC to an error.

    A transport failure (refused, reset, EOF) becomes `worker_unavailable` with a fixed message:
    gRPC's own text names sockets and must not reach a user.
    """
    for key, value in failure.trailing_metadata() or ():
        if key == ERROR_METADATA_KEY and isinstance(value, bytes):
            return from_message(pb.Error.FromString(value))
    code = _TRANSPORT.get(failure.code(), "internal")
    if code == "worker_unavailable":
        return ServiceError(
            code, "The model worker is not available. Please try again.", retry_after_s=1.0
        )
    if code == "timeout":
        return ServiceError(code, "The model worker did not answer in time.")
    return ServiceError(code, "The model worker failed to answer.")
