"""Which scripts a voice can speak, and which one a text has that it can't. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set as AbstractSet
from typing import Final

# espeak-ng 1.51 reads words in these whatever the voice, in a language of the script.
SPOKEN: Final = frozenset(
    {
        *("LATIN", "DEVANAGARI", "BENGALI", "GUJARATI", "GURMUKHI", "TAMIL", "KANNADA"),
        *("MALAYALAM", "SINHALA", "HANGUL", "GEORGIAN", "ARMENIAN"),
    }
)
# The first word of a character's name, where it is not that of its script.
_SCRIPTS: Final = {"CJK": "Han", "IDEOGRAPHIC": "Han", "HALFWIDTH": "Katakana"}
_OTHER: Final = re.compile(r"[^\W\d_a-zA-Z\u00aa\u00b5\u00ba\u00c0-\u024f]")
_GREEK: Final = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]")
_GREEK_WORD: Final = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]{2}")


def find_unspoken(text: str, scripts: AbstractSet[str]) -> str | None:
    """Return the name of the first script in a text that a voice can't speak; None if it has none.

    A single Greek letter is a sign, as in "π".

    Args:
        scripts: spoken besides those that every voice speaks.
    """
    checked = set[str]()
    for match in _OTHER.finditer(text):
        character = match[0]
        if character in checked:
            continue
        checked.add(character)
        if not unicodedata.category(character).startswith("L"):
            continue
        script = unicodedata.name(character, "UNKNOWN").split()[0]
        is_sign = script == "MODIFIER" or unicodedata.category(character) == "Lm"
        if is_sign or script in SPOKEN or script in scripts:
            continue
        if script == "GREEK" and not _GREEK_WORD.search(text):
            continue
        return _SCRIPTS.get(script, script.title())
    return None


def is_spoken(letter: str, scripts: AbstractSet[str]) -> bool:
    """Return whether a letter can be spoken as part of a word."""
    script = unicodedata.name(letter, "UNKNOWN").split()[0]
    return script in SPOKEN or script in scripts
