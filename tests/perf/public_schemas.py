"""`python -m tests.perf.public_schemas FOLDER`: how many JSON schemas of others compile.

Each folder inside FOLDER holds the unpacked files of one package; nothing is fetched. A JSON file
counts as a schema if it declares a JSON Schema dialect, or has a type or combination and members.
Schemas above the limits of the reference, and those that refer to other documents, are counted
apart. Prints one row per package, the refusals by keyword and the time to compile.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from transformers import AutoTokenizer

from gateway.dialects.grammar import parse_schema
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.checkpoint import starter_folder
from tests.perf.table import show
from workers.text.answer.grammar import GrammarCompiler

_STARTER_TOKENS = 49152
_STARTER_END = 2
_COMBINATIONS = ("$ref", "allOf", "anyOf", "oneOf", "type")
_MEMBERS = ("$defs", "additionalProperties", "definitions", "properties", *_COMBINATIONS[1:4])
_KEYWORD = re.compile(r"'([A-Za-z$]+)'")


def main(folder: Path, *, verbose: bool) -> None:
    tokenizer = AutoTokenizer.from_pretrained(starter_folder())
    compiler = GrammarCompiler(tokenizer, _STARTER_TOKENS, [_STARTER_END])
    compiler.compile(pb.Grammar(json_schema="true"))
    seen: set[str] = set()
    refused: Counter[str] = Counter()
    times_ms: list[float] = []
    rows = []
    for package in sorted(path for path in folder.iterdir() if path.is_dir()):
        counts: Counter[str] = Counter()
        for path, schema in _read(package, seen):
            began_s = time.perf_counter()
            outcome = _outcome(compiler, schema)
            kind = outcome.partition(" ")[0]
            counts[kind] += 1
            if kind in ("compiled", "refused"):
                times_ms.append(1000 * (time.perf_counter() - began_s))
            if kind == "refused":
                refused[outcome.partition(" ")[2]] += 1
            if verbose and kind != "compiled":
                print(f"{times_ms[-1] if times_ms else 0:8.0f} ms  {outcome}  {path}", flush=True)
        rows.append(_row(package.name, counts))
    rows.append(_total(rows))
    show("Public schemas", rows)
    show("Refused", [{"keyword": name, "schemas": count} for name, count in refused.most_common()])
    cuts = statistics.quantiles(times_ms, n=100)
    show("Time to compile, ms", [{"p50": cuts[49], "p99": cuts[98], "max": max(times_ms)}])


def _read(package: Path, seen: set[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the schemas of a package that have not been seen."""
    for path in sorted(package.rglob("*")):
        if path.suffix not in (".json", ".jsonschema", ".schema") or not path.is_file():
            continue
        try:
            value = json.loads(path.read_bytes())
        except ValueError:
            continue
        text = json.dumps(value, sort_keys=True)
        if _is_schema(value) and text not in seen:
            seen.add(text)
            yield path, value


def _is_schema(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if "json-schema" in str(value.get("$schema")):
        return True
    combines = any(name in value for name in _COMBINATIONS) or "typeName" in value
    return combines and any(name in value for name in _MEMBERS)


def _outcome(compiler: GrammarCompiler, schema: dict[str, Any]) -> str:
    """Return one of: compiled, refused and a keyword, limit, remote."""
    # A tool or an SDK sends schemas without the name of their dialect.
    raw = msgspec.Raw(json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode())
    try:
        grammar = parse_schema(raw, "schema")
    except ServiceError:
        return "limit"
    try:
        compiler.compile(grammar)
    except ServiceError as refusal:
        if _has_remote(schema):
            return "remote"
        found = _KEYWORD.search(refusal.message)
        return f"refused {found[1] if found else refusal.message.rpartition(': ')[2]}"
    return "compiled"


def _has_remote(schema: Any) -> bool:
    """Return whether a schema refers to another document, which a server never fetches."""
    if isinstance(schema, list):
        return any(map(_has_remote, schema))
    if not isinstance(schema, dict):
        return False
    target = schema.get("$ref")
    if isinstance(target, str) and not target.startswith("#"):
        return True
    return any(map(_has_remote, schema.values()))


def _row(name: str, counts: Counter[str]) -> dict[str, Any]:
    decided = counts["compiled"] + counts["refused"]
    return {
        "package": name,
        "schemas": counts.total(),
        "above limits": counts["limit"],
        "other documents": counts["remote"],
        "compiled": counts["compiled"],
        "refused": counts["refused"],
        "share": f"{counts['compiled'] / decided:.1%}" if decided else None,
    }


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    total = Counter({
        kind: sum(row[column] for row in rows)
        for kind, column in (
            ("limit", "above limits"),
            ("remote", "other documents"),
            ("compiled", "compiled"),
            ("refused", "refused"),
        )
    })  # fmt: skip
    return _row("all", total)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true", help="name each refused file")
    arguments = parser.parse_args()
    main(arguments.folder, verbose=arguments.verbose)
