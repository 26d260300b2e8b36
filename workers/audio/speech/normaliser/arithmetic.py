"""Writes out telephone numbers, versions, ordinals, fractions, formulas, and all other numbers.

Pure.
"""

from __future__ import annotations

import re
from typing import Final

from workers.audio.speech.normaliser.language.grammar import Language
from workers.audio.speech.normaliser.language.number import (
    BEGIN,
    END,
    PATTERN,
    WORD,
    parse_number,
)

_INTERNATIONAL: Final = r"\+\d{1,3}(?:[ .-]?\(?\d{1,5}\)?){1,6}"
_PHONE_DIGITS: Final = range(7, 16)
_VERSION: Final = re.compile(rf"(?<![{WORD}.])[vV]\.?\s?(\d+(?:\.\d+){{0,5}}){END}")
_POINTS: Final = re.compile(rf"{BEGIN}\d+(?:\.\d+){{2,5}}{END}")
_FRACTION: Final = re.compile(
    rf"{BEGIN}(?:(\d{{1,3}})\s)?(\d{{1,4}})\s?/\s?(\d{{1,4}})(?![\d/]|[.,]\d){END}"
)
_POWER: Final = re.compile(
    rf"(?<=[{WORD})\]])\^\s?[({{]?([-−]?)(\d{{1,6}}|[a-z])[)}}]?", re.IGNORECASE
)
_LONE_POWER: Final = re.compile(r"\^(?=\d)")
_RATIO: Final = re.compile(rf"{BEGIN}(\d{{1,4}})\s?:\s?(?=\d{{1,4}}{END})")
_NEGATIVE: Final = re.compile(rf"(?<![{WORD})\]])[-−](?=\d)")
_POSITIVE: Final = re.compile(rf"(?<![{WORD})\]])\+\s?(?=\d)")
# Between two operands: letters of formulas are single.
_OPERAND: Final = rf"(?:(?<=[\d)\]^π∞])|(?<=(?<![{WORD}])[^\W\d_]))"
_NEXT: Final = r"(?=\s?(?:[\d(π∞√\[+−-]|[^\W\d_](?![^\W\d_])))"
_OPERATION: Final = re.compile(rf"{_OPERAND}(?:\s([-+*/−])\s|([+*/−])){_NEXT}")
_EQUATION: Final = re.compile(r"\s?(==|!=|<=|>=|=>|->|<-|&&|\|\|)\s?")
_DIGRAPHS: Final = {
    "==": "=",
    "!=": "≠",
    "<=": "≤",
    ">=": "≥",
    "=>": "⇒",
    "->": "→",
    "<-": "←",
    "&&": "&",
    "||": "|",
}
_ABOUT: Final = re.compile(rf"(?<![{WORD}])[~≈]\s?(?=[$€£¥₹]?\d)")
_NUMBER_SIGN: Final = re.compile(rf"(?<![{WORD}&])#\s?(?=\d)")
_TIMES: Final = re.compile(rf"{BEGIN}({PATTERN})[x×](?=\s[^\W\d_]{{2}}|[.,;!?]|$)")
_SCIENTIFIC: Final = re.compile(rf"{BEGIN}({PATTERN})[eE]([-−+]?\d{{1,3}}){END}")
_LIST: Final = re.compile("[.,]")
_NEXT_WORD: Final = re.compile(r" ([^\W\d_]{2,30})")
_PLAIN: Final = re.compile(rf"(?<!\d[.,]){PATTERN}")


