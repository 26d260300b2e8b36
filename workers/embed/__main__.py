"""An embed or rerank worker process: `python -m workers.embed --config FLEET --name NAME`.

Both kinds are one program: a checkpoint is loaded with pooling for embed, or with a scoring head
for rerank.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from shared.declaration import ConfigError
from shared.pb import embed_pb2_grpc
from shared.settings import EmbedSettings
from shared.settings.encoder import RANK
from workers import bootstrap
from workers.bootstrap import WorkerConfig
from workers.embed.batcher import EncoderJob
from workers.embed.model import EncoderModel, load_encoder
from workers.embed.service import EmbedService
from workers.model_thread import ModelThread
from workers.unary import UnaryProcess

_SERVICE = "mlxcel.v1.Embed"


def check(settings: Any, folder: Path) -> None:  # noqa: ARG001 - the same for every kind
    """Refuse settings that can't work before anything heavy starts.

    Raises:
        ConfigError: what is wrong.
    """
    if isinstance(settings, EmbedSettings) and settings.pooling == RANK:
        raise ConfigError("--pooling rank: this worker embeds; a reranker is --reranker-model")


async def _serve(config: WorkerConfig) -> int:
    model_thread: ModelThread[EncoderModel, EncoderJob] = ModelThread(
        lambda: load_encoder(config, process.device), config.settings.queue_depth
    )
    process = UnaryProcess(config, model_thread, _SERVICE)
    embed_pb2_grpc.add_EmbedServicer_to_server(EmbedService(model_thread), process.server)
    return await process.run()


def main() -> None:
    config = bootstrap.start("workers.embed", sys.argv[1:], check)
    bootstrap.exit_process(asyncio.run(_serve(config)))


if __name__ == "__main__":
    main()
