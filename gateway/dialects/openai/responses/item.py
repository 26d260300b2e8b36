"""Input items as turns of a canonical prompt.

Owns the conversion of each kind of item: calls are added to the assistant's turn, reasoning to the
turn that follows it, and media outside of user turns to a user turn of their own. capsule.py has
replaced compactions before. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from gateway.dialects import json_body
from gateway.dialects.base import MediaRef
from gateway.dialects.openai.conversation import parse_arguments, parse_part, refer
from gateway.dialects.openai.responses import wire
from gateway.dialects.openai.responses.tool import make_label
from gateway.dialects.openai.wire import ImageUrl
from gateway.dialects.thought import recall
from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

# Replaces a tool's images, since tool results are text.
_IMAGE_NOTE: Final = "[Image output attached in the next message]"

_ANY: Final = msgspec.json.Decoder(Any)
_HEAD: Final = msgspec.json.Decoder(wire.ItemHead)
_MESSAGE: Final = msgspec.json.Decoder(wire.MessageItem)
_CALL: Final = msgspec.json.Decoder(wire.CallItem)
_CALL_OUTPUT: Final = msgspec.json.Decoder(wire.CallOutputItem)
_REASONING: Final = msgspec.json.Decoder(wire.ReasoningItem)
_PART: Final = msgspec.json.Decoder(wire.Part)
_TEXTS: Final = frozenset(("input_text", "output_text", "text"))
_IMAGES: Final = frozenset(("input_image", "image_url"))


def read_kind(raw: msgspec.Raw, path: str) -> str:
    """Return the type of an item; one with a role and no type is a message.

    Raises:
        ServiceError: it has neither.
    """
    head = json_body.decode(_HEAD, raw, path)
    if head.type is None and head.role is None:
        raise ServiceError("invalid_request", f"{path}.type: is required", f"{path}.type")
    return head.type or "message"


def parse_items(
    items: Sequence[msgspec.Raw], media: list[MediaRef], name_path: Callable[[int], str]
) -> list[pb.Message]:
    """Return the turns of items; adds references to `media`.

    Args:
        items: without compactions.
        name_path: JSON path of an item by its index.

    Raises:
        ServiceError: naming the field.
    """
    turns = _Turns(media)
    for index, raw in enumerate(items):
        turns.add(raw, name_path(index))
    return turns.finish()


class _Turns:
    """Turns under construction."""

    def __init__(self, media: list[MediaRef]) -> None:
        self._media = media
        self._turns: list[pb.Message] = []
        # Reasoning of the next turn, and media that their own turn can't contain.
        self._thoughts: list[str] = []
        self._misplaced: list[pb.Part] = []

    def add(self, raw: msgspec.Raw, path: str) -> None:
        kind = read_kind(raw, path)
        if kind != "function_call_output":
            self._flush_media()
        match kind:
            case "message":
                self._add_message(json_body.decode(_MESSAGE, raw, path), path)
            case "function_call":
                self._add_call(json_body.decode(_CALL, raw, path), path)
            case "function_call_output":
                self._add_output(json_body.decode(_CALL_OUTPUT, raw, path), path)
            case "reasoning":
                item = json_body.decode(_REASONING, raw, path)
                text = "\n".join(part.text for part in item.content or ())
                self._thoughts += filter(None, [recall(text, item.encrypted_content or "")])
            case _:
                sentence = f"{path}.type: items of type '{kind[:100]}' are not supported"
                raise ServiceError("invalid_request", sentence, f"{path}.type")

    def finish(self) -> list[pb.Message]:
        self._flush_media()
        self._flush_thoughts()
        return self._turns

    def _add_message(self, item: wire.MessageItem, path: str) -> None:
        parts = self._parse_content(item.content, f"{path}.content")
        if item.role == "assistant":
            turn = self._open_assistant()
        else:
            self._flush_thoughts()
            role = "system" if item.role == "developer" else item.role
            turn = pb.Message(role=role)
            self._turns.append(turn)
        self._misplaced += [p for p in parts if item.role != "user" and p.HasField("media")]
        turn.parts.extend(p for p in parts if item.role == "user" or not p.HasField("media"))

    def _parse_content(self, content: str | list[wire.Part] | None, path: str) -> list[pb.Part]:
        if not isinstance(content, list):
            return [pb.Part(text=content)] if content else []
        return [_parse_part(p, f"{path}[{i}]", self._media) for i, p in enumerate(content)]

    def _add_call(self, item: wire.CallItem, path: str) -> None:
        text = parse_arguments(item.arguments, f"{path}.arguments")
        if self._turns and self._turns[-1].role == "assistant" and not self._thoughts:
            turn = self._turns[-1]
        else:
            turn = self._open_assistant()
        name = make_label(item.namespace, item.name)
        turn.tool_calls.add(id=item.call_id, name=name, arguments=text)

    def _add_output(self, item: wire.CallOutputItem, path: str) -> None:
        self._flush_thoughts()
        turn = pb.Message(role="tool", tool_call_id=item.call_id)
        self._turns.append(turn)
        if isinstance(item.output, str):
            text = item.output
        else:
            text = self._parse_output(item.output, f"{path}.output")
        turn.parts.add(text=text)

    def _parse_output(self, raws: Sequence[msgspec.Raw], path: str) -> str:
        """Return an output as text: images are moved, parts of other types become JSON."""
        texts = []
        images = len(self._misplaced)
        for index, raw in enumerate(raws):
            where = f"{path}[{index}]"
            kind = read_kind(raw, where)
            if kind in _TEXTS | _IMAGES:
                part = _parse_part(json_body.decode(_PART, raw, where), where, self._media)
                if part.HasField("media"):
                    self._misplaced.append(part)
                else:
                    texts.append(part.text)
            else:
                json_body.check_depth(json_body.decode(_ANY, raw, where), where)
                texts.append(json_body.compact(raw).decode())
        if len(self._misplaced) > images:
            texts.append(_IMAGE_NOTE)
        return "\n".join(texts)

    def _open_assistant(self) -> pb.Message:
        """Start a turn of the assistant with the reasoning before it."""
        turn = pb.Message(role="assistant")
        if self._thoughts:
            turn.reasoning = "\n".join(self._thoughts)
            self._thoughts = []
        self._turns.append(turn)
        return turn

    def _flush_thoughts(self) -> None:
        """Add a turn for reasoning that no turn follows."""
        if self._thoughts:
            self._open_assistant()

    def _flush_media(self) -> None:
        if self._misplaced:
            self._turns.append(pb.Message(role="user", parts=self._misplaced))
            self._misplaced = []


def _parse_part(part: wire.Part, path: str, media: list[MediaRef]) -> pb.Part:
    match part:
        case wire.InputText() | wire.OutputText():
            return pb.Part(text=part.text)
        case wire.InputFile():
            raise ServiceError("invalid_request", f"{path}: input_file is not supported", path)
        case wire.InputImage(image_url=None):
            sentence = f"{path}: input_image needs an image_url; uploaded files are not supported"
            raise ServiceError("invalid_request", sentence, path)
        case wire.InputImage(image_url=where, detail=detail):
            url = where.url if isinstance(where, ImageUrl) else str(where)
            detail = detail or (where.detail if isinstance(where, ImageUrl) else None)
            return refer(
                common.Media(kind=common.Media.KIND_IMAGE, detail=detail), url, path, media
            )
        case _:
            return parse_part(part, path, media)
