"""What a supervisor writes about a failed start, and what clients may read of it."""

from __future__ import annotations

import os
import subprocess

import pytest

from shared import start_failure
from shared.start_failure import StartFailure


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("model folder /a/b/c does not exist; check -m", "model folder c does not exist; check -m"),
        ("/x/y has no config.json; it is no model", "y has no config.json; it is no model"),
        ("another worker serves /run/w0.sock; stop it", "another worker serves w0.sock; stop it"),
        ("can't run ~/bin/tool: no", "can't run tool: no"),
        ("open '/a/b.txt' failed", "open 'b.txt' failed"),
        ("no mlx-community/Qwen3 at https://host/x", "no mlx-community/Qwen3 at https://host/x"),
        ("/Users/an na/my model/config.json is broken", "my model/config.json is broken"),
        ("first line\nsecond", "first line"),
        ("", ""),
    ],
)
def test_clients_read_no_paths_of_the_machine(reason, shown):
    assert start_failure.shorten(reason, ["/Users/an na/my model", "owner/name"]) == shown


def test_what_is_written_is_read_while_the_supervisor_runs(tmp_path):
    path = start_failure.find_file(f"unix:{tmp_path}/r/8080/w0.sock")
    (tmp_path / "r").mkdir()
    assert start_failure.read(path) is None
    failure = StartFailure("broken", was_ready=False, pid=os.getpid())
    start_failure.write(path, failure)
    assert start_failure.read(path) == failure
    gone = subprocess.Popen(["true"])
    gone.wait()
    start_failure.write(path, StartFailure("broken", was_ready=False, pid=gone.pid))
    assert start_failure.read(path) is None
    path.write_text("{")
    assert start_failure.read(path) is None
    start_failure.clear(path)
    assert not path.exists()


def test_a_worker_of_another_machine_has_no_file():
    assert start_failure.find_file("mac:50051") is None
