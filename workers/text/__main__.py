"""A text worker process: `python -m workers.text --config FLEET --name NAME`.

Reads its own section of the fleet file, takes its lock, opens its socket, loads the model on the
engine thread and serves until it is told to stop, its supervisor is gone, or a step fails.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sys
from pathlib import Path

from shared import lifecycle
from shared.declaration import ConfigError
from shared.pb import text_pb2_grpc
from shared.rpc import WorkerServer
from shared.settings import TextSettings
from workers import hub, runtime
from workers import place as places
from workers.text import model as models
from workers.text.command import Stop
from workers.text.engine import Engine, Frames, Parts
from workers.text.footprint import plan_budget
from workers.text.intake import Intake
from workers.text.loop import default_rule
from workers.text.preference import describe_defaults
from workers.text.prefix_cache import PrefixCache, PrefixLimits
from workers.text.prefix_store import PrefixStore, model_digest
from workers.text.prompt import Prompter
from workers.text.reuse import Reuse
from workers.text.scheduler import MemoryPlan, Scheduler
from workers.text.service import Ready, TextService

log = logging.getLogger("worker")

MIN_SLOT_CONTEXT_TOKENS = 512
_FLUSH_S = 0.3
_DEFAULT_SHARE = 0.6


class Worker:
    """The parts of one process and how they end. Lives on the event loop."""

    def __init__(self, place: places.Place) -> None:
        self._settings: TextSettings = place.settings
        self._entry = entry = place.entry
        self._folder = place.folder
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._exit_code = 0
        self._device = runtime.set_up(entry.memory_share or _DEFAULT_SHARE)
        log.info("computing on %s, %d MB", self._device.name, self._device.memory_bytes >> 20)
        self._engine = Engine(self._load, self)
        self._service = TextService(self._engine, secrets.token_hex(8))
        self._server = WorkerServer(place.address, "mlxcel.v1.Text")
        text_pb2_grpc.add_TextServicer_to_server(self._service, self._server.server)

    async def run(self) -> int:
        """Serve until the end; return the exit code."""
        lifecycle.on_stop_signals(self._loop, self._stopping.set)
        orphaned = lambda: self._loop.call_soon_threadsafe(self._stopping.set)  # noqa: E731
        beat = lifecycle.Beat(self._engine.step_age_s, orphaned)
        beat.start()
        await self._server.start()
        self._engine.thread.start()
        await self._stopping.wait()
        self._service.draining = True
        self._engine.put(Stop())
        await self._server.stop(_FLUSH_S)
        beat.stop()
        return self._exit_code

    # --------------------------------------------------- on the engine thread

    def _load(self) -> Parts:
        settings = self._settings
        path = hub.locate(
            settings.model, self._folder, revision=settings.revision, offline=settings.offline
        )
        model = models.load(path, settings)
        budget = plan_budget(
            self._device.memory_bytes, model.weight_bytes, settings.request_memory_budget
        )
        memory = MemoryPlan(model.footprint, budget)
        scheduler = Scheduler(
            settings.parallel if model.batches else 1,
            settings.prefill_chunk,
            memory,
            preempts=settings.preemption,
            pads=model.pads,
        )
        return Parts(model, scheduler, Reuse(self._make_cache(model), memory))

    def _make_cache(self, model: models.TextModel) -> PrefixCache | None:
        settings = self._settings
        if not settings.cache_prompt:
            return None
        store = None
        if settings.prompt_cache_dir:
            template, _ = read_template(settings, self._folder)
            digest = model_digest(
                model.path, template or str(model.tokenizer.chat_template), settings.kv_bits
            )
            folder = self._folder / Path(settings.prompt_cache_dir).expanduser()
            store = PrefixStore(folder, digest, settings.prompt_cache_dir_bytes)
        limits = PrefixLimits(
            settings.prompt_cache_capacity_bytes,
            settings.prompt_cache_max_entries,
            settings.prompt_cache_ttl_s,
            max(1, settings.prompt_cache_min_prefix),
        )
        return PrefixCache(limits, store)

    def ready(self, parts: Parts) -> None:
        """Part of `Listener`."""
        self._loop.call_soon_threadsafe(self._announce, parts)

    def publish(self, step: int, frames: Frames) -> None:
        """Part of `Listener`."""
        self._loop.call_soon_threadsafe(self._service.outbox.deliver, step, frames)

    def ended(self, failure: BaseException | None) -> None:
        """Part of `Listener`."""
        if isinstance(failure, lifecycle.PermanentError):
            lifecycle.exit_permanently(str(failure))
        if failure is not None:
            log.error("the engine ended: %s", failure)
            self._exit_code = lifecycle.EXIT_RESTART
        self._loop.call_soon_threadsafe(self._stopping.set)

    # ------------------------------------------------------ on the event loop

    def _announce(self, parts: Parts) -> None:
        # The engine's threads have started; what is left only hands on what they make.
        lifecycle.give_way()
        settings, model = self._settings, parts.model
        slots, budget = parts.scheduler.slots, parts.scheduler.memory.budget_bytes
        context_tokens = slot_context(settings, model.context_tokens)
        if slots < settings.parallel:
            log.warning("%s can't be batched: one sequence at a time", model.config["model_type"])
        template, kwargs = read_template(settings, self._folder)
        prompter = Prompter(
            model.tokenizer,
            template,
            kwargs,
            model.think_tags,
            effort=settings.reasoning_effort,
            spm_infill=settings.spm_infill,
        )
        names = settings.alias or (model.path.name,)
        card = models.describe(
            model,
            names[0],
            (*names[1:], self._entry.name, model.path.name),
            settings.parallel,
            context_tokens,
            describe_defaults(settings),
        )
        intake = Intake(model, prompter, settings, context_tokens, budget)
        detected = intake.answers.detected
        card.chat_template = prompter.template
        card.tool_call_format = detected.name if detected else ""
        card.reasoning = intake.answers.thinks
        card.infill.CopyFrom(prompter.infill.markers)
        self._service.ready = Ready(model, card, prompter, intake, parts.reuse.cache, budget)
        self._ready_task = self._loop.create_task(self._server.set_ready(ready=True))
        log.info("%s is ready: %d slots of %d tokens", card.name, slots, context_tokens)


def slot_context(settings: TextSettings, trained_tokens: int) -> int:
    """Return the context of one slot: the part of --ctx-size, or what the model knows."""
    if settings.ctx_size <= 0:
        return trained_tokens
    part = max(MIN_SLOT_CONTEXT_TOKENS, settings.ctx_size // settings.parallel)
    return min(part, trained_tokens)


def read_template(settings: TextSettings, folder: Path) -> tuple[str | None, dict[str, object]]:
    """Return the chat template that is given, and the default template variables.

    Raises:
        ConfigError: either can't be read.
    """
    kwargs = read_kwargs(settings)
    if settings.chat_template and settings.chat_template_file:
        raise ConfigError("--chat-template: can't be combined with --chat-template-file")
    if not settings.chat_template_file:
        return settings.chat_template or None, kwargs
    path = folder / Path(settings.chat_template_file).expanduser()
    try:
        return path.read_text(encoding="utf-8"), kwargs
    except (OSError, UnicodeDecodeError) as failure:
        raise ConfigError(f"--chat-template-file: {failure}") from None


def read_kwargs(settings: TextSettings) -> dict[str, object]:
    """Return the default template variables; those given by name win.

    Raises:
        ConfigError: they are no JSON object.
    """
    kwargs: dict[str, object] = {}
    if settings.reasoning != "auto":
        kwargs["enable_thinking"] = settings.reasoning == "on"
    if settings.reasoning_preserve:
        kwargs["preserve_thinking"] = True
    if settings.chat_template_kwargs:
        try:
            given = json.loads(settings.chat_template_kwargs)
        except ValueError as failure:
            raise ConfigError(f"--chat-template-kwargs: {failure}") from None
        if not isinstance(given, dict):
            raise ConfigError("--chat-template-kwargs: not a JSON object")
        kwargs |= given
    return kwargs


def check(settings: TextSettings, folder: Path) -> None:
    """Refuse settings that can't work before anything heavy starts.

    Raises:
        ConfigError: what is wrong.
    """
    if settings.kv_bits not in (0, 4, 8):
        raise ConfigError(f"--kv-bits: {settings.kv_bits} is neither 4 nor 8")
    try:
        default_rule(settings.loop_detection, "")
    except ValueError as failure:
        raise ConfigError(f"--loop-detection: {failure}") from None
    read_template(settings, folder)


async def _serve(place: places.Place) -> int:
    return await Worker(place).run()


def main() -> None:
    """Run the process."""
    place = places.take("workers.text", {"text": TextSettings}, sys.argv[1:], check)
    places.leave(asyncio.run(_serve(place)))


if __name__ == "__main__":
    main()
