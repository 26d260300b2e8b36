"""A package that is not installed is named with the extra that has it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deploy.run import installation
from deploy.run.parent_watch import ParentWatch
from shared.fleet import load_fleet
from shared.kind import KINDS
from shared.lifecycle import EXIT_PERMANENT
from tests.checkpoint import ROOT
from tests.server import write_fleet

RUN = """\
import runpy, sys
sys.modules[sys.argv[1]] = None
runpy.run_module(sys.argv[2], run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("text", "mlx", "text"), ("embed", "numpy", "embed"), ("audio", "mlx_audio", "audio")],
)
def test_a_worker_without_its_packages_ends_for_good_and_names_the_extra(module, package, extra):
    command = [sys.executable, "-c", RUN, package, f"workers.{module}"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == EXIT_PERMANENT
    assert done.stderr == (
        f"error: the package {package} is not installed; to install what this worker needs: "
        f"pip install 'mlxcel-server[{extra}]'\n"
    )


def test_a_missing_module_of_ours_is_a_traceback():
    command = [sys.executable, "-c", RUN, "workers.runtime", "workers.text"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")


def test_the_library_of_every_kind_is_installed_here():
    assert all(kind.library and kind.is_installed for kind in KINDS.values())


def test_starter_models_are_not_installed_for_a_kind_without_its_packages(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(installation, "_install", lambda model, _: tried.append(model) or True)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if "audio" in name else 1)
    workers = [{"name": kind, "kind": kind, "model": f"./{kind}"} for kind in ("text", "audio")]
    fleet = load_fleet(write_fleet(tmp_path, *workers))
    for name in ("text", "audio"):
        installation.install_models(fleet, name, ParentWatch({}), print)
    assert tried == [str(tmp_path / "text")]
