"""Parses a text with a format and joins the pieces, so that results can be compared."""

from __future__ import annotations

from itertools import pairwise

from workers.text.toolcalls.format import CallArguments, CallEnd, CallName, ContentText, ParsedCall
from workers.text.toolcalls.stream import join


def read(form, parts, tools):
    """Return the pieces that the parts of an answer give, neighbouring ones joined."""
    parser = form.parser(tools)
    pieces = [piece for part in parts for piece in parser.feed(part)]
    return join([*pieces, *parser.finish()])


def watch(form, text, tools):
    """Return the joined pieces that are out after each character, then those after the end."""
    parser = form.parser(tools)
    pieces = []
    seen = []
    for char in text:
        pieces = join([*pieces, *parser.feed(char)])
        seen.append(pieces)
    return [*seen, join([*pieces, *parser.finish()])]


def cut(text, offsets):
    """Return the parts of a text cut at some offsets."""
    bounds = [0, *sorted(offsets), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


def content(pieces):
    return "".join(piece.text for piece in pieces if isinstance(piece, ContentText))


def calls(pieces):
    """Return the calls among pieces, which must be well nested."""
    found = []
    is_open = False
    for piece in pieces:
        if isinstance(piece, CallName):
            assert not is_open
            found.append(ParsedCall(piece.name, ""))
            is_open = True
        elif isinstance(piece, CallArguments):
            assert is_open
            found[-1] = ParsedCall(found[-1].name, found[-1].arguments + piece.text)
        elif isinstance(piece, CallEnd):
            assert is_open
            is_open = False
        else:
            assert not is_open
    assert not is_open
    return found


def parse_at_every_cut(form, text, tools=None):
    """Return an answer's content and its calls as (name, arguments), after trying every cut."""
    tools = tools or {}
    pieces = read(form, [text], tools)
    assert read(form, text, tools) == pieces
    for offset in range(1, len(text)):
        assert read(form, cut(text, [offset]), tools) == pieces
    return content(pieces), [(call.name, call.arguments) for call in calls(pieces)]
