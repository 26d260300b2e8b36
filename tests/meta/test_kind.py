"""The table of kinds names modules, settings and packages that exist."""

from __future__ import annotations

import importlib
import importlib.util
import re
import tomllib
from collections import Counter
from operator import attrgetter
from pathlib import Path

import pytest

from gateway.routes.catalog import list_paths
from shared.declaration import entries
from shared.kind import DEFAULT, KINDS, kind_of_folder
from shared.pb import worker_pb2
from shared.settings import LaunchSettings

ROOT = Path(__file__).resolve().parents[2]
LAUNCH_FLAGS = {entry.name for entry in entries(LaunchSettings)}
# Names of kinds that are not also words of the protocols, as "text" and "audio" are.
DISTINCT = "embed|rerank"
# Besides a kind's own folder and route modules.
NAMED = {
    "shared/kind.py",
    "deploy/run/resolution.py",  # --pooling rank selects a kind
    "deploy/starter_models/table.py",  # names of starter models
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_a_kind_names_exists(kind):
    assert importlib.util.find_spec(f"{kind.module}.__main__")
    settings = {entry.name for entry in entries(kind.settings)}
    assert {*kind.models, "alias", "wired", "keep_warm", "log_level"} <= settings
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert kind.extra in project["optional-dependencies"]
    assert not kind.launch_flag or kind.launch_flag in LAUNCH_FLAGS
    for capability in kind.capabilities:
        if capability.card_flag:
            assert attrgetter(capability.card_flag)(worker_pb2.ModelCard()) is False
    assert kind.trial.path in [*list_paths()[kind.name], "/v1/models"]


def test_a_route_module_of_several_kinds_states_the_kind_of_each_route():
    named = Counter(module for kind in KINDS.values() for module in kind.route_modules)
    for module, kinds in named.items():
        for route in importlib.import_module(module).routes():
            assert kinds == 1 or route.kind in KINDS, route.path


def test_every_kind_answers_some_path():
    assert all(list_paths().values())


def test_a_folder_that_says_nothing_is_of_the_default_kind(tmp_path):
    assert kind_of_folder(tmp_path / "none") == DEFAULT
    for config in ("[]", "{", '{"architectures": 5, "model_type": []}'):
        (tmp_path / "config.json").write_text(config)
        assert kind_of_folder(tmp_path) == DEFAULT


def test_no_kind_is_named_outside_its_own_modules():
    own = {kind.module.replace(".", "/") for kind in KINDS.values()}
    own |= {f"{m.replace('.', '/')}.py" for k in KINDS.values() for m in k.route_modules}
    for package in ("gateway", "workers", "shared", "deploy"):
        for path in (ROOT / package).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if "/pb/" in name or name in NAMED or name.startswith(tuple(own)):
                continue
            for line in path.read_text(encoding="utf-8").splitlines():
                assert not re.search(rf"[\"']({DISTINCT})[\"']", line), f"{name}: {line}"
