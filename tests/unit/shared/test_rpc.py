"""A worker's socket is bound again when it is gone, and running streams go on."""

from __future__ import annotations

import shutil

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from shared import rpc, rundir
from tests.wait import until

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
async def server(tmp_path, monkeypatch):
    monkeypatch.setattr(rpc, "_KEEP_S", 0.02)
    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True, mode=0o700)
    lock = rundir.Lock(folder / "w0.lock")
    assert lock.acquire(0)
    server = rpc.WorkerServer(f"unix:{folder}/w0.sock", "mlxcel.v1.Text", lock=lock)
    await server.start()
    yield server
    await server.stop(0)


async def check(address):
    async with rpc.open_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return (await stub.Check(health_pb2.HealthCheckRequest(), timeout=5)).status


@pytest.mark.parametrize("lost", ["socket", "replaced", "folder"])
async def test_a_socket_that_is_gone_is_bound_again(server, lost):
    path = rundir.Path(server.address.removeprefix("unix:"))
    async with rpc.open_channel(server.address) as channel:
        request = health_pb2.HealthCheckRequest()
        stream = health_pb2_grpc.HealthStub(channel).Watch(request)
        assert (await stream.read()).status == NOT_SERVING
        before = path.stat()
        if lost == "folder":
            shutil.rmtree(path.parent.parent)
        else:
            path.unlink()
        if lost == "replaced":
            path.touch()
        await until(lambda: path.is_socket() and path.stat().st_ctime_ns != before.st_ctime_ns)
        assert await check(server.address) == NOT_SERVING
        # The stream that was open and new connections see the same service.
        await server.set_ready(ready=True)
        assert (await stream.read()).status == SERVING
        assert await check(server.address) == SERVING
    assert not rundir.Lock(path.with_suffix(".lock")).acquire(0)


async def test_a_stopped_server_leaves_no_socket(server):
    await server.stop(0)
    assert not rundir.Path(server.address.removeprefix("unix:")).exists()
