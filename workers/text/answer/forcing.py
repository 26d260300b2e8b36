"""The grammars of answers that must be tool calls, or may be instead of following a schema.

Written in llguidance's dialect of Lark, with a JSON schema for the call object. Name and wrapper
are always enforced; a function whose parameters can't be enforced takes any object. Runs where
grammars are compiled.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from llguidance import LLMatcher

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from workers.text.answer.grammar import GrammarCompiler, compiles, write_exact
from workers.text.answer.schema.exactness import JSON_STYLE, make_exact
from workers.text.toolcalls.format import Format, Tools, Wrapper

log = logging.getLogger(__name__)

# Without a limit, a model that repeats calls would go on to its token limit.
_MAX_CALLS = 8
_MAX_KNOWN = 64
_ANY: dict[str, Any] = {"type": "object"}
# Any text, with the delimiters that are control tokens.
_REST = "rest: (TEXT{})*\nTEXT: /(.|\\n)+/\n"

# Schemas of arguments as the engine enforces them, by function.
_Exact: TypeAlias = Mapping[str, Any]


class CallGrammars:
    """Makes the matchers of calls in one model's format.

    Args:
        control_names: ids of control tokens by text; delimiters that are control tokens are
            written as such in a grammar.
    """

    def __init__(
        self, compiler: GrammarCompiler, call_format: Format, control_names: Mapping[str, int]
    ) -> None:
        self._compiler = compiler
        self._format = call_format
        self._control_names = control_names
        # Agents send the same functions with every request.
        self._settle = functools.lru_cache(_MAX_KNOWN)(self._find_grammar)

    @property
    def can_force(self) -> bool:
        """Whether calls are JSON objects, which a grammar can enforce."""
        return self._format.wrapper is not None

    @property
    def can_offer(self) -> bool:
        """Whether a grammar can tell calls from another answer."""
        return self.can_force or bool(self._format.openings)

    def force(self, tools: Tools, named: str | None, *, lone: bool) -> LLMatcher:
        """Return a matcher of one call of `named`, or of one to eight calls of any function.

        Args:
            lone: allow only one call even if none is named.

        Raises:
            ServiceError: not even the names can be enforced.
        """
        chosen = tools if named is None else {named: tools.get(named, {})}
        more = 0 if lone or named is not None else _MAX_CALLS - 1
        return self._compiler.compile(self._settle(json.dumps(chosen), more))

    def offer(self, source: pb.Grammar, tools: Tools, *, lone: bool) -> LLMatcher:
        """Return a matcher of calls of any function, or else of an answer that follows a schema.

        Of formats whose calls are not JSON objects, only the text that begins a call is enforced.

        Args:
            source: a schema that has compiled.
            lone: allow only one call.

        Raises:
            ServiceError: not even the names can be enforced.
        """
        chosen = json.dumps(tools if self.can_force else {})
        more = 0 if lone else _MAX_CALLS - 1
        return self._compiler.compile(self._settle(chosen, more, source.json_schema))

    def _find_grammar(self, tools: str, more: int, schema: str | None = None) -> pb.Grammar:
        """Return a grammar that compiles; the functions that it can't be compiled with are relaxed.

        Args:
            tools: the schemas of the arguments by function, as JSON text.
            schema: of an answer without calls, as JSON text; None if there must be calls.
        """
        exact = {name: _exact(name, part) for name, part in json.loads(tools).items()}
        answer = None if schema is None else write_exact(pb.Grammar(json_schema=schema))
        for find in (self._find_refused, list):
            grammar = self._write(exact, more, answer)
            try:
                self._compiler.compile(grammar)
            except ServiceError as refusal:
                log.warning("calls may take any arguments: %s", refusal)
                exact |= dict.fromkeys(find(exact), _ANY)
            else:
                return grammar
        return self._write(exact, more, answer)

    def _write(self, exact: _Exact, more: int, answer: str | None) -> pb.Grammar:
        if answer is None:
            start, rule = self._write_calls(exact, more)
            return pb.Grammar(lark=f"start: {start}\n{rule}")
        starts, rule = self._write_starts(exact, more)
        choices = " | ".join(("answer", *starts))
        return pb.Grammar(lark=f"start: {choices}\nanswer: %json {answer}\n{rule}")

    def _find_refused(self, exact: _Exact) -> list[str]:
        """Return the functions whose parameters can't be enforced even alone."""
        refused = []
        for name, parameters in exact.items():
            try:
                self._compiler.compile(self._write({name: parameters}, 0, None))
            except ServiceError:
                refused.append(name)
        return refused

    def _write_starts(self, exact: _Exact, more: int) -> tuple[Sequence[str], str]:
        """Return the expressions of calls beside another answer, and the rule they refer to."""
        wrapper, names = self._format.wrapper, self._control_names
        if wrapper is not None:
            start, rule = self._write_calls(exact, more)
            return [start, "call"] if self._format.is_bare and wrapper.opening else [start], rule
        starts = [f"{_spell(text, names)} rest" for text in self._format.openings]
        marks = (names[name] for name in self._format.markers if name in names)
        return starts, _REST.format("".join(f" | <[{token}]>" for token in marks))

    def _write_calls(self, exact: _Exact, more: int) -> tuple[str, str]:
        """Return the expression of one call and up to `more` others, and the rule of its object."""
        wrapper = self._format.wrapper
        assert wrapper is not None
        schema: dict[str, Any] = {"anyOf": [_object(*item, wrapper) for item in exact.items()]}
        schema["x-guidance"] = JSON_STYLE
        opening = _spell(wrapper.opening, self._control_names)
        closing = _spell(wrapper.closing, self._control_names)
        if wrapper.is_list:
            rest = f' ("," / ?/ call){{0,{more}}}' if more else ""
            start = f'{opening} "[" call{rest} "]" {closing}'
        else:
            one = f"{opening} call {closing}".strip()
            start = f"{one} (/\\n?/ {one}){{0,{more}}}" if more else one
        return start, f"call: %json {json.dumps(schema)}\n"


def _exact(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as the engine enforces them, or any object."""
    if parameters.get("type", "object") != "object":
        return _ANY
    try:
        exact = _ANY | make_exact(parameters, name, compiles)
    except ValueError:
        return _ANY
    # References start at the root of the parameters.
    exact |= {"$id": f"tool:{quote(name)}"}
    return exact if compiles(exact) else _ANY


def _object(name: str, parameters: Any, wrapper: Wrapper) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, wrapper.arguments_key: parameters},
        "required": ["name", wrapper.arguments_key],
        "additionalProperties": False,
    }


def _spell(text: str, control_names: Mapping[str, int]) -> str:
    """Return a fixed text in Lark, with control tokens written as tokens."""
    for name, token in control_names.items():
        before, found, after = text.partition(name)
        if found:
            parts = (_spell(before, {}), f"<[{token}]>", _spell(after, {}))
            return " ".join(part for part in parts if part)
    return json.dumps(text) if text else ""
