"""From the text of a parameter to its JSON value, by the schema of the tool.

For formats whose arguments are no JSON: a parameter that is declared a string is its raw text,
everything else is JSON or a loose literal, and text again when it is neither. Pure; never raises,
whatever the schema holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workers.text.toolcalls.format import to_json
from workers.text.toolcalls.literal import Literal, kind_of, read_literal

# Not JSON Schema's words, but met in the wild.
_ALIASES = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}


def is_text(parameters: Mapping[str, Any], name: str) -> bool:
    """Return whether a parameter's value is its raw text, whatever that is.

    Args:
        parameters: schema of the function's parameters; empty for an undeclared function.
    """
    return kinds(parameters, name) == {"string"}


def convert(text: str, parameters: Mapping[str, Any], name: str) -> str:
    """Return the JSON text of a parameter's value.

    Args:
        text: as the model wrote it.
        parameters: schema of the function's parameters; empty for an undeclared function.
    """
    allowed = kinds(parameters, name)
    if allowed == {"string"}:
        return to_json(text)
    if "null" in allowed and text.strip() in ("null", "None"):
        return "null"
    if allowed == {"string", "null"}:
        return to_json(text)
    literal = _read(text, allowed)
    if literal is None or ("string" in allowed and not _fits(literal, allowed)):
        return to_json(text)
    return literal.text


def arguments_of(pairs: Iterable[tuple[str, str]], parameters: Mapping[str, Any]) -> str:
    """Return the JSON object of parameters given as (name, text); of equal names the last counts.

    Args:
        parameters: schema of the function's parameters; empty for an undeclared function.
    """
    values = {name: convert(text, parameters, name) for name, text in pairs}
    return object_of(values.items())


def object_of(entries: Iterable[tuple[str, str]]) -> str:
    """Return the JSON object of (name, JSON text) entries."""
    return "{" + ", ".join(f"{to_json(name)}: {value}" for name, value in entries) + "}"


def kinds(parameters: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the JSON types that a parameter may have; empty when nothing is known of it."""
    found: set[str] = set()
    schemas = [_declared(parameters, name)]
    # Schemas may refer to themselves: each is looked at once. The list grows while it is read.
    for schema in schemas:
        if isinstance(schema, Mapping):
            found.update(_own_kinds(schema))
            if "type" not in schema:
                parts = _parts(schema, parameters)
                schemas.extend(part for part in parts if not any(part is s for s in schemas))
    return frozenset(found)


def _declared(parameters: Mapping[str, Any], name: str) -> Any:
    properties = parameters.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        return properties[name]
    return parameters.get("additionalProperties")


def _own_kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types that a schema names itself, or shows by its values."""
    named = schema.get("type")
    if named is not None:
        for kind in named if isinstance(named, list) else [named]:
            yield _ALIASES.get(str(kind).lower(), str(kind).lower())
        return
    values = schema.get("enum")
    yield from map(kind_of, values if isinstance(values, list) else ())
    if "const" in schema:
        yield kind_of(schema["const"])


def _parts(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the schemas that a schema combines or refers to."""
    if isinstance(schema.get("$ref"), str):
        yield _resolve(schema["$ref"], root)
    for word in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(word)
        if isinstance(parts, list):
            yield from parts


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    """Return what a reference within the same document names; None if there is no such thing."""
    place: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(place, Mapping) or key not in place:
            return None
        place = place[key]
    return place


def _read(text: str, allowed: frozenset[str]) -> Literal | None:
    plain = text.strip()
    if "boolean" in allowed and plain.lower() in ("true", "false"):
        return Literal(plain.lower(), "boolean")
    return read_literal(plain)


def _fits(literal: Literal, allowed: frozenset[str]) -> bool:
    """Return whether a literal is of an allowed type that is not text."""
    if literal.kind == "string":
        return False
    return literal.kind in allowed or (literal.kind == "integer" and "number" in allowed)
