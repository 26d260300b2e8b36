"""Which failed starts end the server, and what makes another attempt worthwhile."""

from __future__ import annotations

import pytest

from deploy.run.fleet_copy import FleetCopy
from deploy.run.worker_start import WorkerStart
from shared import start_failure
from shared.fleet import load_fleet

FLEET = '[[workers]]\nname = "a"\nmodel = "./x"\n[[workers]]\nname = "b"\nreplicas = 2\n'
REMOTE = '[[workers]]\nname = "c"\naddress = "mac:1"\n'


@pytest.fixture
def make(tmp_path):
    """Make the starts of a process."""

    def make(process, text=FLEET, *, required=False):
        config = tmp_path / "fleet.toml"
        config.write_text(text)
        return WorkerStart(load_fleet(config), process, tmp_path, config, required=required)

    return make


def test_a_required_worker_ends_the_server_at_its_first_start_only(make):
    start = make("a", required=True)
    assert start.ends_server()
    start.note_ready()
    assert not start.ends_server()


def test_the_last_worker_that_fails_ends_the_server(make):
    starts = [make(name) for name in ("a", "b", "b_1")]
    ends = []
    for start in starts:
        start.report("broken")
        ends.append(start.ends_server())
    assert ends == [False, False, True]


def test_a_worker_that_was_ready_keeps_the_server_up(make):
    first, *others = [make(name) for name in ("a", "b", "b_1")]
    first.note_ready()
    for start in (first, *others):
        start.report("broken")
        assert not start.ends_server()


def test_a_remote_worker_keeps_the_server_up(make):
    start = make("a", '[[workers]]\nname = "a"\n' + REMOTE)
    start.report("broken")
    assert not start.ends_server()


def test_the_reason_names_the_model_without_its_folder(make, tmp_path):
    make("a").report(f"model folder {tmp_path}/x does not exist")
    failure = start_failure.read(tmp_path / "w0.json")
    assert failure.reason == "model folder x does not exist"


def test_a_changed_model_program_or_fleet_file_changes_the_fingerprint(make, tmp_path, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    start = make("a")
    seen = [start.fingerprint()]
    assert start.fingerprint() == seen[0]
    changes = (
        (tmp_path / "x").mkdir,
        lambda: (tmp_path / "x" / "config.json").write_text("{}"),
        lambda: (tmp_path / "x" / "config.json").write_text("{ }"),
        (programs / "ffmpeg").touch,
        (tmp_path / "fleet.toml").unlink,
    )
    for change in changes:
        change()
        seen.append(start.fingerprint())
    assert len(set(seen)) == len(seen)


def test_only_a_fleet_file_in_the_run_directory_is_put_back(tmp_path):
    ours, theirs = tmp_path / "m" / "8080" / "fleet.toml", tmp_path / "fleet.toml"
    ours.parent.mkdir(parents=True)
    for path in (ours, theirs):
        path.write_text(FLEET)
        copy = FleetCopy(path, ours.parent)
        path.unlink()
        copy.restore()
    assert ours.read_text() == FLEET
    assert ours.stat().st_mode & 0o777 == 0o600
    assert not theirs.exists()
    ours.write_text("changed")
    FleetCopy(ours, ours.parent).restore()
    assert ours.read_text() == "changed"
    assert list(ours.parent.iterdir()) == [ours]
