"""Writes out dates, times of day, years and decades. Pure."""

from __future__ import annotations

import re
from typing import Final

from workers.audio.speech.normaliser.language.grammar import Language
from workers.audio.speech.normaliser.language.number import BEGIN, END

_ISO: Final = re.compile(rf"{BEGIN}(\d{{4}})-(\d{{2}})-(\d{{2}})(?:T(?=\d\d:)|(?!\w|-\d))")
_NUMERIC: Final = re.compile(
    rf"{BEGIN}(\d{{1,2}})([/.])(\d{{1,2}})\2(\d{{4}}|\d{{2}})(?![\w/]|\.\d)"
)
_CLOCK: Final = re.compile(
    rf"{BEGIN}(\d{{1,2}}):(\d{{2}})(?::(\d{{2}})(?:[.,]\d+)?)?(?!\d|:\d)(?:\s?(?:hs?\b|Z\b|बजे))?"
    r"(?:\s?([ap])\.?\s?m\b\.?)?",
    re.IGNORECASE,
)
_HOURS: Final = re.compile(rf"{BEGIN}(\d{{1,2}})\s?h(?:\s?([0-5]\d)(?:\s?min)?)?{END}")
_HALF_DAY: Final = re.compile(
    rf"{BEGIN}(\d{{1,2}})(?:\.(\d{{2}}))?\s?([ap])\.?\s?m\b(\.(?=\w))?", re.IGNORECASE
)
_SPAN: Final = re.compile(
    r"(?<=\d)\s?[-–]\s?(?=\d{1,2}[:h]\d\d)|(?<=[\dm])\s?[-–]\s?(?=\d{1,2}(?::\d\d)?\s?[ap]\.?m)"
)
_MERIDIEM: Final = re.compile(r"(?<![\w.])([ap])\.\s?m\.(?!\w)", re.IGNORECASE)
_OCLOCK: Final = re.compile(rf"{BEGIN}(\d{{1,2}})\s?बजे")
_DECADE: Final = re.compile(rf"(?<![\w.,])(?:(\d{{3}}0)|'(\d0))'?s{END}")
_SHORT_DECADE: Final = re.compile(rf"\b(the|early|late|mid)([\s-])(\d0)'?s{END}", re.IGNORECASE)
_CUT_YEAR: Final = re.compile(rf"(?<![\w])'(\d\d){END}")
_YEAR: Final = re.compile(rf"{BEGIN}(1[1-9]\d\d|20\d\d)(?!\d|[.,/:]\d|\s?[x×*/+=%^])")
# Before a year, which else is a count: from 1700 on it is a year anyhow.
_YEAR_WORDS: Final = re.compile(
    r"(?:\b(?:in|of|since|by|from|until|year|around|before|after|सन|to)\s|[(,]\s?)$", re.IGNORECASE
)
_ALWAYS_YEARS: Final = range(1700, 2100)
_CENTURY_SPLIT: Final = 50


