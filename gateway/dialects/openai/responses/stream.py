"""The events of a streamed response.

Owns their order and keys: the response starts, items open and close one after the other, and the
whole response object ends it. Events are numbered from 0 and named like their type; there is no
`[DONE]`. An item is closed when the next event is known, since only the end tells whether it was
cut. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway.dialects.envelope import FORMS, envelope
from gateway.dialects.openai.responses import answer
from gateway.dialects.openai.responses.answer import ANSWER, REASONING, TOOL_CALL
from gateway.dialects.openai.responses.request import ParsedResponse
from gateway.generation.fold import Block, Item
from shared.errors import ServiceError, from_message
from shared.pb import text_pb2 as pb

_COMMENT: Final = b": ping\n\n"
# Error types of an overloaded server in the reference's envelope.
_BUSY: Final = ("server_busy", "request_memory_budget_exceeded")


class ResponseStream:
    """The stream of one response.

    Attributes:
        response: the final object, once the generation has finished.
    """

    def __init__(self, parsed: ParsedResponse, model: str) -> None:
        self._parsed = parsed
        self._model = model
        self._number = 0
        self._opened = self._has_ended = False
        self._items: list[answer.Item] = []
        self._block: Block | None = None
        # Id and index of the block's item in events, once it was opened, and the number of
        # logprobs that were sent.
        self._location: dict[str, Any] | None = None
        self._sent_logprobs = 0
        self._calls = 0
        self.response: dict[str, Any] | None = None

    def feed(self, item: Item) -> bytes:
        if isinstance(item, pb.Accepted):
            return self.open()
        match item.WhichOneof("event"):
            case "block_start":
                return self._feed_block(item.block_start)
            case "delta" if self._block is not None:
                return self._feed_delta(self._block, item.delta)
            case "finished":
                return self._feed_finished(item.finished)
            case "failed":
                return self._feed_failed(from_message(item.failed.error))
        return b""

    def ping(self) -> bytes:
        """Return a comment, and an event: Codex does not count comments as activity."""
        if self._has_ended:
            return b""
        if opened := self.open():
            return _COMMENT + opened
        response = answer.describe(self._parsed, self._model, "in_progress", self._items)
        return _COMMENT + self._event("response.in_progress", response=response)

    def open(self) -> bytes:
        """Return the first events; nothing if they were sent."""
        if self._opened:
            return b""
        self._opened = True
        response = answer.describe(self._parsed, self._model, "in_progress", ())
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def add_item(self, item: answer.Item) -> bytes:
        """Return the events of a complete item before those of the model."""
        location = {"output_index": len(self._items), "item": item}
        self._items.append(item)
        return self._event("response.output_item.added", **location) + self._event(
            "response.output_item.done", **location
        )

    def custom_event(self, name: str, **fields: int) -> bytes:
        """Return an event that OpenAI's API does not have."""
        return self._event(name, **fields)

    def cancel(self) -> dict[str, Any]:
        """Return the object of a cancelled response."""
        items = [*self._items]
        if self._block is not None and self._location is not None:
            items.append(self._item(self._block, "incomplete"))
        return answer.describe(self._parsed, self._model, "cancelled", items)

    # ------------------------------------------------------------ blocks

    def _feed_block(self, start: pb.BlockStart) -> bytes:
        closed = self._close("completed")
        if start.kind == TOOL_CALL:
            self._calls += 1
            most = self._parsed.fields.max_tool_calls
            if most is not None and self._calls > most:
                self._block = None
                return closed
        self._block, self._location, self._sent_logprobs = Block(start), None, 0
        return closed + (self._show(self._block) if start.kind == TOOL_CALL else b"")

    def _feed_delta(self, block: Block, delta: pb.Delta) -> bytes:
        block.add(delta)
        kind = block.start.kind
        if not delta.text and not (delta.infos and self._location and kind == ANSWER):
            return b""
        shown = b"" if self._location else self._show(block)
        fields = {**(self._location or {}), "delta": delta.text}
        if kind == TOOL_CALL:
            return shown + self._event("response.function_call_arguments.delta", **fields)
        if kind == REASONING:
            return shown + self._event("response.reasoning_text.delta", **fields)
        fields["logprobs"] = _logprobs(block.infos[self._sent_logprobs :])
        self._sent_logprobs = len(block.infos)
        return shown + self._event("response.output_text.delta", **fields)

    def _show(self, block: Block) -> bytes:
        """Return the events that open the item of a block."""
        item = self._item(Block(block.start), "in_progress")
        index = len(self._items)
        self._location = {"item_id": item["id"], "output_index": index}
        added = self._event("response.output_item.added", output_index=index, item=item)
        if block.start.kind != TOOL_CALL:
            self._location["content_index"] = 0
        if block.start.kind != ANSWER:
            return added
        part = answer.text_part("")
        return added + self._event("response.content_part.added", **self._location, part=part)

    def _close(self, status: answer.ItemStatus) -> bytes:
        """Return the events that close the open item, if there is one."""
        block, location = self._block, self._location
        self._block = self._location = None
        if block is None or location is None:
            return b""
        item = self._item(block, status)
        self._items.append(item)
        return self._end(block, location, item) + self._event(
            "response.output_item.done", output_index=location["output_index"], item=item
        )

    def _end(self, block: Block, location: dict[str, Any], item: answer.Item) -> bytes:
        """Return the events with the complete text of an item."""
        if block.start.kind == TOOL_CALL:
            whole = {"name": item["name"], "arguments": item["arguments"]}
            return self._event("response.function_call_arguments.done", **location, **whole)
        if block.start.kind == REASONING:
            return self._event("response.reasoning_text.done", **location, text=block.text)
        whole = {"text": block.text, "logprobs": _logprobs(block.infos)}
        (part,) = item["content"]
        return self._event("response.output_text.done", **location, **whole) + self._event(
            "response.content_part.done", **location, part=part
        )

    # ------------------------------------------------------------ ends

    def _feed_finished(self, finished: pb.Finished) -> bytes:
        self._has_ended = True
        cut = answer.is_incomplete(finished)
        closed = self._close("incomplete" if cut else "completed")
        if not any(item["type"] != "compaction" for item in self._items):
            self._block = answer.empty_answer()
            closed += self._show(self._block) + self._close("incomplete" if cut else "completed")
        self.response = answer.finish(self._parsed, self._model, self._items, finished)
        name = f"response.{self.response['status']}"
        return closed + self._event(name, response=self.response)

    def _feed_failed(self, failure: ServiceError) -> bytes:
        self._has_ended = True
        response = self.cancel()
        if failure.code != "cancelled":
            response["status"] = "failed"
            response["error"] = {"code": _response_code(failure), "message": failure.message}
        opened = self.open()
        error = self._event(
            "error", code=_code(failure), message=failure.message, param=failure.param
        )
        return opened + error + self._event("response.failed", response=response)

    # ------------------------------------------------------------ forms

    def _item(self, block: Block, status: answer.ItemStatus) -> answer.Item:
        return answer.make_item(self._parsed, len(self._items), block, status)

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        data = orjson.dumps({"type": kind, "sequence_number": self._number, **fields})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _code(failure: ServiceError) -> str:
    """Return the code of a failure in the error event."""
    form = envelope(failure)
    code = str(form["code"] or form["type"])
    return "server_overloaded" if code == "server_busy" else code


def _response_code(failure: ServiceError) -> str:
    """Return the code of a failure in the response, one of the three of OpenAI that fit."""
    status, kind = FORMS[failure.code]
    if kind in _BUSY:
        return "rate_limit_exceeded"
    return "invalid_prompt" if status in (400, 413, 501) else "server_error"


def _logprobs(infos: Sequence[pb.TokenInfo]) -> list[dict[str, Any]]:
    logprobs: list[dict[str, Any]] = answer.text_part("", infos)["logprobs"]
    return logprobs
