"""launchd jobs, read back as macOS reads them, and loaded by a launchctl that checks its arguments.

Not verified on a Mac: the schema is written from launchd.plist(5), the answers from launchctl's.
"""

from __future__ import annotations

import os
import plistlib
import pwd
import sys
from pathlib import Path

import pytest

from deploy import ROOT, cli
from deploy.run import launchctl, launchd, process
from shared.fleet import load_fleet

FLEET = '[[workers]]\nname = "one"\nmodel = "a"\nreplicas = 2\n[[workers]]\nname = "two"\n'
# Key → type, for lists and dictionaries with that of their values.
SCHEMA = {
    "Label": str,
    "ProgramArguments": [str],
    "WorkingDirectory": str,
    "EnvironmentVariables": {str: str},
    "StandardOutPath": str,
    "StandardErrorPath": str,
    "RunAtLoad": bool,
    "KeepAlive": bool,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "SoftResourceLimits": {str: int},
    "ProcessType": str,
    "LimitLoadToSessionType": [str],
    "UserName": str,
}
CHOICES = {
    "ProcessType": {"Background", "Standard", "Adaptive", "Interactive"},
    "LimitLoadToSessionType": {"Aqua", "Background", "LoginWindow", "StandardIO", "System"},
    "SoftResourceLimits": {"NumberOfFiles"},
}
# Loads and unloads labels in a folder; answers as launchctl does, codes included.
LAUNCHCTL = f"""#!{sys.executable}
import plistlib, sys
from pathlib import Path
folder = Path(__file__).parent / "loaded"
action, *words = sys.argv[1:]
with (folder.parent / "calls").open("a") as calls:
    print(action, *words, file=calls)
domain, _, label = words[-1].rpartition("/")
if action == "bootstrap":
    domain, path = words
    if domain.startswith("gui/"):
        print("Bootstrap failed: 125: Domain does not support specified action", file=sys.stderr)
        sys.exit(125)
    assert Path(path).is_absolute()
    (folder / plistlib.loads(Path(path).read_bytes())["Label"]).write_text(domain)
    sys.exit(0)
if action == "kickstart":
    assert words[0] == "-k"
loaded = folder / label
if not loaded.exists() or loaded.read_text() != domain:
    print("Could not find service", file=sys.stderr)
    sys.exit(113 if action == "print" else 3)
if action == "bootout":
    loaded.unlink()
if action == "print":
    print(words[0] + " = {{\\n\\tstate = running\\n\\n\\truns = 2\\n\\tpid = 71\\n"
          "\\tlast exit code = 0\\n\\tspawn = {{\\n\\t\\tstate = active\\n\\t}}\\n}}")
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET)
    return path


@pytest.fixture
def account(tmp_path):
    return launchd.Account("ann", 501, tmp_path)


@pytest.fixture
def mac(tmp_path, monkeypatch):
    """A folder with a fake launchctl on PATH; its calls are in `calls`."""
    (tmp_path / "bin" / "loaded").mkdir(parents=True)
    program = tmp_path / "bin" / "launchctl"
    program.write_text(LAUNCHCTL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program.parent


def call(*words):
    cli.main(["launchd", *map(str, words)])


def read_jobs(folder):
    return [plistlib.loads(path.read_bytes()) for path in sorted(folder.glob("*.plist"))]


def check(value, kind):
    """Assert that a value has a type of `SCHEMA`."""
    if isinstance(kind, list):
        assert value
        assert all(type(item) is kind[0] for item in value)
    elif isinstance(kind, dict):
        ((_, kind_of_value),) = kind.items()
        assert all(type(k) is str and type(v) is kind_of_value for k, v in value.items())
    else:
        assert type(value) is kind


@pytest.mark.parametrize("per_process", [False, True])
@pytest.mark.parametrize("place", ["agent", "user", "daemon"])
def test_a_job_has_keys_and_values_that_launchd_knows(place, per_process, config, tmp_path):
    form = ["--per-process"] if per_process else []
    words = ("--as", place, "--config", config, "--logs", tmp_path / "logs", *form)
    call("render", tmp_path / "jobs", *words)
    jobs = read_jobs(tmp_path / "jobs")
    assert len(jobs) == (4 if per_process else 1)
    for job in jobs:
        for key, value in job.items():
            check(value, SCHEMA[key])
            if key in CHOICES:
                assert {*(value if isinstance(value, list | dict) else [value])} <= CHOICES[key]
        paths = [job["ProgramArguments"][0], job["WorkingDirectory"], job["StandardErrorPath"]]
        assert all(Path(path).is_absolute() for path in paths)
        assert Path(job["StandardErrorPath"]).parent.is_dir()
        assert str(config) in job["ProgramArguments"]
        assert job["KeepAlive"] and job["RunAtLoad"]
        assert job["ThrottleInterval"] >= 10
        # The launcher gives its processes five seconds, and a supervisor its child three.
        assert job["ExitTimeOut"] > 5
        assert ("UserName" in job) == (place == "daemon")
        assert ("LimitLoadToSessionType" in job) == (place != "daemon")


def test_a_file_has_the_name_of_its_label_and_only_its_owner_may_write_it(config, tmp_path):
    call("render", tmp_path / "jobs", "--config", config, "--logs", tmp_path)
    (path,) = (tmp_path / "jobs").iterdir()
    assert path.stem == plistlib.loads(path.read_bytes())["Label"] == "local.mlxcel.server"
    assert path.stat().st_mode & 0o777 == 0o644


def test_one_job_runs_the_server_and_lets_it_rotate_its_log(account, config, tmp_path):
    job = launchd.describe_server("agent", account, config, tmp_path, {})
    assert job["ProgramArguments"] == [
        *(sys.executable, "-m", "deploy.entry", "deploy.cli"),
        *("--config", str(config), "--log-file", str(tmp_path / "server.log")),
    ]
    options = cli.build_parser().parse_args(job["ProgramArguments"][4:])
    assert (options.config, options.log_file) == (config, str(tmp_path / "server.log"))
    assert job["StandardOutPath"] != options.log_file


def test_the_default_fleet_is_not_named_since_an_upgrade_may_move_it(account, tmp_path):
    job = launchd.describe_server("agent", account, None, tmp_path, {})
    assert "--config" not in job["ProgramArguments"]


def test_jobs_per_process_run_the_command_lines_of_the_procfile(account, config, tmp_path):
    jobs = launchd.describe_processes("agent", account, config, tmp_path, {})
    planned = process.plan(load_fleet(config), sys.executable, config)
    found = {job["Label"]: job["ProgramArguments"] for job in jobs}
    assert found == {f"local.mlxcel.{item.name}": list(item.command) for item in planned}


def test_names_that_are_one_file_on_a_mac_are_refused(config, tmp_path, capsys):
    config.write_text(
        '[[workers]]\nname = "a"\nmodel = "m"\n[[workers]]\nname = "A"\nmodel = "m"\n'
    )
    with pytest.raises(SystemExit) as ending:
        call("render", tmp_path / "jobs", "--per-process", "--config", config, "--logs", tmp_path)
    assert "upper and lower case" in str(ending.value.code)


def test_a_job_gets_settings_and_paths_but_no_secrets(account, tmp_path, monkeypatch, capsys):
    environ = {
        "PATH": "/opt/bin",
        "HF_HOME": "/models",
        "MLXCEL_PORT": "8081",
        "LLAMA_API_KEY": "secret-1",
        "HF_TOKEN": "secret-2",
        "OTHER": "x",
    }
    job = launchd.describe_server("daemon", account, None, tmp_path, environ)
    assert job["EnvironmentVariables"] == {
        "PATH": "/opt/bin",
        "PYTHONUNBUFFERED": "1",
        "HOME": str(tmp_path),
        "HF_HOME": "/models",
        "MLXCEL_PORT": "8081",
    }
    assert launchd.find_secrets(environ) == ["HF_TOKEN", "LLAMA_API_KEY"]
    monkeypatch.setenv("HF_TOKEN", "secret-2")
    call("render", tmp_path / "jobs", "--logs", tmp_path)
    assert "HF_TOKEN is not written" in capsys.readouterr().err


def test_a_program_in_a_protected_folder_is_named(monkeypatch):
    assert launchd.find_protected(Path("/Users/ann")) is None
    home = ROOT.parent
    monkeypatch.setattr(launchd, "_PROTECTED", (ROOT.name,))
    assert launchd.find_protected(home) == ROOT


def test_jobs_are_installed_shown_restarted_and_removed(mac, config, tmp_path, capsys):
    folder = tmp_path / "Launch Agents"
    folder.mkdir()
    (folder / "com.other.plist").write_bytes(plistlib.dumps({"Label": "com.other"}))
    place = ("--as", "user")
    call("install", folder, *place, "--config", config, "--logs", tmp_path / "logs")
    call("install", folder, *place, "--config", config, "--logs", tmp_path / "logs")
    call("status", folder, *place)
    printed = capsys.readouterr().out
    assert "local.mlxcel.server: state running, runs 2, pid 71, last exit code 0" in printed
    call("restart", folder, *place)
    call("uninstall", folder, *place)
    assert [path.name for path in folder.iterdir()] == ["com.other.plist"]
    assert not any((mac / "loaded").iterdir())
    target = f"user/{pwd.getpwuid(os.getuid()).pw_uid}"
    path = folder / "local.mlxcel.server.plist"
    label = f"{target}/local.mlxcel.server"
    assert (mac / "calls").read_text().splitlines() == [
        *(f"bootout {label}", f"bootstrap {target} {path}") * 2,
        *(f"print {label}", f"kickstart -k {label}", f"bootout {label}"),
    ]
    with pytest.raises(SystemExit, match="no job is installed"):
        call("status", folder, *place)


def test_without_a_login_at_the_screen_another_place_is_named(mac, config, tmp_path):
    with pytest.raises(SystemExit, match="without a login at the screen, use --as user"):
        call("install", tmp_path / "jobs", "--config", config, "--logs", tmp_path)


def test_a_job_that_is_not_loaded_has_no_state(mac, tmp_path, account):
    job = launchd.describe_server("user", account, None, tmp_path, {})
    path = launchd.write(job, tmp_path / "jobs")
    assert launchctl.read_state("user/501", path) == {}
    assert launchctl.remove("user/501", path) is False
    with pytest.raises(launchctl.LaunchctlError, match="Could not find service"):
        launchctl.restart("user/501", path)


def test_elsewhere_than_on_a_mac_is_one_line(config, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="launchd runs on macOS only"):
        call("install", tmp_path / "jobs", "--config", config, "--logs", tmp_path)


def test_places_have_the_folders_and_domains_of_launchd(account, tmp_path):
    found = {
        place: (launchd.domain(place, account), str(launchd.folder(place, account)))
        for place in ("agent", "user", "daemon")
    }
    assert found == {
        "agent": ("gui/501", f"{tmp_path}/Library/LaunchAgents"),
        "user": ("user/501", f"{tmp_path}/Library/LaunchAgents"),
        "daemon": ("system", "/Library/LaunchDaemons"),
    }


def test_a_broken_fleet_file_is_one_line(tmp_path):
    with pytest.raises(SystemExit) as ending:
        call("render", tmp_path, "--config", tmp_path / "none.toml", "--logs", tmp_path)
    assert str(ending.value.code).startswith("error: ")
    assert "no such file" in str(ending.value.code)


def test_a_folder_that_can_not_be_made_is_one_line(tmp_path, config):
    (tmp_path / "file").write_text("")
    words = ("--config", config, "--logs", tmp_path)
    with pytest.raises(SystemExit) as ending:
        call("render", tmp_path / "file" / "x", *words)
    assert str(ending.value.code).startswith("error: [Errno 20] Not a directory")
