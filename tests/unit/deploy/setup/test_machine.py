"""Machines that can't run the server, as they describe themselves."""

from __future__ import annotations

import pytest

from deploy.setup import machine
from deploy.setup.machine import Machine


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Machine("darwin", "x86_64", is_translated=True, macos=(15, 6)), "PYTHON=/opt/homebrew"),
        (Machine("darwin", "x86_64", macos=(14, 1)), "needs Apple silicon"),
        (Machine("darwin", "arm64", macos=(13, 7, 8)), "this is macOS 13.7.8; MLX needs macOS 14"),
    ],
    ids=["Rosetta", "Intel", "old macOS"],
)
def test_a_machine_that_can_not_run_the_server_is_one_line(found, words):
    fault = machine.find_fault(found)
    assert words in fault
    assert "\n" not in fault


@pytest.mark.parametrize(
    "found",
    [
        Machine("darwin", "arm64", macos=(14, 0)),
        Machine("darwin", "arm64", macos=(26, 1)),
        Machine("darwin", "arm64"),
        Machine("linux", "x86_64"),
        Machine("linux", "aarch64"),
    ],
    ids=str,
)
def test_other_machines_pass(found):
    assert machine.find_fault(found) is None


def test_this_machine_passes():
    assert machine.find_fault(machine.describe()) is None


def test_versions_are_compared_as_numbers():
    assert machine.parse_version("15.6.1") == (15, 6, 1)
    assert machine.parse_version("26") == (26,)
    assert machine.parse_version("") == ()
