"""The model of an embed or rerank worker: one forward pass per step, over rows of several calls.

Owns the padding of a micro-batch, trying the model out, and its card. Runs on the model thread.
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
from workers.embed.batcher import BatchLimits, EncoderJob, bucket, pick
from workers.embed.checkpoint import read_norm
from workers.embed.loading import EncoderParts, Settings, load_parts
from workers.embed.pooling import Vectors
from workers.embed.row import Row
from workers.runtime import Device

log = logging.getLogger(__name__)

# The value of --embd-normalize for the model's own norm.
_UNSET_NORM = -2
# Kernels are compiled at first use: for a single row, and for rows that need a mask.
_TRIALS = (([1, 2, 3],), ([1, 2, 3, 4] * 5, [1, 2]))


class EncoderModel:
    """A model that is ready to run.

    Attributes:
        norm: of vectors, unless a request states one.
    """

    def __init__(
        self, parts: EncoderParts, card: worker_pb2.ModelCard, limits: BatchLimits
    ) -> None:
        self.card = card
        self.norm = card.encoder.normalize
        self.family = parts.checkpoint.model_type
        self.tokenizer = parts.tokenizer
        self.scorer = parts.scorer
        self._network = parts.network
        self._finish = parts.finish
        self._limits = limits

    def step(self, jobs: Sequence[EncoderJob]) -> None:
        """Compute one micro-batch."""
        batch = pick(jobs, self._limits)
        for job, _ in batch:
            job.serve()
        results = self.forward([job.rows[index] for job, index in batch])
        for (job, index), result in zip(batch, results, strict=True):
            job.keep(index, result)

    def forward(self, rows: Sequence[Row]) -> Vectors:
        """Return the vectors or scores of rows, computed together.

        Shape: [rows, components].
        """
        longest = max(map(len, rows))
        width = max(longest, min(bucket(longest), self.tokenizer.longest))
        ids = np.full((len(rows), width), self.tokenizer.pad_id, np.int32)
        types = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row.ids
            if row.types is not None:
                types[index, : len(row)] = row.types
        lengths = mx.array([len(row) for row in rows])
        is_full = all(len(row) == width for row in rows)
        hidden = self._network(
            mx.array(ids), None if is_full else lengths, mx.array(types) if types.any() else None
        )
        return np.array(self._finish(hidden, lengths).astype(mx.float32))


def load_encoder(config: WorkerConfig, device: Device) -> EncoderModel:
    """Load the configured model, and try it out.

    Raises:
        PermanentError: it can't be found, or can't run.
    """
    started_s = time.monotonic()
    settings: Settings = config.settings
    path = hub.locate(
        settings.model, config.folder, revision=settings.revision, offline=settings.offline
    )
    parts = load_parts(path, config.entry.kind, settings, full_precision=device.full_precision)
    model = EncoderModel(parts, _describe(parts, config), _limits(settings, device))
    model.card.encoder.dimensions = _try_out(model)
    log.info("loaded %s in %.1f s", path.name, time.monotonic() - started_s)
    return model


def _limits(settings: Settings, device: Device) -> BatchLimits:
    return BatchLimits(settings.batch_size, max(8, settings.batch_tokens or device.pass_tokens))


def _try_out(model: EncoderModel) -> int:
    """Run the model on a few rows, and return the components of a vector; 0 for a reranker.

    Raises:
        PermanentError: a result is not finite.
    """
    for trial in _TRIALS:
        results = model.forward([model.tokenizer.make_row(ids) for ids in trial])
        if not np.isfinite(results).all():
            raise PermanentError("the model's results are not finite; the checkpoint is broken")
    return 0 if model.scorer is not None else int(results.shape[1])


def _describe(parts: EncoderParts, config: WorkerConfig) -> worker_pb2.ModelCard:
    settings, checkpoint = config.settings, parts.checkpoint
    names = settings.alias or (checkpoint.path.name,)
    norm = settings.embd_normalize if isinstance(settings, EmbedSettings) else _UNSET_NORM
    return worker_pb2.ModelCard(
        name=names[0],
        aliases=dict.fromkeys((*names[1:], config.entry.name, checkpoint.path.name)),
        kind=config.entry.kind,
        path=str(checkpoint.path),
        model_type=checkpoint.model_type,
        created_unix_s=int(time.time()),
        parameters=sum(array.size for array in parts.arrays),
        weight_bytes=sum(array.nbytes for array in parts.arrays),
        quantization_bits=int((checkpoint.config.get("quantization") or {}).get("bits", 0)),
        context_tokens=parts.tokenizer.longest,
        vocab_tokens=int(checkpoint.config["vocab_size"]),
        slots=settings.queue_depth,
        max_batch_size=settings.batch_size,
        queue_limit=settings.queue_depth,
        call_timeout_ms=1000 * settings.request_timeout_s,
        encoder=worker_pb2.EncoderCard(
            pooling=parts.pooling,
            normalize=read_norm(checkpoint) if norm == _UNSET_NORM else norm,
            takes_instruction=parts.scorer is None or parts.scorer.takes_instruction,
        ),
    )
