"""One response from its parsed body to its stored record.

Owns the order of its steps: compact the history if needed, generate, and store the response and its
turn of the conversation before the client receives the end. Both modes, streaming or not, take the
same steps. Runs in the handler's task; `cancel` is called from another.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from gateway.dialects.base import Stamp
from gateway.dialects.openai.responses import answer, wire
from gateway.dialects.openai.responses.request import (
    ParsedResponse,
    conversation_name,
    input_items,
    make,
)
from gateway.dialects.openai.responses.stream import ResponseStream
from gateway.fleet.text_worker import TextWorker
from gateway.generation.fold import fold
from gateway.generation.generate import Generator
from gateway.responses.compaction import Compacted, CompactionJob, Compactor, default_keep_tokens
from gateway.state.archive import Record, ResponseArchive
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.pb import worker_pb2


@dataclass(frozen=True)
class TurnContext:
    """The parts of the gateway that a turn uses."""

    generator: Generator
    archive: ResponseArchive
    worker: TextWorker
    card: worker_pb2.ModelCard


class ResponseTurn:
    """A response that is being generated.

    Args:
        parsed: its request, with the priority set.
        stamp: with which it was parsed.
    """

    def __init__(self, context: TurnContext, parsed: ParsedResponse, stamp: Stamp) -> None:
        self._context = context
        self._parsed = parsed
        self._stamp = stamp
        self._items = parsed.items
        self._prefix: list[answer.Item] = []
        self._before_tokens: int | None = None
        self._is_cancelled = False
        self.stream = ResponseStream(parsed, context.card.name)

    async def prepare(self) -> None:
        """Determine whether the history must be compacted first.

        Raises:
            ServiceError: the prompt can't be rendered.
        """
        edits = self._parsed.fields.context_management
        if edits:
            compactor, request = self._compactor(), self._parsed.request
            self._before_tokens = await compactor.is_due(request, edits[0].compact_threshold)

    async def answer(self) -> dict[str, Any]:
        """Return the response object.

        Raises:
            ServiceError: the request was refused or failed.
        """
        if self._before_tokens is not None:
            await self._compact(self._before_tokens)
        items = self._context.generator.run(self._parsed.request, self._context.worker)
        async with contextlib.aclosing(items):
            completion = await fold(items)
        output = answer.output(self._parsed, completion, self._prefix)
        response = answer.finish(self._parsed, self._context.card.name, output, completion.finished)
        await self._store(response)
        return response

    async def events(self) -> AsyncGenerator[bytes]:
        """Yield the bytes of the stream.

        Raises:
            ServiceError: the request was refused or failed.
        """
        if self._before_tokens is not None:
            before = {"input_tokens_before": self._before_tokens}
            opened = self.stream.open()
            yield opened + self.stream.custom_event("mlx.compaction.started", **before)
            compacted = await self._compact(self._before_tokens)
            counts = before | {"input_tokens_after": compacted.tokens}
            event = self.stream.custom_event("mlx.compaction.completed", **counts)
            yield event + self.stream.add_item(compacted.item)
        self._refuse_cancelled()
        items = self._context.generator.run(self._parsed.request, self._context.worker)
        async with contextlib.aclosing(items):
            async for batch in items:
                data = b"".join(map(self.stream.feed, batch))
                if self.stream.response is not None:
                    await self._store(self.stream.response)
                yield data

    async def cancel(self) -> dict[str, Any]:
        """Cancel the response; return its object."""
        self._is_cancelled = True
        response = self.stream.cancel()
        self._context.generator.cancel(self._stamp.request_id)
        await self._store(response)
        return response

    def _refuse_cancelled(self) -> None:
        if self._is_cancelled:
            raise ServiceError("cancelled", "The request was cancelled.")

    async def _compact(self, before_tokens: int) -> Compacted:
        parsed, stamp = self._parsed, self._stamp

        def rebuild(items: list[msgspec.Raw]) -> pb.GenerateRequest:
            return make(parsed.fields, items, stamp).request

        (edit,) = parsed.fields.context_management or [wire.ContextEdit("compaction")]
        job = CompactionJob(
            fields=parsed.fields,
            items=parsed.items,
            stamp=stamp,
            rebuild=rebuild,
            keep_tokens=default_keep_tokens(self._context.card, edit.compact_threshold),
            max_tokens=None,
            priority=parsed.request.priority,
            counted=False,
        )
        compacted = await self._compactor().compact(job, before_tokens)
        priority = parsed.request.priority
        self._parsed = make(parsed.fields, compacted.items, stamp)
        self._parsed.request.priority = priority
        self._items = compacted.pinned
        self._prefix = [compacted.item]
        return compacted

    def _compactor(self) -> Compactor:
        return Compactor(self._context.generator, self._context.worker, self._context.card)

    async def _store(self, response: dict[str, Any]) -> None:
        """Store a response and its turn of the conversation, unless `store` is false."""
        fields = self._parsed.fields
        if fields.store is False:
            return
        output = [msgspec.Raw(orjson.dumps(item)) for item in response["output"]]
        record = Record(msgspec.Raw(orjson.dumps(response)), [*self._items, *output])
        family = answer.item_family(self._stamp.request_id)
        await self._context.archive.save(response["id"], record, family)
        name = conversation_name(fields)
        if name is not None and response["status"] != "cancelled":
            turn = [*input_items(fields.input), *output]
            await self._context.archive.extend_conversation(name, turn)
