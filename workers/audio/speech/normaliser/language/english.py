"""Readings of American and British English. Pure."""

from __future__ import annotations

from typing import ClassVar, Final

from workers.audio.speech.normaliser.language.grammar import Language

_SMALL: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES: Final = (
    *("", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion"),
    "sextillion",
)
_ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
# Two numbers, and no fraction.
_PAIRS: Final = frozenset({(24, 7), (9, 11)})
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
# Singular → plural.


class English(Language):
    """British English; the American one differs in a few methods."""

    code = "en-gb"
    files: ClassVar[tuple[str, ...]] = ("en",)
    decimal_mark = "."
    groups_by_blank = False
    points: ClassVar = {".": "point"}
    meridiems: ClassVar = {"a": "ay em", "p": "p m"}
    phones = (
        r"(?:1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}",
        r"[2-9]\d{2}-\d{4}",
        r"0\d{2,4} \d{3,4} \d{3,4}",
    )
    digits = _SMALL[:10]
    ordinal_marks: ClassVar = {"st": "m", "nd": "m", "rd": "m", "th": "m"}
    _and = " and "

    def cardinal(self, n: int, gender: str = "") -> str:  # noqa: ARG002 - English has none
        if not n:
            return _SMALL[0]
        words, scale = list[str](), 0
        first = n % 1000
        while n:
            n, part = divmod(n, 1000)
            if part:
                words.insert(0, f"{self._below_thousand(part)} {_SCALES[scale]}".strip())
            scale += 1
        if self._and and len(words) > 1 and 0 < first < 100:
            words.insert(-1, "and")
        return " ".join(words)

    def _below_thousand(self, n: int) -> str:
        hundreds, rest = divmod(n, 100)
        if not hundreds:
            return self._below_hundred(rest)
        words = f"{_SMALL[hundreds]} hundred"
        return f"{words}{self._and or ' '}{self._below_hundred(rest)}" if rest else words

    @staticmethod
    def _below_hundred(n: int) -> str:
        if n < 20:
            return _SMALL[n]
        tens, ones = divmod(n, 10)
        return f"{_TENS[tens - 2]} {_SMALL[ones]}" if ones else _TENS[tens - 2]

    def decimals(self, digits: str) -> str:
        return self.spell_digits(digits)

    def ordinal(self, n: int, gender: str = "m") -> str:  # noqa: ARG002 - English has none
        head, _, last = self.cardinal(n).rpartition(" ")
        if last not in _ORDINALS:
            last = f"{last[:-1]}ie" if last.endswith("y") else last
        return f"{head} {_ORDINALS.get(last, f'{last}th')}".strip()

    def year(self, n: int) -> str:
        century, rest = divmod(n, 100)
        if not 1100 <= n <= 2099 or 2000 <= n <= 2009:
            return self.cardinal(n)
        if not rest:
            return f"{self._below_hundred(century)} hundred"
        zero = "oh " if rest < 10 else ""
        return f"{self._below_hundred(century)} {zero}{self._below_hundred(rest)}"

    def decade(self, n: int) -> str:
        words = self.year(n) if n >= 100 else self.cardinal(n)
        return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"

    def clock(self, hours: int, minutes: int, seconds: int | None) -> str:
        if minutes:
            rest = f"oh {_SMALL[minutes]}" if minutes < 10 else self._below_hundred(minutes)
            words = f"{self._below_hundred(hours)} {rest}"
        elif not hours:
            words = "midnight"
        elif hours > 12:
            words = f"{self._below_hundred(hours)} hundred"
        else:
            words = f"{_SMALL[hours]} o'clock"
        if not seconds:
            return words
        unit = "second" if seconds == 1 else "seconds"
        return f"{words} and {self._below_hundred(seconds)} {unit}"

    def date(self, day: int | None, month: int, year: int | None) -> str:
        words = _MONTHS[month - 1]
        if day is not None:
            words = f"the {self.ordinal(day)} of {words}"
        return words if year is None else f"{words}, {self.year(year)}"

    def fraction(self, n: int, d: int) -> str | None:
        if n == d or (n, d) in _PAIRS:
            return f"{self.cardinal(n)} {self.cardinal(d)}"
        if not 0 < n < d <= 100:
            return None
        if d == 2:
            return "one half"
        part = "quarter" if d == 4 else self.ordinal(d)
        return f"{self.cardinal(n)} {part}{'' if n == 1 else 's'}"

    def ranked(self, name: str, n: int) -> str:  # noqa: ARG002 - the same for all
        return f"the {self.ordinal(n)}"


class American(English):
    code = "en-us"
    files = ("en", "en-us")
    month_first = True
    _and = ""

    def date(self, day: int | None, month: int, year: int | None) -> str:
        words = _MONTHS[month - 1]
        if day is not None:
            words = f"{words} {self.ordinal(day)}"
        return words if year is None else f"{words}, {self.year(year)}"
