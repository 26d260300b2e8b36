"""An audio worker process: `python -m workers.audio --config FLEET --name NAME`."""

from __future__ import annotations

import asyncio
import sys

from shared.pb import audio_pb2_grpc
from workers import bootstrap
from workers.audio import audio_models
from workers.audio.recognition.transcription import Transcription
from workers.audio.service import AudioService
from workers.audio.speech.utterance import Utterance
from workers.bootstrap import WorkerConfig
from workers.model_thread import ModelThread
from workers.unary import UnaryProcess

_SERVICE = "mlxcel.v1.Audio"


async def _serve(config: WorkerConfig) -> int:
    model_thread: ModelThread[audio_models.AudioModels, Transcription | Utterance] = ModelThread(
        lambda: audio_models.load(config, process.device), config.settings.queue_depth
    )
    process = UnaryProcess(config, model_thread, _SERVICE)
    service = AudioService(model_thread, config.settings.max_duration_s)
    audio_pb2_grpc.add_AudioServicer_to_server(service, process.server)
    return await process.run()


def main() -> None:
    config = bootstrap.start("workers.audio", sys.argv[1:], lambda *_: None)
    bootstrap.exit_process(asyncio.run(_serve(config)))


if __name__ == "__main__":
    main()
