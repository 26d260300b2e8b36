"""The command `mlxcel-server parse`: shows what a raw answer is read as.

For reports of parser faults: it reads an answer as the model wrote it from standard input and
prints each event as a line of JSON, then the message the events add up to. Thoughts are told
apart as they are when the model is served. It loads no model.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from workers.text.answer.channel import ChannelSplitter
from workers.text.answer.reasoning import (
    KNOWN_TAGS,
    NoSplitter,
    ReasoningPart,
    Splitter,
    TagSplitter,
    find_tags,
)
from workers.text.toolcalls import detection
from workers.text.toolcalls.call_stream import CallStart, CallStream, StreamPiece
from workers.text.toolcalls.format import CallArguments, CallEnd, ContentText, Format, Tools
from workers.text.toolcalls.formats import harmony

_EVERY = "every"
# Reads an answer that arrives in parts.
_Read = Callable[[Iterable[str]], Iterable[StreamPiece | ReasoningPart]]


def main(arguments: Sequence[str]) -> None:
    """Run `mlxcel-server parse …`; the exit code is 1 if the result depends on a cut."""
    options = _build_parser().parse_args(arguments)
    try:
        template = _read_template(options.model) if options.model else ""
        form = _choose(options.format, options.model, template)
        tools = _read_tools(options.tools) if options.tools else None
        text = sys.stdin.buffer.read().decode("utf-8")
    except (OSError, ValueError) as failure:
        sys.exit(f"error: {failure}")
    read = partial(_parse, form, tools, _choose_splitter(form, template, text, options))
    size = options.cut if isinstance(options.cut, int) else max(1, len(text))
    events = list(read([text[i : i + size] for i in range(0, len(text), size)]))
    for event in events:
        _print(_describe(event))
    _print({"format": form.name, "message": fold(events)})
    if options.cut == _EVERY:
        _compare(read, text, fold(events))


def _parse(
    form: Format, tools: Tools | None, make_splitter: Callable[[], Splitter], parts: Iterable[str]
) -> Iterable[StreamPiece | ReasoningPart]:
    """Yield what an answer that arrives in parts is read as."""
    splitter, stream = make_splitter(), CallStream(form, tools, "parse")
    for pieces in (*map(splitter.feed, parts), splitter.finish()):
        for piece in pieces:
            if isinstance(piece, ReasoningPart):
                yield piece
            else:
                yield from stream.feed(piece.text)
    yield from stream.finish()


def fold(events: Iterable[StreamPiece | ReasoningPart]) -> dict[str, Any]:
    """Return the assistant message that events add up to, in the form of a chat completion."""
    content: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, ContentText):
            content.append(event.text)
        elif isinstance(event, ReasoningPart):
            thoughts.append(event.text)
        elif isinstance(event, CallStart):
            function = {"name": event.name, "arguments": ""}
            calls.append({"id": event.id, "type": "function", "function": function})
        elif isinstance(event, CallArguments):
            calls[-1]["function"]["arguments"] += event.text
    message: dict[str, Any] = {"role": "assistant", "content": "".join(content)}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = calls
    return message


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mlxcel-server parse",
        description="Show the events and the message that a raw answer on standard input gives.",
    )
    names = ", ".join(form.name for form in detection.FORMATS)
    parser.add_argument(
        "--format", required=True, help=f"auto (by the template of --model) or one of: {names}"
    )
    parser.add_argument("--model", type=Path, help="model folder, whose template is looked at")
    parser.add_argument(
        "--thinking", action="store_true", help="the prompt has opened a block of thoughts"
    )
    parser.add_argument(
        "--tools", type=Path, help="JSON file with a request's tools; without it all calls are kept"
    )
    parser.add_argument(
        "--cut",
        type=_parse_cut,
        help=f"feed pieces of so many characters; {_EVERY}: compare the results of all places at"
        " which the text can be cut in two",
    )
    return parser


def _parse_cut(text: str) -> int | str:
    if text == _EVERY:
        return text
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of characters or {_EVERY}")
    return int(text)


def _choose(name: str, model: Path | None, template: str) -> Format:
    """Return the format of a name, or of a model's template.

    Raises:
        ValueError: there is none, or no way to tell.
    """
    if name == "auto" and model is None:
        raise ValueError("--format auto needs --model")
    form = detection.detect(template) if name == "auto" else detection.find(name)
    if form is None and name == "auto":
        raise ValueError(f"the chat template of {model} knows no tools")
    if form is None:
        raise ValueError(f"unknown format {name!r}")
    return form


def _choose_splitter(
    form: Format, template: str, text: str, options: argparse.Namespace
) -> Callable[[], Splitter]:
    """Return what makes splitters for the tags of a template, or those that a text has."""
    if form is harmony.FORMAT:
        return ChannelSplitter
    mark = "closing" if options.thinking else "opening"
    seen = (tags for tags in KNOWN_TAGS if getattr(tags, mark) in text)
    tags = find_tags(None, template) or next(seen, None)
    return partial(TagSplitter, tags, in_reasoning=options.thinking) if tags else NoSplitter


def _read_template(model: Path) -> str:
    """Return the text of a model's chat templates, the one for tools alone if there is such."""
    path = model / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    config = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))
    template = config.get("chat_template") or ""
    if isinstance(template, str):
        return template
    named = {entry["name"]: str(entry["template"]) for entry in template}
    return named.get("tool_use") or "\n".join(named.values())


def _read_tools(path: Path) -> Tools:
    """Return the parameter schemas by function, from tools as a chat request has them."""
    tools = json.loads(path.read_text(encoding="utf-8"))
    try:
        functions = [tool.get("function", tool) for tool in tools]
        return {function["name"]: function.get("parameters") or {} for function in functions}
    except (AttributeError, KeyError, TypeError) as failure:
        raise ValueError(f"{path} is no list of tools") from failure


def _describe(event: StreamPiece | ReasoningPart) -> dict[str, str]:
    if isinstance(event, CallStart):
        return {"event": "start", "id": event.id, "name": event.name}
    if isinstance(event, CallEnd):
        return {"event": "end"}
    kinds = {ContentText: "text", ReasoningPart: "reasoning", CallArguments: "arguments"}
    return {"event": kinds[type(event)], "text": event.text}


def _compare(read: _Read, text: str, whole: dict[str, Any]) -> None:
    """Print the first cut that changes the result, and exit with 1; or that there is none."""
    for place in range(1, len(text)):
        message = fold(read((text[:place], text[place:])))
        if message != whole:
            _print({"cut": place, "message": message})
            sys.exit(1)
    _print({"cuts": max(0, len(text) - 1), "differing": 0})


def _print(line: dict[str, Any]) -> None:
    print(json.dumps(line, ensure_ascii=False))
