"""The gRPC channel and server that gateway and workers share.

Owns message sizes, keep-alive, and the health and reflection services. Runs on the caller's event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

# gRPC's default is 4 MiB; a 25 MiB upload and an embedding reply of 2,048 rows must fit.
MAX_MESSAGE_BYTES: Final = 512 * 1024 * 1024

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
    """A grpc.aio server with health and reflection, serving one worker.

    Args:
        address: `unix:PATH` or `HOST:PORT`.
        services: full service names, e.g. "mlxcel.v1.Text".
    """

    def __init__(self, address: str, *services: str) -> None:
        self.address = address
        self.server = grpc.aio.server(options=SERVER_OPTIONS)
        self._services = services
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.server)
        names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self.server)

    async def start(self) -> None:
        """Bind and listen; the health status is NOT_SERVING until `set_ready`.

        Raises:
            RuntimeError: the address can't be bound.
        """
        if self.address.startswith("unix:"):
            # The lock of rundir.py is held, so the process that made this socket is gone.
            Path(self.address.removeprefix("unix:")).unlink(missing_ok=True)
        self.server.add_insecure_port(self.address)
        await self.set_ready(ready=False)
        await self.server.start()

    async def set_ready(self, *, ready: bool) -> None:
        serving = health_pb2.HealthCheckResponse
        status = serving.SERVING if ready else serving.NOT_SERVING
        for name in ("", *self._services):
            await self._health.set(name, status)

    async def stop(self, grace_s: float) -> None:
        """Stop listening, end calls that run longer than `grace_s`, and remove the socket."""
        await asyncio.shield(self.server.stop(grace_s))
        if self.address.startswith("unix:"):
            Path(self.address.removeprefix("unix:")).unlink(missing_ok=True)
