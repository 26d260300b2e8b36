"""The assertion against sleep, with a caffeinate that reports its start and waits."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from gateway.awake import KeepAwake
from tests.wait import until


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "caffeinate"
    path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/starts\nexec sleep 60\n')
    path.chmod(0o755)
    return path


def starts(program):
    log = program.parent / "starts"
    return log.read_text().splitlines() if log.exists() else []


def running(awake):
    return awake._process is not None and awake._process.poll() is None


async def test_requests_that_overlap_or_follow_share_one_start(program):
    awake = KeepAwake("requests", str(program), linger_s=0.2)
    assert not running(awake)
    with ExitStack() as both:
        both.enter_context(awake.hold())
        both.enter_context(awake.hold())
        await until(lambda: starts(program))
        assert running(awake)
    with awake.hold():
        assert running(awake)
    await until(lambda: not running(awake))
    assert starts(program) == [f"-i -w {os.getpid()}"]
    with awake.hold():
        await until(lambda: len(starts(program)) == 2)
    awake.close()
    assert not running(awake)


async def test_a_program_that_has_ended_is_started_again(program):
    awake = KeepAwake("requests", str(program))
    with awake.hold():
        await until(lambda: starts(program))
        awake._process.kill()
        awake._process.wait()
        with awake.hold():
            await until(lambda: len(starts(program)) == 2)
    awake.close()


async def test_always_and_never(program):
    never = KeepAwake("never", str(program))
    with never.hold():
        assert not running(never)
    always = KeepAwake("always", str(program), linger_s=0.0)
    with always.hold():
        assert running(always)
    assert running(always)
    always.close()


async def test_without_the_program_requests_run(tmp_path, caplog):
    awake = KeepAwake("requests", str(tmp_path / "none"))
    for _ in range(2):
        with awake.hold():
            assert not running(awake)
    assert len(caplog.records) == 1
