"""Puts the fleet file that `mlxcel-server` wrote back when it is gone.

Every start of a process reads it, and sweepers remove files that nobody reads for days. A fleet
file outside the run directory is the user's and left alone.
"""

from __future__ import annotations

from pathlib import Path

from shared import rundir


class FleetCopy:
    """The text of a fleet file in the run directory.

    Raises:
        OSError: it can't be read.
    """

    def __init__(self, path: Path, run_directory: Path) -> None:
        self._path = path
        is_ours = path.parent.resolve() == run_directory
        self._text = path.read_text(encoding="utf-8") if is_ours else ""

    def restore(self) -> None:
        """Write the file if it is missing.

        Raises:
            OSError, RunDirectoryError: it can't be written.
        """
        if self._text and not self._path.exists():
            rundir.restore_folder(self._path.parent)
            rundir.write_private(self._path, self._text)
