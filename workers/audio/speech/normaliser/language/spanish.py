"""Readings of Spanish. Pure."""

from __future__ import annotations

from typing import ClassVar, Final

from workers.audio.speech.normaliser.language.grammar import is_feminine
from workers.audio.speech.normaliser.language.romance import Romance

_SMALL: Final = (
    *("cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez"),
    *("once", "doce", "trece", "catorce", "quince", "dieciséis", "diecisiete", "dieciocho"),
    *("diecinueve", "veinte", "veintiuno", "veintidós", "veintitrés", "veinticuatro"),
    *("veinticinco", "veintiséis", "veintisiete", "veintiocho", "veintinueve"),
)
_TENS: Final = ("treinta", "cuarenta", "cincuenta", "sesenta", "setenta", "ochenta", "noventa")
_HUNDREDS: Final = (
    *("", "ciento", "doscientos", "trescientos", "cuatrocientos", "quinientos", "seiscientos"),
    *("setecientos", "ochocientos", "novecientos"),
)
_SCALES: Final = (("millón", "millones"), ("billón", "billones"), ("trillón", "trillones"))
_ORDINALS: Final = (
    *("", "primero", "segundo", "tercero", "cuarto", "quinto", "sexto", "séptimo", "octavo"),
    *("noveno", "décimo", "undécimo", "duodécimo"),
)
_ORDINAL_TENS: Final = (
    *("", "décimo", "vigésimo", "trigésimo", "cuadragésimo", "quincuagésimo", "sexagésimo"),
    *("septuagésimo", "octogésimo", "nonagésimo"),
)
_MONTHS: Final = (
    *("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre"),
    *("octubre", "noviembre", "diciembre"),
)


_FEMININE_ENDINGS: Final = ("a", "as", "ción", "ciones", "sión", "siones", "dad", "dades", "tud")
_NO_NOUNS: Final = frozenset(
    {"para", "más", "menos", "las", "los", "una", "unas", "cada", "contra", "era", "otras", "entre"}
)
_MASCULINE: Final = frozenset(
    {
        *("día", "mapa", "problema", "sistema", "programa", "tema", "gramo", "planeta", "clima"),
        *("idioma", "poeta"),
    }
)
_FEMININE: Final = frozenset(
    {
        *("mujere", "vece", "noche", "clase", "parte", "calle", "tarde", "llave", "flore", "voce"),
        *("luce", "mano", "foto", "moto", "fuente", "frase", "base", "fase", "serie", "imágene"),
        *("rede", "parede", "señale", "leche", "gente", "nave", "noch", "vez", "mujer"),
    }
)
_PLAIN_VOWELS: Final = str.maketrans("áéíóú", "aeiou")


class Spanish(Romance):
    code = "es"
    files = ("es",)
    points: ClassVar = {",": "coma", ".": "punto"}
    phones = (
        r"[6789]\d{2}[ .-]\d{3}[ .-]\d{3}",
        r"[6789]\d{2}(?:[ .-]\d{2}){3}",
        r"9\d(?:[ .-]\d{3})[ .-]\d{2}[ .-]\d{2}",
    )
    digits = _SMALL[:10]
    ordinal_marks: ClassVar = {
        **dict.fromkeys((".º", "º", ".o"), "m"),
        **dict.fromkeys((".ª", "ª", ".a"), "f"),
        **dict.fromkeys((".er", "er"), "short"),
    }
    months = _MONTHS
    first = "primero"
    date_link = " de "

    def cardinal(self, n: int, gender: str = "") -> str:
        if not n:
            return _SMALL[0]
        millions, rest = divmod(n, 10**6)
        words = [self._below_million(rest, gender)] if rest else []
        return " ".join(self.add_scales(words, millions, 10**6))

    def name_scale(self, count: int, scale: int) -> str:
        one, many = _SCALES[scale]
        return f"{self._below_million(count, 'm')} {one if count == 1 else many}"

    def _below_million(self, n: int, gender: str) -> str:
        thousands, rest = divmod(n, 1000)
        words = []
        if thousands:
            # "veintiún mil", "doscientas mil libras".
            words += [self._below_thousand(thousands, gender or "m")] if thousands > 1 else []
            words += ["mil"]
        if rest:
            words.append(self._below_thousand(rest, gender))
        return " ".join(words)

    @staticmethod
    def _below_thousand(n: int, gender: str) -> str:
        if n == 100:
            return "cien"
        hundreds, rest = divmod(n, 100)
        words = [_HUNDREDS[hundreds]] if hundreds else []
        if gender == "f" and hundreds > 1:
            words = [f"{words[0][:-2]}as"]
        if 0 < rest < 30:
            words.append(_SMALL[rest])
        elif rest:
            tens, ones = divmod(rest, 10)
            words += [_TENS[tens - 3], *(("y", _SMALL[ones]) if ones else ())]
        if rest % 10 == 1 and rest != 11 and gender:
            stem = words[-1].removesuffix("uno")
            short = "ún" if stem else "un"
            words[-1] = f"{stem}{'una' if gender == 'f' else short}"
        return " ".join(words)

    def ordinal(self, n: int, gender: str = "m") -> str:
        if n > 99 or not n:
            return self.cardinal(n)
        if n < len(_ORDINALS):
            words = _ORDINALS[n]
        else:
            tens, ones = divmod(n, 10)
            words = f"{_ORDINAL_TENS[tens]} {_ORDINALS[ones]}".strip()
        if gender == "f":
            return " ".join(f"{word[:-1]}a" for word in words.split())
        return words[:-1] if gender == "short" and words.endswith(("primero", "tercero")) else words

    def ranked(self, name: str, n: int) -> str:
        return self.ordinal(n, "f" if is_feminine(name) else "m") if n <= 10 else self.cardinal(n)

    def gender_of(self, word: str) -> str:
        if len(word) < 3 or word in _NO_NOUNS:
            return ""
        if word.removesuffix("s") in _MASCULINE:
            return "m"
        if word.endswith(_FEMININE_ENDINGS) or word.removesuffix("s") in _FEMININE:
            return "f"
        return "m" if word.endswith(("o", "os", "es", "s", "ón", "al", "or")) else ""

    def clock(self, hours: int, minutes: int, seconds: int | None) -> str:
        words = self.cardinal(hours, "f")
        if minutes:
            words += f" y {self.cardinal(minutes)}"
        else:
            words += " en punto" if 0 < hours <= 12 else " horas"
        if seconds:
            words += f" y {self.cardinal(seconds, 'm')} segundo{'' if seconds == 1 else 's'}"
        return words

    def fraction(self, n: int, d: int) -> str | None:
        if not 0 < n < d <= 100:
            return None
        count = self.cardinal(n, "m")
        part = {2: "medio", 3: "tercio", 100: "centésimo"}.get(d, "")
        if not part:
            stem = self.cardinal(d).translate(_PLAIN_VOWELS).replace(" ", "")
            part = f"{stem}avo" if d > 10 else _ORDINALS[d]
        return f"{count} {part}{'' if n == 1 else 's'}"
