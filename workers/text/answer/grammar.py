"""Structured output: grammars compiled to llguidance's matchers.

What llguidance can't express exactly is refused with the keyword at fault, never ignored, and a
refusal never repeats the schema. Runs on the render thread, in bounded effort; the matchers are
followed by guide.py and turned into masks by sampling/mask.py, on the engine thread.
"""

from __future__ import annotations

import functools
import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import llguidance.hf
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, grammar_from

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from workers.text.answer.probe import Prober
from workers.text.answer.schema.exactness import JSON_STYLE, InexactError, make_exact
from workers.text.answer.schema.negation import MAX_PARTS, TooComplexError

# Sources: the reference's limits on a grammar (100,000 symbols, 50,000 lexer states). The fuel
# limits are llguidance's own defaults, about 20 ms of work. An object needs about four items per
# optional member; the limit of items per step is about 5 ms of work.
_LIMITS = LLParserLimits(
    max_grammar_size=100_000,
    max_lexer_states=50_000,
    max_items_in_row=20_000,
    step_max_items=100_000,
    verbose_errors=False,
)
_MAX_COMPILED = 64
# The converter of llama.cpp's grammars may scan all rules once per rule, depending on their order.
# This many rules times bytes take it about two seconds.
_MAX_GBNF_EFFORT = 5_000_000
# Set last, so that a schema's own "x-guidance" can't turn an unknown keyword into an ignored one.
_JSON_STRICT = {"lenient": False, "coerce_one_of": False}
# Schemas that are not objects: llguidance accepts no options for them.
_PLAIN = {"true": "{}", "false": '{"enum": []}'}