class Arithmetic:
    """The readings of one language, ready to be applied."""

    def __init__(self, language: Language) -> None:
        self._language = language
        phones = "|".join((_INTERNATIONAL, *language.phones))
        self._phone = re.compile(rf"(?<![{WORD}+(./,-])(?:{phones})(?![{WORD}]|[-./,]\d)")
        marks = "|".join(map(re.escape, sorted(language.ordinal_marks, key=len, reverse=True)))
        self._ordinal = re.compile(rf"{BEGIN}({PATTERN})\s?({marks or '(?!)'}){END}")

    def write_phones(self, text: str) -> str:
        """Write out telephone numbers and versions, whose digits are not one number."""
        text = _ABOUT.sub(f" {self._language.terms.about} ", text)
        text = _SCIENTIFIC.sub(r"\1 × 10^\2", text)
        text = _VERSION.sub(self._read_version, self._phone.sub(self._read_phone, text))
        return _POINTS.sub(self._read_points, text)

    def write_signs(self, text: str) -> str:
        """Write out the signs between numbers, and those before one."""
        language = self._language
        text = _EQUATION.sub(lambda m: f" {language.words.signs.get(_DIGRAPHS[m[1]], ' ')} ", text)
        text = _POWER.sub(self._read_power, text)
        text = _LONE_POWER.sub(" ", text)
        text = _FRACTION.sub(self._read_fraction, text)
        text = _TIMES.sub(rf"\1 {language.words.operators['*']}", text)
        text = _OPERATION.sub(self._read_operation, text)
        for pattern, words in (
            (_NUMBER_SIGN, language.terms.number_sign),
            (_NEGATIVE, language.terms.minus),
            (_POSITIVE, language.words.operators["+"]),
        ):
            text = pattern.sub(f" {words} ", text)
        return _RATIO.sub(rf"\1 {language.terms.to} ", text)

    def write_ordinals(self, text: str) -> str:
        return self._ordinal.sub(self._read_ordinal, text)

    def write_numbers(self, text: str) -> str:
        """Write out what is left; a number within a word becomes one of its own."""
        return _PLAIN.sub(self._read_plain, text)

    def _read_phone(self, match: re.Match[str]) -> str:
        groups = re.findall(r"\d+", match[0])
        if sum(map(len, groups)) not in _PHONE_DIGITS:
            return match[0]
        plus = f"{self._language.words.operators['+']} " if match[0].startswith("+") else ""
        return f"{plus}{self._language.phone(groups)}"

    def _read_version(self, match: re.Match[str]) -> str:
        return f"{self._language.terms.version} {self._join_points(match[1])}"

    def _read_points(self, match: re.Match[str]) -> str:
        is_number = parse_number(match[0], self._language.decimal_mark) is not None
        return match[0] if is_number else self._join_points(match[0])

    def _join_points(self, text: str) -> str:
        point = self._language.points["."]
        return f" {point} ".join(map(self._language.integer, text.split(".")))

    def _read_operation(self, match: re.Match[str]) -> str:
        sign, before = match[1] or match[2], match.string[match.start() - 1]
        # "A/B" is no fraction.
        table = self._language.words.signs if sign == "/" and before.isalpha() else None
        return f" {(table or self._language.words.operators)[sign]} "

    def _read_power(self, match: re.Match[str]) -> str:
        sign, exponent = match.groups()
        if not exponent.isdecimal():
            sign = f"{self._language.terms.minus} " if sign else ""
            return f" {self._language.terms.powers[2]} {sign}{exponent}"
        return f" {self._language.power(int(exponent) * (-1 if sign else 1))}"

    def _read_fraction(self, match: re.Match[str]) -> str:
        whole, n, d = match.groups()
        words = self._language.fraction(int(n), int(d))
        if words is None:
            stroke = self._language.words.operators["/"]
            return f"{whole or ''} {n} {stroke} {d}".strip()
        return words if whole is None else self._language.mixed(int(whole), int(n), int(d))

    def _read_ordinal(self, match: re.Match[str]) -> str:
        number = parse_number(match[1], self._language.decimal_mark)
        if number is None or number.decimals or number.digits:
            return match[0]
        return self._language.ordinal(number.whole, self._language.ordinal_marks[match[2]])

    def _read_plain(self, match: re.Match[str]) -> str:
        text, begin, end = match.string, match.start(), match.end()
        following = _NEXT_WORD.match(text, end)
        gender = self._language.gender_of(following[1].lower()) if following else ""
        words = self._read(match[0], gender)
        before = " " if begin and text[begin - 1].isalpha() else ""
        return f"{before}{words}{' ' if text[end : end + 1].isalpha() else ''}"

    def _read(self, written: str, gender: str) -> str:
        number = parse_number(written, self._language.decimal_mark)
        if number is not None:
            return self._language.number(number, gender)
        return ", ".join(map(self._language.integer, _LIST.split(written)))
