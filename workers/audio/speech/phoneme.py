"""Converts text to Kokoro's phonemes, by espeak-ng in a process of its own.

Owns the differences between espeak-ng's notation and the one that Kokoro was trained on. Runs on
the event loop.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Final

from shared.errors import ServiceError
from workers.audio.sound import program
from workers.audio.speech.splitting import split_clauses

# First letter of a voice → espeak-ng's name of its language. Japanese and Chinese voices are left
# out: they were trained on other phonemes than espeak-ng's.
LANGUAGES: Mapping[str, str] = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "p": "pt-br",
}
PROGRAM: Final = "espeak-ng"
# What is lost without it.
NEEDS_PROGRAM: Final = "no speech can be made from text"
_DEADLINE_S = 20.0
# Diphthongs and affricates, which espeak-ng writes as two tied letters; longer ones first.
# Source: misaki, espeak.py.
_TIED = {
    "a^ɪ": "I",
    "a^ʊ": "W",
    "d^z": "ʣ",
    "d^ʒ": "ʤ",
    "e^ɪ": "A",
    "o^ʊ": "O",
    "ə^ʊ": "Q",
    "t^s": "ʦ",
    "t^ʃ": "ʧ",
    "ɔ^ɪ": "Y",
}
_ENGLISH = {
    "ʔˌn\u0329": "tᵊn",
    "ʔn\u0329": "tᵊn",
    "ʔn": "tᵊn",
    "ʔ": "t",
    "ə^l": "ᵊl",
    "ɚ": "əɹ",
    "r": "ɹ",
    "x": "k",
    "ç": "k",
    "ɐ": "ə",
    "ɬ": "l",
    "ʲ": "",
    "\u0303": "",
}
_AMERICAN = {"ɜːɹ": "ɜɹ", "ɜː": "ɜɹ", "ɪə": "iə", "e": "A", "o": "ɔ", "ɾ": "T", "ː": ""}
_BRITISH = {"e^ə": "ɛː", "iə": "ɪə", "e": "A"}
_RULES: Mapping[str, Sequence[Mapping[str, str]]] = {
    "en-us": (_TIED, _ENGLISH, _AMERICAN),
    "en-gb": (_TIED, _ENGLISH, _BRITISH),
}
_SYLLABIC = re.compile("(\\S)\u0329")
# The tie, the syllabic mark, hyphens, and names of languages that espeak-ng switches to.
_DROPPED = re.compile("[\\^\u0329-]|\\([a-z-]+\\)")


async def convert(piece: str, voice: str) -> str:
    """Return a piece of text as phonemes, with its punctuation; empty if it has no words.

    Args:
        voice: its first letter determines the language.

    Raises:
        ServiceError: espeak-ng failed, or is no longer installed.
    """
    language = LANGUAGES[voice[0]]
    phonemes = ""
    for clause, mark in split_clauses(piece):
        converted = ""
        if any(map(str.isalnum, clause)):
            converted = await _convert_clause(clause, language)
        if converted:
            phonemes += f" {converted}" if phonemes else converted
        phonemes += mark if phonemes else ""
    return phonemes


async def _convert_clause(clause: str, language: str) -> str:
    # espeak-ng reads [[...]] as phonemes, which a client must not send.
    clause = clause.replace("[[", " ").replace("]]", " ")
    path = program.require(PROGRAM, NEEDS_PROGRAM, "input")
    command = [path, "-q", "--ipa", "--tie=^", "-v", language, "--stdin"]
    output = await _run(command, clause.encode())
    phonemes = " ".join(output.decode(errors="replace").split())
    for rules in _RULES.get(language, (_TIED,)):
        for old, new in rules.items():
            phonemes = phonemes.replace(old, new)
    return _DROPPED.sub("", _SYLLABIC.sub(r"ᵊ\1", phonemes))


async def _run(command: Sequence[str], data: bytes) -> bytes:
    """Return a command's output for some input."""
    streams = {"stdin": program.PIPE, "stdout": program.PIPE, "stderr": program.NONE}
    async with program.run(command, **streams) as process:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                output, _ = await process.communicate(data)
        except TimeoutError:
            raise ServiceError("internal", "The text could not be pronounced in time.") from None
    if process.returncode != 0:
        raise ServiceError("internal", "The text could not be pronounced.")
    return output
