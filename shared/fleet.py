"""The fleet file: which processes there are, and where they meet.

Owns the shape of deploy/mlxcel.toml. A process finds its own section here and reads its
settings from it; of the others it sees names and addresses only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared import rundir
from shared.config import check_keys, read_toml
from shared.declaration import ConfigError, entries
from shared.settings import WORKER_SETTINGS, GatewaySettings, SupervisorSettings

_WORKER_KEYS = ("name", "kind", "address", "replicas", "memory_share")
# How a machine's memory is divided by kind: texts take keys and values beside the weights.
_WEIGHTS = {"text": 6, "embed": 1, "rerank": 1, "audio": 1}


@dataclass(frozen=True)
class WorkerEntry:
    """One `[[workers]]` table.

    Attributes:
        index: position in the file; names the socket `w<index>.sock`.
        address: `unix:PATH`, `HOST:PORT`, or empty for the socket in the run directory.
        remote: true when another machine runs it: nothing here starts it.
        memory_share: part of the device's memory, 0 to 1; 0 for a part of what is left.
        options: the settings of the worker's kind that the file gives.
    """

    index: int
    name: str
    kind: str
    address: str
    replicas: int
    memory_share: float
    options: Mapping[str, Any]

    @property
    def remote(self) -> bool:
        """Whether the worker listens at an address of its own."""
        return bool(self.address) and not self.address.startswith("unix:")

    @property
    def machines(self) -> tuple[str, ...]:
        """The host of each replica, empty where it is this one."""
        if not self.remote:
            return ("",) * self.replicas
        return tuple(part.strip().rpartition(":")[0] for part in self.address.split(","))

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the options name, the main one first."""
        given = (self.options.get("model"), self.options.get("speech_model"))
        return tuple(filter(None, given))

    def addresses(self, run_directory: Path) -> tuple[str, ...]:
        """Return the gRPC address of each replica."""
        if self.address:
            return tuple(part.strip() for part in self.address.split(","))
        names = [f"w{self.index}.sock"]
        names += [f"w{self.index}.{replica}.sock" for replica in range(1, self.replicas)]
        return tuple(f"unix:{rundir.socket_path(run_directory, name)}" for name in names)


@dataclass(frozen=True)
class Fleet:
    """The whole file. `folder` is where relative paths in it start."""

    folder: Path
    gateway: Mapping[str, Any]
    supervisor: Mapping[str, Any]
    workers: tuple[WorkerEntry, ...]

    def worker(self, name: str) -> WorkerEntry:
        """Return the worker of that name.

        Raises:
            ConfigError: there is none; the message lists those there are.
        """
        for entry in self.workers:
            if entry.name == name:
                return entry
        known = ", ".join(entry.name for entry in self.workers) or "none"
        raise ConfigError(f"no worker named {name!r} in the fleet file; it lists: {known}")

    def memory_share(self, entry: WorkerEntry) -> float:
        """Return the part of its device's memory that a process of a worker may use, 0 to 1.

        What no worker of a machine names for itself is divided among the others there.
        """
        if entry.memory_share:
            return entry.memory_share
        return min(self._divide(machine) * _WEIGHTS[entry.kind] for machine in entry.machines)

    def _divide(self, machine: str) -> float:
        """Return what a process of weight 1 gets of a machine's memory."""
        others = [entry for entry in self.workers if not entry.memory_share]
        weights = (_WEIGHTS[entry.kind] * entry.machines.count(machine) for entry in others)
        return (1 - _given_away(self.workers, machine)) / sum(weights)


def load_fleet(path: Path) -> Fleet:
    """Read and check a fleet file.

    Raises:
        ConfigError: what is wrong, in one line.
    """
    table = read_toml(path)
    check_keys(table, ("gateway", "supervisor", "workers"), str(path))
    gateway, supervisor = table.get("gateway", {}), table.get("supervisor", {})
    check_keys(gateway, (entry.name for entry in entries(GatewaySettings)), "gateway")
    check_keys(supervisor, (entry.name for entry in entries(SupervisorSettings)), "supervisor")
    workers = tuple(_worker(index, item) for index, item in enumerate(table.get("workers", [])))
    _check_names(workers)
    _check_shares(workers)
    return Fleet(path.resolve().parent, gateway, supervisor, workers)


def _check_names(workers: tuple[WorkerEntry, ...]) -> None:
    """Refuse names that can't be those of processes: a Procfile takes letters, digits, _ and -."""
    taken = {"gateway"}
    for index, entry in enumerate(workers):
        if re.fullmatch(r"[A-Za-z0-9_-]+", entry.name) is None:
            raise ConfigError(
                f"workers[{index}].name: {entry.name!r} has other characters than "
                "letters, digits, _ and -"
            )
        replicas = {f"{entry.name}_{replica}" for replica in range(1, entry.replicas)}
        for name in sorted({entry.name, *replicas}):
            if name in taken:
                raise ConfigError(f"workers[{index}]: another process is named {name!r}")
            taken.add(name)


def _check_shares(workers: tuple[WorkerEntry, ...]) -> None:
    """Refuse to give away more memory than a machine has, or all of it while others need some."""
    for machine in {machine for entry in workers for machine in entry.machines}:
        total = _given_away(workers, machine)
        needy = [e.name for e in workers if machine in e.machines and not e.memory_share]
        if total > 1.001 or (total > 0.99 and needy):
            rest = f"; {', '.join(needy)} would have none" if needy else ""
            raise ConfigError(
                f"workers: memory_share adds up to {total:g} over all processes of a machine, "
                f"and 1 is all there is{rest}"
            )


def _given_away(workers: tuple[WorkerEntry, ...], machine: str) -> float:
    return sum(entry.memory_share * entry.machines.count(machine) for entry in workers)


def _worker(index: int, item: Mapping[str, Any]) -> WorkerEntry:
    where = f"workers[{index}]"
    kind = str(item.get("kind", "text"))
    if kind not in WORKER_SETTINGS:
        known = ", ".join(WORKER_SETTINGS)
        raise ConfigError(f"{where}.kind: {kind!r} is not one of {known}")
    options = {key: value for key, value in item.items() if key not in _WORKER_KEYS}
    check_keys(options, (entry.name for entry in entries(WORKER_SETTINGS[kind])), where)
    name = str(item.get("name", kind))
    replicas, share = item.get("replicas", 1), item.get("memory_share", 0.0)
    if not isinstance(replicas, int) or not 1 <= replicas <= 64:
        raise ConfigError(f"{where}.replicas: {replicas!r} is not a number from 1 to 64")
    if not isinstance(share, int | float) or not 0 <= share <= 1:
        raise ConfigError(f"{where}.memory_share: {share!r} is not between 0 and 1")
    address = str(item.get("address", ""))
    return WorkerEntry(index, name, kind, address, replicas, float(share), options)
