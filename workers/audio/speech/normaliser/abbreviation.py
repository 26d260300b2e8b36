"""Writes out abbreviations, and Roman numerals after names and titles. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from workers.audio.speech.normaliser.language.grammar import Language
from workers.audio.speech.normaliser.language.number import BEGIN, END, WORD

# What may end a sentence, unlike titles, which a name follows.
_CLOSING: Final = frozenset(
    {
        *("etc.", "al.", "Inc.", "Ltd.", "Co.", "Corp.", "Jr.", "ecc.", "Ltda.", "Ph.D."),
    }
)
# After a capitalised word, and not before one.
_STREETS: Final = {"St.": "Street", "Dr.": "Drive"}
_VALUES: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_NUMERAL: Final = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
# Kings and popes, after whose names a single letter is a numeral.
_RULERS: Final = frozenset(
    {
        *("Henry", "Elizabeth", "Charles", "James", "George", "William", "Edward", "Richard"),
        *("Louis", "Philip", "Napoleon", "Francis", "Frederick", "Peter", "Nicholas", "Ivan"),
        *("Alexander", "Catherine", "Mary", "John", "Paul", "Pius", "Leo", "Gregory", "Benedict"),
        *("Clement", "Innocent", "Urban", "Felipe", "Carlos", "Isabel", "Alfonso", "Fernando"),
        *("Francisco", "Juan", "Pedro", "Pablo", "Napoleón", "Napoléon", "Henri", "François"),
        *("Philippe", "Élisabeth", "Guillaume", "Jean", "Pie", "Léon", "Enrico", "Carlo"),
        *("Elisabetta", "Vittorio", "Umberto", "Pio", "Giovanni", "Paolo", "Leone", "Federico"),
        *("Napoleone", "Luigi", "Filippo", "Francesco", "João", "Manuel", "Afonso", "Luís"),
        *("Napoleão", "Elizabete", "Henrique", "Filipe", "Bento", "Paulo", "Leão"),
    }
)


def parse_roman(text: str) -> int | None:
    """Return the value of a Roman numeral; None if it is none."""
    if not text or not _NUMERAL.fullmatch(text):
        return None
    values = [_VALUES[letter] for letter in text]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )


class Abbreviations:
    """Those of one language, ready to be replaced."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._plain = re.compile(rf"(?<![{WORD}.])(?:{_join(language.words.abbreviations)}){END}")
        roman = r"(?=\d|[IVXLC]{2,7}(?![^\W_]))"
        self._counted = re.compile(rf"{BEGIN}({_join(language.words.counted)})\s{{0,2}}{roman}")
        words = "|".join(map(re.escape, sorted(language.words.numbered, key=len, reverse=True)))
        numeral = r"([IVXLCDM]{1,9})"
        self._numbered = re.compile(
            rf"(?<![{WORD}])({words})(\s)(?-i:{numeral})(?![{WORD}'’])", re.IGNORECASE
        )
        self._ranked = re.compile(
            rf"(?<![{WORD}])([^\W\d_a-z][^\W\d_]{{2,20}})\s([IVX]{{1,6}})(?![{WORD}'’]|\.\w)"
        )
        centuries = "|".join(map(re.escape, language.words.centuries)) or "(?!)"
        self._century = re.compile(rf"{BEGIN}([IVX]{{1,6}})(?=\s(?:{centuries}){END})")
        # Not plain "a" and "o": "Va" is a word.
        marks = _join(set(language.ordinal_marks) - {"a", "o"})
        self._marked = re.compile(rf"{BEGIN}([IVX]{{1,7}})({marks}){END}")

    def write_out(self, text: str) -> str:
        text = self._counted.sub(lambda m: f"{self._language.words.counted[m[1]]} ", text)
        text = self._plain.sub(self._expand, text)
        text = self._marked.sub(self._read_marked, text)
        text = self._century.sub(self._read_century, text)
        text = self._numbered.sub(self._read_numbered, text)
        return self._ranked.sub(self._read_ranked, text)

    def _expand(self, match: re.Match[str]) -> str:
        written, text = match[0], match.string
        words = self._language.words.abbreviations[written]
        before, after = text[max(0, match.start() - 30) : match.start()], text[match.end() :][:3]
        follows_name = before.rstrip().split(" ")[-1][:1].isupper() and before.endswith(" ")
        precedes_name = after[:1].isspace() and after[1:2].isupper()
        if written in _STREETS and self._language.code.startswith("en"):
            words = _STREETS[written] if follows_name and not precedes_name else words
        # A single capital letter is a title before a name only, else an initial.
        if len(written.rstrip(".")) == 1 and written[0].isupper() and not precedes_name:
            return written
        if not written.endswith("."):
            return words
        is_end = not after.strip(" \"')") or after[0] == "\n"
        begins_sentence = precedes_name or after[1:2].isdigit()
        return f"{words}." if is_end or (begins_sentence and written in _CLOSING) else words

    def _read_numbered(self, match: re.Match[str]) -> str:
        value = parse_roman(match[3])
        return (
            match[0] if value is None else f"{match[1]}{match[2]}{self._language.cardinal(value)}"
        )

    def _read_ranked(self, match: re.Match[str]) -> str:
        name, numeral = match[1], match[2]
        value = parse_roman(numeral)
        is_name = name in _RULERS or (len(numeral) > 1 and not name.isupper())
        if value is None or not is_name:
            return match[0]
        return f"{name} {self._language.ranked(name, value)}"

    def _read_century(self, match: re.Match[str]) -> str:
        value = parse_roman(match[1])
        return match[0] if value is None else self._language.ordinal(value)

    def _read_marked(self, match: re.Match[str]) -> str:
        value = parse_roman(match[1])
        if value is None:
            return match[0]
        return self._language.ordinal(value, self._language.ordinal_marks[match[2]])


def _join(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)"
