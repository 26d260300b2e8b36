"""The stamp decides whether anything is installed."""

from __future__ import annotations

import json

import pytest

from deploy.setup import bootstrap
from deploy.setup.bootstrap import EnvironmentStamp


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "constraints.txt").write_text("a==1\n")
    return tmp_path


def test_what_was_installed_with_more_extras_covers_fewer():
    installed = EnvironmentStamp("hash", "/here/.venv", ("dev", "text"))
    assert installed.covers(EnvironmentStamp("hash", "/here/.venv", ("text",)))
    assert not EnvironmentStamp("hash", "/here/.venv", ("text",)).covers(installed)


@pytest.mark.parametrize(
    "changed", [EnvironmentStamp("other", "/here", ()), EnvironmentStamp("hash", "/there", ())]
)
def test_changed_sources_or_a_moved_folder_are_not_covered(changed):
    assert not EnvironmentStamp("hash", "/here", ()).covers(changed)


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_fingerprint_follows_each_source(project, name):
    before = bootstrap.fingerprint(project)
    assert bootstrap.fingerprint(project) == before
    (project / name).write_text("changed\n")
    assert bootstrap.fingerprint(project) != before


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"source": 1}', "\0"])
def test_a_torn_stamp_counts_as_none(tmp_path, text):
    (tmp_path / "stamp").write_text(text)
    assert bootstrap.read_stamp(tmp_path / "stamp") is None


def test_a_covered_environment_is_left_alone(project):
    venv = project / ".venv"
    venv.mkdir()
    stamp = EnvironmentStamp(bootstrap.fingerprint(project), str(venv), ("dev", "text"))
    text = json.dumps({"source": stamp.source, "folder": stamp.folder, "extras": stamp.extras})
    (venv / "mlxcel-stamp.json").write_text(text)
    # There is no interpreter in it: anything but leaving it alone would fail.
    bootstrap.set_up(project, ["text"])
    assert [path.name for path in venv.iterdir()] == ["mlxcel-stamp.json"]
