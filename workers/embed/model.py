"""The model a lane runs: one forward pass per step, over rows of whichever calls wait.

Owns the padding of a micro-batch, trying the model out, and its card. Runs on the lane's thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from shared.lifecycle import PermanentError
from shared.pb import worker_pb2
from shared.settings import EmbedSettings
from workers import hub
from workers.bootstrap import WorkerConfig
from workers.embed import checkpoint as checkpoints
from workers.embed import loading
from workers.embed.batcher import BatchLimits, Work, bucket, pick
from workers.embed.loading import EncoderParts, Settings
from workers.embed.pooling import Vectors
from workers.embed.row import Row
from workers.runtime import Device

log = logging.getLogger(__name__)

_RERANK_ROWS = 8
_DEFAULT_TIMEOUT_S = 120
# What --embd-normalize has for "as the model was trained".
_UNSET_NORM = -2
# Kernels are compiled at first use: for a row alone, and for rows that need a mask.
_TRIALS = (([1, 2, 3],), ([1, 2, 3, 4] * 5, [1, 2]))


class EncoderModel:
    """A model that is ready to run.

    Attributes:
        norm: given to vectors when a request names none.
    """

    def __init__(
        self, parts: EncoderParts, card: worker_pb2.ModelCard, limits: BatchLimits
    ) -> None:
        self.card = card
        self.norm = card.encoder.normalize
        self.family = parts.checkpoint.model_type
        self.tokenizer = parts.tokenizer
        self.judge = parts.judge
        self._network = parts.network
        self._finish = parts.finish
        self._limits = limits

    def step(self, jobs: Sequence[Work]) -> None:
        """Compute one micro-batch."""
        batch = pick(jobs, self._limits)
        for work, _ in batch:
            work.serve()
        results = self.forward([work.rows[index] for work, index in batch])
        for (work, index), result in zip(batch, results, strict=True):
            work.keep(index, result)

    def forward(self, rows: Sequence[Row]) -> Vectors:
        """Return what rows become, computed together.

        Shape: [rows, components].
        """
        longest = max(map(len, rows))
        width = max(longest, min(bucket(longest), self.tokenizer.longest))
        ids = np.full((len(rows), width), self.tokenizer.pad_id, np.int32)
        types = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row.ids
            if row.types is not None:
                types[place, : len(row)] = row.types
        lengths = mx.array([len(row) for row in rows])
        is_full = all(len(row) == width for row in rows)
        hidden = self._network(
            mx.array(ids), None if is_full else lengths, mx.array(types) if types.any() else None
        )
        return np.array(self._finish(hidden, lengths).astype(mx.float32))


def load(place: WorkerConfig, device: Device) -> EncoderModel:
    """Load the model of a place in the fleet, and try it out.

    Raises:
        PermanentError: it is not to be had, or can't run.
    """
    started_s = time.monotonic()
    settings: Settings = place.settings
    path = hub.locate(
        settings.model, place.folder, revision=settings.revision, offline=settings.offline
    )
    parts = loading.load(path, place.entry.kind, settings, full_precision=device.full_precision)
    model = EncoderModel(parts, _describe(parts, place), _limits(settings, device))
    model.card.encoder.dimensions = _try_out(model)
    log.info("loaded %s in %.1f s", path.name, time.monotonic() - started_s)
    return model


def _limits(settings: Settings, device: Device) -> BatchLimits:
    rows = settings.batch_size or _RERANK_ROWS
    return BatchLimits(max(1, rows), max(8, settings.batch_tokens or device.pass_tokens))


def _try_out(model: EncoderModel) -> int:
    """Run the model on a few rows, and return the components of a vector; 0 for a reranker.

    Raises:
        PermanentError: it gives no finite numbers; serving it would give garbage.
    """
    for trial in _TRIALS:
        results = model.forward([model.tokenizer.take(ids) for ids in trial])
        if not np.isfinite(results).all():
            raise PermanentError("the model gives no finite numbers; the checkpoint is broken")
    return 0 if model.judge is not None else int(results.shape[1])


def _describe(parts: EncoderParts, place: WorkerConfig) -> worker_pb2.ModelCard:
    """Return the card of a loaded checkpoint."""
    settings, checkpoint = place.settings, parts.checkpoint
    names = settings.alias or (checkpoint.path.name,)
    norm = settings.embd_normalize if isinstance(settings, EmbedSettings) else _UNSET_NORM
    return worker_pb2.ModelCard(
        name=names[0],
        aliases=dict.fromkeys((*names[1:], place.entry.name, checkpoint.path.name)),
        kind=place.entry.kind,
        path=str(checkpoint.path),
        model_type=checkpoint.model_type,
        created_unix_s=int(time.time()),
        parameters=sum(array.size for array in parts.arrays),
        weight_bytes=sum(array.nbytes for array in parts.arrays),
        quantization_bits=int((checkpoint.config.get("quantization") or {}).get("bits", 0)),
        context_tokens=parts.tokenizer.longest,
        vocab_tokens=int(checkpoint.config["vocab_size"]),
        slots=settings.queue_depth,
        max_batch_size=settings.batch_size or _RERANK_ROWS,
        queue_limit=max(1, settings.queue_depth),
        call_timeout_ms=1000 * (settings.request_timeout_s or _DEFAULT_TIMEOUT_S),
        encoder=worker_pb2.EncoderCard(
            pooling=parts.pooling,
            normalize=checkpoints.read_norm(checkpoint) if norm == _UNSET_NORM else norm,
            takes_instruction=parts.judge is None or parts.judge.takes_instruction,
        ),
    )
