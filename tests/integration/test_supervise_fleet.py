"""Starting and stopping `mlxcel-server` as a user does, on a tiny real checkpoint."""

from __future__ import annotations

import shutil
import signal
import time

import pytest

from shared.lifecycle import EXIT_PERMANENT
from tests import checkpoint
from tests.server import Server, none_lives, serve
from tests.wait import wait_for


@pytest.fixture(scope="module")
def model():
    return checkpoint.build("llama")


@pytest.fixture(scope="module")
def lasting(make_folder, model):
    """A server that every test leaves ready; the last one stops it."""
    with serve(make_folder(), "-m", str(model)) as server:
        yield server


@pytest.fixture(scope="module")
def rivals(make_folder, model):
    """Two servers started on one port at once: the one that runs, and the one that exited."""
    folder = make_folder()
    first = Server(folder, "-m", str(model))
    second = Server(folder, "-m", str(model), port=first.port)
    try:
        yield wait_for(
            lambda: (
                (first.process.poll() is not None and (second, first))
                or (second.process.poll() is not None and (first, second))
            )
        )
    finally:
        first.close()
        second.close()


def test_a_second_start_on_a_port_fails_and_does_not_affect_the_first(lasting, model):
    second = Server(lasting.folder, "-m", str(model), port=lasting.port)
    assert second.process.wait(20) == EXIT_PERMANENT
    assert second.log.read_text() == (
        f"error: mlxcel-server already runs on port {lasting.port}; "
        "stop it or choose another port\n"
    )
    assert lasting.ask("/health")[0] == 200


def test_one_of_two_simultaneous_starts_serves(rivals):
    winner, loser = rivals
    assert loser.process.returncode == EXIT_PERMANENT
    assert "error: " in loser.log.read_text()
    winner.wait_until_ready()
    assert (winner.run_directory / "fleet.toml").exists()
    assert len(winner.find("workers.text")) == 1


def test_a_killed_launcher_leaves_no_process(rivals):
    winner, _ = rivals
    winner.wait_until_ready()
    processes = winner.tree()
    winner.process.kill()
    wait_for(lambda: none_lives(processes), 15)


@pytest.mark.parametrize(
    ("name", "module", "unanswered"),
    [("gateway", "gateway", {0}), ("text", "workers.text", {503})],
    ids=["gateway", "worker"],
)
def test_a_killed_process_is_restarted(lasting, name, module, unanswered):
    (victim,) = lasting.find(module)
    victim.kill()
    seen = wait_for(lambda: {lasting.ask("/health")[0]} - {200}, 5)
    assert seen == unanswered
    lasting.wait_until_ready()
    (heir,) = lasting.find(module)
    assert heir.pid != victim.pid
    reason = f"W {name} supervise: ended by signal 9 (Killed); restart 1 in 0.2 s"
    assert reason in lasting.log.read_text()


def test_the_printed_example_is_one_line_with_the_address(lasting):
    announced = f"curl -N http://127.0.0.1:{lasting.port}/v1/chat/completions"
    wait_for(lambda: announced in lasting.log.read_text())
    (line,) = [line for line in lasting.log.read_text().splitlines() if announced in line]
    assert '"messages"' in line


def test_a_broken_checkpoint_is_reported_once_and_ends_the_server(make_folder, model):
    folder = make_folder()
    broken = folder / "broken"
    shutil.copytree(model, broken)
    (broken / "model.safetensors").write_bytes(b"not weights")
    server = Server(folder, "-m", str(broken))
    try:
        assert server.process.wait(60) == EXIT_PERMANENT
    finally:
        server.close()
    text = server.log.read_text()
    assert text.count("error: ") == 1, text
    assert "broken" in text
    assert "; restart " not in text


def test_interrupt_stops_every_process_within_five_seconds(lasting):
    lasting.wait_until_ready()
    processes = lasting.tree()
    assert len(processes) >= 4
    began_s = time.monotonic()
    lasting.process.send_signal(signal.SIGINT)
    lasting.process.wait(5)
    wait_for(lambda: none_lives(processes), 5 - (time.monotonic() - began_s))
    assert not list(lasting.run_directory.glob("*.sock"))
    assert not (lasting.run_directory / "fleet.toml").exists()
