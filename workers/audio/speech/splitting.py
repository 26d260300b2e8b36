"""Splits a text for speech: into pieces, clauses, and phonemes that fit one step of the model.

Owns where a text may be cut: after a sentence, else after a clause, else between two words; and
which marks end neither, as in "Dr. Smith" or "3.5". Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# Length of a piece, which becomes one step of the model: long enough for a natural intonation,
# short enough for other calls to wait for. In letters; a digit or an ideograph counts as several.
_LONGEST: Final = 200
_LETTERS_PER_SYMBOL: Final = 8
_FIRST_IDEOGRAPH: Final = "\u2e80"
# A shorter piece is joined with the next: models speak single words badly.
_SHORTEST: Final = 40
_CLOSING: Final = "\"'”’)\\]»"
# A full stop after these, or after an initial, does not end a sentence.
_ABBREVIATIONS: Final = (
    *("Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Jr", "Sr", "Mt", "[A-Z]"),
    *("vs", "etc", "e[.]g", "i[.]e", "a[.]m", "p[.]m"),
)
_NOT_ABBREVIATED: Final = "".join(rf"(?<!\b{word})" for word in _ABBREVIATIONS)
_END: Final = re.compile(rf"{_NOT_ABBREVIATED}[.!?…]+[{_CLOSING}]*(?=\s|$)|[。！？।\n]+")
_MARK: Final = re.compile(
    rf"{_NOT_ABBREVIATED}([.,;:!?…])[.,;:!?…]*[{_CLOSING}]*(?=\s|$)|([!?])[!?]*(?=[^\W\d_])"
    r"|\s([-–—])\s|(—)|([。！？，、；：।])"
)
# Marks as they stand among phonemes.
_CLAUSE_END: Final = re.compile(r"[.,;:!?…—]+(?= )")
# Marks of other scripts → those in Kokoro's vocabulary.
_KNOWN_MARKS: Final = str.maketrans("-–。！？，、；：।", "——.!?,,;:.")


def split_text(text: str) -> list[str]:
    """Return the pieces of a text that has been written out, without blanks around them."""
    pieces: list[str] = []
    for sentence in _sentences(text):
        for piece in _shorten(sentence):
            last = pieces[-1] if pieces else ""
            if last and len(last) < _SHORTEST and _fitting_length(f"{last}, {piece}") is None:
                pieces[-1] = f"{last}{',' if last[-1].isalnum() else ''} {piece}"
            else:
                pieces.append(piece)
    return pieces


def split_clauses(piece: str) -> Iterator[tuple[str, str]]:
    """Yield the clauses of a piece, each with the mark that ends it, or an empty string."""
    begin = 0
    for match in _MARK.finditer(piece):
        mark = next(filter(None, match.groups()))
        yield piece[begin : match.start()], mark.translate(_KNOWN_MARKS)
        begin = match.end()
    yield piece[begin:], ""


def split_phonemes(phonemes: str, longest: int) -> Iterator[str]:
    """Yield phonemes in parts of at most `longest` that hold something to speak.

    A part ends after a clause if that makes it at least half as long as it may be, else between
    two words.
    """
    rest = phonemes.strip()
    while any(map(str.isalpha, rest)):
        end = len(rest) if len(rest) <= longest else _find_end(rest, longest)
        yield rest[:end].strip()
        rest = rest[end:].strip()


def _find_end(phonemes: str, longest: int) -> int:
    """Return the offset after the first part of phonemes that are too long for one."""
    clauses = [match.end() for match in _CLAUSE_END.finditer(phonemes, longest // 2, longest + 1)]
    return clauses[-1] if clauses else phonemes.rfind(" ", 1, longest) + 1 or longest


def _sentences(text: str) -> Iterator[str]:
    begin = 0
    for match in _END.finditer(text):
        yield text[begin : match.end()].strip()
        begin = match.end()
    yield text[begin:].strip()


def _shorten(sentence: str) -> Iterator[str]:
    """Yield a sentence in parts of at most `_LONGEST`."""
    while (most := _fitting_length(sentence)) is not None:
        ends = [match.end() for match in _MARK.finditer(sentence[:most]) if match.end() < most]
        end = (ends[-1] if ends else 0) or sentence.rfind(" ", 0, most) + 1 or most
        yield sentence[:end].strip()
        sentence = sentence[end:].strip()
    if sentence:
        yield sentence


def _fitting_length(text: str) -> int | None:
    """Return how many characters of a text fit into `_LONGEST`; None if all do."""
    letters = 0
    for index, character in enumerate(text):
        is_long = character.isdigit() or character >= _FIRST_IDEOGRAPH
        letters += _LETTERS_PER_SYMBOL if is_long else 1
        if letters > _LONGEST:
            return index
    return None
