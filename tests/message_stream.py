"""A state machine that checks the events of an Anthropic stream.

Every test that reads such a stream uses it. It requires one start, one open block at a time,
numbered from 0, deltas of the block's type, one stop reason and one end.
"""

from __future__ import annotations

import json
from typing import Any

DELTAS = {
    "text": {"text_delta": "text"},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "tool_use": {"input_json_delta": "partial_json"},
}


class MessageReader:
    """Reads a stream in pieces of any length.

    Attributes:
        state: "new", "between" blocks, in a "block", "stopping", "done" or "failed".
        message: so far; the arguments of calls are text, under "arguments".
    """

    def __init__(self) -> None:
        self.state = "new"
        self.message: dict[str, Any] = {}
        self.error: dict[str, Any] | None = None
        self.pings = 0
        self.comments = 0
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Read bytes and check the complete events."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            self._read(event.decode())

    def close(self) -> dict[str, Any]:
        """Return the message; the stream must have ended."""
        assert self._rest == b""
        assert self.state == "done", (self.state, self.error)
        return self.message

    def _read(self, event: str) -> None:
        if event.startswith(":"):
            self.comments += 1
            return
        name, data = event.split("\n")
        assert name.startswith("event: ")
        assert data.startswith("data: ")
        fields = json.loads(data.removeprefix("data: "))
        assert fields["type"] == name.removeprefix("event: ")
        assert self.state not in ("done", "failed"), fields
        getattr(self, f"_on_{fields['type']}")(fields)

    def _on_ping(self, _fields: dict[str, Any]) -> None:
        assert self.state != "new"
        self.pings += 1

    def _on_message_start(self, fields: dict[str, Any]) -> None:
        assert self.state == "new"
        self.state, self.message = "between", fields["message"]
        assert self.message["content"] == []
        assert self.message["stop_reason"] is None
        assert self.message["usage"]["output_tokens"] == 0

    def _on_content_block_start(self, fields: dict[str, Any]) -> None:
        assert self.state == "between"
        self.state = "block"
        block = fields["content_block"]
        assert fields["index"] == len(self.message["content"])
        if block["type"] == "tool_use":
            assert block["input"] == {}
            block["arguments"] = ""
        else:
            assert not any(block[key] for key in DELTAS[block["type"]].values())
        self.message["content"].append(block)

    def _on_content_block_delta(self, fields: dict[str, Any]) -> None:
        assert self.state == "block"
        block, delta = self._open(fields), fields["delta"]
        key = DELTAS[block["type"]][delta["type"]]
        assert delta[key], "an empty delta"
        block["arguments" if key == "partial_json" else key] += delta[key]

    def _on_content_block_stop(self, fields: dict[str, Any]) -> None:
        assert self.state == "block"
        self._open(fields)
        self.state = "between"

    def _on_message_delta(self, fields: dict[str, Any]) -> None:
        assert self.state == "between"
        self.state = "stopping"
        assert fields["delta"]["stop_reason"] is not None
        self.message |= fields["delta"]
        before = self.message["usage"]
        for key in ("input_tokens", "cache_read_input_tokens"):
            assert fields["usage"][key] == before[key]
        self.message["usage"] = before | fields["usage"]

    def _on_message_stop(self, _fields: dict[str, Any]) -> None:
        assert self.state == "stopping"
        self.state = "done"

    def _on_error(self, fields: dict[str, Any]) -> None:
        assert self.state != "block", "a block is left open"
        self.state, self.error = "failed", fields["error"]

    def _open(self, fields: dict[str, Any]) -> dict[str, Any]:
        blocks = self.message["content"]
        assert fields["index"] == len(blocks) - 1
        return blocks[-1]


def read_message(data: bytes) -> dict[str, Any]:
    """Return the message of a complete stream without errors."""
    reader = MessageReader()
    reader.feed(data)
    return reader.close()
