"""What a text worker has once its model is loaded: intake, prompter and card.

Owns making them from the model and the settings, and the context of a slot. Made once, on the
event loop; nothing in it changes. The engine owns what runs sequences.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path

from mlx_lm.utils import get_total_parameters

from shared.pb import worker_pb2
from shared.settings import TextSettings
from workers.text.cache.prefix_cache import PrefixCache
from workers.text.engine.parts import EngineParts
from workers.text.intake import Intake
from workers.text.model import TextModel
from workers.text.prompt.prompter import Prompter
from workers.text.prompt.template_setting import read_template
from workers.text.sampling.defaults import describe_defaults

log = logging.getLogger(__name__)

_MIN_SLOT_CONTEXT_TOKENS = 512


@dataclass(frozen=True)
class Ready:
    model: TextModel
    card: worker_pb2.ModelCard
    prompter: Prompter
    intake: Intake
    cache: PrefixCache | None
    budget_bytes: int


def make_ready(parts: EngineParts, settings: TextSettings, name: str, folder: Path) -> Ready:
    """Make what serves requests.

    Args:
        name: of the worker in the fleet.
        folder: base of relative paths in the settings.
    """
    model, budget = parts.model, parts.scheduler.memory.budget_bytes
    if parts.scheduler.slots < settings.parallel:
        log.warning("%s can't be batched: one sequence at a time", model.config["model_type"])
    context_tokens = slot_context(settings, model.context_tokens)
    template, kwargs = read_template(settings, folder)
    prompter = Prompter(
        model.tokenizer,
        template,
        kwargs,
        model.think_tags,
        effort=settings.reasoning_effort,
        spm_infill=settings.spm_infill,
    )
    intake = Intake(model, prompter, settings, context_tokens, budget)
    card = _describe(model, settings, context_tokens)
    names = settings.alias or (model.path.name,)
    card.name = names[0]
    card.aliases.extend((*names[1:], name, model.path.name))
    _describe_answers(card, prompter, intake)
    return Ready(model, card, prompter, intake, parts.reuse.cache, budget)


def slot_context(settings: TextSettings, trained_tokens: int) -> int:
    """Return the context of one slot: its part of --ctx-size, or the model's own."""
    if settings.ctx_size <= 0:
        return trained_tokens
    part = max(_MIN_SLOT_CONTEXT_TOKENS, settings.ctx_size // settings.parallel)
    return min(part, trained_tokens)


def _describe(
    model: TextModel, settings: TextSettings, context_tokens: int
) -> worker_pb2.ModelCard:
    tokenizer = model.tokenizer
    return worker_pb2.ModelCard(
        kind="text",
        path=str(model.path),
        model_type=str(model.config.get("model_type", "")),
        created_unix_s=int(time.time()),
        parameters=get_total_parameters(model.network),
        weight_bytes=model.weight_bytes,
        quantization_bits=int((model.config.get("quantization") or {}).get("bits", 0)),
        context_tokens=context_tokens,
        trained_context_tokens=model.context_tokens,
        vocab_tokens=model.vocab_tokens,
        slots=settings.parallel,
        max_batch_size=settings.parallel if model.batches else 1,
        eos_token_ids=sorted(model.end_ids),
        bos_token=tokenizer.bos_token or "",
        eos_token=tokenizer.eos_token or "",
        default_sampling_json=json.dumps(describe_defaults(settings)),
    )


def _describe_answers(card: worker_pb2.ModelCard, prompter: Prompter, intake: Intake) -> None:
    """Add to a card what depends on the chat template."""
    detected = intake.answers.detected
    card.chat_template = prompter.template
    card.tool_call_format = detected.name if detected else ""
    card.reasoning = intake.answers.has_reasoning
    card.infill.CopyFrom(prompter.infill.markers)
