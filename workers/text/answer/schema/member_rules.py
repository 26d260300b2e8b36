"""Rewrites the keywords that limit the members of an object.

Each rule removes its keyword from a schema, if it can, and returns schemas that must hold as well.
A schema without `type: object` still allows every other value. Pure.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from workers.text.answer.schema.negation import other_kinds
from workers.text.toolcalls.schema import resolve

MemberRule: TypeAlias = Callable[[dict[str, Any], Any], list[Any]]

_MAX_CHOICES = 32
_MAX_STEPS = 32
_NAME_KEYWORDS = {"pattern", "minLength", "maxLength", "enum", "const"}
_NAME_NOTES = {"type", "format", "title", "description", "$comment", "examples", "$schema"}


def absent(name: str) -> dict[str, Any]:
    return {"properties": {name: False}}


def depend(written: dict[str, Any], _root: Any) -> list[Any]:
    """Write dependencies as choices: a member is absent, or what depends on it holds."""
    found: list[Any] = []
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        rules = written.get(keyword)
        if not isinstance(rules, dict):
            continue
        del written[keyword]
        for name, rule in rules.items():
            needed = {"required": [name, *rule]} if isinstance(rule, list) else rule
            found.append({"anyOf": [absent(name), needed]})
    return found


def name_members(written: dict[str, Any], root: Any) -> list[Any]:
    """Write `propertyNames` as declared members, or as a pattern for the others."""
    if "propertyNames" not in written or written.get("patternProperties"):
        return []
    names = _follow(written["propertyNames"], root)
    if not isinstance(names, dict) or set(names) - _NAME_KEYWORDS - _NAME_NOTES:
        return []
    if names.get("type", "string") != "string":
        return []
    rules = set(names) & _NAME_KEYWORDS
    members = written.get("properties", {})
    if not isinstance(members, dict):
        return []
    others = written.get("additionalProperties", True)
    if rules <= {"enum"} and isinstance(names.get("enum", []), list):
        listed = [name for name in names.get("enum", []) if isinstance(name, str)]
        others = {} if rules and others is True else others
        if rules:
            declared = {name: members.get(name, others) for name in listed}
            forbidden = {name: False for name in members if name not in listed}
            written["properties"] = declared | forbidden
            written["additionalProperties"] = False
    elif rules in ({"pattern"}, {"minLength"}, {"maxLength"}, {"minLength", "maxLength"}):
        pattern = names.get("pattern") or _length_pattern(names)
        matches = _matcher(pattern)
        if matches is None:
            return []
        forbidden = {name: False for name in members if not matches(name)}
        written["properties"] = members | forbidden
        if others is not False:
            written["patternProperties"] = {pattern: others}
        written["additionalProperties"] = False
    else:
        return []
    del written["propertyNames"]
    return []


def _follow(schema: Any, root: Any) -> Any:
    for _ in range(_MAX_STEPS):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            return schema
        schema = resolve(schema["$ref"], root)
    return None


def _length_pattern(names: Mapping[str, Any]) -> str:
    return rf"^[\s\S]{{{names.get('minLength', 0)},{names.get('maxLength', '')}}}$"


def _matcher(pattern: Any) -> Callable[[str], object] | None:
    try:
        return re.compile(pattern).search
    except (re.error, TypeError, RecursionError):
        return None


def count_members(written: dict[str, Any], _root: Any) -> list[Any]:
    """Write the number of members as a choice of which are there."""
    return [*_at_least(written), *_at_most(written)]


def _at_least(written: dict[str, Any]) -> list[Any]:
    least = written.get("minProperties")
    required, optional = _declared(written)
    if not isinstance(least, int) or isinstance(least, bool):
        return []
    missing = least - len(required)
    if missing <= 0:
        del written["minProperties"]
        return []
    if not optional or math.comb(len(optional), min(missing, len(optional))) > _MAX_CHOICES:
        return []
    del written["minProperties"]
    chosen = [{"required": [*row]} for row in itertools.combinations(optional, missing)]
    more = [] if not _is_open(written) or missing > 1 else [_only_undeclared(optional)]
    return [{"anyOf": [*chosen, *more, other_kinds("object")]}]


def _only_undeclared(optional: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict.fromkeys(optional, False),
        "minProperties": 1,
    }


def _at_most(written: dict[str, Any]) -> list[Any]:
    most = written.get("maxProperties")
    required, optional = _declared(written)
    if not isinstance(most, int) or isinstance(most, bool) or most < len(required):
        return []
    is_open = _is_open(written)
    if not is_open and len(required) + len(optional) <= most:
        del written["maxProperties"]
        return []
    if is_open and not set(required) <= set(written.get("properties", {})):
        return []
    room = most - len(required)
    if not optional or math.comb(len(optional), min(room, len(optional))) > _MAX_CHOICES:
        return []
    del written["maxProperties"]
    if is_open:
        written["additionalProperties"] = False
        written.pop("patternProperties", None)
    kept = itertools.combinations(optional, min(room, len(optional)))
    forbidden = ([name for name in optional if name not in row] for row in kept)
    choices = [{"properties": dict.fromkeys(names, False)} for names in forbidden]
    return [{"anyOf": choices}]


def _declared(written: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the required and the optional members that a schema names."""
    named, members = written.get("required"), written.get("properties")
    required = list(dict.fromkeys(map(str, named))) if isinstance(named, list) else []
    names = [name for name, part in members.items() if part is not False] if isinstance(
        members, dict
    ) else []  # fmt: skip
    return required, [name for name in names if name not in required]


def _is_open(written: Mapping[str, Any]) -> bool:
    return written.get("additionalProperties") is not False or bool(
        written.get("patternProperties")
    )


def close(written: dict[str, Any], root: Any) -> list[Any]:
    """Write `unevaluatedProperties: false` as a list of the members that are evaluated."""
    if written.get("unevaluatedProperties") is not False:
        return []
    evaluated = [*_evaluated(written, root, 0)]
    if any(set(part) & {"patternProperties"} for part in evaluated):
        return []
    if any(part.get("additionalProperties", False) is not False for part in evaluated):
        del written["unevaluatedProperties"]
        return []
    members = [part["properties"] for part in evaluated if "properties" in part]
    if not all(isinstance(part, dict) for part in members):
        return []
    del written["unevaluatedProperties"]
    names = dict.fromkeys(itertools.chain.from_iterable(members), True)
    return [{"properties": names, "additionalProperties": False}]


def _evaluated(schema: Any, root: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that always apply to the same object."""
    if not isinstance(schema, Mapping) or depth > _MAX_STEPS:
        return
    yield schema
    if isinstance(schema.get("$ref"), str):
        yield from _evaluated(resolve(schema["$ref"], root), root, depth + 1)
    parts = schema.get("allOf")
    for part in parts if isinstance(parts, list) else ():
        yield from _evaluated(part, root, depth + 1)


# What `close` lists are the members that the schema itself declares, so it comes first.
MEMBER_RULES: Final[tuple[MemberRule, ...]] = (close, name_members, depend, count_members)
