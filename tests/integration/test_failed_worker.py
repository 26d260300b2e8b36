"""A worker that can't start, and a run directory that loses its files: the others go on.

One server with a healthy worker and one whose model comes and goes, of a made-up kind that starts
fast. A client asks the healthy one all the time.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import threading

import pytest

from tests.server import ROOT, serve_fleet
from tests.wait import wait_for

FOLDER = ROOT / "tests" / "fakes" / "new_kind"
PATHS = {"PYTHONPATH": f"{FOLDER}{os.pathsep}{ROOT}"}


def measure(server, model) -> tuple[int, dict]:
    """Return status and body of a request; status 0 without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("POST", "/v1/measure", json.dumps({"model": model, "input": "a"}))
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
        while not self._stopped.wait(0.1):
            self.statuses.append(measure(self._server, self._model)[0])

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

    def kill(self):
        """Kill the worker `fragile`."""
        (found,) = self.server.find("measure", "fragile")
        found.kill()

    def mend(self):
        shutil.copytree(self._source, self.model, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def site(make_folder):
    folder = make_folder()
    source, model = folder / "good-model", folder / "fragile-model"
    source.mkdir()
    (source / "config.json").write_text("{}")
    shutil.copytree(source, model)
    workers = (
        {"name": name, "kind": "measure", "model": str(path)}
        for name, path in (("good", source), ("fragile", model))
    )
    with serve_fleet(folder, *workers, environ=PATHS) as server:
        yield Site(server, model, source)


def test_a_model_that_is_gone_stops_its_worker_alone_until_it_is_back(site):
    with Client(site.server, "good") as client:
        for lost, words in (
            ("", "fragile-model does not exist"),
            ("config.json", "fragile-model has no config.json"),
        ):
            (site.model / lost).unlink() if lost else shutil.rmtree(site.model)
            site.kill()
            row = wait_for(lambda: words in (row := site.row()).get("reason", "") and row, 30)  # noqa: B023
            reason = row["reason"]
            assert row["state"] == "failed"
            assert str(site.model.parent) not in reason
            status, reply = measure(site.server, "fragile-model")
            assert status == 503
            assert reply["error"]["message"] == f"The worker 'fragile' can't start: {reason}."
            _, listed = site.server.ask("/v1/models/fragile-model")
            assert listed["status"]["reason"] == reason
            site.mend()
            site.wait_for_state("ready")
            assert measure(site.server, "fragile-model")[0] == 200
    assert set(client.statuses) == {200}
    assert client.statuses
    log = site.server.log.read_text()
    assert log.count("error: ") == 2


def test_a_lost_fleet_file_is_put_back(site):
    (site.server.run_directory / "fleet.toml").unlink()
    with Client(site.server, "good") as client:
        site.kill()
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
    assert measure(site.server, "good")[0] == 200
    (gateway,) = site.server.find("gateway")
    gateway.kill()
    wait_for(lambda: measure(site.server, "good")[0] == 200, 30)
    site.server.wait_until_ready()
    assert (folder / "w0.sock").is_socket()
    with Client(site.server, "good") as client:
        site.kill()
        wait_for(lambda: site.row().get("state") != "ready")
        site.wait_for_state("ready")
    assert set(client.statuses) == {200}
