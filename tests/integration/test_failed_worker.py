"""A worker that can't start, and a run directory that loses its files: the others go on.

One server with a healthy worker and one whose model comes and goes. A client asks the healthy one
all the time.
"""

from __future__ import annotations

import http.client
import json
import shutil
import threading

import pytest

from tests import checkpoint
from tests.server import serve_fleet
from tests.wait import wait_for


def complete(server, model) -> tuple[int, dict]:
    """Return status and body of a short completion; status 0 without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    body = {"model": model, "prompt": "a", "max_tokens": 2, "temperature": 0}
    try:
        connection.request("POST", "/v1/completions", json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException):
        return 0, {}
    finally:
        connection.close()


class Client:
    """Asks one model until it is stopped."""

    def __init__(self, server, model) -> None:
        self._server, self._model = server, model
        self._stopped = threading.Event()
        self.statuses: list[int] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopped.wait(0.05):
            self.statuses.append(complete(self._server, self._model)[0])

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


class Site:
    """A server with the workers `good` and `fragile`, and the model folder of the latter."""

    def __init__(self, server, model, source) -> None:
        self.server, self.model, self._source = server, model, source

    def row(self, name="fragile"):
        _, report = self.server.ask("/health")
        return next((r for r in report.get("workers", ()) if r["name"] == name), {})

    def wait_for_state(self, state, name="fragile"):
        return wait_for(lambda: (row := self.row(name)).get("state") == state and row, 30)

    def mend(self):
        shutil.copytree(self._source, self.model, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def site(make_folder):
    folder, source = make_folder(), checkpoint.build("llama")
    model = folder / "fragile-model"
    shutil.copytree(source, model)
    workers = ({"name": "good", "model": str(source)}, {"name": "fragile", "model": str(model)})
    with serve_fleet(folder, *workers) as server:
        yield Site(server, model, source)


def test_a_model_that_is_gone_stops_its_worker_alone_until_it_is_back(site):
    with Client(site.server, "good") as client:
        for lost, words in (
            ("", "fragile-model does not exist"),
            ("config.json", "fragile-model has no config.json"),
        ):
            (site.model / lost).unlink() if lost else shutil.rmtree(site.model)
            site.server.kill_worker("fragile")
            reason = site.wait_for_state("failed")["reason"]
            assert words in reason
            assert str(site.model.parent) not in reason
            status, reply = complete(site.server, "fragile-model")
            assert status == 503
            assert reply["error"]["message"] == f"The worker 'fragile' can't start: {reason}."
            _, listed = site.server.ask("/v1/models/fragile-model")
            assert listed["status"]["reason"] == reason
            site.mend()
            site.wait_for_state("ready")
            assert complete(site.server, "fragile-model")[0] == 200
    assert set(client.statuses) == {200}
    assert len(client.statuses) > 10
    log = site.server.log.read_text()
    assert log.count("error: ") == 2


def test_a_lost_fleet_file_is_put_back(site):
    (site.server.run_directory / "fleet.toml").unlink()
    with Client(site.server, "good") as client:
        site.server.kill_worker("fragile")
        wait_for(lambda: site.row().get("state") != "ready")
        site.wait_for_state("ready")
    assert set(client.statuses) == {200}
    assert (site.server.run_directory / "fleet.toml").exists()


@pytest.mark.parametrize("lost", ["sockets", "folder"])
def test_a_lost_socket_or_folder_is_put_back(site, lost):
    folder = site.server.run_directory
    if lost == "folder":
        shutil.rmtree(folder.parent)
    else:
        for path in folder.glob("*.sock"):
            path.unlink()
    assert complete(site.server, "good")[0] == 200
    (gateway,) = site.server.find("gateway")
    gateway.kill()
    wait_for(lambda: complete(site.server, "good")[0] == 200, 30)
    site.server.wait_until_ready()
    assert (folder / "w0.sock").is_socket()
    with Client(site.server, "good") as client:
        site.server.kill_worker("fragile")
        wait_for(lambda: site.row().get("state") != "ready")
        site.wait_for_state("ready")
    assert set(client.statuses) == {200}
