"""Fixtures of all tests: Redis, without which tests that need it are deselected; `--quick`.

Garbage is not collected while tests are, and never looked for in what their modules have imported:
the official clients and transformers are hundreds of thousands of objects that stay.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import settings

from tests.redis_server import PROGRAM, RedisServer, is_installed

_LEFT_OUT = pytest.StashKey[list[str]]()
# Examples per property under `--quick`.
_FEW: Final = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help=f"leave out the tests marked slow; at most {_FEW} examples per property",
    )


def pytest_configure() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests whose program is not installed, and under `--quick` slow ones."""
    if config.getoption("--quick"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        for item in items:
            _try_few_examples(item)
    lacks = [] if is_installed() else [i for i in items if i.get_closest_marker("redis")]
    config.stash[_LEFT_OUT] = [item.nodeid for item in lacks]
    if lacks:
        config.hook.pytest_deselected(items=lacks)
        items[:] = [item for item in items if item not in lacks]


def _try_few_examples(item: pytest.Item) -> None:
    test = getattr(item, "obj", None)
    found = getattr(test, "_hypothesis_internal_use_settings", None)
    if found is not None and found.max_examples > _FEW:
        test._hypothesis_internal_use_settings = settings(found, max_examples=_FEW)


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
