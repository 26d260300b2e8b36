"""A worker that measures texts: `python -m measure --config FLEET --name NAME`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from shared.pb import embed_pb2 as pb
from shared.pb import embed_pb2_grpc, worker_pb2
from workers import bootstrap, hub
from workers.job import Job
from workers.model_thread import ModelThread
from workers.unary import UnaryProcess


class MeasureJob(Job):
    def __init__(self, text: str) -> None:
        super().__init__(0, 0, None)
        self.text = text


class MeasureModel:
    def __init__(self, config) -> None:
        path = hub.locate(config.settings.model, config.folder, revision="", offline=True)
        self.card = worker_pb2.ModelCard(name=Path(path).name, kind=config.entry.kind)

    def step(self, jobs) -> None:
        jobs[0].serve()
        jobs[0].finish(len(jobs[0].text))


class MeasureService(embed_pb2_grpc.EmbedServicer):
    def __init__(self, model_thread) -> None:
        self._model_thread = model_thread

    async def Embed(self, request, context):  # noqa: N802
        with self._model_thread.admit():
            length = await self._model_thread.run(MeasureJob(request.items[0].text))
        return pb.EmbedReply(prompt_tokens=length)


async def serve(config) -> int:
    model_thread = ModelThread(lambda: MeasureModel(config), config.settings.queue_depth)
    process = UnaryProcess(config, model_thread, "mlxcel.v1.Embed")
    embed_pb2_grpc.add_EmbedServicer_to_server(MeasureService(model_thread), process.server)
    return await process.run()


if __name__ == "__main__":
    config = bootstrap.start("measure", sys.argv[1:], lambda settings, folder: None)
    bootstrap.exit_process(asyncio.run(serve(config)))
