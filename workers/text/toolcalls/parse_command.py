"""The command `mlxcel-server parse`: shows what a raw answer is read as.

For reports of parser faults: it reads an answer as the model wrote it from standard input and
prints each event as a line of JSON, then the message the events add up to. It loads no model.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from workers.text import toolcalls
from workers.text.toolcalls.call_stream import CallStart, CallStream, StreamPiece
from workers.text.toolcalls.format import Arguments, End, Format, Text, Tools

_EVERY = "every"


def main(arguments: Sequence[str]) -> None:
    """Run `mlxcel-server parse …`; the exit code is 1 if the result depends on a cut."""
    options = _build_parser().parse_args(arguments)
    try:
        form = _choose(options.format, options.model)
        tools = _read_tools(options.tools) if options.tools else None
        text = sys.stdin.buffer.read().decode("utf-8")
    except (OSError, ValueError) as failure:
        sys.exit(f"error: {failure}")
    size = options.cut if isinstance(options.cut, int) else max(1, len(text))
    events = list(parse(form, tools, [text[i : i + size] for i in range(0, len(text), size)]))
    for event in events:
        _print(_describe(event))
    _print({"format": form.name, "message": fold(events)})
    if options.cut == _EVERY:
        _compare(form, tools, text, fold(events))


def parse(form: Format, tools: Tools | None, parts: Iterable[str]) -> Iterable[StreamPiece]:
    """Yield what an answer that arrives in parts is read as."""
    stream = CallStream(form, tools, "parse")
    for part in parts:
        yield from stream.feed(part)
    yield from stream.finish()


def fold(events: Iterable[StreamPiece]) -> dict[str, Any]:
    """Return the assistant message that events add up to, in the form of a chat completion."""
    content: list[str] = []
    calls: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, Text):
            content.append(event.text)
        elif isinstance(event, CallStart):
            function = {"name": event.name, "arguments": ""}
            calls.append({"id": event.id, "type": "function", "function": function})
        elif isinstance(event, Arguments):
            calls[-1]["function"]["arguments"] += event.text
    message: dict[str, Any] = {"role": "assistant", "content": "".join(content)}
    if calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = calls
    return message


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mlxcel-server parse",
        description="Show the events and the message that a raw answer on standard input gives.",
    )
    names = ", ".join(form.name for form in toolcalls.FORMATS)
    parser.add_argument(
        "--format", required=True, help=f"auto (by the template of --model) or one of: {names}"
    )
    parser.add_argument("--model", type=Path, help="model folder, for --format auto")
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


def _choose(name: str, model: Path | None) -> Format:
    """Return the format of a name, or of a model's template.

    Raises:
        OSError, ValueError: there is none, or no way to tell.
    """
    if name != "auto":
        form = toolcalls.find(name)
        if form is None:
            raise ValueError(f"unknown format {name!r}")
        return form
    if model is None:
        raise ValueError("--format auto needs --model")
    form = toolcalls.detect(_read_template(model))
    if form is None:
        raise ValueError(f"the chat template of {model} knows no tools")
    return form


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


def _describe(event: StreamPiece) -> dict[str, str]:
    if isinstance(event, CallStart):
        return {"event": "start", "id": event.id, "name": event.name}
    if isinstance(event, End):
        return {"event": "end"}
    kind = "text" if isinstance(event, Text) else "arguments"
    return {"event": kind, "text": event.text}


def _compare(form: Format, tools: Tools | None, text: str, whole: dict[str, Any]) -> None:
    """Print the first cut that changes the result, and exit with 1; or that there is none."""
    for place in range(1, len(text)):
        message = fold(parse(form, tools, (text[:place], text[place:])))
        if message != whole:
            _print({"cut": place, "message": message})
            sys.exit(1)
    _print({"cuts": max(0, len(text) - 1), "differing": 0})


def _print(line: dict[str, Any]) -> None:
    print(json.dumps(line, ensure_ascii=False))
