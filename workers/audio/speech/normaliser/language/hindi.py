"""Readings of Hindi. Pure."""

from __future__ import annotations

from typing import ClassVar, Final

from workers.audio.speech.normaliser.language.grammar import Language

# Below a hundred every number has a word of its own.
_SMALL: Final = (
    *("शून्य", "एक", "दो", "तीन", "चार", "पाँच", "छह", "सात", "आठ", "नौ"),
    *("दस", "ग्यारह", "बारह", "तेरह", "चौदह", "पंद्रह", "सोलह", "सत्रह", "अठारह", "उन्नीस"),
    *("बीस", "इक्कीस", "बाईस", "तेईस", "चौबीस", "पच्चीस", "छब्बीस", "सत्ताईस", "अट्ठाईस", "उनतीस"),
    *("तीस", "इकतीस", "बत्तीस", "तैंतीस", "चौंतीस", "पैंतीस", "छत्तीस", "सैंतीस", "अड़तीस", "उनतालीस"),
    *(
        "चालीस",
        "इकतालीस",
        "बयालीस",
        "तैंतालीस",
        "चौवालीस",
        "पैंतालीस",
        "छियालीस",
        "सैंतालीस",
        "अड़तालीस",
        "उनचास",
    ),
    *("पचास", "इक्यावन", "बावन", "तिरपन", "चौवन", "पचपन", "छप्पन", "सत्तावन", "अट्ठावन", "उनसठ"),
    *("साठ", "इकसठ", "बासठ", "तिरसठ", "चौंसठ", "पैंसठ", "छियासठ", "सड़सठ", "अड़सठ", "उनहत्तर"),
    *(
        "सत्तर",
        "इकहत्तर",
        "बहत्तर",
        "तिहत्तर",
        "चौहत्तर",
        "पचहत्तर",
        "छिहत्तर",
        "सतहत्तर",
        "अठहत्तर",
        "उनासी",
    ),
    *(
        "अस्सी",
        "इक्यासी",
        "बयासी",
        "तिरासी",
        "चौरासी",
        "पचासी",
        "छियासी",
        "सत्तासी",
        "अट्ठासी",
        "नवासी",
    ),
    *(
        "नब्बे",
        "इक्यानवे",
        "बानवे",
        "तिरानवे",
        "चौरानवे",
        "पचानवे",
        "छियानवे",
        "सत्तानवे",
        "अट्ठानवे",
        "निन्यानवे",
    ),
)
_SCALES: Final = (
    *((10**17, "शंख"), (10**15, "पद्म"), (10**13, "नील"), (10**11, "खरब"), (10**9, "अरब")),
    *((10**7, "करोड़"), (10**5, "लाख"), (10**3, "हज़ार"), (10**2, "सौ")),
)
_ORDINALS: Final = {1: "पहला", 2: "दूसरा", 3: "तीसरा", 4: "चौथा", 6: "छठा"}
_MONTHS: Final = (
    *("जनवरी", "फ़रवरी", "मार्च", "अप्रैल", "मई", "जून", "जुलाई", "अगस्त", "सितंबर", "अक्टूबर"),
    *("नवंबर", "दिसंबर"),
)


class Hindi(Language):
    code = "hi"
    files = ("hi",)
    decimal_mark = "."
    groups_by_blank = False
    points: ClassVar = {".": "दशमलव"}
    meridiems: ClassVar = {"a": "ए एम", "p": "पी एम"}
    phones = (r"[6-9]\d{4}[- ]\d{5}", r"0\d{2,4}[- ]\d{6,8}")
    digits = _SMALL[:10]
    ordinal_marks: ClassVar = {
        **dict.fromkeys(("वाँ", "वां", "ला", "रा", "था", "ठा"), "m"),
        **dict.fromkeys(("वीं", "ली", "री", "थी", "ठी"), "f"),
        **dict.fromkeys(("वें", "ले", "रे", "थे", "ठे"), "oblique"),
    }

    def cardinal(self, n: int, gender: str = "") -> str:
        words = []
        for size, name in _SCALES:
            count, n = divmod(n, size)
            if count:
                words.append(f"{self.cardinal(count, gender)} {name}")
        if n or not words:
            words.append(_SMALL[n])
        return " ".join(words)

    def decimals(self, digits: str) -> str:
        return self.spell_digits(digits)

    def year(self, n: int) -> str:
        century, rest = divmod(n, 100)
        if not 1100 <= n <= 1999:
            return self.cardinal(n)
        words = f"{_SMALL[century]} सौ"
        return f"{words} {_SMALL[rest]}" if rest else words

    def ordinal(self, n: int, gender: str = "m") -> str:
        if n in _ORDINALS:
            return _ORDINALS[n][:-1] + {"m": "ा", "f": "ी"}.get(gender, "े")
        return self.cardinal(n) + {"m": "वाँ", "f": "वीं"}.get(gender, "वें")

    def decade(self, n: int) -> str:
        return self.year(n)

    def mixed(self, whole: int, n: int, d: int) -> str:
        if (n, d) != (1, 2):
            return super().mixed(whole, n, d)
        return {1: "डेढ़", 2: "ढाई"}.get(whole) or f"साढ़े {self.cardinal(whole)}"

    def clock(self, hours: int, minutes: int, seconds: int | None) -> str:
        words = f"{self.cardinal(hours)} बजकर {self.cardinal(minutes)} मिनट"
        if seconds:
            return f"{words} {self.cardinal(seconds)} सेकंड"
        return words if minutes else f"{self.cardinal(hours)} बजे"

    def date(self, day: int | None, month: int, year: int | None) -> str:
        parts = [_MONTHS[month - 1]]
        if day is not None:
            parts.insert(0, self.cardinal(day))
        if year is not None:
            parts.append(self.year(year))
        return " ".join(parts)

    def fraction(self, n: int, d: int) -> str | None:
        if not 0 < n < d <= 100:
            return None
        common = {(1, 2): "आधा", (1, 4): "एक चौथाई", (3, 4): "तीन चौथाई", (1, 3): "एक तिहाई"}
        return common.get((n, d)) or f"{self.cardinal(n)} बटा {self.cardinal(d)}"

    def ranked(self, name: str, n: int) -> str:  # noqa: ARG002 - the same for all
        return self.ordinal(n)
