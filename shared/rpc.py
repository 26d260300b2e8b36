"""The gRPC channel and server that gateway and workers share.

Owns message sizes, keep-alive, the health and reflection services, and the socket of a worker.
Runs on the caller's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from shared import rundir

log = logging.getLogger(__name__)

# gRPC's default is 4 MiB; a 25 MiB upload and an embedding reply of 2,048 rows must fit.
MAX_MESSAGE_BYTES: Final = 512 * 1024 * 1024

# Between two looks at the socket file.
_KEEP_S: Final = 1.0

_SIZES: Final = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
)

# A worker may compute for minutes without sending a byte. Pings every 20 s keep a TCP connection
# open. The server must allow them: by default it allows one ping per 5 minutes and closes the
# connection of a client that sends more (gRPC core, "too_many_pings").
CLIENT_OPTIONS: Final[Sequence[tuple[str, int]]] = (
    *_SIZES,
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 60_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 250),
    ("grpc.enable_http_proxy", 0),
)
SERVER_OPTIONS: Final[Sequence[tuple[str, int]]] = (
    *_SIZES,
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    # A second server on a unix socket path silently takes it over; the lock of rundir.py
    # prevents that.
    ("grpc.so_reuseport", 0),
)


def open_channel(address: str) -> grpc.aio.Channel:
    """Open a channel to `unix:PATH` or `HOST:PORT`."""
    return grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS)


class WorkerServer:
    """Serves one worker's services, with health and reflection, at its address.

    gRPC can't bind a second address while a server runs. When the socket is gone, a second server
    with the same handlers takes the path, and the first goes on with the connections it has.

    Args:
        address: `unix:PATH` or `HOST:PORT`.
        services: full service names, e.g. "mlxcel.v1.Text".
        lock: of the socket's path; with it, a socket that is gone is bound again.

    Attributes:
        server: takes the servicers, before `start`.
    """

    def __init__(self, address: str, *services: str, lock: rundir.Lock | None = None) -> None:
        self.address = address
        self._handlers = _Handlers()
        self.server = cast(grpc.aio.Server, self._handlers)
        self._services = services
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.server)
        self._path = Path(address.removeprefix("unix:")) if address.startswith("unix:") else None
        self._lock = lock
        self._bound: os.stat_result | None = None
        self._servers: list[grpc.aio.Server] = []
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Bind and listen; the health status is NOT_SERVING until `set_ready`.

        Raises:
            RuntimeError: the address can't be bound.
        """
        await self.set_ready(ready=False)
        await self._listen()
        if self._path is not None and self._lock is not None:
            self._keeping = asyncio.create_task(self._keep(self._path, self._lock))

    async def set_ready(self, *, ready: bool) -> None:
        serving = health_pb2.HealthCheckResponse
        status = serving.SERVING if ready else serving.NOT_SERVING
        for name in ("", *self._services):
            await self._health.set(name, status)

    async def stop(self, grace_s: float) -> None:
        """Stop listening, end calls that run longer than `grace_s`, and remove the socket."""
        if self._keeping is not None:
            self._keeping.cancel()
        stopping = (server.stop(grace_s) for server in self._servers)
        await asyncio.shield(asyncio.gather(*stopping))
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    async def _listen(self) -> None:
        server = grpc.aio.server(options=SERVER_OPTIONS)
        self._handlers.add_to(server)
        names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        if self._path is not None:
            # The lock of rundir.py is held, so the process that made this socket is gone.
            self._path.unlink(missing_ok=True)
        server.add_insecure_port(self.address)
        await server.start()
        self._servers.append(server)
        if self._path is not None:
            self._bound = self._path.stat()

    async def _keep(self, path: Path, lock: rundir.Lock) -> None:
        """Put the lock file and the socket back when they are gone."""
        problem = ""
        while True:
            await asyncio.sleep(_KEEP_S)
            try:
                if not lock.keep():
                    log.error("another process has locked %s", path)
                    return
                if not self._is_bound(path):
                    await self._listen()
                    log.warning("%s was gone; bound it again", path)
                rundir.touch(path)
                problem = ""
            except (OSError, RuntimeError, rundir.RunDirectoryError) as failure:
                if str(failure) != problem:
                    problem = str(failure)
                    log.error("can't put %s back: %s", path, failure)  # noqa: TRY400

    def _is_bound(self, path: Path) -> bool:
        try:
            return self._bound is not None and os.path.samestat(self._bound, path.stat())
        except OSError:
            return False


class _Handlers:
    """Records the handlers of servicers, for every server that serves them."""

    def __init__(self) -> None:
        self._generic: list[Sequence[grpc.GenericRpcHandler]] = []
        self._registered: list[tuple[str, Mapping[str, grpc.RpcMethodHandler[Any, Any]]]] = []

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._generic.append(handlers)

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        self._registered.append((service, handlers))

    def add_to(self, server: grpc.aio.Server) -> None:
        for generic in self._generic:
            server.add_generic_rpc_handlers(generic)
        for service, handlers in self._registered:
            server.add_registered_method_handlers(service, handlers)
