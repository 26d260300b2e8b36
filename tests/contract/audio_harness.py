"""A harness with an audio worker beside its text worker."""

from __future__ import annotations

from contextlib import asynccontextmanager

from shared.fleet import WorkerEntry
from tests.contract.harness import Harness
from tests.fakes.audio_worker import FakeAudioWorker


class AudioHarness:
    """Base class for tests that add their own requests."""

    def __init__(self, harness: Harness, **card) -> None:
        self.harness = harness
        address = f"unix:{harness._folder}/a.sock"
        harness._entries.append((WorkerEntry(1, "ear", "audio", "", 1, 0.0, {}), (address,)))
        self.worker = FakeAudioWorker(address, **card)

    async def start(self, **settings) -> None:
        await self.worker.start()
        await self.harness.start(**settings)


@asynccontextmanager
async def open_audio_harness(harness: Harness, kind: type[AudioHarness]):
    """Yield a factory of harnesses, given gateway settings and fields of the worker's card."""
    harness.add_worker()
    made = []

    async def make(settings=None, **card):
        made.append(kind(harness, **card))
        await made[0].start(**settings or {})
        return made[0]

    yield make
    made[0].worker.release.set()
    await harness.stop()
    await made[0].worker.stop()
