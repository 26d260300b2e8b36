"""The closed list of failures, and how one travels over gRPC.

A `ServiceError` is raised anywhere, crosses a process as a serialised `Error` message in the
trailing metadata, and is turned into an HTTP answer by the dialect that owns the path. Its code
string is also the metric label and the log field. HTTP status codes live in the dialects.
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
    # The client's fault.
    "invalid_request": _STATUS.INVALID_ARGUMENT,
    "context_length_exceeded": _STATUS.INVALID_ARGUMENT,
    "unsupported_tokenizer": _STATUS.INVALID_ARGUMENT,
    "payload_too_large": _STATUS.INVALID_ARGUMENT,
    "missing_api_key": _STATUS.UNAUTHENTICATED,
    "invalid_api_key": _STATUS.UNAUTHENTICATED,
    "feature_disabled": _STATUS.PERMISSION_DENIED,
    "not_found": _STATUS.NOT_FOUND,
    "model_not_found": _STATUS.NOT_FOUND,
    "method_not_allowed": _STATUS.UNIMPLEMENTED,
    "cancelled": _STATUS.CANCELLED,
    # Not served here.
    "not_implemented": _STATUS.UNIMPLEMENTED,
    "not_supported": _STATUS.UNIMPLEMENTED,
    # Not now.
    "server_busy": _STATUS.RESOURCE_EXHAUSTED,
    "request_memory_budget_exceeded": _STATUS.RESOURCE_EXHAUSTED,
    "model_loading": _STATUS.UNAVAILABLE,
    "worker_unavailable": _STATUS.UNAVAILABLE,
    "store_unavailable": _STATUS.UNAVAILABLE,
    "watch_missing": _STATUS.FAILED_PRECONDITION,
    "timeout": _STATUS.DEADLINE_EXCEEDED,
    # Our fault.
    "out_of_vocabulary": _STATUS.OUT_OF_RANGE,
    "engine_failed": _STATUS.ABORTED,
    "internal": _STATUS.INTERNAL,
}

# What a status without our metadata means: the transport spoke, not a worker.
_TRANSPORT: Final[Mapping[grpc.StatusCode, str]] = {
    _STATUS.UNAVAILABLE: "worker_unavailable",
    _STATUS.DEADLINE_EXCEEDED: "timeout",
    _STATUS.CANCELLED: "worker_unavailable",
}


class ServiceError(Exception):
    """A failure with a name from `CODES`.

    Args:
        code: one of `CODES`.
        message: one sentence for a person; no prompts, keys or schemas.
        param: JSON path of the request field at fault.
        retry_after_s: seconds after which trying again makes sense.
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
    """Return the refusal of a request that is one too many."""
    return ServiceError(
        "server_busy", "All slots are busy. Please try again later.", retry_after_s=1.0
    )


def to_message(error: ServiceError) -> pb.Error:
    """Return the wire form of an error."""
    return pb.Error(
        code=error.code,
        message=error.message,
        param=error.param,
        retry_after_s=error.retry_after_s,
        details=error.details,
    )


def from_message(message: pb.Error) -> ServiceError:
    """Return the error a wire message stands for; an unknown code becomes `internal`."""
    return ServiceError(
        message.code if message.code in CODES else "internal",
        message.message,
        message.param if message.HasField("param") else None,
        message.retry_after_s if message.HasField("retry_after_s") else None,
        dict(message.details),
    )


async def abort(context: grpc.aio.ServicerContext, error: ServiceError) -> NoReturn:  # type: ignore[type-arg]
    """End an RPC with an error. Never returns."""
    trailer = ((ERROR_METADATA_KEY, to_message(error).SerializeToString()),)
    await context.abort(CODES[error.code], error.message, trailer)
    raise AssertionError("context.abort returned")


def from_rpc(failure: grpc.aio.AioRpcError) -> ServiceError:
    """Return the error a failed RPC carries.

    A failure of the transport itself (refused, reset, EOF) becomes `worker_unavailable` with a
    sentence of ours: its own text names sockets and never reaches a user.
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
