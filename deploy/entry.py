"""Starts a program so that a stop signal never shows a traceback, however early it arrives.

`python -m deploy.entry MODULE …` imports a module and calls its `main`; `mlxcel-server` is
`deploy.cli` started that way. The Makefile starts this file with `python -S`, which has the signal
handlers soonest: the package and the site packages are read after them. A program that waits for
nothing ends at once with 128 + signal, as a shell reports it; `deploy.run.launcher` has handlers of
its own. Works on Pythons that are too old for the rest, to say so.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys

_OLDEST = (3, 11)
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(module: str) -> None:
    """Import a module and call its `main`."""
    if sys.version_info < _OLDEST:
        sys.exit(
            f"error: {sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}; "
            "Python 3.11 or newer is needed: install it, or name it: make run PYTHON=/path/python3"
        )
    _handle(_exit_now)
    if sys.flags.no_site:
        importlib.import_module("site").main()
    program = importlib.import_module(module)
    _handle(_exit)
    program.main()


def _handle(handler: object) -> None:
    for number in _STOP_SIGNALS:
        signal.signal(number, handler)  # type: ignore[arg-type]


def _exit_now(number: int, _: object) -> None:
    """End without any clean-up: imports are in progress, or it takes too long."""
    os._exit(128 + number)


def _exit(number: int, _: object) -> None:
    """Unwind the stack, so that child processes and temporary files are removed."""
    _handle(_exit_now)
    raise SystemExit(128 + number)


def main() -> None:
    """Run `mlxcel-server`."""
    run("deploy.cli")


if __name__ == "__main__":
    if not __package__:
        # Started as a file: modules are searched beside its folder.
        sys.path[0] = os.path.dirname(sys.path[0])  # noqa: PTH120 - pathlib takes long to import
    run(sys.argv.pop(1))
