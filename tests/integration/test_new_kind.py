"""A kind that the product does not know needs one folder, one table entry and one route module.

`tests/fakes/new_kind` holds all three. Its sitecustomize.py adds the entry in every process that
is started with it on PYTHONPATH; no file of the product names the kind.
"""

from __future__ import annotations

import http.client
import json
import os
import plistlib
import subprocess
import sys

import pytest

from tests.server import ROOT, serve, write_fleet
from tests.wait import wait_for

FOLDER = ROOT / "tests" / "fakes" / "new_kind"
PATHS = {"PYTHONPATH": f"{FOLDER}{os.pathsep}{ROOT}"}


def run(*words: str) -> str:
    """Return what a command prints when the kind is in the table."""
    environ = os.environ | PATHS
    done = subprocess.run(words, env=environ, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout


def post(server, path: str, body: dict) -> tuple[int, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def server(make_folder):
    """A server whose -m is a model of the new kind."""
    folder = make_folder()
    model = folder / "ruler"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "measure.json").write_text("{}")
    with serve(folder, "-m", str(model), environ=PATHS) as server:
        yield server


def test_its_worker_is_ready_and_listed(server):
    _, report = server.ask("/health")
    rows = [(row["kind"], row["model"], row["state"]) for row in report["workers"]]
    assert rows == [("measure", "ruler", "ready")]
    _, report = server.ask("/v1/models")
    models = [(entry["id"], entry["capabilities"]) for entry in report["data"]]
    assert models == [("ruler", ["measuring"])]


def test_its_route_answers_and_is_named_where_text_is_not_served(server):
    assert post(server, "/v1/measure", {"input": "two words"}) == (200, {"length": 9})
    status, report = post(
        server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}
    )
    assert status == 501
    assert report["error"]["message"] == "This server has no text model. It serves /v1/measure."


def test_the_start_announcement_suggests_its_trial(server):
    wait_for(lambda: f"{server.url}/v1/measure" in server.log.read_text())


def test_help_and_docs_show_its_settings():
    assert "--measure-model" in run(sys.executable, "-m", "deploy.entry", "deploy.cli", "--help")
    page = run(
        sys.executable,
        "-c",
        "from deploy.generate import document; print(document.render_page())",
    )
    assert '## Measure worker: `[[workers]]` with `kind = "measure"`' in page


def test_procfile_and_launchd_jobs_run_its_module(tmp_path):
    config = write_fleet(tmp_path, {"name": "ruler", "kind": "measure", "model": "ruler"})
    code = (
        "import sys; from pathlib import Path; from deploy.run import process; "
        "from shared.fleet import load_fleet; config = Path(sys.argv[1]); "
        "print(process.render_procfile(process.plan(load_fleet(config), 'python', config)))"
    )
    procfile = run(sys.executable, "-c", code, str(config))
    assert f"-- python -m measure --config {config} --name ruler" in procfile
    jobs = str(tmp_path / "jobs")
    words = ("launchd", "render", jobs, "--per-process", "--config", str(config))
    run(
        sys.executable, "-m", "deploy.entry", "deploy.cli", *words, "--logs", str(tmp_path / "logs")
    )
    job = plistlib.loads((tmp_path / "jobs" / "local.mlxcel.ruler.plist").read_bytes())
    assert job["ProgramArguments"][-6:-4] == ["-m", "measure"]


def test_make_sets_up_its_packages():
    # `make` names no kind: the set-up takes them from the table.
    make = ("make", "--no-print-directory", "-n", "set-up", f"PYTHON={sys.executable}")
    command = run(*make).splitlines()[-1].strip()
    assert command == f"{sys.executable} -S deploy/entry.py deploy.setup.bootstrap"
    text = " ".join(run(*command.split(), "--help").split())
    assert "besides text, embed, audio, measure" in text
