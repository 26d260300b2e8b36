"""The last step: every character is a letter of a word, or a mark that is a pause. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import partial
from typing import Final

from workers.audio.speech.normaliser.language.grammar import Language
from workers.audio.speech.normaliser.script import is_spoken

# Marks that espeak-ng and the splitting of texts know as pauses.
PAUSES: Final = ".,;:!?…—。！？、，；：।"
_PLAIN: Final = rf"a-zA-Z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0900-\u0963 \n{PAUSES}"
_OTHER: Final = re.compile(rf"[^{_PLAIN}]")
# Two or more of one sign draw a line: a pause.
_DRAWN: Final = re.compile(r"([^\w\s.,;:!?…—।])\1{2,}+|(?:[_]{2,})")
_BRACKET: Final = re.compile(r"[()\[\]{}]")
_APOSTROPHE: Final = re.compile(r"(?<![^\W\d_])'|'(?=')")
_HYPHEN: Final = re.compile(r"(?<![^\W\d_])-|-(?![^\W\d_])")
_DASH: Final = re.compile(r"(?<=\s)[-–]{1,3}(?=\s)|--")
_JOINED: Final = re.compile(r"(?<=[^\W\d_])[–](?=[^\W\d_])")
# Within a word; a capital letter begins a sentence.
_STOP: Final = re.compile(r"(?<=\w)\.(?=[^\W_])")
_BLANKS: Final = re.compile(r"[^\S\n]+")
_DETACHED: Final = re.compile(r" (?=[.,;:!?…])")
# Marks that follow each other are one.
_RUN: Final = re.compile(r"[.,;:!?…—](?: ?[.,;:!?…—])++")
_STRONG: Final = ".!?…"
_TRAILING: Final = re.compile(r"[,;:—]+ ?$", re.MULTILINE)
_QUOTED: Final = re.compile(r"(?<![^\W_])'([^'\n]{1,300})'(?![^\W_])")
_LEADING: Final = re.compile(r"^ ?[.,;:…—]++ ?", re.MULTILINE)
_CATEGORIES: Final = frozenset({"Sm", "Sc"})


def clean(text: str, language: Language) -> str:
    """Return a text of letters, marks and pauses; signs that have names are words."""
    text = _DASH.sub(" — ", _JOINED.sub("-", text))
    text = _DRAWN.sub(", ", text)
    text = _BRACKET.sub(", ", text)
    text = _APOSTROPHE.sub("", _QUOTED.sub(r"\1", text))
    text = _HYPHEN.sub(" ", text)
    text = _STOP.sub(_end_sentence, text)
    text = _OTHER.sub(partial(_replace, language=language), text)
    text = _DETACHED.sub("", _BLANKS.sub(" ", text))
    text = _LEADING.sub("", _RUN.sub(_merge, text))
    return _TRAILING.sub("", text).strip()


def _end_sentence(match: re.Match[str]) -> str:
    following = match.string[match.end()]
    return ". " if following.isupper() else " "


def _merge(match: re.Match[str]) -> str:
    strong = [character for character in match[0] if character in _STRONG]
    return "".join(strong[:3]) or match[0][0]


def _replace(match: re.Match[str], language: Language) -> str:
    character = match[0]
    if character in "'-":
        return character
    if (words := language.words.signs.get(character)) is not None:
        return f" {words} "
    category = unicodedata.category(character)
    if category.startswith("L"):
        return _replace_letter(character, language)
    if category in {"Mn", "Mc"}:
        return character
    if category.startswith("N"):
        return f" {language.cardinal(int(unicodedata.numeric(character, 0)))} "
    if category in _CATEGORIES and language.code.startswith("en"):
        return f" {unicodedata.name(character, '').lower()} "
    return " "


def _replace_letter(character: str, language: Language) -> str:
    if is_spoken(character, language.scripts):
        return character
    name = unicodedata.name(character, "")
    return f" {name.split()[-1].lower()} " if name.startswith("GREEK") else " "
