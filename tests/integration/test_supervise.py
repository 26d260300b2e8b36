"""The supervisor with real processes: small children and short limits."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import tomli_w

from deploy.run.parent_watch import ORIGIN_ENV
from deploy.setup import openblas
from deploy.starter_models import install
from deploy.starter_models.table import STARTERS
from shared import start_failure
from shared.lifecycle import EXIT_PERMANENT
from shared.rundir import BASE_ENV
from tests.wait import wait_for

ROOT = Path(__file__).resolve().parents[2]

SUPERVISE = [sys.executable, "-m", "deploy.run.supervise", "--name", "x", "--config"]

# Runs a supervisor with limits from its first argument, as deploy/run/supervise.py does.
DRIVER = """
import json, os, sys
from deploy.run.health import SupervisionLimits
from deploy.run.supervisor import Supervisor
from shared import logs
logs.set_up("test", "info")
limits = SupervisionLimits(**json.loads(sys.argv[1]))
sys.exit(Supervisor(sys.argv[2:], os.environ, limits).run())
"""

# The same for the only local one of two workers, so that a failed start does not end it.
WORKER_DRIVER = """
import json, os, sys
from pathlib import Path
from deploy.run.health import SupervisionLimits
from deploy.run.supervisor import Supervisor
from deploy.run.worker_start import WorkerStart
from shared import logs
from shared.fleet import load_fleet
logs.set_up("test", "info")
limits = SupervisionLimits(**json.loads(sys.argv[1]))
config = Path("fleet.toml").absolute()
required = "REQUIRED" in os.environ
start = WorkerStart(load_fleet(config), "a", config.parent, config, required=required)
sys.exit(Supervisor(sys.argv[2:], os.environ, limits, worker_start=start).run())
"""

# Appends its process id to a file, then behaves as its arguments say.
CHILD = """
import os, signal, socket, subprocess, sys, time
note, mode, *more = sys.argv[1:]
def write_pid(pid):
    with open(note, "a") as file:
        file.write(f"{pid}\\n")
def beat(line):
    socket.socket(fileno=os.dup(int(os.environ["MLXCEL_SUPERVISOR_FD"]))).sendall(line)
def steady():
    from shared.lifecycle import Beat
    Beat(lambda: 0.0, lambda: None).start()
def wait():
    time.sleep(60)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "parent":
    write_pid(subprocess.Popen(["sleep", "60"]).pid)
write_pid(os.getpid())
if mode == "exit":
    sys.exit(int(more[0]))
if mode == "needs" and not os.path.exists(more[0]):
    from shared.lifecycle import exit_permanently
    exit_permanently(f"{more[0]} is missing")
if mode == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if mode == "silent":
    beat(b"0\\n")
    wait()
if mode == "hung":
    while True:
        beat(b"90000\\n")
        time.sleep(0.1)
if mode == "loading":
    for _ in range(15):
        beat(b"loading\\n")
        time.sleep(0.1)
    sys.exit(3)
