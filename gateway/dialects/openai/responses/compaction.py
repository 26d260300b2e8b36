"""What a compaction keeps, what it summarises, and the request for the summary.

Owns the indices at which a history may be cut: before a user turn or after answered tool calls, so
that calls and outputs stay together. The caller counts tokens and generates. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from gateway.dialects.base import Stamp
from gateway.dialects.json_body import compact
from gateway.dialects.openai.cache import parse_cache
from gateway.dialects.openai.conversation import parse_template_kwargs
from gateway.dialects.openai.responses.answer import Item, item_id, text_part
from gateway.dialects.openai.responses.capsule import is_pinned, seal
from gateway.dialects.openai.responses.item import parse_items
from gateway.dialects.openai.wire import TurnFields
from gateway.dialects.sampling import parse_sampling
from shared.pb import text_pb2 as pb

_INSTRUCTION: Final = """\
Write a handoff note about the conversation above, for somebody who goes on with it and can't see \
it. Keep what they need: names, numbers, paths and decisions exactly as they are. Use those of \
these headings that have something to say: Goal, Constraints, Progress, Decisions, Next steps, \
References. Answer with the note alone."""
_PREFIXES: Final = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
}
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Head(msgspec.Struct):
    type: str | None = None
    role: Any = None
    call_id: Any = None

    @property
    def is_user(self) -> bool:
        return self.type in (None, "message") and self.role == "user"


_HEAD: Final = msgspec.json.Decoder(_Head)


@dataclass(frozen=True)
class Division:
    """A history at a cut.

    Attributes:
        summarised: the items before the cut.
        kept: the items after it, and the last user message if it is before the cut.
        gone: number of items that only the summary represents.
    """

    summarised: Sequence[msgspec.Raw]
    kept: Sequence[msgspec.Raw]
    gone: int


def split_pinned(items: Sequence[msgspec.Raw]) -> tuple[list[msgspec.Raw], list[msgspec.Raw]]:
    """Return the pinned items of a history, and those that can be summarised."""
    pinned = [item for item in items if is_pinned(item)]
    return pinned, [item for item in items if not is_pinned(item)]


def list_cuts(items: Sequence[msgspec.Raw]) -> list[int]:
    """Return the indices at which a history may be cut, ascending."""
    heads = [_HEAD.decode(item) for item in items]
    waiting: set[Any] = set()
    cuts: set[int] = set()
    for index, head in enumerate(heads):
        if head.is_user and not waiting:
            cuts.add(index)
        if head.type == "function_call":
            waiting.add(str(head.call_id))
        elif head.type == "function_call_output":
            waiting.discard(str(head.call_id))
            followed = any(other.type == head.type for other in heads[index + 1 : index + 2])
            if not waiting and not followed:
                cuts.add(index + 1)
    if not waiting:
        cuts.add(len(items))
    return sorted(cuts)


def divide(items: Sequence[msgspec.Raw], cut: int) -> Division:
    """Cut a history in two; the last user message is always kept."""
    heads = [_HEAD.decode(item) for item in items]
    last_user = max((i for i, head in enumerate(heads) if head.is_user), default=cut)
    hoisted = [items[last_user]] if last_user < cut else []
    return Division(items[:cut], [*hoisted, *items[cut:]], cut - len(hoisted))


def read_text(items: Sequence[msgspec.Raw]) -> str:
    """Return the text of items, for counting."""
    texts = []
    for turn in parse_items(items, [], _no_path):
        texts += [turn.role, turn.reasoning, *(part.text for part in turn.parts)]
        texts += [text for call in turn.tool_calls for text in (call.name, call.arguments)]
    return "\n".join(texts)


def ask_summary(
    fields: TurnFields, items: Sequence[msgspec.Raw], stamp: Stamp, max_tokens: int
) -> pb.GenerateRequest:
    """Return the request for a summary of items; the default temperature is 0."""
    instruction = {"type": "message", "role": "user", "content": _INSTRUCTION}
    asked = [*items, msgspec.Raw(orjson.dumps(instruction))]
    sampling = parse_sampling(fields, stamp)
    if fields.temperature is None:
        sampling.temperature = 0.0
    return pb.GenerateRequest(
        request_id=stamp.request_id,
        chat=pb.ChatPrompt(
            messages=parse_items(asked, [], _no_path),
            tool_choice=pb.ToolChoice(mode=pb.ToolChoice.MODE_NONE),
            template_kwargs_json=parse_template_kwargs(fields),
            template_time_unix_s=stamp.unix_s,
            add_generation_prompt=True,
        ),
        sampling=sampling,
        max_tokens=max_tokens,
        reasoning=pb.Reasoning(enabled=False),
        cache=parse_cache(fields, stamp),
        arrival_ns=stamp.arrival_ns,
    )


def make_compaction(summary: str, kept: Sequence[msgspec.Raw], request_id: str) -> Item:
    """Return the item that replaces a history."""
    return {
        "id": item_id("cmp", request_id, 0),
        "type": "compaction",
        "encrypted_content": seal(summary, kept),
    }


def show_items(items: Sequence[msgspec.Raw], request_id: str) -> list[Item]:
    """Return kept items in the form of a response: with id, status, and content in parts."""
    return [_show(_OBJECT.decode(item), request_id, index) for index, item in enumerate(items, 1)]


def _show(given: dict[str, msgspec.Raw], request_id: str, index: int) -> Item:
    head = _HEAD.decode(msgspec.json.encode(given))
    kind = head.type or "message"
    shown: Item = {"type": kind, "id": item_id(_PREFIXES[kind], request_id, index)}
    shown["status"] = "completed"
    if kind == "reasoning":
        shown["summary"] = []
    present = {key: raw for key, raw in given.items() if bytes(raw) != b"null"}
    shown |= {key: orjson.Fragment(compact(raw)) for key, raw in present.items()}
    if kind == "message" and not bytes(given.get("content", b"null")).startswith(b"["):
        text = msgspec.json.decode(given.get("content", b"null")) or ""
        shown["content"] = [_show_text(head.role, text)]
    return shown


def _show_text(role: str, text: str) -> Item:
    if role != "assistant":
        return {"type": "input_text", "text": text}
    return text_part(text)


def _no_path(_index: int) -> str:
    """Return the path of the input: these items were checked before."""
    return "input"
