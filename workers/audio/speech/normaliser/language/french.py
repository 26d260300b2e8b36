"""Readings of French. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from workers.audio.speech.normaliser.language.number import Number
from workers.audio.speech.normaliser.language.romance import Romance
from workers.audio.speech.normaliser.language.vocabulary import Noun

_SMALL: Final = (
    *("zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"),
    *("onze", "douze", "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit"),
    "dix-neuf",
)
_TENS: Final = ("vingt", "trente", "quarante", "cinquante", "soixante")
_SCALES: Final = ("million", "milliard", "billion", "billiard", "trillion")
_FEMININE: Final = frozenset(
    {
        *("heure", "heures", "minute", "minutes", "seconde", "secondes", "personne", "personnes"),
        *("fois", "page", "pages", "semaine", "semaines", "femme", "femmes", "fille", "filles"),
        *("livre", "livres", "place", "places", "voiture", "voitures", "maison", "maisons"),
    }
)
_FEMININE_ENDINGS: Final = (
    "tion",
    "tions",
    "sion",
    "sions",
    "ées",
    "ette",
    "ettes",
    "ances",
    "ences",
)
_OF_BEFORE_VOWEL: Final = re.compile(r"\b([mb]illi(?:on|ard)s?) de (?=[aeéiou])")
_MONTHS: Final = (
    *("janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre"),
    *("octobre", "novembre", "décembre"),
)


class French(Romance):
    code = "fr-fr"
    files = ("fr-fr",)
    has_hour_letter = True
    points: ClassVar = {",": "virgule", ".": "point"}
    phones = (r"0\d(?:[ .-]\d{2}){4}",)
    digits = _SMALL[:10]
    ordinal_marks: ClassVar = {
        **dict.fromkeys(("er", "e", "ème", "ième", "eme"), "m"),
        **dict.fromkeys(("re", "ère", "de", "nde"), "f"),
    }
    months = _MONTHS
    first = "premier"

    def cardinal(self, n: int, gender: str = "") -> str:
        if not n:
            return _SMALL[0]
        millions, rest = divmod(n, 10**6)
        words = [self._below_million(rest, gender)] if rest else []
        return " ".join(self.add_scales(words, millions))

    def name_scale(self, count: int, scale: int) -> str:
        plural = "" if count == 1 else "s"
        return f"{self._below_thousand(count, '')} {_SCALES[scale]}{plural}"

    def _below_million(self, n: int, gender: str) -> str:
        thousands, rest = divmod(n, 1000)
        words = []
        if thousands:
            # "quatre-vingt mille", "deux cent mille": no plural before it.
            count = self._below_thousand(thousands, "")
            count = count.removesuffix("s") if count.endswith(("cents", "vingts")) else count
            words += [count] if thousands > 1 else []
            words += ["mille"]
        if rest:
            words.append(self._below_thousand(rest, gender))
        return " ".join(words)

    def _below_thousand(self, n: int, gender: str) -> str:
        hundreds, rest = divmod(n, 100)
        words = []
        if hundreds:
            words += [_SMALL[hundreds]] if hundreds > 1 else []
            words += ["cents" if hundreds > 1 and not rest else "cent"]
        if rest:
            words.append(self._below_hundred(rest))
        text = " ".join(words)
        return f"{text}e" if gender == "f" and text.endswith("un") else text

    @staticmethod
    def _below_hundred(n: int) -> str:
        if n < 20:
            return _SMALL[n]
        tens, ones = divmod(n, 10)
        if tens in (7, 9):
            tens, ones = tens - 1, ones + 10
        if tens == 8:
            return f"quatre-vingt-{_SMALL[ones]}" if ones else "quatre-vingts"
        link = " et " if ones in (1, 11) else "-"
        return f"{_TENS[tens - 2]}{link}{_SMALL[ones]}" if ones else _TENS[tens - 2]

    def ordinal(self, n: int, gender: str = "m") -> str:
        if n == 1:
            return "première" if gender == "f" else "premier"
        if n == 2 and gender == "f":
            return "seconde"
        words = self.cardinal(n)
        if words.endswith(("vingts", "cents", "millions", "milliards")):
            words = words[:-1]
        if words.endswith("cinq"):
            words += "u"
        elif words.endswith("neuf"):
            words = f"{words[:-1]}v"
        return f"{words.removesuffix('e')}ième"

    def gender_of(self, word: str) -> str:
        is_feminine = word in _FEMININE or word.endswith(_FEMININE_ENDINGS)
        return "f" if is_feminine else ""

    def elide(self, text: str) -> str:
        return _OF_BEFORE_VOWEL.sub(r"\1 d'", text)

    def agree(self, number: Number, noun: Noun) -> str:
        return noun.one if number.whole < 2 else noun.many

    def clock(self, hours: int, minutes: int, seconds: int | None) -> str:
        words = f"{self.cardinal(hours, 'f')} heure{'s' if hours > 1 else ''}"
        if minutes:
            words += f" {self.cardinal(minutes, 'f')}"
        if seconds:
            words += f" et {self.cardinal(seconds, 'f')} seconde{'s' if seconds > 1 else ''}"
        return words

    def fraction(self, n: int, d: int) -> str | None:
        if not 0 < n < d <= 100:
            return None
        part = {2: "demi", 3: "tiers", 4: "quart"}.get(d) or self.ordinal(d)
        plural = "" if n == 1 or part.endswith("s") else "s"
        return f"{self.cardinal(n)} {part}{plural}"

    def ranked(self, name: str, n: int) -> str:  # noqa: ARG002 - the same for all
        return "premier" if n == 1 else self.cardinal(n)

    def phone(self, groups: Sequence[str]) -> str:
        """Return groups of digits; pairs are read as numbers."""
        return ", ".join(
            self.integer(group) if len(group) == 2 else self.spell_digits(group) for group in groups
        )
