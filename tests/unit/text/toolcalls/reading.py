"""Parses a text with a format and joins the pieces, so that results can be compared."""

from __future__ import annotations

from itertools import groupby, pairwise

from workers.text.toolcalls.format import CallArguments, CallEnd, CallName, ContentText, ParsedCall


def join(pieces):
    """Return the pieces with neighbouring texts or arguments joined and empty ones dropped."""
    joined = []
    for kind, group in groupby(pieces, type):
        if kind in (CallName, CallEnd):
            joined += group
            continue
        text = "".join(p.text for p in group if isinstance(p, ContentText | CallArguments))
        if text:
            joined.append(ContentText(text) if kind is ContentText else CallArguments(text))
    return joined


def read(form, parts, tools, *, cut=False):
    """Return the pieces that the parts of an answer give, neighbouring ones joined.

    Args:
        cut: a limit has ended the answer.
    """
    parser = form.parser(tools)
    pieces = [piece for part in parts for piece in parser.feed(part)]
    return join([*pieces, *parser.finish(cut=cut)])


def watch(form, text, tools, *, cut=False):
    """Return the joined pieces that are out after each character, then those after the end."""
    parser = form.parser(tools)
    pieces = []
    seen = []
    for char in text:
        pieces = join([*pieces, *parser.feed(char)])
        seen.append(pieces)
    return [*seen, join([*pieces, *parser.finish(cut=cut)])]


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


def parse_at_every_cut(form, text, tools=None, *, limited=False):
    """Return an answer's content and its calls as (name, arguments), after trying every cut.

    Args:
        limited: a limit has ended the answer.
    """
    tools = tools or {}
    pieces = read(form, [text], tools, cut=limited)
    assert read(form, text, tools, cut=limited) == pieces
    for offset in range(1, len(text)):
        assert read(form, cut(text, [offset]), tools, cut=limited) == pieces
    return content(pieces), [(call.name, call.arguments) for call in calls(pieces)]
