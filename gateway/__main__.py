"""`python -m gateway --config FILE [flags]`: one gateway process.

Owns the command line and its errors; server.py runs the gateway. Prints log lines, or one line that
says why it can't start.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

import uvloop

from gateway.http.auth import Keys
from gateway.server import GatewayStart, serve
from gateway.state.archive import check_address
from shared import lifecycle, logs, rundir
from shared.config import add_arguments, resolve
from shared.declaration import ConfigError
from shared.fleet import load_fleet
from shared.refusal import refuse_environment
from shared.settings import GatewaySettings


def main() -> None:
    try:
        start = read_start(sys.argv[1:])
    except (ConfigError, rundir.RunDirectoryError) as failure:
        lifecycle.exit_permanently(str(failure))
    logs.set_up("gateway", start.settings.log_level)
    # Malformed HTTP is the client's error, and the error boundary logs what handlers raise.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    lifecycle.use_batch_scheduling()
    lifecycle.raise_file_limit()
    uvloop.run(serve(start))


def read_start(arguments: list[str]) -> GatewayStart:
    """Read the command line, the environment and the fleet file.

    Raises:
        ConfigError: a setting is invalid.
        RunDirectoryError: the directory of the workers' sockets can't be used.
    """
    parser = argparse.ArgumentParser(prog="python -m gateway", allow_abbrev=False)
    parser.add_argument("--config", type=Path, required=True, help="fleet file")
    add_arguments(parser, [GatewaySettings])
    namespace = parser.parse_args(arguments)
    refuse_environment(os.environ)
    fleet = load_fleet(namespace.config)
    settings = resolve(GatewaySettings, namespace, os.environ, fleet.gateway, "gateway")
    if settings.sse_ping_interval_s == 0:
        raise ConfigError("--sse-ping-interval: must be at least 1, or -1 for never")
    check_address(settings.store)
    if settings.allowed_origins and settings.cors_origins != "*":
        raise ConfigError("--allowed-origins: can't be combined with --cors-origins")
    keys = Keys(settings.api_key, [fleet.folder / name for name in settings.api_key_file])
    folder = rundir.open_run_directory(settings.port)
    return GatewayStart(
        settings, keys, [(entry, entry.addresses(folder)) for entry in fleet.workers]
    )


if __name__ == "__main__":
    main()