class Moments:
    """The readings of one language, ready to be applied."""

    def __init__(self, language: Language) -> None:
        self._language = language
        spellings = set(language.words.months)
        if language.code.startswith("en"):
            spellings = {name.title() for name in spellings} | {n.upper() for n in spellings}
        else:
            spellings |= {name.title() for name in spellings}
        names = "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))
        marks = "|".join(map(re.escape, sorted(language.ordinal_marks, key=len, reverse=True)))
        link = r"(?:of\s|de\s|di\s|d')?"
        self._day_first = re.compile(
            rf"{BEGIN}(?:the\s)?(\d{{1,2}})(?:{marks})?\s{link}({names}){END}(?:\.(?=,?\s(?:de\s)?\d{{4}}))?"
            rf"(?:,?\s(?:de\s|del\s)?(\d{{4}})(?!\d|[.,:]\d))?"
        )
        self._month_first = re.compile(
            rf"{BEGIN}({names})\.?\s(\d{{1,2}})(?:{marks})?(?![\w%]|[.,:/-]\d)(?:,?\s(\d{{4}})(?!\d|[.,:]\d))?"
        )

    def write_out(self, text: str) -> str:
        text = _SPAN.sub(f" {self._language.terms.to} ", text)
        for pattern, read in (
            (_ISO, self._read_iso),
            (_NUMERIC, self._read_numeric),
            (self._day_first, self._read_day_first),
            *([(self._month_first, self._read_month_first)] if self._is_english else []),
            (_CLOCK, self._read_clock),
            (_HALF_DAY, self._read_half_day),
            *([(_HOURS, self._read_hours)] if self._language.has_hour_letter else []),
            (_MERIDIEM, lambda m: self._language.meridiems[m[1].lower()] + _keep_stop(m)),
            (_OCLOCK, lambda m: self._language.clock(int(m[1]), 0, None)),
        ):
            text = pattern.sub(read, text)
        return text

    def write_decades(self, text: str) -> str:
        """Write out decades and years cut short, before "s" is read as seconds."""
        language = self._language
        text = _DECADE.sub(lambda m: language.decade(int(m[1] or m[2])), text)
        if self._is_english:
            text = _SHORT_DECADE.sub(lambda m: f"{m[1]}{m[2]}{language.decade(int(m[3]))}", text)
        return _CUT_YEAR.sub(lambda m: language.cardinal(int(m[1])), text)

    def write_years(self, text: str) -> str:
        """Write out years, after the counts of things that look like them."""
        return _YEAR.sub(self._read_year, text)

    @property
    def _is_english(self) -> bool:
        return self._language.code.startswith("en")

    def _read_iso(self, match: re.Match[str]) -> str:
        year, month, day = map(int, match.groups())
        return self._read_date(match, day, month, year)

    def _read_numeric(self, match: re.Match[str]) -> str:
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        if len(match[4]) == 2:
            year += 2000 if year < _CENTURY_SPLIT else 1900
        day, month = (second, first) if self._language.month_first else (first, second)
        if month > 12:
            day, month = month, day
        return self._read_date(match, day, month, year)

    def _read_day_first(self, match: re.Match[str]) -> str:
        year = int(match[3]) if match[3] else None
        return self._read_date(match, int(match[1]), self._month(match[2]), year)

    def _read_month_first(self, match: re.Match[str]) -> str:
        year = int(match[3]) if match[3] else None
        return self._read_date(match, int(match[2]), self._month(match[1]), year)

    def _month(self, name: str) -> int:
        return self._language.words.months[name.lower()]

    def _read_date(self, match: re.Match[str], day: int, month: int, year: int | None) -> str:
        if not (1 <= day <= 31 and 1 <= month <= 12):
            return match[0]
        pause = " " if match[0].endswith("T") else ""
        return f"{self._language.date(day, month, year)}{pause}"

    def _read_clock(self, match: re.Match[str]) -> str:
        hours, minutes = int(match[1]), int(match[2])
        seconds = int(match[3]) if match[3] else None
        if hours > 24 or minutes > 59 or (seconds or 0) > 59:
            return match[0]
        if match[4]:
            words = self._language.half_day(hours, minutes, match[4].lower())
            return words + _keep_stop(match)
        return self._language.clock(hours, minutes, seconds)

    def _read_hours(self, match: re.Match[str]) -> str:
        hours = int(match[1])
        return match[0] if hours > 24 else self._language.clock(hours, int(match[2] or 0), None)

    def _read_half_day(self, match: re.Match[str]) -> str:
        hours = int(match[1])
        if not 1 <= hours <= 12:
            return match[0]
        return self._language.half_day(hours, int(match[2] or 0), match[3].lower())

    def _read_year(self, match: re.Match[str]) -> str:
        before = match.string[max(0, match.start() - 10) : match.start()]
        if int(match[1]) in _ALWAYS_YEARS or _YEAR_WORDS.search(before):
            return self._language.year(int(match[1]))
        return match[0]


def _keep_stop(match: re.Match[str]) -> str:
    """Return the stop of "p.m." if it also ends the sentence."""
    after = match.string[match.end() : match.end() + 3]
    is_end = not after.strip() or (after[0].isspace() and after[1:2].isupper())
    return "." if match[0].endswith(".") and is_end else ""
