"""The error boundary of a worker's RPCs: every failure reaches the client as a typed error.

Besides the threads that run a model, the only module of workers/ that catches every exception.
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
RpcContext = grpc.aio.ServicerContext[Any, Any]
T = TypeVar("T")
Method = Callable[[Any, Any, RpcContext], Awaitable[T]]


def error_boundary(method: Method[T]) -> Method[T]:
    """Wrap an RPC method that returns one message."""

    @functools.wraps(method)
    async def wrapped(self: Any, request: Any, context: RpcContext) -> T:
        try:
            return await method(self, request, context)
        except ServiceError as error:
            failure = error
        except Exception:
            log.exception("%s failed", method.__name__)
            failure = _internal()
        return await abort(context, failure)

    return wrapped


def stream_error_boundary(
    method: Callable[[Any, Any, RpcContext], AsyncGenerator[T]],
) -> Callable[[Any, Any, RpcContext], AsyncIterator[T]]:
    """Wrap an RPC method that yields messages."""

    @functools.wraps(method)
    async def wrapped(self: Any, request: Any, context: RpcContext) -> AsyncIterator[T]:
        try:
            async with contextlib.aclosing(method(self, request, context)) as messages:
                async for message in messages:
                    yield message
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
