"""A start that can't succeed is one error line before anything starts."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from deploy import cli
from deploy.run import announce, parent_watch, preflight
from deploy.run.announce import is_ready
from deploy.setup import openblas
from shared import rundir
from shared.kind import DEFAULT
from shared.lifecycle import EXIT_PERMANENT, PermanentError
from shared.settings import GatewaySettings

LOCAL = "127.0.0.1"


@pytest.fixture
def taken():
    """A port that something listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_free_port_passes(taken):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    preflight.check_port("127.0.0.1", free)


def test_a_port_of_another_program_is_refused(taken):
    with pytest.raises(PermanentError, match=f"port {taken} is in use by another program"):
        preflight.check_port("127.0.0.1", taken)


def test_every_address_of_a_name_is_checked(taken, monkeypatch):
    addresses = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, taken)) for host in ("127.0.0.2", LOCAL)
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    with pytest.raises(PermanentError, match="in use by another program"):
        preflight.check_port("localhost", taken)


def test_a_listener_is_found_even_where_binding_succeeds(taken, monkeypatch):
    """As on BSD, where a listener on every address does not keep others from one of them."""
    monkeypatch.setattr(socket.socket, "bind", lambda *_: None)
    with pytest.raises(PermanentError, match="in use by another program"):
        preflight.check_port(LOCAL, taken)


def test_a_port_of_this_server_is_refused_and_says_so(taken, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock = rundir.Lock(rundir.open_run_directory(taken) / "w0.lock")
    assert lock.acquire(0)
    with pytest.raises(PermanentError, match=f"mlxcel-server already runs on port {taken}"):
        preflight.check_port("127.0.0.1", taken)
    lock.release()
    with pytest.raises(PermanentError, match="another program"):
        preflight.check_port("127.0.0.1", taken)


def test_address_is_read_from_environment_and_file(tmp_path):
    path = tmp_path / "fleet.toml"
    path.write_text('[gateway]\nport = 1000\nhost = "::"\n')
    assert preflight.read_address(path, {}) == ("::", 1000)
    environ = {"MLXCEL_PORT": "2000", "LLAMA_ARG_PORT": "3000", "LLAMA_ARG_HOST": "127.0.0.2"}
    assert preflight.read_address(path, environ) == ("127.0.0.2", 2000)
    with pytest.raises(PermanentError, match="port 'x' is not a whole number"):
        preflight.read_address(path, {"MLXCEL_PORT": "x"})
    path.write_text("")
    assert preflight.read_address(path, {}) == ("127.0.0.1", 8080)
    path.write_text("[gateway")
    with pytest.raises(PermanentError, match=r"fleet\.toml: "):
        preflight.read_address(path, {})


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_refused(port):
    with pytest.raises(PermanentError, match="not between 1 and 65535"):
        preflight.check_port("127.0.0.1", port)


def test_an_unused_socket_path_passes(tmp_path):
    path = tmp_path / "s.sock"
    preflight.check_port(str(path), 8080)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(PermanentError, match="another process listens"):
            preflight.check_port(str(path), 8080)
    # A stale socket is replaced.
    preflight.check_port(str(path), 8080)
    assert preflight.find_port(str(path)) > 0
    with pytest.raises(PermanentError, match="the folder does not exist"):
        preflight.check_port(str(tmp_path / "no" / "s.sock"), 8080)
    path.unlink()
    path.write_text("a file")
    with pytest.raises(PermanentError, match="is not a socket"):
        preflight.check_port(str(path), 8080)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(PermanentError, match=r"can't listen on 192\.0\.2\.1"):
        preflight.check_port("192.0.2.1", 18080)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-m", "./no-such-folder"], "does not exist"),
        (["-m", "/"], "has no config.json"),
        (["--config", "no-such.toml"], "no such file"),
        (["--port", "many"], "'many' is not a whole number"),
        (["--host", "s.sock"], "--host: 's.sock' is not an address, or the path of a socket that"),
        (["--port", "70000"], "--port: '70000' is not a whole number from 0 to 65535"),
    ],
)
def test_a_start_that_can_not_succeed_is_one_line(words, complaint, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", {"MLXCEL_PORT": "18943"})
    with pytest.raises(SystemExit) as ending:
        cli.main(words)
    assert ending.value.code == EXIT_PERMANENT
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert complaint in err


def announcement(gateway, *kinds):
    return announce.render(gateway, announce.choose_trial(kinds or (DEFAULT,)))


def test_announcement_connects_to_an_address_that_answers():
    text = announcement(GatewaySettings(host="0.0.0.0", port=9))
    assert "curl -N http://127.0.0.1:9/v1/chat/completions" in text
    assert "http://[::1]:9/" in announcement(GatewaySettings(host="::", port=9))


@pytest.mark.parametrize(
    ("kind", "path"),
    [("embed", "/v1/embeddings"), ("rerank", "/v1/rerank"), ("audio", "/v1/models")],
)
def test_announcement_suggests_a_path_that_the_fleet_serves(kind, path):
    assert f"curl -N http://127.0.0.1:9{path}" in announcement(GatewaySettings(port=9), kind)


def test_announcement_names_a_socket_and_its_server_is_found_there(tmp_path):
    gateway = GatewaySettings(host=str(tmp_path / "s.sock"))
    assert f"answers at {gateway.host} " in announcement(gateway)
    assert f"curl -N --unix-socket {gateway.host} http://localhost/v1/chat" in announcement(gateway)
    assert not is_ready(gateway)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(gateway.host)
        listener.listen()

        def answer():
            with listener.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert is_ready(gateway)
        thread.join()


def test_announcement_mentions_a_key_only_where_one_is_needed():
    assert "Authorization" not in announcement(GatewaySettings())
    text = announcement(GatewaySettings(api_key=("secret",)))
    assert "Authorization: Bearer YOUR-KEY" in text
    assert "secret" not in text


def test_find_parent_reads_any_process():
    assert parent_watch.find_parent(os.getpid()) == os.getppid()
    assert parent_watch.find_parent(2**22 + 1) is None


def test_openblas_is_preloaded_first():
    library = Path("/lib/blas.so")
    assert openblas.preload({}, library)["LD_PRELOAD"] == "/lib/blas.so"
    assert openblas.preload({"LD_PRELOAD": "/x.so"}, library)["LD_PRELOAD"] == "/lib/blas.so /x.so"
    once = openblas.preload({}, library)
    assert openblas.preload(once, library) == once
    assert openblas.preload({"A": "b"}, None) == {"A": "b"}


def test_idle_threads_of_openblas_sleep_soon_by_default():
    library, name = Path("/lib/blas.so"), "OPENBLAS_THREAD_TIMEOUT"
    assert openblas.preload({}, library)[name] == "4"
    assert openblas.preload({name: "20"}, library)[name] == "20"


def test_openblas_is_found_for_any_architecture(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    assert openblas.find(tmp_path) is None
    library = tmp_path / "aarch64-linux-gnu" / "openblas-pthread" / "libopenblas.so.0"
    library.parent.mkdir(parents=True)
    library.touch()
    assert openblas.find(tmp_path) == library
    monkeypatch.setattr("sys.platform", "darwin")
    assert openblas.find(tmp_path) is None
