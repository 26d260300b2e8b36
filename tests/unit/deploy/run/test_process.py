"""A fleet becomes command lines."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from honcho.environ import parse_procfile

from deploy.run import process
from shared.declaration import ConfigError
from shared.fleet import load_fleet

FLEET = """
[[workers]]
name = "small"
model = "a"
replicas = 3
[[workers]]
name = "far"
address = "mac.local:9000"
[[workers]]
name = "big-one"
model = "b"
"""


@pytest.fixture
def plan(tmp_path):
    def make(text, config="fleet.toml"):
        (tmp_path / "fleet.toml").write_text(text)
        return process.plan(load_fleet(tmp_path / "fleet.toml"), "python", Path(config))

    return make


def test_gateway_comes_first_then_each_local_worker_and_replica(plan):
    names = [item.name for item in plan(FLEET)]
    assert names == ["gateway", "small", "small_1", "small_2", "big-one"]


def test_command_is_a_supervisor_around_the_process(plan):
    gateway, *_, last = plan(FLEET)
    supervisor = "python -m deploy.run.supervise --name gateway --config fleet.toml --"
    assert shlex.join(gateway.command) == f"{supervisor} python -m gateway --config fleet.toml"
    assert shlex.join(last.command).endswith(
        "-- python -m workers.text --config fleet.toml --name big-one"
    )


def test_replicas_differ_by_their_number_alone(plan):
    _, first, second, third, _ = plan(FLEET)
    assert "--replica" not in first.command
    assert second.command[-2:] == ("--replica", "1")
    assert third.command[-4:] == ("--name", "small", "--replica", "2")


def test_a_worker_of_another_machine_is_not_started(plan):
    assert not any("far" in item.command for item in plan(FLEET))


def test_odd_paths_survive_the_shell(plan):
    line = plan(FLEET, "my fleet's.toml")[0].line
    assert line.startswith("exec ")
    assert shlex.split(line)[1:] == list(plan(FLEET, "my fleet's.toml")[0].command)


def test_honcho_reads_the_procfile_as_it_was_planned(plan):
    planned = plan(FLEET)
    parsed = parse_procfile(process.render_procfile(planned)).processes
    assert dict(parsed) == {item.name: item.line for item in planned}


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["gateway"], "another process is named 'gateway'"),
        (["a", "a"], "another process is named 'a'"),
        (["two words"], "may hold only"),
    ],
)
def test_names_that_no_process_can_have_are_refused(plan, names, complaint):
    with pytest.raises(ConfigError, match=complaint):
        plan("".join(f'[[workers]]\nname = "{name}"\n' for name in names))


def test_a_replica_may_not_take_a_workers_name(plan):
    with pytest.raises(ConfigError, match="'a_1'"):
        plan('[[workers]]\nname = "a_1"\n[[workers]]\nname = "a"\nreplicas = 2\n')


def test_more_memory_than_there_is_can_not_be_given_away(plan):
    halves = '[[workers]]\nname = "a"\nmemory_share = 0.5\nreplicas = {}\n'
    plan(halves.format(2))
    with pytest.raises(ConfigError, match=r"memory_share adds up to 1\.5"):
        plan(halves.format(3))
    # What others' machines have is theirs.
    plan(halves.format(3) + 'address = "elsewhere:1"\n')


def read_shares(tmp_path, text):
    (tmp_path / "fleet.toml").write_text(text)
    fleet = load_fleet(tmp_path / "fleet.toml")
    return {entry.name: fleet.memory_share(entry) for entry in fleet.workers}


def worker(name, kind="text", more=""):
    return f'[[workers]]\nname = "{name}"\nkind = "{kind}"\n{more}\n'


@pytest.mark.parametrize(
    ("workers", "shares"),
    [
        (worker("a"), {"a": 1}),
        (worker("a") + worker("e", "embed") + worker("s", "audio"), {"a": 6 / 8, "e": 1 / 8}),
        (worker("a") + worker("b"), {"a": 1 / 2, "b": 1 / 2}),
        (worker("a", more="replicas = 3") + worker("b"), {"a": 1 / 4, "b": 1 / 4}),
        (worker("a", more="memory_share = 0.7") + worker("b"), {"a": 0.7, "b": 0.3}),
        (worker("a") + worker("b", more='address = "far:1"'), {"a": 1, "b": 1}),
        (
            worker("a", more='address = "far:1, near:1"') + worker("b", more='address = "far:2"'),
            {"a": 1 / 2, "b": 1 / 2},
        ),
    ],
)
def test_what_no_worker_names_is_divided_among_those_of_a_machine(tmp_path, workers, shares):
    found = read_shares(tmp_path, workers)
    assert {name: found[name] for name in shares} == pytest.approx(shares)


def test_memory_is_not_given_away_whole_while_another_worker_needs_some(plan):
    with pytest.raises(ConfigError, match="at most 1 is possible; nothing is left for b"):
        plan(worker("a", more="memory_share = 1") + worker("b"))
