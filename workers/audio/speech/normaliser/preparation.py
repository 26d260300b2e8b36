"""Brings the many forms of a character to one: widths, digits, quotes, exponents. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Letters without compatibility forms, and signs that would lose what they mean.
_KEPT: Final = "\u2122\u2116\u2139\u3297\u3299\u0370-\u1fff\u3041-\u9fff\uac00-\ud7a3"
_COMPATIBLE: Final = re.compile(rf"(?![{_KEPT}])[\xa0\xb5\u0132-\U0010ffff]")
# Zero bytes would end espeak-ng's input; format characters and variants have no sound.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FORMAT: Final = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)
_JOINERS: Final = re.compile("[\u200d\ufe00-\ufe0f]|[\U000e0000-\U000e0fff]")
_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_EXPONENT: Final = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]{1,8}")
_VULGAR: Final = re.compile("[¼½¾⅐-⅞↉]")
_FOREIGN_DIGIT: Final = re.compile(r"(?![0-9])\d")
_SAME: Final = str.maketrans(
    {
        **dict.fromkeys("‘’ʼ‛′´", "'"),
        **dict.fromkeys("“”„‟«»‹›″", '"'),
        **dict.fromkeys("‐‑", "-"),
        **dict.fromkeys("‒–―", "–"),
        **dict.fromkeys("⁄∕", "/"),
        **dict.fromkeys("∙⋅", "×"),
        "˚": "°",
        "µ": "μ",
        "Ω": "Ω",
        "∆": "Δ",
        "⩽": "≤",
        "⩾": "≥",
        "‖": "|",
    }
)
# A letter with more marks than any orthography has.
_STACKED: Final = re.compile(r"([\u0300-\u036f]{2})[\u0300-\u036f]+")


def unify(text: str) -> str:
    """Return a text whose characters have one form each; exponents as "^2"."""
    text = _CONTROL.sub(" ", unicodedata.normalize("NFC", text).replace("\r", "\n"))
    text = _VULGAR.sub(lambda match: f" {unicodedata.normalize('NFKC', match[0])}", text)
    text = write_exponents(text)
    text = _COMPATIBLE.sub(_fold, text)
    text = _FORMAT.sub("", text).translate(_SAME)
    text = _FOREIGN_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)
    return _STACKED.sub(r"\1", text)


def write_exponents(text: str) -> str:
    """Return a text with raised digits after a sign: "m²" as "m^2"."""
    return _EXPONENT.sub(lambda match: f"^{match[0].translate(_SUPERSCRIPTS)}", text)


def drop_joiners(text: str) -> str:
    """Return a text without what joins and varies emoji, which must be read before."""
    return _JOINERS.sub("", text)


def _fold(match: re.Match[str]) -> str:
    """Return a character's compatible form, unless it is one with a blank, such as an accent's."""
    folded = unicodedata.normalize("NFKC", match[0])
    return folded if folded.isspace() or " " not in folded else match[0]
