"""POST /v1/measure: the lengths of some texts."""

from __future__ import annotations

from gateway.context import CONTEXT
from gateway.dialects.openai import errors
from gateway.http.answer import answer_json
from gateway.routes.route import Route
from shared.errors import ServiceError
from shared.kind import KINDS
from shared.pb import embed_pb2 as pb
from shared.pb.embed_pb2_grpc import EmbedStub


def routes():
    return [Route("POST", "/v1/measure", measure, errors)]


async def measure(request):
    body = await request.json()
    worker = request.app[CONTEXT].registry.choose("measure", body.get("model"))
    if worker is None:
        raise ServiceError("not_implemented", KINDS["measure"].unserved("measuring"))
    message = pb.EmbedRequest(items=[{"text": body["input"]}])
    reply = await worker.call(lambda channel: EmbedStub(channel).Embed, message, 10)
    return answer_json({"length": reply.prompt_tokens})
