"""The rim of a worker's RPCs: every failure leaves as a typed error.

The only place in workers/ besides the engine thread where any exception is caught.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc.aio

from shared.errors import ServiceError, abort

log = logging.getLogger(__name__)
T = TypeVar("T")
Method = Callable[[Any, Any, grpc.aio.ServicerContext], Awaitable[T]]
StreamMethod = Callable[[Any, Any, grpc.aio.ServicerContext], AsyncGenerator[T]]


def error_boundary(method: Method[T]) -> Method[T]:
    """Wrap a unary RPC method of a servicer."""

    @functools.wraps(method)
    async def wrapped(self: Any, request: Any, context: grpc.aio.ServicerContext) -> T:
        try:
            return await method(self, request, context)
        except ServiceError as error:
            failure = error
        except Exception:
            log.exception("%s failed", method.__name__)
            failure = _internal()
        return await abort(context, failure)

    return wrapped


def stream_error_boundary(method: StreamMethod[T]) -> StreamMethod[T]:
    """Wrap an RPC method of a servicer that answers in pieces."""

    @functools.wraps(method)
    async def wrapped(
        self: Any, request: Any, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[T]:
        try:
            async with contextlib.aclosing(method(self, request, context)) as pieces:
                async for piece in pieces:
                    yield piece
        except ServiceError as error:
            failure = error
        except Exception:
            log.exception("%s failed", method.__name__)
            failure = _internal()
        else:
            return
        await abort(context, failure)

    return wrapped


def _internal() -> ServiceError:
    return ServiceError("internal", "The worker failed.")
