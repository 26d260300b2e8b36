"""A state machine that checks the events of a Responses stream.

Every test that reads such a stream uses it. It requires sequence numbers from 0, two events at the
start (the second may be repeated as a ping), one open item at a time, with consecutive indices,
deltas that add up to the final text, and a final response that contains exactly the closed items.
"""

from __future__ import annotations

import json
from typing import Any

ENDS = ("response.completed", "response.incomplete", "response.failed")
# Item type → its delta event, its done event, and the key of the text.
TEXTS = {
    "message": ("response.output_text.delta", "response.output_text.done", "text"),
    "reasoning": ("response.reasoning_text.delta", "response.reasoning_text.done", "text"),
    "function_call": (
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "arguments",
    ),
}
COMPACTION = ("mlx.compaction.started", "mlx.compaction.completed")


class ResponseReader:
    """Reads a stream in pieces of any length.

    Attributes:
        state: "new", "created", "between" items, in an "item", "complete" after its text, "error"
            after the error event, or "done".
        kinds: event types so far.
        response: of the last event that has one.
        items: the closed ones.
        pings: repeated `response.in_progress` events.
    """

    def __init__(self) -> None:
        self.state = "new"
        self.kinds: list[str] = []
        self.response: dict[str, Any] = {}
        self.error: dict[str, Any] | None = None
        self.items: list[dict[str, Any]] = []
        self.compaction: dict[str, Any] = {}
        self.comments = 0
        self.pings = 0
        self._rest = b""
        self._item: dict[str, Any] = {}
        self._text = ""
        self._logprobs: list[Any] = []

    def feed(self, data: bytes) -> None:
        """Read bytes and check the complete events."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            self._read(event.decode())

    def close(self) -> dict[str, Any]:
        """Return the response; the stream must have ended without an error."""
        assert self._rest == b""
        assert self.state == "done", (self.state, self.error)
        assert self.response["status"] in ("completed", "incomplete"), self.error
        return self.response

    def _read(self, event: str) -> None:
        if event.startswith(":"):
            self.comments += 1
            return
        name, data = event.split("\n")
        fields = json.loads(data.removeprefix("data: "))
        assert (name, data[:6]) == (f"event: {fields['type']}", "data: ")
        assert fields["sequence_number"] == len(self.kinds)
        assert self.state != "done", fields
        self.kinds.append(fields["type"])
        self._follow(fields["type"], fields)

    def _follow(self, kind: str, fields: dict[str, Any]) -> None:
        if kind in ENDS:
            self._end(kind, fields["response"])
        elif kind == "error":
            assert self.state not in ("new", "created", "error")
            self.state, self.error = "error", fields
        elif kind == "response.in_progress" and self.state in ("between", "item", "complete"):
            response = fields["response"]
            assert (response["status"], response["output"]) == ("in_progress", self.items)
            self.pings += 1
        elif kind in ("response.created", "response.in_progress"):
            self._begin(kind, fields["response"])
        elif kind in COMPACTION:
            assert self.state == "between"
            assert self.items == []
            self.compaction |= fields
        elif kind == "response.output_item.added":
            self._open(fields)
        else:
            self._go_on(kind, fields)

    def _begin(self, kind: str, response: dict[str, Any]) -> None:
        before, after = ("new", "created") if kind == "response.created" else ("created", "between")
        assert self.state == before
        assert (response["status"], response["output"]) == ("in_progress", [])
        assert response["usage"] is response["completed_at"] is response["error"] is None
        self.state, self.response = after, response

    def _open(self, fields: dict[str, Any]) -> None:
        assert self.state == "between"
        item = fields["item"]
        assert fields["output_index"] == len(self.items)
        self.state, self._item, self._text, self._logprobs = "item", item, "", []
        if item["type"] == "compaction":
            self.state = "complete"
            return
        assert item["status"] == "in_progress"
        assert item.get("content", []) == []
        assert item.get("arguments", "") == ""

    def _go_on(self, kind: str, fields: dict[str, Any]) -> None:
        item = self._item
        assert fields["output_index"] == len(self.items)
        if kind == "response.output_item.done":
            self._close(fields["item"])
            return
        assert fields["item_id"] == item["id"]
        assert fields.get("content_index", 0) == 0
        delta, done, key = TEXTS[item["type"]]
        if kind == "response.content_part.added":
            assert (self.state, item["type"], self._text) == ("item", "message", "")
            item["part"] = fields["part"]
            assert fields["part"]["text"] == ""
        elif kind == delta:
            assert self.state == "item"
            assert item["type"] != "message" or "part" in item
            assert fields["delta"] or fields.get("logprobs"), "an empty delta"
            self._text += fields["delta"]
            self._logprobs += fields.get("logprobs", [])
        elif kind == done:
            assert (self.state, fields[key]) == ("item", self._text)
            self.state = "complete"
        else:
            assert (kind, item["type"]) == ("response.content_part.done", "message")
            assert self.state == "complete"
            assert fields["part"]["text"] == self._text
            # The last tokens of a text may be markup that is in no delta.
            assert fields["part"]["logprobs"][: len(self._logprobs)] == self._logprobs
            item["part"] = fields["part"]

    def _close(self, item: dict[str, Any]) -> None:
        assert self.state == "complete"
        assert (item["id"], item["type"]) == (self._item["id"], self._item["type"])
        if item["type"] == "message":
            assert item["content"] == [self._item["part"]]
        elif item["type"] == "reasoning":
            assert item["content"] == [{"type": "reasoning_text", "text": self._text}]
        elif item["type"] == "function_call":
            assert item["arguments"] == self._text
        self.items.append(item)
        self.state = "between"

    def _end(self, kind: str, response: dict[str, Any]) -> None:
        assert response["id"] == self.response["id"]
        status = response["status"]
        self.response = response
        messages = [item for item in response["output"] if item["type"] == "message"]
        text = "".join(part["text"] for item in messages for part in item["content"])
        assert response["output_text"] == text
        if kind == "response.failed":
            assert self.state == "error"
            assert status in ("failed", "cancelled")
            assert (response["error"] is None) == (status == "cancelled")
            # An open item is included as far as it was generated.
            assert response["output"][: len(self.items)] == self.items
            assert len(response["output"]) <= len(self.items) + 1
        else:
            assert self.state == "between"
            assert kind == f"response.{status}"
            assert response["output"] == self.items != []
            assert response["usage"]["total_tokens"] >= response["usage"]["output_tokens"]
            assert (response["incomplete_details"] is None) == (status == "completed")
            states = [item.get("status", "completed") for item in self.items]
            assert set(states[:-1]) <= {"completed"}
            assert states[-1] in ("completed", status)
        self.state = "done"


def read_response(data: bytes) -> dict[str, Any]:
    """Return the response of a complete stream without errors."""
    reader = ResponseReader()
    reader.feed(data)
    return reader.close()
