"""The grammar of numbers, dates and amounts that each language fills in.

Owns what most of them share. Every method returns words: letters and blanks, no digit or sign.
Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from workers.audio.speech.normaliser.language.number import LONGEST_DIGITS, Number
from workers.audio.speech.normaliser.language.vocabulary import Currency, Noun, read_vocabulary

# Names of queens that do not end in "a".
_QUEENS: Final = frozenset({"Elizabeth", "Elisabeth", "Isabel", "Beatriz", "Anne", "Marie"})
_KINGS: Final = frozenset({"Andrea", "Luca", "Papa"})


def is_feminine(name: str) -> bool:
    return name in _QUEENS or (name.endswith("a") and name not in _KINGS)


class Language(ABC):
    """Readings of one language.

    Attributes:
        decimal_mark: the other of full stop and comma groups digits.
        groups_by_blank: whether blanks group digits, as in "10 000".
        month_first: whether 3/5 is in March.
        points: decimal mark → its word.
        scripts: spoken besides those that every voice speaks.
    """

    code: ClassVar[str]
    # Names of the files with its words.
    files: ClassVar[tuple[str, ...]]
    decimal_mark: ClassVar[str] = ","
    groups_by_blank: ClassVar[bool] = True
    month_first: ClassVar[bool] = False
    points: ClassVar[Mapping[str, str]]
    digits: ClassVar[Sequence[str]]
    scripts: ClassVar[frozenset[str]] = frozenset()
    thousands: ClassVar[frozenset[str]] = frozenset({"mil", "mille", "mila"})
    ordinal_marks: ClassVar[Mapping[str, str]] = {}
    # Patterns of telephone numbers besides those in the international form.
    phones: ClassVar[Sequence[str]] = ()
    meridiems: ClassVar[Mapping[str, str]] = {"a": "a m", "p": "p m"}
    # Whether "10h" is a time of day, and no duration.
    has_hour_letter: ClassVar[bool] = False

    def __init__(self) -> None:
        self.words = read_vocabulary(*self.files)
        self.terms = self.words.terms

    @abstractmethod
    def cardinal(self, n: int, gender: str = "") -> str:
        """Return a whole number; with a gender, in the form before a noun of it."""

    @abstractmethod
    def ordinal(self, n: int, gender: str = "m") -> str: ...

    @abstractmethod
    def clock(self, hours: int, minutes: int, seconds: int | None) -> str: ...

    def half_day(self, hours: int, minutes: int, meridiem: str) -> str:
        """Return a time with "a.m." or "p.m." after it."""
        words = self.clock(hours, minutes, None) if minutes else self.cardinal(hours, "f")
        return f"{words} {self.meridiems[meridiem]}"

    @abstractmethod
    def date(self, day: int | None, month: int, year: int | None) -> str: ...

    @abstractmethod
    def fraction(self, n: int, d: int) -> str | None:
        """Return a fraction; None if two numbers with a stroke are something else."""

    def year(self, n: int) -> str:
        return self.cardinal(n)

    def decade(self, n: int) -> str:
        """Return the years from n to n + 9, as "90s" or "1990s"."""
        return self.cardinal(n)

    def ranked(self, name: str, n: int) -> str:  # noqa: ARG002 - some languages need it
        """Return a Roman numeral after a person's name."""
        return self.ordinal(n) if n <= 10 else self.cardinal(n)

    def mixed(self, whole: int, n: int, d: int) -> str:
        """Return a whole number and a fraction."""
        part = self.terms.half if (n, d) == (1, 2) else self.fraction(n, d)
        return f"{self.cardinal(whole)} {self.terms.link} {part or self.cardinal(n)}"

    def gender_of(self, word: str) -> str:  # noqa: ARG002 - the same
        """Return the gender that a number has before a word; empty if it can't be told."""
        return ""

    def elide(self, text: str) -> str:
        """Return a text in which words that lose a vowel before the next one have lost it."""
        return text

    def spell_digits(self, digits: str) -> str:
        return " ".join(self.digits[int(digit)] for digit in digits)

    def integer(self, digits: str, gender: str = "") -> str:
        """Return digits as a number, or one by one: long ones, and those that begin with 0."""
        if len(digits) > LONGEST_DIGITS or (len(digits) > 1 and digits[0] == "0"):
            return self.spell_digits(digits)
        return self.cardinal(int(digits), gender)

    def decimals(self, digits: str) -> str:
        """Return the digits after a decimal mark; one or two as a number."""
        rest = digits.lstrip("0")
        if len(digits) > 2 or not rest:
            return self.spell_digits(digits)
        zeros = self.spell_digits(digits[: len(digits) - len(rest)])
        return f"{zeros} {self.cardinal(int(rest))}".strip()

    def number(self, number: Number, gender: str = "") -> str:
        if not number.decimals:
            return self.integer(number.digits or str(number.whole), gender)
        whole = self.integer(number.digits or str(number.whole))
        return f"{whole} {self.points[number.mark]} {self.decimals(number.decimals)}"

    def count(self, number: Number, noun: Noun) -> str:
        """Return a number of things."""
        words = self.number(number, noun.gender)
        if self.terms.of and not number.decimals and number.whole and not number.whole % 10**6:
            words += f" {self.terms.of}"
        return f"{words} {self.agree(number, noun)}"

    def agree(self, number: Number, noun: Noun) -> str:
        return noun.one if number.is_one else noun.many

    def money(self, number: Number, currency: Currency) -> str:
        """Return an amount; two decimals are the currency's smaller unit."""
        minor = currency.minor
        if minor is None or len(number.decimals) != 2:
            return self.count(number, currency.major)
        cents = Number(int(number.decimals))
        if not cents.whole:
            return self.count(Number(number.whole), currency.major)
        if not number.whole:
            return self.count(cents, minor)
        major = self.count(Number(number.whole), currency.major)
        return f"{major} {self.terms.conjunction} {self.count(cents, minor)}"

    def scaled_money(self, number: Number, scale: Noun, currency: Currency) -> str:
        """Return an amount of millions or the like."""
        words = self.count(number, scale)
        of = "" if scale.one in self.thousands else self.terms.of
        return " ".join(filter(None, (words, of, currency.major.many)))

    def phone(self, groups: Sequence[str]) -> str:
        """Return groups of digits, with a pause after each."""
        return ", ".join(map(self.spell_digits, groups))

    def power(self, exponent: int) -> str:
        """Return what follows a base with an exponent."""
        squared, cubed, other = self.terms.powers
        if exponent in (2, 3):
            return squared if exponent == 2 else cubed
        sign = f"{self.terms.minus} " if exponent < 0 else ""
        return f"{other} {sign}{self.integer(str(abs(exponent)))}"
