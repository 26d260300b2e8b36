"""Names emoji in a text's language. The package `emoji` has Unicode's names of them. Pure."""

from __future__ import annotations

import re
from typing import Final

import emoji

# Characters that may be part of an emoji, and a sequence of them with the digit of a key cap.
_PART: Final = (
    "\u00a9\u00ae\u200d\u203c\u2049\u20e3\u2122\u2139\u2190-\u21ff\u2300-\u27bf\u2934\u2935"
    "\u2b00-\u2bff\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001faff\U000e0020-\U000e007f"
)
_SEQUENCE: Final = re.compile(
    rf"[0-9#*](?=\ufe0f?\u20e3)[{_PART}]{{1,3}}|[{_PART}](?:[{_PART} ]{{0,62}}[{_PART}])?"
)
_NAMED: Final = frozenset({"en", "es", "fr", "it", "pt"})


def name_pictures(text: str, language: str, kept: frozenset[str]) -> str:
    """Return a text with names instead of emoji, each between pauses; repeated ones once.

    Args:
        language: two letters. A language without names gets the English ones.
        kept: signs that are no pictures here.
    """
    known = language if language in _NAMED else "en"

    def name(match: re.Match[str]) -> str:
        if match[0].rstrip("\ufe0f") in kept:
            return match[0].rstrip("\ufe0f")
        emoji.config.load_language(known)
        words, last = [], ""
        for token in emoji.analyze(match[0], non_emoji=True, join_emoji=False):
            found = token.value
            if isinstance(found, str):
                words.append(found)
                continue
            text = _name(found, known)
            if text != last:
                words.append(f", {text.strip(':').replace('_', ' ')}, ")
            last = text
        return "".join(words)

    return _SEQUENCE.sub(name, text)


def _name(found: emoji.EmojiMatch, language: str) -> str:
    names = found.data or {}
    return str(names.get(language) or names.get("en", ""))
