"""The command `mlxcel-server launchd`: writes launchd jobs for the processes of a fleet file.

Owns the arguments and the output; deploy/run/launchd.py renders the property lists.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.run import launchd
from shared.declaration import ConfigError


def main(arguments: Sequence[str], default: Path) -> None:
    """Run `mlxcel-server launchd …`.

    Args:
        default: fleet file to use without `--config`.
    """
    options = _build_parser(default).parse_args(arguments)
    try:
        written = launchd.render(options.folder, options.config.absolute(), options.logs.absolute())
    except (ConfigError, OSError) as failure:
        sys.exit(f"error: {failure}")
    for path in written:
        print(path)
    print(f"To start them: launchctl bootstrap gui/$(id -u) {options.folder}/*.plist")


def _build_parser(default: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mlxcel-server launchd",
        description="Write launchd jobs for macOS, one property list per process. "
        "They are not loaded; the last line printed says how to do that.",
    )
    actions = parser.add_subparsers(dest="action", required=True)
    action = actions.add_parser("render", help="write one property list per process")
    action.add_argument("folder", type=Path, help="where to write them")
    action.add_argument("--config", type=Path, default=default, help="fleet file")
    action.add_argument(
        "--logs",
        type=Path,
        default=Path.home() / "Library" / "Logs" / "mlxcel",
        help="folder of the log files (default: %(default)s)",
    )
    return parser
