"""Why a worker can't start: written by its supervisor, read by the gateway.

Owns the file beside the worker's socket, and what clients may read of a reason. Blocking calls
on a file of 200 bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from shared import rundir

_PATH: Final = re.compile(r"(?<![\w./~])[~.]{0,2}/(?!/)(?:[^\s/'\",;:()]+/)*([^\s/'\",;:()]+)")


@dataclass(frozen=True)
class StartFailure:
    """One failed start.

    Attributes:
        reason: one line without the paths of this machine.
        was_ready: whether the worker has been ready under this supervisor.
        pid: of the supervisor; the failure ends with it.
    """

    reason: str
    was_ready: bool
    pid: int


def find_file(address: str) -> Path | None:
    """Return the file of the worker at a gRPC address; None for one on another machine."""
    if not address.startswith("unix:"):
        return None
    return Path(address.removeprefix("unix:")).with_suffix(".json")


def write(path: Path, failure: StartFailure) -> None:
    """Write atomically.

    Raises:
        OSError, RunDirectoryError: the file can't be written.
    """
    rundir.restore_folder(path.parent)
    rundir.write_private(path, json.dumps(asdict(failure)))


def clear(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def read(path: Path) -> StartFailure | None:
    """Return the failure of a worker whose supervisor runs; None without one."""
    try:
        failure = StartFailure(**json.loads(path.read_text(encoding="utf-8")))
        os.kill(failure.pid, 0)
    except (OSError, ValueError, TypeError):
        return None
    return failure


def shorten(reason: str, models: Sequence[str] = ()) -> str:
    """Return the first line of a reason, with each absolute path cut to its last component.

    Args:
        models: folders, whose names may contain spaces.
    """
    line = (reason.strip().splitlines() or [""])[0]
    for model in map(Path, sorted(models, key=len, reverse=True)):
        if model.is_absolute():
            for path in (model, model.resolve()):
                line = line.replace(str(path), path.name)
    return _PATH.sub(r"\1", line)