steady()
wait()
"""


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Stage:
    """Starts supervisors with children, and reads their process ids and logs."""

    def __init__(self, folder):
        self.folder = folder
        self.note = folder / "pids"
        self.log = folder / "log"
        (folder / "driver.py").write_text(DRIVER)
        (folder / "child.py").write_text(CHILD)
        self.environ = os.environ | {"PYTHONPATH": str(ROOT), BASE_ENV: str(folder / "run")}
        self.started = []

    def command(self, mode, *more, **limits):
        child = [sys.executable, self.folder / "child.py", self.note, mode, *more]
        driver = [sys.executable, self.folder / "driver.py", json.dumps({"poll_s": 0.1} | limits)]
        return [str(word) for word in (*driver, *child)]

    def run(self, command, **options):
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, stderr=log, stdout=log, env=self.environ, cwd=self.folder, **options
            )
        self.started.append(process)
        return process

    def start(self, mode, *more, **limits):
        return self.run(self.command(mode, *more, **limits))

    def pids(self):
        return [int(line) for line in self.note.read_text().split()] if self.note.exists() else []

    def wait_for_pids(self, count):
        return wait_for(lambda: len(self.pids()) >= count and self.pids())

    def wait_until_gone(self, pids):
        wait_for(lambda: not any(is_alive(pid) for pid in pids))

    def lines(self, words):
        return [line for line in self.log.read_text().splitlines() if words in line]

    def clear(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        for pid in self.pids():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    yield stage
    stage.clear()


def test_a_child_that_exits_is_restarted_with_growing_delays(stage):
    stage.start("exit", "5", first_delay_s=0.1)
    assert len(set(stage.wait_for_pids(4))) == 4
    lines = stage.lines("ended with exit code 5")
    assert [line.partition("; ")[2] for line in lines[:3]] == [
        "restart 1 in 0.1 s",
        "restart 2 in 0.2 s",
        "restart 3 in 0.4 s",
    ]


def test_a_child_that_crashes_is_restarted_and_the_signal_is_logged(stage):
    stage.start("crash")
    stage.wait_for_pids(2)
    assert stage.lines("ended by signal 11")


def test_a_child_that_sends_no_beats_is_killed_and_restarted(stage):
    stage.start("silent", silence_s=0.5)
    first, *_ = stage.wait_for_pids(2)
    assert not is_alive(first)
    assert stage.lines("killed: no heartbeat for 0.")


def test_a_child_whose_step_hangs_is_killed_and_restarted(stage):
    stage.start("hung", step_timeout_s=60)
    first, *_ = stage.wait_for_pids(2)
    assert not is_alive(first)
    assert stage.lines("killed: a step has run for 90.0 s (--step-timeout 60)")


def test_the_step_timeout_does_not_apply_while_loading(stage):
    stage.start("loading", step_timeout_s=0.5, silence_s=1.0)
    stage.wait_for_pids(2)
    assert stage.lines("ended with exit code 3")
    assert not stage.lines("killed")


def test_a_permanent_failure_is_not_retried(stage):
    supervisor = stage.start("exit", str(EXIT_PERMANENT), first_delay_s=0.0)
    assert supervisor.wait(10) == EXIT_PERMANENT
    assert len(stage.pids()) == 1


def test_a_missing_command_is_not_retried(stage):
    command = stage.command("steady")
    command[3] = str(stage.folder / "nothing")
    assert stage.run(command).wait(10) == EXIT_PERMANENT
    assert stage.lines("nothing: No such file or directory")


class WorkerStage:
    """A supervisor of a worker beside a remote one."""

    def __init__(self, stage):
        fleet = '[[workers]]\nname = "a"\nmodel = "./m"\n[[workers]]\nname = "b"\naddress = "x:1"\n'
        (stage.folder / "fleet.toml").write_text(fleet)
        (stage.folder / "driver.py").write_text(WORKER_DRIVER)
        self.stage = stage
        self.file = stage.folder / "w0.json"

    def wait_for_reason(self):
        return wait_for(lambda: (found := start_failure.read(self.file)) and found.reason)


def test_a_worker_that_can_not_start_is_tried_again_when_what_it_needs_is_there(stage):
    worker = WorkerStage(stage)
    needed = stage.folder / "m" / "weights"
    supervisor = stage.start("needs", str(needed))
    assert worker.wait_for_reason() == "m/weights is missing"
    needed.parent.mkdir()
    # Changed, but not what it needs: the reason is printed once.
    stage.wait_for_pids(2)
    needed.touch()
    stage.wait_for_pids(3)
    wait_for(lambda: not worker.file.exists())
    assert stage.lines("error: ") == [f"error: {needed} is missing"]
    assert len(stage.lines("the worker can't start; next attempt in 60 s")) == 1
    supervisor.terminate()
    assert supervisor.wait(5) == 0


def test_a_worker_whose_program_is_missing_starts_once_it_is_installed(stage):
    worker = WorkerStage(stage)
    programs = stage.folder / "bin"
    programs.mkdir()
    stage.environ["PATH"] += f"{os.pathsep}{programs}"
    command = stage.command("steady")
    command[3] = "late-python"
    stage.run(command)
    assert worker.wait_for_reason() == "can't run late-python: No such file or directory"
    (programs / "late-python").symlink_to(sys.executable)
    stage.wait_for_pids(1)
    wait_for(lambda: not worker.file.exists())


def test_a_worker_that_can_not_start_is_tried_again_after_a_while(stage):
    WorkerStage(stage)
    stage.start("needs", str(stage.folder / "none"), retry_s=0.2)
    assert len(set(stage.wait_for_pids(3))) == 3
    assert len(stage.lines("error: ")) == 1


def test_a_required_worker_ends_its_supervisor(stage):
    WorkerStage(stage)
    stage.environ["REQUIRED"] = "1"
    supervisor = stage.start("needs", str(stage.folder / "none"))
    assert supervisor.wait(10) == EXIT_PERMANENT
    assert len(stage.lines("error: ")) == 1


def test_a_worker_that_exits_at_every_start_counts_as_failed(stage):
    worker = WorkerStage(stage)
    stage.start("exit", "5", first_delay_s=0.0)
    assert worker.wait_for_reason().startswith("ended with exit code 5 at ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_supervisor_stops_its_child(stage, number):
    supervisor = stage.start("steady")
    pids = stage.wait_for_pids(1)
    supervisor.send_signal(number)
    assert supervisor.wait(5) == 0
    assert not any(is_alive(pid) for pid in pids)
    assert not stage.lines("restart")


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_period(stage):
    supervisor = stage.start("stubborn", stop_grace_s=0.5)
    pids = stage.wait_for_pids(1)
    began_s = time.monotonic()
    supervisor.terminate()
    assert supervisor.wait(5) == 0
    assert 0.4 < time.monotonic() - began_s < 3
    assert not any(is_alive(pid) for pid in pids)


def test_a_second_signal_ends_the_grace_period(stage):
    supervisor = stage.start("stubborn", stop_grace_s=30)
    pids = stage.wait_for_pids(1)
    supervisor.terminate()
    time.sleep(0.3)
    assert supervisor.poll() is None
    supervisor.terminate()
    assert supervisor.wait(5) == 0
    assert not any(is_alive(pid) for pid in pids)


def test_a_stop_during_the_restart_delay_is_immediate(stage):
    supervisor = stage.start("exit", "1", first_delay_s=60, longest_delay_s=60)
    wait_for(lambda: stage.log.exists() and stage.lines("restart 1 in 60.0 s"))
    supervisor.terminate()
    assert supervisor.wait(5) == 0


def test_processes_started_by_the_child_end_with_it(stage):
    supervisor = stage.start("parent")
    pids = stage.wait_for_pids(2)
    supervisor.terminate()
    assert supervisor.wait(5) == 0
    stage.wait_until_gone(pids)


def test_a_killed_supervisor_leaves_no_child(stage):
    supervisor = stage.start("steady")
    pids = stage.wait_for_pids(1)
    supervisor.kill()
    supervisor.wait()
    stage.wait_until_gone(pids)


def test_a_supervisor_ends_with_the_shell_that_started_it(stage):
    shell = stage.run(["sh", "-c", '"$@" & echo $! >>pids; wait', "sh", *stage.command("steady")])
    pids = stage.wait_for_pids(2)
    shell.kill()
    shell.wait()
    stage.wait_until_gone(pids)


class Honcho:
    """Honcho with supervised children."""

    def __init__(self, stage, **limits):
        command = " ".join(f"'{word}'" for word in stage.command("steady", **limits))
        (stage.folder / "Procfile").write_text(f"one: exec {command}\ntwo: exec {command}\n")
        self.process = stage.run([sys.executable, "-m", "honcho", "start"])
        stage.wait_for_pids(2)
        self.tree = psutil.Process(self.process.pid).children(recursive=True)
        assert len(self.tree) >= 6

    def wait_until_alone(self, timeout_s=10.0):
        wait_for(lambda: not any(is_alive(item.pid) for item in self.tree), timeout_s)


def test_a_killed_honcho_leaves_no_process(stage):
    honcho = Honcho(stage)
    # Not waited for: its parent may be slow to reap it.
    honcho.process.kill()
    honcho.wait_until_alone()


def test_a_process_whose_launcher_is_already_gone_exits_at_once(stage):
    origin = subprocess.Popen(["true"])
    origin.wait()
    stage.environ |= {ORIGIN_ENV: str(origin.pid)}
    assert stage.start("steady").wait(10) == 0
    stage.wait_until_gone(stage.pids())


@pytest.fixture
def silent_registry():
    """A package registry that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_install_ends_with_its_supervisor(stage, silent_registry, number):
    model = install.MODELS / STARTERS["embed"].name
    fleet = {"workers": [{"name": "embed", "kind": "embed", "model": str(model)}]}
    (stage.folder / "fleet.toml").write_text(tomli_w.dumps(fleet))
    stage.environ |= {"XDG_CACHE_HOME": str(stage.folder), "PIP_INDEX_URL": silent_registry}
    supervisor = [sys.executable, "-m", "deploy.run.supervise", "--name", "embed"]
    running = stage.run([*supervisor, "--config", "fleet.toml", "--", "true"])
    # The installer and the package client.
    tree = psutil.Process(running.pid).children
    installers = wait_for(lambda: len(found := tree(recursive=True)) == 2 and found)
    running.send_signal(number)
    running.wait(5)
    stage.wait_until_gone([item.pid for item in installers])


def test_the_command_line_preloads_openblas_where_it_exists(stage):
    (stage.folder / "fleet.toml").write_text("")
    code = f"import os, sys; print(os.environ.get('LD_PRELOAD')); sys.exit({EXIT_PERMANENT})"
    supervisor = [*SUPERVISE, "fleet.toml"]
    assert stage.run([*supervisor, "--", sys.executable, "-c", code]).wait(10) == EXIT_PERMANENT
    assert stage.log.read_text().splitlines()[0].split()[0] == str(openblas.find())


def test_an_invalid_fleet_file_is_reported_in_one_line(stage):
    supervisor = [*SUPERVISE, "none.toml"]
    assert stage.run([*supervisor, "--", "true"]).wait(10) == EXIT_PERMANENT
    assert stage.log.read_text() == "error: none.toml: no such file\n"
