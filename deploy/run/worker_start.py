"""What the supervisor of a worker does when the worker can't start.

Owns the file that gives the gateway the reason, the decision whether the whole server ends, and
what is compared to notice that a start may succeed now. Blocking calls, on the supervisor's thread.
"""

from __future__ import annotations

import logging
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from shared import start_failure
from shared.fleet import Fleet, WorkerEntry
from shared.rundir import RunDirectoryError
from shared.start_failure import StartFailure

log = logging.getLogger("supervise")


class WorkerStart:
    """The starts of one worker process.

    Args:
        process: its name, as `plan` gives it.
        config: the fleet file.
        required: its model was named on the command line.

    Raises:
        RunDirectoryError: a socket's path is too long.
    """

    def __init__(
        self, fleet: Fleet, process: str, run_directory: Path, config: Path, *, required: bool
    ) -> None:
        self._required = required
        self._was_ready = False
        self._watched = [config, Path(sysconfig.get_path("purelib"))]
        self._models: list[Path] = []
        self._file: Path | None = None
        self._others: list[Path | None] = []
        for entry in fleet.workers:
            files = map(start_failure.find_file, entry.addresses(run_directory))
            for name, file in zip(entry.processes, files, strict=False):
                if name == process:
                    self._file = file
                    self._models = _list_folders(entry, fleet.folder)
                else:
                    self._others.append(file)
        self.clear()

    def report(self, reason: str) -> None:
        """Give the gateway the reason of a failed start."""
        if self._file is None:
            return
        short = start_failure.shorten(reason, [str(path) for path in self._models])
        failure = StartFailure(short, self._was_ready, os.getpid())
        try:
            start_failure.write(self._file, failure)
        except (OSError, RunDirectoryError) as problem:
            log.warning("can't write %s: %s", self._file, problem)

    def note_ready(self) -> None:
        self._was_ready = True
        self.clear()

    def clear(self) -> None:
        if self._file is not None:
            start_failure.clear(self._file)

    def ends_server(self) -> bool:
        """Return whether a failed start, which was reported, ends the whole server.

        It does at the first start, if the model was named on the command line or every other worker
        has failed likewise.
        """
        if self._was_ready:
            return False
        return self._required or all(map(_has_never_started, self._others))

    def fingerprint(self) -> object:
        """Return a value that changes when the fleet file, a model, or an installed program does.

        Program folders are those of PATH, and that of Python's packages.
        """
        programs = map(Path, filter(None, os.environ.get("PATH", "").split(os.pathsep)))
        folders = [(path, *_list_entries(path)) for path in self._models]
        paths = [*self._watched, *programs, *(path for found in folders for path in found)]
        return tuple((str(path), _describe(path)) for path in paths)


def _list_folders(entry: WorkerEntry, folder: Path) -> list[Path]:
    """Return where the models of a worker are, if they are folders."""
    return [folder / Path(model).expanduser() for model in entry.models]


def _list_entries(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.iterdir())
    except OSError:
        return


def _describe(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _has_never_started(file: Path | None) -> bool:
    """Return whether a worker has failed at its first start; False for a remote one."""
    failure = start_failure.read(file) if file is not None else None
    return failure is not None and not failure.was_ready
