"""A house with an audio worker beside its text worker."""

from __future__ import annotations

from contextlib import asynccontextmanager

from shared.fleet import WorkerEntry
from tests.contract.harness import House
from tests.fakes.audio_worker import FakeAudioWorker


class AudioHouse:
    """Tests add the words they say to it."""

    def __init__(self, house: House, **card) -> None:
        self.house = house
        address = f"unix:{house._folder}/a.sock"
        house._entries.append((WorkerEntry(1, "ear", "audio", "", 1, 0.0, {}), (address,)))
        self.worker = FakeAudioWorker(address, **card)

    async def start(self, **settings) -> None:
        await self.worker.start()
        await self.house.start(**settings)


@asynccontextmanager
async def open_audio_house(house: House, kind: type[AudioHouse]):
    """Yield what makes one, with settings of the gateway and fields of the worker's card."""
    house.add_worker()
    made = []

    async def make(settings=None, **card):
        made.append(kind(house, **card))
        await made[0].start(**settings or {})
        return made[0]

    yield make
    made[0].worker.release.set()
    await house.stop()
    await made[0].worker.stop()
