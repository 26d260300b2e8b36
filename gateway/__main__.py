"""`python -m gateway --config FILE [flags]`: one gateway process from start to end.

Owns the event loop, the listening socket and the order of stopping: no new connections, running
streams told why they end, then gone, all within two seconds. Prints log lines and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop
from aiohttp import web

from gateway.app import make_app
from gateway.auth import Keys
from gateway.context import Context
from gateway.generate import Generator
from gateway.registry import Registry
from shared import lifecycle, logs, rundir
from shared.config import ConfigError, add_arguments, resolve
from shared.errors import ServiceError
from shared.fleet import WorkerEntry, load_fleet
from shared.settings import GatewaySettings

log = logging.getLogger("gateway.main")

_STAMP_INTERVAL_S: Final = 0.5
# From the signal to the end of the last stream; supervisors kill after three seconds.
_GRACE_S: Final = 1.0


@dataclass(frozen=True)
class Start:
    """What a gateway process is started with."""

    settings: GatewaySettings
    keys: Keys
    workers: list[tuple[WorkerEntry, tuple[str, ...]]]


def main() -> None:
    """Run until told to stop."""
    try:
        start = read_start(sys.argv[1:])
    except (ConfigError, rundir.RunDirectoryError) as failure:
        lifecycle.exit_permanently(str(failure))
    logs.set_up("gateway", start.settings.log_level)
    # Broken HTTP from a client is no error of ours, and the rim logs what handlers raise.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    uvloop.run(serve(start))


def read_start(arguments: list[str]) -> Start:
    """Return what the command line, the environment and the fleet file say.

    Raises:
        ConfigError: in one line.
        RunDirectoryError: the workers' sockets can't be where they should be.
    """
    parser = argparse.ArgumentParser(prog="python -m gateway", allow_abbrev=False)
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    add_arguments(parser, [GatewaySettings])
    namespace = parser.parse_args(arguments)
    fleet = load_fleet(namespace.config)
    settings = resolve(GatewaySettings, namespace, os.environ, fleet.gateway, "gateway")
    if settings.sse_ping_interval_s == 0:
        raise ConfigError("--sse-ping-interval: must be at least 1, or -1 for never")
    keys = Keys(settings.api_key, [fleet.folder / name for name in settings.api_key_file])
    folder = rundir.open_run_directory(settings.port)
    return Start(settings, keys, [(entry, entry.addresses(folder)) for entry in fleet.workers])


def make_context(start: Start) -> Context:
    """Return what handlers share. Channels belong to the running loop, so call it there."""
    settings = start.settings
    registry = Registry(
        start.workers,
        queue_limit=settings.max_queue_depth,
        patience_s=settings.resume_timeout_s,
        strict_model=settings.strict_model,
        now_s=time.monotonic,
    )
    return Context(settings, start.keys, registry, Generator(settings.timeout_s))


async def serve(start: Start) -> None:
    """Serve until SIGTERM or SIGINT, or until the supervisor is gone."""
    context = make_context(start)
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    pulse = Pulse(loop)

    def on_orphaned() -> None:
        loop.call_soon_threadsafe(stopping.set)

    beat = lifecycle.Beat(pulse.age_s, on_orphaned)
    runner = web.AppRunner(
        make_app(context), handler_cancellation=True, access_log=None, shutdown_timeout=0.2
    )
    await runner.setup()
    context.registry.start()
    await listen(runner, context.settings)
    lifecycle.on_stop_signals(loop, stopping.set)
    beat.start()
    await stopping.wait()
    beat.stop()
    await stop(runner, context)


async def listen(runner: web.AppRunner, settings: GatewaySettings) -> None:
    """Bind the port, or leave for good."""
    site = web.TCPSite(runner, settings.host, settings.port)
    try:
        await site.start()
    except OSError as failure:
        where = f"{settings.host}:{settings.port}"
        if failure.errno == errno.EADDRINUSE:
            lifecycle.exit_permanently(
                f"port {settings.port} is in use on {settings.host}; stop what listens there, "
                "or choose another with --port"
            )
        lifecycle.exit_permanently(f"can't listen on {where}: {os.strerror(failure.errno or 0)}")
    log.info("listening on http://%s:%d", settings.host, settings.port)


async def stop(runner: web.AppRunner, context: Context) -> None:
    """End everything in order."""
    log.info("stopping")
    for site in list(runner.sites):
        await site.stop()
    context.generator.fail_all(
        ServiceError("worker_unavailable", "The server is shutting down.", retry_after_s=5.0)
    )
    await context.generator.drain(_GRACE_S)
    await runner.cleanup()
    await context.registry.stop()


class Pulse:
    """How long the event loop has been busy with one thing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stamped_s = loop.time()
        self._stamp()

    def _stamp(self) -> None:
        self._stamped_s = self._loop.time()
        self._loop.call_later(_STAMP_INTERVAL_S, self._stamp)

    def age_s(self) -> float:
        """Return seconds since the loop last had a moment. Called from the beat's thread."""
        return max(0.0, self._loop.time() - self._stamped_s - _STAMP_INTERVAL_S)


if __name__ == "__main__":
    main()
