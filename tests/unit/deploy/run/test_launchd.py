"""launchd jobs, read back as macOS reads them."""

from __future__ import annotations

import plistlib
import sys
from pathlib import Path

import pytest

from deploy import cli
from deploy.run import launchd, process
from shared.fleet import load_fleet

FLEET = '[[workers]]\nname = "one"\nmodel = "a"\nreplicas = 2\n[[workers]]\nname = "two"\n'


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET)
    return path


@pytest.fixture
def jobs(config, tmp_path):
    folder = tmp_path / "jobs"
    words = ["launchd", "render", str(folder), "--config", str(config)]
    cli.main([*words, "--logs", str(tmp_path / "logs")])
    return [plistlib.loads(path.read_bytes()) for path in sorted(folder.iterdir())]


def test_there_is_one_job_per_process(jobs):
    assert [job["Label"] for job in jobs] == [
        "local.mlxcel.gateway",
        "local.mlxcel.one",
        "local.mlxcel.one_1",
        "local.mlxcel.two",
    ]


def test_jobs_run_the_command_lines_of_the_procfile(jobs, config):
    planned = process.plan(load_fleet(config), sys.executable, config)
    assert [job["ProgramArguments"] for job in jobs] == [list(item.command) for item in planned]


def test_jobs_are_kept_alive_but_do_not_spin(jobs):
    for job in jobs:
        assert job["KeepAlive"] is True
        assert job["RunAtLoad"] is True
        assert job["ThrottleInterval"] >= 10


def test_jobs_name_absolute_paths_and_an_existing_log_folder(jobs, config):
    for job in jobs:
        paths = [job["ProgramArguments"][0], job["WorkingDirectory"], job["StandardErrorPath"]]
        assert all(Path(path).is_absolute() for path in paths)
        assert job["StandardOutPath"] == job["StandardErrorPath"]
        assert Path(job["StandardErrorPath"]).parent.is_dir()
        assert str(config) in job["ProgramArguments"]


def test_jobs_get_more_time_to_end_than_the_supervisor_takes(jobs):
    assert all(job["ExitTimeOut"] > 3 for job in jobs)


def test_search_path_is_handed_on(config, tmp_path):
    item = process.plan(load_fleet(config), sys.executable, config)[0]
    job = launchd.describe(item, tmp_path, {"PATH": "/opt/bin", "SECRET": "x"})
    assert job["EnvironmentVariables"]["PATH"] == "/opt/bin"
    assert "SECRET" not in job["EnvironmentVariables"]


def test_a_broken_fleet_file_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as ending:
        cli.main(["launchd", "render", str(tmp_path), "--config", str(tmp_path / "none.toml")])
    assert str(ending.value.code).startswith("error: ")
    assert "no such file" in str(ending.value.code)


def test_a_folder_that_can_not_be_made_is_one_line(tmp_path, config):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ending:
        cli.main(["launchd", "render", str(tmp_path / "file" / "x"), "--config", str(config)])
    assert str(ending.value.code).startswith("error: [Errno 20] Not a directory")