class GrammarCompiler:
    """Makes matchers for one tokenizer.

    Args:
        tokenizer: transformers' own object.
        end_ids: tokens that may end an answer.
    """

    def __init__(self, tokenizer: Any, vocab_tokens: int, end_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._vocab_tokens = vocab_tokens
        self._end_ids = sorted(end_ids)
        self._compiled: OrderedDict[tuple[str, str], LLMatcher] = OrderedDict()

    @functools.cached_property
    def _prober(self) -> Prober:
        return Prober(self._ll_tokenizer)

    @functools.cached_property
    def _ll_tokenizer(self) -> LLTokenizer:
        """Llguidance's view of the vocabulary; about a second to make."""
        try:
            return llguidance.hf.from_tokenizer(
                self._tokenizer, n_vocab=self._vocab_tokens, eos_token=self._end_ids
            )
        except (ValueError, TypeError, RuntimeError) as failure:
            raise ServiceError(
                "unsupported_tokenizer",
                "tokenizer backend not supported for structured outputs: "
                f"{type(self._tokenizer).__name__}",
            ) from failure

    def compile(self, source: pb.Grammar) -> LLMatcher:
        """Return a matcher at the start of a grammar.

        Raises:
            ServiceError: it can't be expressed or is too complex; names the keyword at fault.
        """
        kind = source.WhichOneof("source") or ""
        key = kind, str(getattr(source, kind))
        matcher = self._compiled.get(key)
        if matcher is None:
            matcher = self._compiled[key] = self._compile(source, *key)
            if len(self._compiled) > _MAX_COMPILED:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return matcher.deep_copy()

    def _compile(self, source: pb.Grammar, kind: str, text: str) -> LLMatcher:
        if kind == "json_schema":
            grammar = _read_schema(source)
        elif kind == "regex":
            grammar = LLMatcher.grammar_from_regex(text)
        else:
            grammar = _read_lark(kind, text)
        matcher = LLMatcher(self._ll_tokenizer, grammar, log_level=0, limits=_LIMITS)
        # Some limits show only when masks are computed.
        if not matcher.is_error():
            self._prober.try_out(matcher)
        if matcher.is_error():
            raise _refusal(matcher.get_error(), source)
        return matcher


def write_exact(source: pb.Grammar) -> str:
    """Return a schema that has compiled, exact and with the engine's options, as JSON text."""
    schema = make_exact(json.loads(source.json_schema), source.path, compiles)
    text = json.dumps(schema)
    exact = json.loads(_PLAIN.get(text, text))
    return json.dumps({**exact, "x-guidance": JSON_STYLE | _JSON_STRICT})


def _read_schema(source: pb.Grammar) -> str:
    try:
        schema = make_exact(json.loads(source.json_schema), source.path, compiles)
        text = json.dumps(schema)
        options: Any = JSON_STYLE | _JSON_STRICT
        return LLMatcher.grammar_from_json_schema(_PLAIN.get(text, text), overrides=options)
    except InexactError as fault:
        raise _keyword_refusal(fault.keyword, source, fault.path) from fault
    except TooComplexError as failure:
        sentence = f"the grammar exceeds the limit of {MAX_PARTS} parts"
        raise _schema_refusal(sentence, source.path, source) from failure
    # Numbers beyond the range of a double, half a surrogate pair.
    except ValueError as failure:
        raise _schema_refusal("the schema can't be compiled", source.path, source) from failure


def compiles(schema: dict[str, Any]) -> bool:
    """Return whether the engine accepts a schema."""
    try:
        text = json.dumps({**schema, "x-guidance": _JSON_STRICT})
        grammar = LLMatcher.grammar_from_json_schema(text)
    except ValueError:
        return False
    return not LLMatcher.validate_grammar(grammar, limits=_LIMITS)


def _read_lark(kind: str, text: str) -> str:
    if kind == "gbnf" and text.count("::=") * len(text) > _MAX_GBNF_EFFORT:
        raise ServiceError("invalid_request", "The grammar has too many rules.", "grammar")
    try:
        return str(grammar_from("lark" if kind == "lark" else "gbnf", text))
    # The converter raises arbitrary exceptions on a malformed grammar.
    except Exception as failure:
        raise ServiceError(
            "invalid_request", "The grammar can't be parsed.", "grammar"
        ) from failure


def _refusal(reason: str, source: pb.Grammar) -> ServiceError:
    """Return the error for the engine's reason; it never quotes the grammar."""
    limit = next((name for known, name in _EXCEEDED if known.search(reason)), None)
    if limit is not None:
        sentence = f"the grammar exceeds the limit of {limit}"
        if source.HasField("json_schema"):
            return _schema_refusal(sentence, source.path, source)
        return ServiceError("invalid_request", f"{sentence[0].upper()}{sentence[1:]}.", "grammar")
    if not source.HasField("json_schema"):
        return ServiceError("invalid_request", "The grammar can't be compiled.", "grammar")
    keyword = _find_keyword(reason)
    if "doesn't satisfy" in reason:
        # Its masks and its parser disagree about long counted patterns.
        keyword = "patternProperties" if "patternProperties" in source.json_schema else "pattern"
    if not keyword:
        verb = "satisfied" if "nsatisfiable" in reason else "compiled"
        return _schema_refusal(f"the schema can't be {verb}", source.path, source)
    if keyword == "minProperties" and "minProperties" not in source.json_schema:
        keyword = "maxProperties"
    return _keyword_refusal(keyword, source)


def _keyword_refusal(keyword: str, source: pb.Grammar, path: str = "") -> ServiceError:
    """Return the refusal of a keyword, at a path or where the engine refuses it."""
    found = dict(_occurrences(json.loads(source.json_schema), keyword, source.path))
    if path not in found:
        if not found:
            # Rewriting has brought the keyword in.
            keyword, found = _find_rewritten(source)
        refused = (place for place, value in found.items() if not compiles({keyword: value}))
        path = next(refused, next(iter(found), source.path))
    return _schema_refusal(f"'{keyword}' can't be enforced as it is used here", path, source)


# Keywords that are rewritten with others.
_REWRITTEN = ("not", "if", "oneOf", "contains", "propertyNames", "dependencies", "format")


def _find_rewritten(source: pb.Grammar) -> tuple[str, dict[str, Any]]:
    schema = json.loads(source.json_schema)
    for keyword in _REWRITTEN:
        if found := dict(_occurrences(schema, keyword, source.path)):
            return keyword, found
    return "type", {}


def _schema_refusal(sentence: str, path: str, source: pb.Grammar) -> ServiceError:
    message = f"invalid JSON schema for {source.field}: {sentence}"
    return ServiceError("invalid_request", message, path)


# Error texts of llguidance, and the limit each refers to.
_EXCEEDED = (
    (re.compile(r"Current row has"), f"{_LIMITS.max_items_in_row} items per row"),
    (re.compile(r"Too many items"), f"{_LIMITS.step_max_items} items per step"),
    (re.compile(r"too many expressions|fuel"), f"{_LIMITS.step_lexer_fuel} expressions per step"),
    (re.compile(r"schema too large|grammar.* too|symbols"), f"{_LIMITS.max_grammar_size} symbols"),
    (re.compile(r"too many states|lexer states"), f"{_LIMITS.max_lexer_states} lexer states"),
)
# Error texts of llguidance, and the keyword each refers to; None: the pattern's group.
_COMPLAINTS = (
    (re.compile(r'Unimplemented keys: \["([A-Za-z$]+)"'), None),
    (re.compile(r"nsatisfiable"), ""),
    (re.compile(r"Expected .* for '([A-Za-z$]+)'"), None),
    (re.compile(r"^((?!schema)\w+) must be"), None),
    (re.compile(r"patternProperty"), "patternProperties"),
    (re.compile(r"min/maxProperties"), "minProperties"),
    (re.compile(r"multipleOf|multiple of"), "multipleOf"),
    (re.compile(r"oneOf"), "oneOf"),
    (re.compile(r"regex|pattern", re.IGNORECASE), "pattern"),
    (re.compile(r"Unknown format"), "format"),
    (re.compile(r"Invalid type"), "type"),
    # The last two: references that only lead back to themselves.
    (re.compile(r"registry|Pointer|\$ref|circular|NoExtensionBias"), "$ref"),
)


def _find_keyword(reason: str) -> str:
    for complaint, keyword in _COMPLAINTS:
        found = complaint.search(reason)
        if found:
            return found[1] if keyword is None else keyword
    return ""


def _occurrences(schema: Any, keyword: str, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the JSON path and the value of each occurrence of a keyword."""
    if isinstance(schema, dict):
        if keyword in schema:
            yield f"{path}.{keyword}", schema[keyword]
        for key, value in schema.items():
            yield from _occurrences(value, keyword, f"{path}.{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from _occurrences(value, keyword, f"{path}[{index}]")
