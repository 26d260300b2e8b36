"""Flags, environment and fleet file, brought together into one fleet with nothing left open.

`mlxcel-server` decides every setting once, so that its processes read one file and no flag or
environment name has to reach them. Pure but for looking at the disk.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import tomli_w

from shared import model_folder
from shared.config import resolve
from shared.declaration import ConfigError, entries
from shared.fleet import Fleet, WorkerEntry, load_fleet
from shared.settings import WORKER_SETTINGS, GatewaySettings, LaunchSettings, SupervisorSettings
from shared.settings.encoder import RANK

GROUPS: Final = (
    GatewaySettings,
    LaunchSettings,
    *WORKER_SETTINGS.values(),
    SupervisorSettings,
)
_PATHS: Final = frozenset(
    entry.name for group in GROUPS for entry in entries(group) if entry.declaration.is_path
)
# What may be a folder or a name on the hub.
_MODELS: Final = frozenset({"model", "speech_model"})


def choose(options: argparse.Namespace, environ: Mapping[str, str], default: Path) -> Fleet:
    """Return the fleet to start from: a given file, a worker for each given model, or the default.

    Raises:
        ConfigError: the file can't be used.
    """
    if options.config is not None:
        return load_fleet(options.config)
    given: dict[str, Any] = {
        kind: resolve(group, options, environ, {}, kind) for kind, group in WORKER_SETTINGS.items()
    }
    models: dict[str, str] = {kind: settings.model for kind, settings in given.items()}
    ranks = given["embed"].pooling == RANK
    if ranks:
        # It has been taken, and is no way of pooling.
        options.pooling = None
    kind = _kind_of_text(models, options, environ, ranks=ranks)
    if kind != "text":
        if models[kind]:
            raise ConfigError(f"-m is a model of kind {kind}, and there is another of that kind")
        return _serve_as(kind, models, options, environ)
    models["audio"] = models["audio"] or given["audio"].speech_model
    return _make_fleet({kind: {} for kind, model in models.items() if model}) or load_fleet(default)


def _kind_of_text(
    models: Mapping[str, str],
    options: argparse.Namespace,
    environ: Mapping[str, str],
    *,
    ranks: bool,
) -> str:
    """Return the kind of worker that -m is for."""
    launch = resolve(LaunchSettings, options, environ, {}, "launcher")
    if launch.embeddings and launch.reranking:
        raise ConfigError("--embeddings and --reranking: a model is served as one of them")
    wanted = "rerank" if launch.reranking or ranks else "embed" if launch.embeddings else ""
    model = models["text"]
    if wanted and not model:
        if models[wanted]:
            return "text"
        raise ConfigError(f"--{'embeddings' if wanted == 'embed' else 'reranking'} needs -m MODEL")
    return wanted or (model_folder.kind(Path(model).expanduser()) if model else "text")


def _serve_as(
    kind: str, models: Mapping[str, str], options: argparse.Namespace, environ: Mapping[str, str]
) -> Fleet:
    """Return a fleet in which the model of -m is of another kind than text."""
    given: Any = resolve(WORKER_SETTINGS["text"], options, environ, {}, "text")
    # They have been taken, and mean no text worker any more.
    options.model = options.alias = None
    tables: dict[str, dict[str, Any]] = {
        other: {} for other, model in models.items() if model and other != "text"
    }
    fleet = _make_fleet({kind: {"model": given.model, "alias": list(given.alias)}, **tables})
    assert fleet is not None
    return fleet


def _make_fleet(tables: Mapping[str, Mapping[str, Any]]) -> Fleet | None:
    """Return a fleet with a worker for each kind; None without any."""
    workers = [
        WorkerEntry(index, kind, kind, "", 1, 0.0, table)
        for index, (kind, table) in enumerate(tables.items())
    ]
    return Fleet(Path.cwd(), {}, {}, tuple(workers)) if workers else None


def settle(fleet: Fleet, options: argparse.Namespace, environ: Mapping[str, str]) -> Fleet:
    """Return the fleet with every setting of this machine's processes decided.

    Paths become absolute: those of the file start at its folder, others at the working folder.

    Raises:
        ConfigError: a value can't be used, or a worker's flag fits several workers.
    """
    _refuse_ambiguous(fleet, options)

    def decide(group: type, table: Mapping[str, Any], where: str) -> dict[str, Any]:
        settled: Any = resolve(group, options, environ, _place(table, fleet.folder), where)
        return _place(dataclasses.asdict(settled), Path.cwd())

    def decide_worker(entry: WorkerEntry) -> WorkerEntry:
        if entry.remote:
            return entry
        table = decide(WORKER_SETTINGS[entry.kind], entry.options, f"workers[{entry.index}]")
        return dataclasses.replace(entry, options=table)

    return Fleet(
        Path.cwd(),
        decide(GatewaySettings, fleet.gateway, "gateway"),
        decide(SupervisorSettings, fleet.supervisor, "supervisor"),
        tuple(decide_worker(entry) for entry in fleet.workers),
    )


def check_models(fleet: Fleet, come_later: Callable[[str], object] = lambda _: None) -> None:
    """Make sure that each worker of this machine has a model folder, or a name for the hub.

    Args:
        come_later: tells of a folder whether it may still be missing.

    Raises:
        PermanentError: one has not.
    """
    for entry in fleet.workers:
        for model in entry.models or ("",):
            if not entry.remote and not come_later(model):
                model_folder.find(model, fleet.folder)


def _refuse_ambiguous(fleet: Fleet, options: argparse.Namespace) -> None:
    """Refuse a flag that is meant for one worker where there are several of its kind, or none."""
    kinds = Counter(entry.kind for entry in fleet.workers if not entry.remote)
    groups = Counter(entry.dest for group in GROUPS for entry in entries(group))
    for kind, group in WORKER_SETTINGS.items():
        for entry in entries(group):
            is_given = getattr(options, entry.dest, None) is not None
            if not is_given or groups[entry.dest] > 1 or kinds[kind] == 1:
                continue
            flag = max(entry.flags, key=len)
            if not kinds[kind]:
                raise ConfigError(f"{flag} is for workers of kind {kind} and the fleet has none")
            raise ConfigError(
                f"{flag} suits one worker and the fleet has {kinds[kind]} of kind {kind}; "
                "set it in the fleet file"
            )


def _place(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a section in which relative paths have become absolute."""
    placed = dict(table)
    for name in _PATHS & table.keys():
        value = table[name]
        if isinstance(value, str) and value:
            placed[name] = _absolute(value, folder)
        elif isinstance(value, list | tuple):
            placed[name] = [_absolute(item, folder) for item in value]
    for name in _MODELS & table.keys():
        model = table[name]
        if isinstance(model, str) and _is_folder(model, folder):
            placed[name] = _absolute(model, folder)
    return placed


def _is_folder(model: str, folder: Path) -> bool:
    """Return whether a model is meant as a folder; `shared/model_folder.py` has the full rule."""
    return bool(model) and (model[0] in "./~" or (folder / model).is_dir())


def _absolute(path: str, folder: Path) -> str:
    return os.path.abspath(folder / Path(path).expanduser())  # noqa: PTH100 - links stay, ".." goes


def strip(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the names of settings: they have been read."""
    names = {name for group in GROUPS for entry in entries(group) for name in entry.declaration.env}
    return {name: value for name, value in environ.items() if name not in names}


def render(fleet: Fleet) -> str:
    """Return the fleet as the text of a fleet file."""
    workers = [
        {
            "name": entry.name,
            "kind": entry.kind,
            "address": entry.address,
            "replicas": entry.replicas,
            "memory_share": entry.memory_share,
            **entry.options,
        }
        for entry in fleet.workers
    ]
    table = {"gateway": fleet.gateway, "supervisor": fleet.supervisor, "workers": workers}
    return tomli_w.dumps(table)


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, in one step: it may hold keys."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)
