"""Whether the process that started this one still runs.

macOS has no signal for the end of a parent, so it is polled. Two special cases: launchd is
process 1 and never ends; honcho starts every command from a helper process that ignores signals
and outlives honcho, so the parent of that helper is watched as well.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# honcho, environ.py, expand_processes.
HONCHO_ENV: Final = "HONCHO_PROCESS_NAME"
# Id of the ancestor process with which a process has to end.
ORIGIN_ENV: Final = "MLXCEL_ORIGIN_PID"


class ParentWatch:
    """Remembers the processes that started this one.

    Args:
        environ: names honcho, if that is the parent, and the origin process.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._parent = os.getppid()
        self._starter = find_parent(self._parent) if HONCHO_ENV in environ else None
        origin = environ.get(ORIGIN_ENV)
        # It may have ended before this line runs.
        self._is_orphan = origin is not None and int(origin) not in find_ancestors()

    def is_gone(self) -> bool:
        """Return whether a watched process has ended. Cheap enough for a poll."""
        if self._is_orphan or os.getppid() != self._parent:
            return True
        return self._starter is not None and not _is_child(self._parent, self._starter)


def find_parent(pid: int) -> int | None:
    """Return the parent of any process, or None when it is unknown."""
    found = _read_parent(pid)
    if found is not None:
        return found
    command = ["ps", "-o", "ppid=", "-p", str(pid)]
    try:
        answer = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return None
    return int(answer) if answer.strip().isdigit() else None


def find_ancestors() -> list[int]:
    """Return the parent of this process, its parent, and so on."""
    found = [os.getppid()]
    while found[-1] > 1 and (parent := find_parent(found[-1])) is not None:
        found.append(parent)
    return found


def _read_parent(pid: int) -> int | None:
    """Return the fourth field of /proc/PID/stat; the second, a name, may hold spaces: proc(5)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[1])


def _is_child(pid: int, parent: int) -> bool:
    """Return whether `pid` still has that parent; without /proc, whether the parent runs."""
    found = _read_parent(pid)
    if found is not None:
        return found == parent
    try:
        os.kill(parent, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
