"""The launcher with real processes: small commands, then a whole server on a tiny checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deploy.run import process
from deploy.run.announce import is_ready
from shared.fleet import load_fleet
from shared.settings import GatewaySettings
from tests import checkpoint
from tests.server import ROOT, Server, find_free_port, none_lives, write_fleet
from tests.wait import wait_for

# Launches one process per argument, each a Python program, and a companion that ends at once.
DRIVER = """
import os, sys
from pathlib import Path
from deploy.run.launcher import Launcher
from deploy.run.process import Process
programs = enumerate(sys.argv[1:])
processes = [Process(f"p{index}", (sys.executable, "-c", program)) for index, program in programs]
companion = [sys.executable, "-c", ""]
sys.exit(Launcher(processes, os.environ, Path.cwd(), 1, companion).run())
"""
WAIT = "import time; print('waits', flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAIT}"


class Launch:
    """A launcher whose output is read line by line."""

    def __init__(self, *programs):
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *programs],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.seen = []

    def read_until(self, words, count=1):
        """Read until so many more lines contain the words."""
        while count:
            line = self.process.stdout.readline()
            assert line, self.seen
            self.seen.append(line.rstrip("\n"))
            count -= words in line

    def finish(self):
        """Return the exit code, and the lines without their times."""
        output, _ = self.process.communicate(timeout=30)
        self.seen += output.splitlines()
        return self.process.returncode, [line[9:] for line in self.seen]

    def children(self):
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def launch():
    launched = []

    def start(*programs):
        launched.append(Launch(*programs))
        return launched[-1]

    yield start
    for item in launched:
        item.process.kill()
        item.process.wait()
        item.process.stdout.close()


def test_the_first_end_ends_all_and_gives_the_exit_code(launch):
    code, lines = launch("import sys; input(); sys.exit(5)", WAIT).finish()
    # The standard input is empty.
    assert code == 1
    assert "system | p0 stopped (rc=1)" in lines
    assert "system | p1 stopped (rc=-15)" in lines


def test_output_is_printed_line_by_line_with_the_name(launch):
    program = r"import os; os.write(1, b'one\n\n  two \xff\r\n'); os.write(2, b'rest')"
    code, lines = launch(program).finish()
    assert code == 0
    assert [line for line in lines if line.startswith("p0 ")] == [
        "p0     | one",
        "p0     | ",
        "p0     |   two \N{REPLACEMENT CHARACTER}",
        "p0     | rest",
    ]


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_all(launch, number, expected):
    launched = launch(WAIT, WAIT)
    launched.read_until("waits", 2)
    children = launched.children()
    launched.process.send_signal(number)
    code, lines = launched.finish()
    assert code == expected
    assert f"system | {number.name} received" in lines
    assert none_lives(children)


def test_a_second_signal_kills_what_ignores_the_first(launch):
    launched = launch(STUBBORN)
    launched.read_until("waits")
    launched.process.send_signal(signal.SIGINT)
    launched.read_until("SIGINT received")
    launched.process.send_signal(signal.SIGTERM)
    code, lines = launched.finish()
    # The first of the signals.
    assert code == 130
    assert lines[-3:] == [
        "system | SIGINT received",
        "system | SIGTERM received",
        "system | p0 stopped (rc=-9)",
    ]


def test_all_end_when_the_reader_of_the_output_is_gone(launch):
    launched = launch(f"import time\nwhile True: print('x', flush=True); time.sleep(.01)\n{WAIT}")
    launched.read_until("x")
    children = launched.children()
    launched.process.stdout.close()
    assert launched.process.wait(15) == 143
    assert none_lives(children)


def test_a_reader_that_pauses_delays_no_process(launch, tmp_path):
    # Far more than a pipe and the queue hold.
    written = tmp_path / "written"
    program = f"for index in range(30000): print('x' * 100)\nopen({str(written)!r}, 'w')\n{WAIT}"
    launched = launch(program)
    wait_for(written.exists)
    launched.process.send_signal(signal.SIGTERM)
    launched.read_until("lines were dropped")
    assert launched.finish()[0] == 143


def has_handlers(server):
    """Return whether SIGTERM is caught: proc(5). Python itself catches SIGINT alone."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    (caught,) = [line.split()[1] for line in text.splitlines() if line.startswith("SigCgt")]
    return int(caught, 16) >> (signal.SIGTERM - 1) & 1


STATES = {
    "imports": has_handlers,
    "starts": lambda server: "gateway started" in server.log.read_text(),
    "answers": lambda server: server.ask("/health")[0] in (200, 503),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_server_stopped_while_it_starts_ends_in_good_order(make_folder, state, number, expected):
    server = Server(make_folder(), "-m", str(checkpoint.build("llama")))
    try:
        wait_for(lambda: STATES[state](server))
        processes = server.tree()
        server.process.send_signal(number)
        assert server.process.wait(15) == expected
    finally:
        server.close()
    assert none_lives(processes)
    assert "Traceback" not in server.log.read_text()


def test_honcho_serves_and_stops_with_a_procfile(make_folder):
    folder, port = make_folder(), find_free_port()
    worker = {"name": "one", "kind": "text", "model": str(checkpoint.build("llama"))}
    config = write_fleet(folder, worker, gateway={"port": port})
    planned = process.plan(load_fleet(config), sys.executable, config)
    (folder / "Procfile").write_text(process.render_procfile(planned))
    environ = os.environ | {"TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "honcho", "-f", str(folder / "Procfile"), "start"]
    with (folder / "log").open("wb") as log:
        honcho = subprocess.Popen(command, env=environ, cwd=ROOT, stdout=log, stderr=log)
    try:
        gateway = GatewaySettings(port=port)
        wait_for(lambda: is_ready(gateway))
        processes = psutil.Process(honcho.pid).children(recursive=True)
        honcho.send_signal(signal.SIGINT)
        assert honcho.wait(15) == 130
        wait_for(lambda: none_lives(processes), 5)
    finally:
        honcho.kill()
        honcho.wait()
