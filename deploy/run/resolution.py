"""Flags, environment and fleet file, merged into one fleet in which every setting has its value.

`mlxcel-server` decides every setting once, so that its processes read one file and need no flag
or environment variable. Reads the disk only to see what a model is.
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
from shared.kind import DEFAULT, KINDS, kind_of_folder
from shared.lifecycle import PermanentError
from shared.settings import GatewaySettings, LaunchSettings, SupervisorSettings
from shared.settings.encoder import RANK

GROUPS: Final = (
    GatewaySettings,
    LaunchSettings,
    *(kind.settings for kind in KINDS.values()),
    SupervisorSettings,
)
_PATHS: Final = frozenset(
    entry.name for group in GROUPS for entry in entries(group) if entry.declaration.is_path
)
# What may be a folder or a name on the hub.
_MODELS: Final = frozenset(name for kind in KINDS.values() for name in kind.models)


def choose(options: argparse.Namespace, environ: Mapping[str, str], default: Path) -> Fleet:
    """Return the fleet to start from: a given file, a worker for each given model, or the default.

    Raises:
        ConfigError: the file can't be used, or flags contradict each other.
    """
    if options.config is not None:
        return load_fleet(options.config)
    given: dict[str, Any] = {
        name: resolve(kind.settings, options, environ, {}, name) for name, kind in KINDS.items()
    }
    models = {name: _list_models(name, settings) for name, settings in given.items()}
    flagged = _flagged_kind(options, environ, given)
    if flagged and not models[DEFAULT]:
        if not models[flagged]:
            raise ConfigError(f"--{KINDS[flagged].launch_flag} needs -m MODEL")
        flagged = ""
    kind = flagged or _kind_of_model(given[DEFAULT].model)
    tables: dict[str, dict[str, Any]] = {name: {} for name, found in models.items() if found}
    if kind == DEFAULT:
        return _make_fleet(tables) if tables else load_fleet(default)
    main = KINDS[kind].models[0]
    if getattr(given[kind], main):
        raise ConfigError(f"-m is a model of kind {kind}, and there is another of that kind")
    # -m and its alias are settings of that kind now.
    options.model = options.alias = None
    served = {kind: {main: given[DEFAULT].model, "alias": list(given[DEFAULT].alias)}}
    return _make_fleet(served | {n: t for n, t in tables.items() if n not in (kind, DEFAULT)})


def _list_models(kind: str, settings: Any) -> list[str]:
    """Return the models that the settings of a kind name."""
    return [model for name in KINDS[kind].models if (model := getattr(settings, name))]


def _flagged_kind(
    options: argparse.Namespace, environ: Mapping[str, str], given: Mapping[str, Any]
) -> str:
    """Return the kind that a flag serves -m as; empty without such a flag."""
    launch = resolve(LaunchSettings, options, environ, {}, "launcher")
    flags = {kind.launch_flag: name for name, kind in KINDS.items() if kind.launch_flag}
    asked = [flag for flag in flags if getattr(launch, flag)]
    if len(asked) > 1:
        words = " and ".join(f"--{flag}" for flag in asked)
        raise ConfigError(f"{words}: a model is served as one of them")
    # llama-server's other spelling of --reranking. It is no pooling, so no worker may read it.
    if given["embed"].pooling == RANK:
        options.pooling = None
        return "rerank"
    return flags[asked[0]] if asked else ""


def _kind_of_model(model: str) -> str:
    return kind_of_folder(Path(model).expanduser()) if model else DEFAULT


def _make_fleet(tables: Mapping[str, Mapping[str, Any]]) -> Fleet:
    """Return a fleet with a worker for each kind."""
    workers = [
        WorkerEntry(index, kind, kind, "", 1, 0.0, table, required=True)
        for index, (kind, table) in enumerate(tables.items())
    ]
    return Fleet(Path.cwd(), {}, {}, tuple(workers))


def settle(fleet: Fleet, options: argparse.Namespace, environ: Mapping[str, str]) -> Fleet:
    """Return the fleet with every setting of this machine's processes decided.

    Paths become absolute: those of the file start at its folder, others at the working folder.

    Raises:
        ConfigError: a value can't be used, or a worker's flag fits several workers.
    """
    _refuse_ambiguous(fleet, options)

    def decide(group: type, table: Mapping[str, Any], where: str) -> dict[str, Any]:
        table = _absolute_paths(table, fleet.folder)
        settled: Any = resolve(group, options, environ, table, where)
        return _absolute_paths(dataclasses.asdict(settled), Path.cwd())

    def decide_worker(entry: WorkerEntry) -> WorkerEntry:
        if entry.remote:
            return entry
        group = KINDS[entry.kind].settings
        table = decide(group, entry.options, f"workers[{entry.index}]")
        required = entry.required or _is_named(entry, options)
        return dataclasses.replace(entry, options=table, required=required)

    return Fleet(
        Path.cwd(),
        decide(GatewaySettings, fleet.gateway, "gateway"),
        decide(SupervisorSettings, fleet.supervisor, "supervisor"),
        tuple(decide_worker(entry) for entry in fleet.workers),
    )


def _is_named(entry: WorkerEntry, options: argparse.Namespace) -> bool:
    """Return whether a flag names a model of a worker."""
    kind = KINDS[entry.kind]
    return any(
        getattr(options, setting.dest, None) is not None
        for setting in entries(kind.settings)
        if setting.name in kind.models
    )


def check_models(fleet: Fleet, come_later: Callable[[str], object] = lambda _: None) -> None:
    """Check that workers of this machine have a model folder, or a name on the hub.

    Args:
        come_later: whether a folder may still be missing.

    Raises:
        PermanentError: a required worker has neither, or no worker of the fleet has one.
    """
    failures = []
    for entry in fleet.workers:
        try:
            for model in entry.models or ("",):
                if not entry.remote and not come_later(model):
                    model_folder.find(model, fleet.folder)
        except PermanentError as failure:
            if entry.required:
                raise
            failures.append(failure)
    if failures and len(failures) == len(fleet.workers):
        raise failures[0]


def _refuse_ambiguous(fleet: Fleet, options: argparse.Namespace) -> None:
    """Refuse a flag for one worker where the fleet has several of its kind, or none."""
    kinds = Counter(entry.kind for entry in fleet.workers if not entry.remote)
    groups = Counter(entry.dest for group in GROUPS for entry in entries(group))
    for kind in KINDS:
        for entry in entries(KINDS[kind].settings):
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


def _absolute_paths(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a section whose relative paths have become absolute."""
    section = dict(table)
    for name in _PATHS & table.keys():
        value = table[name]
        if isinstance(value, str) and value:
            section[name] = _absolute(value, folder)
        elif isinstance(value, list | tuple):
            section[name] = [_absolute(item, folder) for item in value]
    for name in _MODELS & table.keys():
        model = table[name]
        if isinstance(model, str) and _is_folder(model, folder):
            section[name] = _absolute(model, folder)
    return section


def _is_folder(model: str, folder: Path) -> bool:
    """Return whether a model names a folder; `shared/model_folder.py` has the full rule."""
    return bool(model) and (model[0] in "./~" or (folder / model).is_dir())


def _absolute(path: str, folder: Path) -> str:
    return os.path.abspath(folder / Path(path).expanduser())  # noqa: PTH100 - links stay, ".." goes


def strip(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables of settings, which have been read."""
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
