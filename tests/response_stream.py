"""The grammar of a Responses stream, as a machine that follows its events.

Whatever takes a stream of this dialect in the tests has it checked here on the way: numbers from
0, a beginning in two events, of which the second may come again as a sign of life, one item open
at a time and placed behind the one before, deltas that add up to what is told at the end, and an
end whose response holds exactly the items that closed.
"""

from __future__ import annotations

import json
from typing import Any

ENDS = ("response.completed", "response.incomplete", "response.failed")
# Type of an item → its delta, and what tells the whole.
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
    """Feed it bytes, cut anywhere.

    Attributes:
        state: "new", "created", "between" items, in an "item", "told" the whole of one, after the
            "error" event, or "done".
        kinds: the types of the events so far.
        response: as the last event with one had it.
        items: those that closed.
        signs: of life so far.
    """

    def __init__(self) -> None:
        self.state = "new"
        self.kinds: list[str] = []
        self.response: dict[str, Any] = {}
        self.error: dict[str, Any] | None = None
        self.items: list[dict[str, Any]] = []
        self.compaction: dict[str, Any] = {}
        self.comments = 0
        self.signs = 0
        self._rest = b""
        self._item: dict[str, Any] = {}
        self._text = ""
        self._logprobs: list[Any] = []

    def feed(self, data: bytes) -> None:
        """Follow the events that are whole by now."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            self._read(event.decode())

    def close(self) -> dict[str, Any]:
        """Return the response of a stream that must have ended, and not in failure."""
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
        elif kind == "response.in_progress" and self.state in ("between", "item", "told"):
            response = fields["response"]
            assert (response["status"], response["output"]) == ("in_progress", self.items)
            self.signs += 1
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
            self.state = "told"
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
            assert fields["delta"] or fields.get("logprobs"), "an empty piece"
            self._text += fields["delta"]
            self._logprobs += fields.get("logprobs", [])
        elif kind == done:
            assert (self.state, fields[key]) == ("item", self._text)
            self.state = "told"
        else:
            assert (kind, item["type"]) == ("response.content_part.done", "message")
            assert self.state == "told"
            assert fields["part"]["text"] == self._text
            # The last tokens of a text may be markup that no delta carries.
            assert fields["part"]["logprobs"][: len(self._logprobs)] == self._logprobs
            item["part"] = fields["part"]

    def _close(self, item: dict[str, Any]) -> None:
        assert self.state == "told"
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
        said = [item for item in response["output"] if item["type"] == "message"]
        text = "".join(part["text"] for item in said for part in item["content"])
        assert response["output_text"] == text
        if kind == "response.failed":
            assert self.state == "error"
            assert status in ("failed", "cancelled")
            assert (response["error"] is None) == (status == "cancelled")
            # What was open is there as far as it came.
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
    """Return the response of a whole stream that did not fail."""
    reader = ResponseReader()
    reader.feed(data)
    return reader.close()
