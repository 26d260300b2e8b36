"""A text worker process: `python -m workers.text --config FLEET --name NAME`.

Reads its own section of the fleet file, takes its lock, opens its socket, loads the model on the
engine thread and serves until it is stopped, its supervisor is gone, or a step fails.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from shared import lifecycle
from shared.declaration import ConfigError
from shared.pb import text_pb2_grpc, worker_pb2
from shared.settings import TextSettings
from workers import bootstrap, hub
from workers.bootstrap import WorkerConfig
from workers.process import WorkerProcess
from workers.text.cache.footprint import plan_budget
from workers.text.cache.prefix_cache import PrefixCache, PrefixLimits
from workers.text.cache.prefix_store import PrefixStore, model_digest
from workers.text.engine.active_requests import Frames
from workers.text.engine.loop import Engine
from workers.text.engine.parts import EngineParts
from workers.text.engine.reuse import Reuse
from workers.text.engine.scheduler import MemoryPlan, Scheduler
from workers.text.heartbeat import make_heartbeat
from workers.text.model import TextModel, load_text_model
from workers.text.prompt.template_setting import read_template
from workers.text.ready import make_ready
from workers.text.sampling.repetition import default_rule
from workers.text.service import TextService

log = logging.getLogger("worker")


class TextProcess(WorkerProcess):
    """The parts of one process; the engine's `EngineObserver`."""

    def __init__(self, config: WorkerConfig) -> None:
        super().__init__(config, "mlxcel.v1.Text")
        self._settings: TextSettings = config.settings
        self._name = config.entry.name
        self._folder = config.folder
        self._engine = Engine(self._load, self)
        self._service = TextService(self._engine, self.worker_service)
        text_pb2_grpc.add_TextServicer_to_server(self._service, self.server)

    async def run(self) -> int:
        """Serve until the process is stopped; return the exit code."""
        return await self.serve(self._engine)

    @property
    def card(self) -> worker_pb2.ModelCard:
        return self._service.require_ready().card

    def read_heartbeat(self) -> worker_pb2.Heartbeat:
        return make_heartbeat(self._engine.snapshot, self._service.require_ready())

    # --------------------------------------------------- on the engine thread

    def _load(self) -> EngineParts:
        settings = self._settings
        path = hub.locate(
            settings.model, self._folder, revision=settings.revision, offline=settings.offline
        )
        model = load_text_model(path, settings)
        budget = plan_budget(
            self.device.memory_bytes, model.weight_bytes, settings.request_memory_budget
        )
        memory = MemoryPlan(model.footprint, budget)
        scheduler = Scheduler(
            settings.parallel if model.batches else 1,
            settings.prefill_chunk,
            memory,
            preempts=settings.preemption,
            pads=model.pads,
        )
        return EngineParts(model, scheduler, Reuse(self._make_cache(model), memory))

    def _make_cache(self, model: TextModel) -> PrefixCache | None:
        settings = self._settings
        if not settings.cache_prompt:
            return None
        store = self._open_store(model) if settings.prompt_cache_dir else None
        limits = PrefixLimits(
            settings.prompt_cache_capacity_bytes,
            settings.prompt_cache_max_entries,
            settings.prompt_cache_ttl_s,
            max(1, settings.prompt_cache_min_prefix),
        )
        return PrefixCache(limits, store)

    def _open_store(self, model: TextModel) -> PrefixStore | None:
        """Return the prefix cache on disk, or None when the folder can't be used."""
        settings = self._settings
        template, _ = read_template(settings, self._folder)
        digest = model_digest(
            model.path, template or str(model.tokenizer.chat_template), settings.kv_bits
        )
        folder = cache_folder(settings, self._folder)
        try:
            return PrefixStore(folder, digest, settings.prompt_cache_dir_bytes)
        except OSError as failure:
            log.warning("prompts are not cached on disk: %s", failure)
            return None

    def ready(self, parts: EngineParts) -> None:
        self.wire_weights()
        self._loop.call_soon_threadsafe(self._open, parts)

    def publish(self, step: int, frames: Frames) -> None:
        self._loop.call_soon_threadsafe(self._service.outbox.deliver, step, frames)

    # ------------------------------------------------------ on the event loop

    def _open(self, parts: EngineParts) -> None:
        # The engine's threads have started; the other threads only deliver what they compute.
        lifecycle.use_batch_scheduling()
        ready = make_ready(parts, self._settings, self._name, self._folder)
        self._service.ready = ready
        self._set_ready(f": {parts.scheduler.slots} slots of {ready.card.context_tokens} tokens")


def cache_folder(settings: TextSettings, folder: Path) -> Path:
    """Return the folder of the prefix cache on disk."""
    return folder / Path(settings.prompt_cache_dir).expanduser()


def check(settings: TextSettings, folder: Path) -> None:
    """Refuse settings that can't work, before the model is loaded.

    Raises:
        ConfigError: names the flag and the reason.
    """
    try:
        default_rule(settings.loop_detection, "")
    except ValueError as failure:
        raise ConfigError(f"--loop-detection: {failure}") from None
    read_template(settings, folder)
    if settings.cache_prompt and settings.prompt_cache_dir:
        _make_folder(cache_folder(settings, folder))


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as failure:
        raise ConfigError(f"--prompt-cache-dir: {path}: {failure.strerror}") from None


async def _serve(config: WorkerConfig) -> int:
    return await TextProcess(config).run()


def main() -> None:
    """Run the process."""
    config = bootstrap.start("workers.text", sys.argv[1:], check)
    bootstrap.exit_process(asyncio.run(_serve(config)))


if __name__ == "__main__":
    main()
