"""Spells addresses: URLs, e-mail addresses, host and file names, tags and mentions. Pure."""

from __future__ import annotations

import re
from typing import Final

from workers.audio.speech.normaliser.language.grammar import Language

_URL: Final = re.compile(
    r"(?<!\w)(?:(?:https?|ftp|wss?|file)://|mailto:|www\.)[^\s<>\"]++", re.IGNORECASE
)
_EMAIL: Final = re.compile(
    r"(?<![\w.+%-])[\w.+%-]{1,64}+@(?:[\w-]{1,63}+\.){1,8}[^\W\d_]{2,24}(?![\w-])"
)
_HOST: Final = re.compile(
    r"(?<![\w.@-])(?:[a-z0-9-]{1,63}+\.){1,6}(?:com|org|net|io|dev|ai|edu|gov|app|co|info)(?![\w-])"
    r"(?:/[^\s<>\"]*+)?",
    re.IGNORECASE,
)
# "main.py", "1.txt" and "a.b.c", but no end of a sentence: a small letter follows.
_FILE: Final = re.compile(
    r"(?<![\w.])(?=[\w-]{0,60}[^\W\d_])[\w-]{1,60}+(?:\.[a-z][\w-]{0,30}+){1,6}(?![\w.])"
)
_INITIALS: Final = re.compile(r"(?<![\w.])(?![ap]\.m\.)(?:[^\W\d_]\.){2,12}(?!\w)")
_TAG: Final = re.compile(r"(?<![\w&])#(?=[^\W\d_])")
# Relative paths and options of commands.
_PATH: Final = re.compile(r"(?<![\w.])\.{1,2}/(?=\w)|(?<!\S)(?:--(?=[^\W\d_])|-(?=[^\W\d_](?!\w)))")
_MENTION: Final = re.compile(r"(?<![\w.])@(?=\w)")
_SCHEME: Final = re.compile(r"^(?:[a-z]+://|mailto:)", re.IGNORECASE)
_TRAILING: Final = ".,;:!?'\")]}…*"
_PART: Final = re.compile(r"[^\W_]+|.", re.DOTALL)
_LONGEST_NUMBER: Final = 4


def spell_addresses(text: str, language: Language) -> str:
    """Return a text in which addresses are words."""

    def spell(match: re.Match[str]) -> str:
        whole = match[0].rstrip(_TRAILING)
        return f" {_spell(_SCHEME.sub('', whole), language)} {match[0][len(whole) :]}"

    if "." in text or ":" in text:
        for pattern in (_URL, _EMAIL, _HOST):
            text = pattern.sub(spell, text)
        text = _FILE.sub(spell, text)
    text = _PATH.sub(lambda match: f" {_spell_signs(match[0], language)} ", text)
    text = _TAG.sub(f"{language.terms.hashtag} ", text)
    return _MENTION.sub(f"{language.terms.at} ", text)


def join_initials(text: str) -> str:
    """Return a text with "U.S." as "U S"; the last stop may end the sentence."""
    return _INITIALS.sub(_join_initials, text)


def _spell_signs(signs: str, language: Language) -> str:
    return " ".join(language.words.letters[sign] for sign in signs)


def _spell(address: str, language: Language) -> str:
    words = []
    for part in _PART.findall(address.rstrip("/")):
        if part.isdecimal() and len(part) > _LONGEST_NUMBER:
            words.append(language.spell_digits(part))
        elif part.lower() == "www":
            words.append("w w w")
        elif part.isalnum():
            words.append(part)
        else:
            words.append(language.words.letters.get(part) or language.words.signs.get(part, " "))
    return " ".join(words)


def _join_initials(match: re.Match[str]) -> str:
    rest = match.string[match.end() : match.end() + 2]
    is_end = not rest.strip() or "\n" in rest or rest[0] in "\"')"
    return " ".join(match[0].rstrip(".").split(".")) + ("." if is_end and len(match[0]) > 4 else "")
