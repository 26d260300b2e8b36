"""The stamp decides whether anything is installed; a failed installer is named."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest

from deploy.setup import bootstrap
from deploy.setup.bootstrap import EnvironmentStamp
from deploy.setup.machine import Machine


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


def make_covered(project, interpreter):
    venv = project / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(interpreter)
    stamp = EnvironmentStamp(bootstrap.fingerprint(project), str(venv), ("dev", "text"))
    text = json.dumps({"source": stamp.source, "folder": stamp.folder, "extras": stamp.extras})
    (venv / "mlxcel-stamp.json").write_text(text)


def test_a_covered_environment_is_left_alone_and_nothing_is_printed(project, capsys):
    # As an interpreter it runs, but any installer would need more.
    make_covered(project, "/bin/true")
    bootstrap.set_up(project, ["text"])
    assert sorted(path.name for path in (project / ".venv").iterdir()) == [
        "bin",
        "mlxcel-stamp.json",
    ]
    assert capsys.readouterr() == ("", "")
    assert not (project / ".cache").exists()


def test_an_environment_whose_python_is_gone_is_made_again(project, capsys, monkeypatch):
    make_covered(project, project / "removed" / "python3")
    made = []
    monkeypatch.setattr(bootstrap, "_create", lambda *_: made.append(True))
    with pytest.raises(OSError, match="python"):
        bootstrap.set_up(project, ["text"])
    assert made
    assert "is gone; the environment is made again" in capsys.readouterr().out.splitlines()[0]


def test_a_machine_that_can_not_run_the_server_is_refused_before_anything_is_made(
    project, monkeypatch
):
    old = Machine("darwin", "arm64", macos=(13, 0))
    monkeypatch.setattr(bootstrap.machine, "describe", lambda: old)
    with pytest.raises(bootstrap.SetUpError, match="macOS 14 or newer"):
        bootstrap.set_up(project, ["text"])
    assert not (project / ".venv").exists()


def make_environment(project, pip):
    """An environment of an older pyproject.toml, whose interpreter is a shell script."""
    interpreter = project / ".venv" / "bin" / "python"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit 0\n{pip}\n')
    interpreter.chmod(0o755)
    stamp = {"source": "older", "folder": str(project / ".venv"), "extras": ["text"]}
    (project / ".venv" / "mlxcel-stamp.json").write_text(json.dumps(stamp))


def test_a_changed_project_is_installed_again_in_one_step(project, capsys, monkeypatch):
    monkeypatch.setattr(bootstrap.openblas, "find", lambda: project)
    make_environment(project, 'echo "$@"')
    bootstrap.set_up(project, ["text"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "==> Python packages …"
    assert re.fullmatch(r"==> Python packages … \d+ s", lines[1])
    assert len(lines) == 2
    assert "-c constraints.txt --progress-bar raw -e .[text]" in (
        project / ".cache" / "set-up.log"
    ).read_text("utf-8")
    bootstrap.set_up(project, ["text"])
    assert capsys.readouterr().out == ""


def test_a_failed_installer_is_named_and_tried_again_later(project, capsys, monkeypatch):
    monkeypatch.setattr(bootstrap.openblas, "find", lambda: project)
    make_environment(project, "echo no network; exit 1")
    with pytest.raises(bootstrap.SetUpError, match="pip could not install the packages"):
        bootstrap.set_up(project, ["text"])
    out = capsys.readouterr().out
    assert "==> Python packages … failed after" in out
    assert "    no network\n" in out
    assert str(project / ".cache" / "set-up.log") in out
    assert not (project / ".venv" / "mlxcel-stamp.json").exists()


@pytest.mark.parametrize(("platform", "how"), [("darwin", "brew"), ("linux", "apt-get")])
def test_a_missing_program_is_a_warning_that_says_how_to_install_it(
    project, platform, how, capsys, monkeypatch
):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(bootstrap.machine, "describe", lambda: Machine(platform, "arm64"))
    monkeypatch.setattr(bootstrap.openblas, "find", lambda: project)
    monkeypatch.setenv("PATH", str(project))
    make_environment(project, "exit 0")
    bootstrap.set_up(project, ["text", "dev"])
    assert re.search(
        rf"==> redis-server: WARNING: not installed; .*: {how} install redis",
        capsys.readouterr().out,
    )


# No answer: there is no terminal.
@pytest.mark.parametrize(
    ("answer", "ci", "installs"),
    [("y", "", True), ("", "", False), (None, "", False), ("y", "1", False)],
)
def test_homebrew_installs_a_program_if_someone_at_a_terminal_agrees(
    project, capsys, monkeypatch, answer, ci, installs
):
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(bootstrap.machine, "describe", lambda: Machine("darwin", "arm64"))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: answer is not None)
    brew = project / "brew"
    brew.write_text(f'#!/bin/sh\necho "$@" >> {project}/installed\n')
    brew.chmod(0o755)
    monkeypatch.setattr("os.environ", {"PATH": str(project)} | ({"CI": ci} if ci else {}))
    make_environment(project, "exit 0")
    bootstrap.set_up(project, ["text", "dev"])
    installed = project / "installed"
    if installs:
        assert "install redis" in installed.read_text().splitlines()
    else:
        assert not installed.exists()
        assert "brew install redis" in capsys.readouterr().out


def test_the_machine_is_checked_also_when_nothing_has_to_be_installed(project, monkeypatch):
    make_covered(project, "/bin/true")
    old = Machine("darwin", "arm64", macos=(13, 0))
    monkeypatch.setattr(bootstrap.machine, "describe", lambda: old)
    with pytest.raises(bootstrap.SetUpError, match="macOS 14 or newer"):
        bootstrap.set_up(project, ["text"])
