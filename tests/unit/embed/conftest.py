from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import settings

from shared.fleet import WorkerEntry
from shared.kind import KINDS
from tests import encoder_checkpoint
from workers import runtime
from workers.bootstrap import WorkerConfig
from workers.embed.model import load_encoder

# The same examples in every run, and no time limit, since the machine may be busy.
settings.register_profile("embed", derandomize=True, deadline=None)
settings.load_profile("embed")


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory):
    """Write a tiny checkpoint."""

    def make(family, **options):
        return encoder_checkpoint.build(tmp_path_factory.mktemp("m") / family, family, **options)

    return make


@pytest.fixture(scope="session")
def load_model():
    """Load a folder as the worker does."""

    def load(folder, kind="embed", **options):
        settings = dataclasses.replace(KINDS[kind].settings(), model=str(folder), **options)
        config = WorkerConfig(
            Path("/"), WorkerEntry(0, kind, kind, "", 1, 0.0, {}), settings, "", 1.0
        )
        return load_encoder(config, runtime.Device("CPU", 1 << 30, 512, full_precision=True))

    return load
