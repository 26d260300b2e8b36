"""Readings of Brazilian Portuguese. Pure."""

from __future__ import annotations

from typing import ClassVar, Final

from workers.audio.speech.normaliser.language.grammar import is_feminine
from workers.audio.speech.normaliser.language.number import Number
from workers.audio.speech.normaliser.language.romance import Romance
from workers.audio.speech.normaliser.language.vocabulary import Noun

_SMALL: Final = (
    *("zero", "um", "dois", "três", "quatro", "cinco", "seis", "sete", "oito", "nove", "dez"),
    *("onze", "doze", "treze", "quatorze", "quinze", "dezesseis", "dezessete", "dezoito"),
    "dezenove",
)
_TENS: Final = (
    *("vinte", "trinta", "quarenta", "cinquenta", "sessenta", "setenta", "oitenta", "noventa"),
)
_HUNDREDS: Final = (
    *("", "cento", "duzentos", "trezentos", "quatrocentos", "quinhentos", "seiscentos"),
    *("setecentos", "oitocentos", "novecentos"),
)
_SCALES: Final = (
    *(("milhão", "milhões"), ("bilhão", "bilhões"), ("trilhão", "trilhões")),
    *(("quatrilhão", "quatrilhões"), ("quintilhão", "quintilhões")),
)
_ORDINALS: Final = (
    *("", "primeiro", "segundo", "terceiro", "quarto", "quinto", "sexto", "sétimo", "oitavo"),
    "nono",
)
_ORDINAL_TENS: Final = (
    *("", "décimo", "vigésimo", "trigésimo", "quadragésimo", "quinquagésimo", "sexagésimo"),
    *("septuagésimo", "octogésimo", "nonagésimo"),
)
_MONTHS: Final = (
    *("janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro"),
    *("outubro", "novembro", "dezembro"),
)
_FEMININE_ENDINGS: Final = ("a", "as", "ção", "ções", "dade", "dades", "gem", "gens")
_FEMININE: Final = frozenset(
    {
        *("mulher", "mulheres", "vez", "vezes", "noite", "noites", "tarde", "tardes", "parte"),
        *("partes", "flor", "flores", "luz", "luzes", "mão", "mãos", "foto", "fotos", "chave"),
        *("chaves", "fase", "fases", "base", "bases", "árvore", "árvores", "redes", "séries"),
    }
)
_NO_NOUNS: Final = frozenset(
    {"para", "mas", "cada", "nada", "contra", "era", "pela", "pelas", "da"}
)
_MASCULINE: Final = frozenset(
    {
        *("dia", "mapa", "problema", "sistema", "programa", "tema", "grama", "quilograma"),
        *("planeta", "clima", "idioma", "cinema"),
    }
)


class Portuguese(Romance):
    code = "pt-br"
    files = ("pt-br",)
    has_hour_letter = True
    points: ClassVar = {",": "vírgula", ".": "ponto"}
    phones = (r"\(\d{2}\) ?9? ?\d{4}[- ]\d{4}", r"9?\d{4}-\d{4}", r"\d{2} 9\d{4}-\d{4}")
    digits = _SMALL[:10]
    ordinal_marks: ClassVar = {
        **dict.fromkeys((".º", "º", "o"), "m"),
        **dict.fromkeys((".ª", "ª", "a"), "f"),
    }
    months = _MONTHS
    first = "primeiro"
    date_link = " de "

    def cardinal(self, n: int, gender: str = "") -> str:
        if not n:
            return _SMALL[0]
        high, rest = divmod(n, 1000)
        words = [self._below_thousand(rest, gender)] if rest else []
        high, thousands = divmod(high, 1000)
        if thousands:
            count = self._below_thousand(thousands, gender)
            words.insert(0, "mil" if thousands == 1 else f"{count} mil")
        words = self.add_scales(words, high)
        # "e" before the last part if it is below 100 or whole hundreds.
        if len(words) > 1 and rest and (rest < 100 or not rest % 100):
            words.insert(-1, "e")
        return " ".join(words)

    def name_scale(self, count: int, scale: int) -> str:
        one, many = _SCALES[scale]
        return f"{self._below_thousand(count, 'm')} {one if count == 1 else many}"

    @staticmethod
    def _below_thousand(n: int, gender: str) -> str:
        if n == 100:
            return "cem"
        hundreds, rest = divmod(n, 100)
        words = [_HUNDREDS[hundreds]] if hundreds else []
        if gender == "f" and hundreds > 1:
            words = [f"{words[0][:-2]}as"]
        if 0 < rest < 20:
            words.append(_SMALL[rest])
        elif rest:
            tens, ones = divmod(rest, 10)
            words += [_TENS[tens - 2], *([_SMALL[ones]] if ones else ())]
        if gender == "f":
            words[-1] = {"um": "uma", "dois": "duas"}.get(words[-1], words[-1])
        return " e ".join(words)

    def ordinal(self, n: int, gender: str = "m") -> str:
        if n > 99 or not n:
            return self.cardinal(n)
        tens, ones = divmod(n, 10)
        words = f"{_ORDINAL_TENS[tens]} {_ORDINALS[ones]}".strip()
        return " ".join(f"{w[:-1]}a" for w in words.split()) if gender == "f" else words

    def ranked(self, name: str, n: int) -> str:
        return self.ordinal(n, "f" if is_feminine(name) else "m") if n <= 10 else self.cardinal(n)

    def gender_of(self, word: str) -> str:
        if len(word) < 3 or word in _NO_NOUNS or word.rstrip("s") in _MASCULINE:
            return ""
        is_feminine = word in _FEMININE or word.endswith(_FEMININE_ENDINGS)
        return "f" if is_feminine else ""

    def agree(self, number: Number, noun: Noun) -> str:
        return noun.one if number.whole == 1 else noun.many

    def clock(self, hours: int, minutes: int, seconds: int | None) -> str:
        words = f"{self.cardinal(hours, 'f')} hora{'' if hours == 1 else 's'}"
        if minutes:
            words += f" e {self.cardinal(minutes)} minuto{'' if minutes == 1 else 's'}"
        if seconds:
            words += f" e {self.cardinal(seconds)} segundo{'' if seconds == 1 else 's'}"
        return words

    def fraction(self, n: int, d: int) -> str | None:
        if not 0 < n < d <= 100:
            return None
        if d > 10:
            return f"{self.cardinal(n)} {self.cardinal(d)} avos"
        part = {2: "meio", 3: "terço"}.get(d) or self.ordinal(d)
        return f"{self.cardinal(n)} {part}{'' if n == 1 else 's'}"
