"""The subcommand `mlxcel-server parse`: shows how a raw answer is parsed.

For reports of parser faults: it reads the text of an answer as the model wrote it from standard
input and prints each event as a line of JSON, then the message that the events add up to.
Reasoning is split off as it is when the model is served. It loads no model.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from workers.text.answer.reading import (
    AnswerPiece,
    assemble_message,
    choose_splitter,
    read_answer,
)
from workers.text.answer.reasoning import ReasoningPart
from workers.text.toolcalls import detection
from workers.text.toolcalls.call_stream import CallStart, CallStream
from workers.text.toolcalls.format import CallArguments, CallEnd, ContentText, Format, Tools

_EVERY = "every"


def main(arguments: Sequence[str]) -> None:
    """Run `mlxcel-server parse …`; the exit code is 1 if the result depends on a cut."""
    options = _build_parser().parse_args(arguments)
    try:
        template = _read_template(options.model) if options.model else ""
        call_format = _choose_format(options.format, options.model, template)
        tools = _read_tools(options.tools) if options.tools else None
        text = sys.stdin.buffer.read().decode("utf-8")
    except (OSError, ValueError) as failure:
        sys.exit(f"error: {failure}")
    make_splitter = choose_splitter(call_format, template, text, in_reasoning=options.thinking)

    def read(parts: Iterable[str]) -> list[AnswerPiece]:
        return list(read_answer(parts, make_splitter(), CallStream(call_format, tools, "parse")))

    size = options.cut if isinstance(options.cut, int) else max(1, len(text))
    pieces = read(text[i : i + size] for i in range(0, len(text), size))
    for piece in pieces:
        _print(_describe(piece))
    message = assemble_message(pieces)
    _print({"format": call_format.name, "message": message})
    if options.cut == _EVERY:
        _compare_cuts(read, text, message)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mlxcel-server parse",
        description="Show the events and the message parsed from a raw answer on standard input.",
    )
    names = ", ".join(call_format.name for call_format in detection.FORMATS)
    parser.add_argument(
        "--format", required=True, help=f"auto (from the template of --model) or one of: {names}"
    )
    parser.add_argument("--model", type=Path, help="model folder, whose chat template is read")
    parser.add_argument(
        "--thinking", action="store_true", help="the prompt has opened a reasoning block"
    )
    parser.add_argument(
        "--tools",
        type=Path,
        help="JSON file with a request's tools, whose schemas convert arguments",
    )
    parser.add_argument(
        "--cut",
        type=_parse_cut,
        help=f"feed the text in pieces of this many characters; {_EVERY}: also cut it in two at"
        " every position and compare the results",
    )
    return parser


def _parse_cut(text: str) -> int | str:
    if text == _EVERY:
        return text
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of characters or {_EVERY}")
    return int(text)


def _choose_format(name: str, model: Path | None, template: str) -> Format:
    """Return the format with a name, or for "auto" that of a model's template.

    Raises:
        ValueError: there is none.
    """
    if name == "auto" and model is None:
        raise ValueError("--format auto needs --model")
    call_format = detection.detect(template) if name == "auto" else detection.find(name)
    if call_format is None and name == "auto":
        raise ValueError(f"the chat template of {model} has no tools")
    if call_format is None:
        raise ValueError(f"unknown format {name!r}")
    return call_format


def _read_template(model: Path) -> str:
    """Return a model's chat template for tools, or else all its templates joined."""
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
    """Return the parameter schemas by function, from the tools of a chat request."""
    tools = json.loads(path.read_text(encoding="utf-8"))
    try:
        functions = [tool.get("function", tool) for tool in tools]
        return {function["name"]: function.get("parameters") or {} for function in functions}
    except (AttributeError, KeyError, TypeError) as failure:
        raise ValueError(f"{path} is not a list of tools") from failure


def _describe(piece: AnswerPiece) -> dict[str, str]:
    if isinstance(piece, CallStart):
        return {"event": "start", "id": piece.id, "name": piece.name}
    if isinstance(piece, CallEnd):
        return {"event": "end"}
    kinds = {ContentText: "text", ReasoningPart: "reasoning", CallArguments: "arguments"}
    return {"event": kinds[type(piece)], "text": piece.text}


def _compare_cuts(
    read: Callable[[Iterable[str]], list[AnswerPiece]], text: str, whole: dict[str, Any]
) -> None:
    """Print the first cut in two that changes the message and exit with 1, or that none does."""
    for cut in range(1, len(text)):
        message = assemble_message(read((text[:cut], text[cut:])))
        if message != whole:
            _print({"cut": cut, "message": message})
            sys.exit(1)
    _print({"cuts": max(0, len(text) - 1), "differing": 0})


def _print(line: dict[str, Any]) -> None:
    print(json.dumps(line, ensure_ascii=False))
