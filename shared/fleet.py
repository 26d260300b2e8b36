"""The fleet file: which processes there are, and at which addresses.

Owns the shape of deploy/mlxcel.toml. A process finds its own section here and reads its
settings from it; of the others it reads names and addresses only.
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
from shared.kind import DEFAULT, KINDS
from shared.settings import GatewaySettings, SupervisorSettings

_WORKER_KEYS = ("name", "kind", "address", "replicas", "memory_share")


@dataclass(frozen=True)
class WorkerEntry:
    """One `[[workers]]` table.

    Attributes:
        index: position in the file; names the socket `w<index>.sock`.
        address: `unix:PATH`, `HOST:PORT`, or empty for the socket in the run directory.
        remote: another machine runs it, and nothing is started here.
        memory_share: part of the device's memory, 0 to 1; 0: a part of what others leave.
        options: the settings of the worker's kind that the file sets.
        required: the server ends if it can't start; not in the file.
    """

    index: int
    name: str
    kind: str
    address: str
    replicas: int
    memory_share: float
    options: Mapping[str, Any]
    required: bool = False

    @property
    def processes(self) -> tuple[str, ...]:
        """The name of each replica's process."""
        return (self.name, *(f"{self.name}_{replica}" for replica in range(1, self.replicas)))

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
        given = map(self.options.get, KINDS[self.kind].models)
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
    """The whole file. Relative paths in it start at `folder`."""

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

        What the workers of a machine leave is divided among those without a share of their own.
        """
        if entry.memory_share:
            return entry.memory_share
        weight = KINDS[entry.kind].memory_weight
        return min(self._divide(machine) * weight for machine in entry.machines)

    def _divide(self, machine: str) -> float:
        """Return the part of a machine's memory that a process of weight 1 may use."""
        others = [entry for entry in self.workers if not entry.memory_share]
        weights = (
            KINDS[entry.kind].memory_weight * entry.machines.count(machine) for entry in others
        )
        return (1 - _sum_shares(self.workers, machine)) / sum(weights)


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
    """Refuse names that a Procfile does not take: it takes letters, digits, _ and -."""
    taken = {"gateway"}
    for index, entry in enumerate(workers):
        if re.fullmatch(r"[A-Za-z0-9_-]+", entry.name) is None:
            raise ConfigError(
                f"workers[{index}].name: {entry.name!r} may hold only letters, digits, _ and -"
            )
        for name in entry.processes:
            if name in taken:
                raise ConfigError(f"workers[{index}]: another process is named {name!r}")
            taken.add(name)


def _check_shares(workers: tuple[WorkerEntry, ...]) -> None:
    """Refuse shares that add up to more than a machine has, or leave others nothing."""
    for machine in {machine for entry in workers for machine in entry.machines}:
        total = _sum_shares(workers, machine)
        others = [e.name for e in workers if machine in e.machines and not e.memory_share]
        if total > 1.001 or (total > 0.99 and others):
            rest = f"; nothing is left for {', '.join(others)}" if others else ""
            raise ConfigError(
                f"workers: memory_share adds up to {total:g} over all processes of a machine; "
                f"at most 1 is possible{rest}"
            )


def _sum_shares(workers: tuple[WorkerEntry, ...], machine: str) -> float:
    return sum(entry.memory_share * entry.machines.count(machine) for entry in workers)


def _worker(index: int, item: Mapping[str, Any]) -> WorkerEntry:
    where = f"workers[{index}]"
    kind = str(item.get("kind", DEFAULT))
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise ConfigError(f"{where}.kind: {kind!r} is not one of {known}")
    options = {key: value for key, value in item.items() if key not in _WORKER_KEYS}
    check_keys(options, (entry.name for entry in entries(KINDS[kind].settings)), where)
    name = str(item.get("name", kind))
    replicas, share = item.get("replicas", 1), item.get("memory_share", 0.0)
    if not isinstance(replicas, int) or not 1 <= replicas <= 64:
        raise ConfigError(f"{where}.replicas: {replicas!r} is not a number from 1 to 64")
    if not isinstance(share, int | float) or not 0 <= share <= 1:
        raise ConfigError(f"{where}.memory_share: {share!r} is not between 0 and 1")
    address = str(item.get("address", ""))
    return WorkerEntry(index, name, kind, address, replicas, float(share), options)
