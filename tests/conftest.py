"""Fixtures of all tests: the Redis server; tests that need it are deselected without one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.redis_server import PROGRAM, RedisServer, is_installed

_LEFT_OUT = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests whose program is not installed."""
    lacks = [] if is_installed() else [i for i in items if i.get_closest_marker("redis")]
    config.stash[_LEFT_OUT] = [item.nodeid for item in lacks]
    if lacks:
        config.hook.pytest_deselected(items=lacks)
        items[:] = [item for item in items if item not in lacks]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the deselected tests."""
    names = terminalreporter.config.stash.get(_LEFT_OUT, [])
    if names:
        terminalreporter.section(f"NOT DONE: {len(names)} tests, as {PROGRAM} is not installed")
        terminalreporter.write("".join(f"{name}\n" for name in names))


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield a running server; tests that stop it start it again."""
    server = RedisServer(tmp_path_factory.mktemp("r"))
    try:
        yield server
    finally:
        server.stop()
