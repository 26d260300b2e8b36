"""Requests, sequences and models without weights, as the text worker's pure modules take them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence as Ids
from pathlib import Path
from typing import Any

from shared.pb import common_pb2
from shared.pb import text_pb2 as pb
from workers.text.answer.output import Output, Style
from workers.text.cache.footprint import Footprint
from workers.text.engine.sequence import Sequence
from workers.text.model import TextModel
from workers.text.sampling.filter import SamplingRule
from workers.text.sampling.penalty import PenaltyRule
from workers.text.sampling.repetition import LoopRule
from workers.text.vocabulary import Vocabulary

HIGH, NORMAL, LOW = (
    common_pb2.PRIORITY_HIGH,
    common_pb2.PRIORITY_NORMAL,
    common_pb2.PRIORITY_LOW,
)
BYTES_PER_TOKEN = 100
_arrivals = itertools.count(1)


def make_sequence(
    vocabulary: Vocabulary,
    *,
    forced_ids: Ids[int] = (),
    stop: Ids[str] = (),
    end_ids: Ids[int] = (),
    max_tokens: int = 1000,
    context_tokens: int = 4096,
    loop: LoopRule | None = None,
    logprobs: int | None = None,
) -> Sequence:
    """Return the sequence of a request; with `forced_ids`, of its second attempt."""
    request = pb.GenerateRequest(key=7, attempt=2 if forced_ids else 1, forced_ids=forced_ids)
    return Sequence(
        request=request,
        prompt=[1, 2, 3],
        sampling=SamplingRule(),
        penalty=PenaltyRule(),
        loop=loop or LoopRule(),
        output=Output(vocabulary, stop, Style()),
        end_ids=frozenset(end_ids),
        max_tokens=max_tokens,
        context_tokens=context_tokens,
        reserved_tokens=3 + max_tokens,
        logprobs=logprobs,
    )


def make_waiting(
    vocabulary: Vocabulary,
    priority: common_pb2.Priority.ValueType = common_pb2.PRIORITY_UNSPECIFIED,
    *,
    queued_s: float = 0.0,
    isolate: bool = False,
    max_tokens: int = 10,
    prompt: list[int] | None = None,
) -> Sequence:
    """Return a sequence for the scheduler; each is younger than those made before it."""
    sequence = make_sequence(vocabulary, max_tokens=max_tokens)
    sequence.prompt = prompt or sequence.prompt
    sequence.request.priority = priority
    sequence.request.arrival_ns = next(_arrivals)
    sequence.request.isolate = isolate
    sequence.queued_s = queued_s
    return sequence


def make_model(tokenizer: Any, *, vocab_tokens: int | None = None, **config: Any) -> TextModel:
    """Return a model that knows its tokenizer and has no weights."""
    size = vocab_tokens or len(tokenizer)
    vocabulary = Vocabulary(tokenizer, size)
    return TextModel(
        path=Path("tiny"),
        network=None,
        tokenizer=tokenizer,
        config=config,
        vocabulary=vocabulary,
        vocab_tokens=size,
        end_ids=frozenset({tokenizer.eos_token_id}),
        keep_ids=(),
        batches=True,
        pads=True,
        context_tokens=4096,
        weight_bytes=0,
        footprint=Footprint(((BYTES_PER_TOKEN, math.inf),), 0),
        new_cache=list,
    )
