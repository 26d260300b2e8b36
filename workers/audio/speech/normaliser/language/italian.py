"""Readings of Italian. Pure."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from workers.audio.speech.normaliser.language.grammar import is_feminine
from workers.audio.speech.normaliser.language.romance import Romance

_SMALL: Final = (
    *("zero", "uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove", "dieci"),
    *("undici", "dodici", "tredici", "quattordici", "quindici", "sedici", "diciassette"),
    *("diciotto", "diciannove"),
)
_TENS: Final = (
    *("venti", "trenta", "quaranta", "cinquanta", "sessanta", "settanta", "ottanta", "novanta"),
)
_SCALES: Final = ("milion", "miliard", "bilion", "biliard", "trilion")
_ORDINALS: Final = (
    *("", "primo", "secondo", "terzo", "quarto", "quinto", "sesto", "settimo", "ottavo", "nono"),
    "decimo",
)
_ONE_BEFORE_VOWEL: Final = re.compile(r"\buna (?=[aeiou])")
_MONTHS: Final = (
    *("gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto"),
    *("settembre", "ottobre", "novembre", "dicembre"),
)
_NO_NOUNS: Final = frozenset({"per", "con", "del", "della", "che", "non", "più", "meno", "volta"})
_MASCULINE: Final = frozenset({"problema", "sistema", "programma", "tema", "grammo", "poeta"})


class Italian(Romance):
    code = "it"
    files = ("it",)
    points: ClassVar = {",": "virgola", ".": "punto"}
    phones = (r"3\d{2}[ .-]\d{3}[ .-]\d{4}", r"3\d{2}[ .-]\d{7}", r"0\d{1,3}[ .-]\d{4,8}")
    digits = _SMALL[:10]
    ordinal_marks: ClassVar = {
        **dict.fromkeys(("º", "o"), "m"),
        **dict.fromkeys(("ª", "a"), "f"),
    }
    months = _MONTHS
    first = "primo"

    def cardinal(self, n: int, gender: str = "") -> str:
        if not n:
            return _SMALL[0]
        if n == 1 and gender:
            return "una" if gender == "f" else "un"
        millions, rest = divmod(n, 10**6)
        words = [self._below_million(rest)] if rest else []
        return " ".join(self.add_scales(words, millions))

    def name_scale(self, count: int, scale: int) -> str:
        one = "e" if _SCALES[scale].endswith("n") else "o"
        counted = "un" if count == 1 else self._below_thousand(count)
        return f"{counted} {_SCALES[scale]}{one if count == 1 else 'i'}"

    def _below_million(self, n: int) -> str:
        thousands, rest = divmod(n, 1000)
        words = ""
        if thousands:
            words = "mille" if thousands == 1 else f"{self._below_thousand(thousands)}mila"
            words = words.replace("tré", "tre")
        return f"{words}{' ' if words and rest else ''}{self._below_thousand(rest) if rest else ''}"

    @staticmethod
    def _below_thousand(n: int) -> str:
        hundreds, rest = divmod(n, 100)
        words = ""
        if hundreds:
            words = "cento" if hundreds == 1 else f"{_SMALL[hundreds]}cento"
            # "centotto", "centottanta".
            words = words[:-1] if rest == 8 or 80 <= rest < 90 else words
        if 0 < rest < 20:
            words += _SMALL[rest]
        elif rest:
            tens, ones = divmod(rest, 10)
            stem = _TENS[tens - 2]
            if ones in (1, 8):
                stem = stem[:-1]
            words += stem + (_SMALL[ones] if ones else "")
        return f"{words[:-3]}tré" if n > 20 and words.endswith("tre") else words

    def ordinal(self, n: int, gender: str = "m") -> str:
        if not n:
            return self.cardinal(n)
        if n < len(_ORDINALS):
            words = _ORDINALS[n]
        else:
            stem = self.cardinal(n).replace("tré", "tre")
            keeps_vowel = n % 10 in (3, 6) and n % 100 not in (13, 16)
            words = f"{stem if keeps_vowel else stem[:-1]}esimo"
        return f"{words[:-1]}a" if gender == "f" else words

    def ranked(self, name: str, n: int) -> str:
        return self.ordinal(n, "f" if is_feminine(name) else "m")

    def gender_of(self, word: str) -> str:
        if len(word) < 3 or word in _NO_NOUNS:
            return ""
        return "f" if word.endswith("a") and word not in _MASCULINE else "m"

    def elide(self, text: str) -> str:
        return _ONE_BEFORE_VOWEL.sub("un'", text)

    def clock(self, hours: int, minutes: int, seconds: int | None) -> str:
        words = "una" if hours == 1 else self.cardinal(hours)
        if minutes:
            words += f" e {self.cardinal(minutes)}"
        if seconds:
            words += f" e {self.cardinal(seconds, 'm')} second{'o' if seconds == 1 else 'i'}"
        return words

    def fraction(self, n: int, d: int) -> str | None:
        if not 0 < n < d <= 100:
            return None
        part = "mezzo" if d == 2 else self.ordinal(d)
        return f"{self.cardinal(n, 'm')} {part if n == 1 else f'{part[:-1]}i'}"
