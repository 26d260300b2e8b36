"""A gateway on the test's event loop, with fake workers on real sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.harness import Harness


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    """Yield a gateway that is not started yet."""
    folder = Path(tempfile.mkdtemp(prefix="mlxcel-test-"))
    made = Harness(folder)
    try:
        yield made
    finally:
        await made.stop()
        shutil.rmtree(folder)
