"""Numbers as texts write them: grouped digits, decimals, and runs too long to be a number. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# What words consist of; `\w` alone lacks the marks that Devanagari and accents are written with.
WORD: Final = r"\w\u0300-\u036f\u0900-\u0963\u0970-\u097f"
# A number with any separators, without a stop that ends its sentence.
PATTERN: Final = r"\d++(?:[.,]\d++)*+"
# Where a number or word may begin, and where it may end.
BEGIN: Final = rf"(?<![{WORD}])(?<!\d[.,])"
END: Final = rf"(?![{WORD}])"
# Longer ones are read digit by digit.
LONGEST_DIGITS: Final = 21
_GROUPED: Final = re.compile(r"[1-9]\d{0,2}(?:[.,]\d{2,3})*[.,]\d{3}")
_MARKS: Final = re.compile("[.,]")


@dataclass(frozen=True)
class Number:
    """A number that is not negative.

    Attributes:
        decimals: digits after the decimal mark; empty without one.
        mark: that mark.
        digits: of the whole part as written, if they are to be read one by one.
    """

    whole: int
    decimals: str = ""
    mark: str = ""
    digits: str = ""

    @property
    def is_one(self) -> bool:
        return self.whole == 1 and not self.decimals


def parse_number(text: str, decimal_mark: str) -> Number | None:
    """Return the number of some digits and separators; None if they are several.

    Args:
        decimal_mark: the language's. The other mark groups digits, and where it can't it is the
            decimal mark too, but for the comma in English.
    """
    marks = _MARKS.findall(text)
    if not marks:
        return _read(text)
    head, _, tail = text.rpartition(marks[-1])
    if len(marks) == 1:
        if marks[0] != decimal_mark and _GROUPED.fullmatch(text):
            return _read(head + tail)
        if (marks[0], decimal_mark) == (",", "."):
            return None
        return _read(head, tail, marks[0])
    if len(set(marks)) == 1:
        return _read(_MARKS.sub("", text)) if _GROUPED.fullmatch(text) else None
    if marks.count(marks[-1]) == 1 and _GROUPED.fullmatch(head):
        return _read(_MARKS.sub("", head), tail, marks[-1])
    return None


def _read(digits: str, decimals: str = "", mark: str = "") -> Number:
    if len(digits) > LONGEST_DIGITS or (len(digits) > 1 and digits[0] == "0"):
        return Number(0, decimals, mark, digits)
    return Number(int(digits), decimals, mark)
