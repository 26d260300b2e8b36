"""Helper programs start beside a gRPC server without its fork handlers, and inherit nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from shared.errors import ServiceError
from tests.server import ROOT
from workers.audio.sound import program

# Starts of each program; 150 of each show more and take a minute.
STARTS = int(os.environ.get("TEST_STARTS", "20"))
# Forks as macOS does: CPython uses vfork on Linux only.
_STARTS = """
import asyncio, subprocess, sys
from shared.pb import worker_pb2, worker_pb2_grpc
from shared.rpc import WorkerServer, open_channel
from workers.audio.sound import encoding
from workers.audio.speech import phoneme

folder, starts, spawns = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "spawn"
subprocess._USE_VFORK, subprocess._USE_POSIX_SPAWN = False, spawns

class Servicer(worker_pb2_grpc.WorkerServicer):
    async def Describe(self, request, context):
        return worker_pb2.ModelCard(name="a" * 10_000)

async def tone():
    yield bytes(4_800)

async def encode():
    return [data async for data in encoding.encode(tone(), "flac", 24_000, whole=False)]

async def call(stub, over):
    answers = 0
    while not over.is_set():
        await stub.Describe(worker_pb2.DescribeRequest())
        answers += 1
    return answers

async def main():
    server = WorkerServer(f"unix:{folder}/w.sock", "mlxcel.v1.Worker")
    worker_pb2_grpc.add_WorkerServicer_to_server(Servicer(), server.server)
    await server.start()
    async with open_channel(server.address) as channel:
        over = asyncio.Event()
        calling = asyncio.create_task(call(worker_pb2_grpc.WorkerStub(channel), over))
        for _ in range(starts):
            sound, phonemes = await asyncio.gather(encode(), phoneme.convert("Go", "af_heart"))
            assert sound and phonemes == "ɡˈO"
        over.set()
        assert await calling > starts
    await server.stop(0)

asyncio.run(main())
print("all answered")
"""


@pytest.mark.slow
@pytest.mark.parametrize("means", ["spawn", "fork"])
def test_programs_start_beside_a_grpc_server_without_its_fork_handlers(tmp_path, means):
    words = [sys.executable, "-c", _STARTS, str(tmp_path), str(STARTS), means]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.stderr, run.stdout) == ("", "all answered\n")


async def test_a_program_inherits_no_open_file_and_no_socket(tmp_path):
    with (tmp_path / "open").open("w") as file, socket.socket() as connection:
        numbers = {str(file.fileno()), str(connection.fileno())}
        command = [program.find("ls"), "/dev/fd/"]
        async with program.run(command, stdout=program.PIPE) as process:
            listed, _ = await process.communicate()
    assert {"0", "1", "2"} <= set(listed.decode().split())
    assert not numbers & set(listed.decode().split())


async def test_programs_are_started_by_posix_spawn(monkeypatch):
    started = []
    spawn = os.posix_spawn

    def record(path, *words, **options):
        started.append(path)
        return spawn(path, *words, **options)

    monkeypatch.setattr(os, "posix_spawn", record)
    async with program.run([program.find("true")]) as process:
        await process.wait()
    assert started == [program.find("true")]


def test_a_program_is_found_by_its_absolute_path(monkeypatch, tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert Path(program.find("tool")) == tmp_path / "tool"
    assert program.find("other") is None


def test_a_missing_program_is_an_error_that_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError, match="brew install ffmpeg") as caught:
        program.require("ffmpeg", "nothing works", "file")
    assert (caught.value.code, caught.value.param) == ("not_implemented", "file")
