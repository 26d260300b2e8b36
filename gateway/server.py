"""Start and stop of a gateway process.

Owns the listening sockets and the shutdown: accept no new connections, end running streams with an
error, close everything, all within two seconds. Runs on the caller's event loop, except
`LoopMonitor.age_s`, which the heartbeat thread calls.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.app import make_app, make_metrics_app
from gateway.awake import KeepAwake
from gateway.context import Context
from gateway.fleet.registry import Registry
from gateway.generation.generate import Generator
from gateway.http.auth import Keys
from gateway.metrics import Metrics
from gateway.routes.catalog import list_paths
from shared import lifecycle
from shared.address import is_socket
from shared.errors import ServiceError
from shared.fleet import WorkerEntry
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_STAMP_INTERVAL_S: Final = 0.5
# Time for running streams to end after the signal; the supervisor kills after three seconds.
_GRACE_S: Final = 1.0


@dataclass(frozen=True)
class GatewayStart:
    """The inputs of a gateway process."""

    settings: GatewaySettings
    keys: Keys
    workers: list[tuple[WorkerEntry, tuple[str, ...]]]


def make_context(start: GatewayStart) -> Context:
    """Return what handlers share. Call it on the running loop, to which gRPC channels belong."""
    settings = start.settings
    registry = Registry(
        start.workers,
        queue_limit=settings.max_queue_depth,
        recovery_timeout_s=settings.resume_timeout_s,
        strict_model=settings.strict_model,
        paths=list_paths(),
        now_s=time.monotonic,
    )
    metrics = Metrics()
    generator = Generator(settings.timeout_s, metrics)
    awake = KeepAwake(settings.keep_awake)
    return Context(settings, start.keys, registry, generator, metrics, awake)


async def serve(start: GatewayStart) -> None:
    """Serve until SIGTERM or SIGINT, or until the supervisor has exited."""
    context = make_context(start)
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    pulse = LoopMonitor(loop)

    def on_orphaned() -> None:
        loop.call_soon_threadsafe(stopping.set)

    beat = lifecycle.Beat(pulse.age_s, on_orphaned)
    settings = context.settings
    runners = [await listen(make_app(context), settings.host, settings.port)]
    if settings.metrics_port:
        app = make_metrics_app(context)
        host = "127.0.0.1" if is_socket(settings.host) else settings.host
        runners.append(await listen(app, host, settings.metrics_port, "--metrics-port"))
    context.registry.start()
    lifecycle.on_stop_signals(loop, stopping.set)
    beat.start()
    await stopping.wait()
    beat.stop()
    await stop(runners, context)


def make_runner(app: web.Application) -> web.AppRunner:
    """Return a runner; bodies are decoded by `gateway.http.decoding`, not by aiohttp."""
    return web.AppRunner(
        app,
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=0.2,
        auto_decompress=False,
    )


async def listen(app: web.Application, host: str, port: int, flag: str = "--port") -> web.AppRunner:
    """Bind a port or a socket, or exit permanently; the message names `flag` as the remedy."""
    runner = make_runner(app)
    await runner.setup()
    unix = is_socket(host)
    site: web.BaseSite
    site = web.UnixSite(runner, host) if unix else web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError as failure:
        if failure.errno == errno.EADDRINUSE:
            lifecycle.exit_permanently(
                f"port {port} is in use on {host}; stop the other program, or choose another port "
                f"with {flag}"
            )
        reason = os.strerror(failure.errno or 0)
        lifecycle.exit_permanently(f"can't listen on {host}:{port}: {reason}")
    log.info("listening on %s", host if unix else f"http://{host}:{port}")
    return runner


async def stop(runners: Sequence[web.AppRunner], context: Context) -> None:
    """Stop accepting connections, fail running requests, close all connections."""
    log.info("stopping")
    for site in [site for runner in runners for site in runner.sites]:
        await site.stop()
    goodbye = ServiceError("worker_unavailable", "The server is shutting down.", retry_after_s=5.0)
    context.generator.fail_all(goodbye)
    context.registry.fail_calls(goodbye)
    await context.generator.drain(_GRACE_S)
    for runner in runners:
        await runner.cleanup()
    await context.registry.stop()
    context.awake.close()


class LoopMonitor:
    """Measures how long the event loop has been blocked."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stamped_s = loop.time()
        self._stamp()

    def _stamp(self) -> None:
        self._stamped_s = self._loop.time()
        self._loop.call_later(_STAMP_INTERVAL_S, self._stamp)

    def age_s(self) -> float:
        """Return seconds since the loop last ran a callback. Thread: the heartbeat's."""
        return max(0.0, self._loop.time() - self._stamped_s - _STAMP_INTERVAL_S)
