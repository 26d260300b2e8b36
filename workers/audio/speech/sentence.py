"""A text in pieces that can be spoken one by one.

Owns where a text may be cut: after a sentence, else after a clause, else between two words; and
what is a mark between clauses and what only looks like one, as in "Dr. Smith" or "3.5". Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

# A piece is spoken in one step of the lane: long enough for a melody, short enough to wait for. In
# letters: a digit, or a character whose name is read out, stands for several.
_LONGEST: Final = 200
_DIGIT: Final = 8
_FIRST_IDEOGRAPH: Final = "\u2e80"
# What is shorter is spoken together with what follows: of a word alone models make a bad job.
_SHORTEST: Final = 40
_CLOSING: Final = "\"'”’)\\]»"
# After these a full stop ends no sentence; nor after the initial of a name.
_ABBREVIATIONS: Final = (
    *("Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Jr", "Sr", "Mt", "[A-Z]"),
    *("vs", "etc", "e[.]g", "i[.]e", "a[.]m", "p[.]m"),
)
_NOT_SHORT: Final = "".join(rf"(?<!\b{word})" for word in _ABBREVIATIONS)
_END: Final = re.compile(rf"{_NOT_SHORT}[.!?…]+[{_CLOSING}]*(?=\s|$)|[。！？।\n]+")
_MARK: Final = re.compile(
    rf"{_NOT_SHORT}([.,;:!?…])[.,;:!?…]*[{_CLOSING}]*(?=\s|$)|([!?])[!?]*(?=[^\W\d_])"
    r"|\s([-–—])\s|(—)|([。！？，、；：।])"
)
_BULLET: Final = re.compile(r"^\s*[-*•#>]+\s+")
_EMPHASIS: Final = re.compile(
    r"""(?<!\w)(?:[*_`]|~~)+(?=[\w"'(])|(?<=[\w.!?,;:"')])(?:[*_`]|~~)+(?!\w)"""
)
# Nobody can say these; what comes after a zero byte would be lost.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
# Marks of other scripts → those that models know.
_KNOWN_MARKS: Final = str.maketrans("-–。！？，、；：।", "——.!?,,;:.")


def split(text: str) -> list[str]:
    """Return the pieces of a text; only blanks, bullets and Markdown's emphasis are left out."""
    pieces: list[str] = []
    # A letter and its accent as one character: of two, the accent would not be read.
    text = _CONTROL.sub(" ", unicodedata.normalize("NFC", text))
    for sentence in _sentences(_EMPHASIS.sub("", text)):
        for piece in _shorten(sentence):
            last = pieces[-1] if pieces else ""
            if last and len(last) < _SHORTEST and _fitting(f"{last}, {piece}") is None:
                pieces[-1] = f"{last}{',' if last[-1].isalnum() else ''} {piece}"
            else:
                pieces.append(piece)
    return pieces


def clauses(piece: str) -> Iterator[tuple[str, str]]:
    """Yield the clauses of a piece, each with the mark that ends it, if one does."""
    begin = 0
    for match in _MARK.finditer(piece):
        mark = next(filter(None, match.groups()))
        yield piece[begin : match.start()], mark.translate(_KNOWN_MARKS)
        begin = match.end()
    yield piece[begin:], ""


def _sentences(text: str) -> Iterator[str]:
    begin = 0
    for match in _END.finditer(text):
        yield _BULLET.sub("", text[begin : match.end()]).strip()
        begin = match.end()
    yield _BULLET.sub("", text[begin:]).strip()


def _shorten(sentence: str) -> Iterator[str]:
    """Yield a sentence in parts that are short enough."""
    while (most := _fitting(sentence)) is not None:
        ends = [match.end() for match in _MARK.finditer(sentence[:most]) if match.end() < most]
        place = (ends[-1] if ends else 0) or sentence.rfind(" ", 0, most) + 1 or most
        yield sentence[:place].strip()
        sentence = sentence[place:].strip()
    if sentence:
        yield sentence


def _fitting(text: str) -> int | None:
    """Return how many characters of a text are short enough to be spoken at once; None: all."""
    weight = 0
    for place, character in enumerate(text):
        is_long = character.isdigit() or character >= _FIRST_IDEOGRAPH
        weight += _DIGIT if is_long else 1
        if weight > _LONGEST:
            return place
    return None
