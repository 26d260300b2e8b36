"""Writes out amounts: money, units, ranges and sizes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from workers.audio.speech.normaliser.language.grammar import Language
from workers.audio.speech.normaliser.language.number import (
    BEGIN,
    END,
    PATTERN,
    WORD,
    Number,
    parse_number,
)
from workers.audio.speech.normaliser.language.vocabulary import Currency
from workers.audio.speech.normaliser.preparation import write_exponents

_DASH: Final = r"\s?[-–—]\s?"
# A sign of a number: not a hyphen within a word or between numbers.
_SIGN: Final = rf"(?<![{WORD})])(?:([-−+])\s?)?"
_LEAST_OF_NAME: Final = 100
_CODED: Final = re.compile(rf"\$\s?({PATTERN})\s?(USD|CAD|AUD|MXN){END}")
_YEARS: Final = range(1100, 2100)
_FEET: Final = re.compile(rf"{BEGIN}(\d{{1,3}})'\s?(?:(\d{{1,2}})(?:\"|''))?(?![{WORD}])")
_BLANK_GROUPS: Final = re.compile(
    r"(?<![\d.,])(?<!\d )([1-9]\d{0,2})((?: \d{3}){1,6})(?![ ]?\d|[.]\d)"
)
_SEPARATOR: Final = re.compile("[.,]")
_CENT: Final = re.compile(rf"{BEGIN}({PATTERN})\s?¢")


class Quantities:
    """The readings of one language, ready to be applied."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._units = {write_exponents(sign): noun for sign, noun in language.words.units.items()}
        money, unit = _join(language.words.currencies), _join(self._units)
        words = _join(scale for scale in language.words.scales if len(scale) > 3)
        short = _join(scale for scale in language.words.scales if len(scale) <= 3)
        scale = rf"(?:\s?({words}){END}|\s?({short}){END})?"
        per = rf"(?:/({unit}|[^\W\d_]{{2,20}}){END})?"
        sign = rf"(?<![{WORD}])({money})"
        self._before = re.compile(rf"{_SIGN}{sign}\s?({PATTERN}){scale}{per}")
        self._after = re.compile(
            rf"{_SIGN}{BEGIN}({PATTERN}){scale}\s?(?:de\s|di\s|d')?({money}){END}{per}"
        )
        self._money_range = re.compile(
            rf"{sign}\s?({PATTERN}){_DASH}(?:\1\s?)?({PATTERN}){scale}(?![\d-])"
        )
        self._unit = re.compile(rf"{_SIGN}{BEGIN}({PATTERN})[\s-]?({unit}){END}{per}")
        # "3 mld", "5bn": abbreviations alone, since words are read as they are.
        scales = _join(
            s for s in language.words.scales if 2 <= len(s) <= 4 and s not in self._units
        )
        self._scaled = re.compile(rf"{BEGIN}({PATTERN})\s?({scales}){END}")
        self._range = re.compile(
            rf"(?<![{WORD}.,/)-])({PATTERN})\s?({unit})?(?:[-–—]|\s[–—]\s)({PATTERN})(?![-/]\w)(?:\s?({unit}){END})?{END}"
        )
        self._size = re.compile(rf"{BEGIN}({PATTERN})(?:x|\sx\s|(?<=\d{{3}})×)(?={PATTERN})")
        self._alone = re.compile(rf"(?<=[^\W_])\s?/\s?({unit}){END}")

    def write_out(self, text: str) -> str:
        if self._language.groups_by_blank:
            text = _BLANK_GROUPS.sub(lambda m: m[0].replace(" ", ""), text)
        if self._language.code.startswith("en"):
            text = _FEET.sub(self._read_feet, text)
        text = _CODED.sub(r"\2 \1", text)
        text = _CENT.sub(self._read_cents, text)
        for pattern, read in self._readings():
            text = pattern.sub(read, text)
        return text

    def _readings(self) -> Iterable[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
        yield self._money_range, self._read_money_range
        yield self._before, self._read_before
        yield self._after, self._read_after
        yield self._scaled, self._read_scaled
        yield self._range, self._read_range
        yield self._unit, self._read_unit
        yield self._size, self._read_size

    def _parse(self, text: str) -> Number | None:
        """Return a number; of one thing, "2,50" is one number in English too."""
        mark = self._language.decimal_mark
        found = parse_number(text, mark)
        if found is None and text.count(",") == len(_SEPARATOR.findall(text)) == 1:
            return parse_number(text.replace(",", mark), mark)
        return found

    def _read_before(self, match: re.Match[str]) -> str:
        sign, currency, number, word, letter, per = match.groups()
        return self._read_money(match, sign, currency, number, word or letter, per)

    def _read_after(self, match: re.Match[str]) -> str:
        sign, number, word, letter, currency, per = match.groups()
        return self._read_money(match, sign, currency, number, word or letter, per)

    def _read_money(
        self,
        match: re.Match[str],
        sign: str | None,
        currency: str,
        written: str,
        scale: str | None,
        per: str | None,
    ) -> str:
        number = self._parse(written)
        if number is None:
            return match[0]
        found = self._language.words.currencies[currency]
        words = self._sign(sign) + self._amount(number, scale, found)
        return f"{words}{self._read_per(per)}"

    def _amount(self, number: Number, scale: str | None, currency: Currency) -> str:
        if scale is None:
            return self._language.money(number, currency)
        return self._language.scaled_money(number, self._language.words.scales[scale], currency)

    def _read_money_range(self, match: re.Match[str]) -> str:
        currency, low, high, word, letter = match.groups()
        first, last = self._parse(low), self._parse(high)
        if first is None or last is None:
            return match[0]
        amount = self._amount(last, word or letter, self._language.words.currencies[currency])
        return f"{self._language.number(first)} {self._language.terms.to} {amount}"

    def _read_cents(self, match: re.Match[str]) -> str:
        number, cent = self._parse(match[1]), self._language.words.currencies["$"].minor
        if number is None or cent is None:
            return match[0]
        return self._language.count(number, cent)

    def _read_scaled(self, match: re.Match[str]) -> str:
        number = self._parse(match[1])
        if number is None:
            return match[0]
        return self._language.count(number, self._language.words.scales[match[2]])

    def _read_unit(self, match: re.Match[str]) -> str:
        sign, written, unit, per = match.groups()
        number = self._parse(written)
        if number is None:
            return match[0]
        noun = self._units[unit]
        # "A 10-km run" has the singular.
        if match[0].removesuffix(unit).endswith("-"):
            noun = replace(noun, many=noun.one)
        words = self._language.count(number, noun)
        return f"{self._sign(sign)}{words}{self._read_per(per)}"

    def _read_per(self, per: str | None) -> str:
        if per is None:
            return ""
        noun = self._units.get(per)
        return f" {self._language.terms.per} {noun.one if noun else per}"

    def _read_range(self, match: re.Match[str]) -> str:
        low, low_unit, high, high_unit = match.groups()
        first, last = self._parse(low), self._parse(high)
        if first is None or last is None:
            return match[0]
        link = f" {self._language.terms.to} "
        # A name such as "747-400".
        if first.whole > last.whole >= _LEAST_OF_NAME:
            link = ", "
        begin = self._count(low, first, low_unit)
        return f"{begin}{link}{self._count(high, last, high_unit)}"

    def _count(self, written: str, number: Number, unit: str | None) -> str:
        if unit is not None:
            return self._language.count(number, self._units[unit])
        if len(written) == 4 and number.whole in _YEARS and not number.decimals:
            return self._language.year(number.whole)
        return self._language.number(number)

    def _read_size(self, match: re.Match[str]) -> str:
        number = self._parse(match[1])
        if number is None:
            return match[0]
        return f"{self._language.number(number)} {self._language.terms.by} "

    def _read_feet(self, match: re.Match[str]) -> str:
        feet = self._language.count(Number(int(match[1])), self._units["ft"])
        if match[2] is None:
            return feet if match.string[match.end() : match.end() + 1] != '"' else match[0]
        return f"{feet} {match[2]} inches" if match[2] != "1" else f"{feet} one inch"

    def _sign(self, sign: str | None) -> str:
        if sign is None:
            return ""
        return (
            f"{self._language.words.operators['+'] if sign == '+' else self._language.terms.minus} "
        )


def _join(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)"
