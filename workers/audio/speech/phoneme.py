"""Text in phonemes that Kokoro knows, by espeak-ng in a process of its own.

Owns what espeak-ng writes differently from the alphabet that Kokoro was trained on. Runs on the
event loop; the work is the other process's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from shared.errors import ServiceError
from workers.audio.sound import program
from workers.audio.speech import sentence

# First letter of a voice → the language it speaks, as espeak-ng calls it. Japanese and Chinese
# voices are left out: espeak-ng writes them in other phonemes than they were trained on.
LANGUAGES: Mapping[str, str] = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "p": "pt-br",
}
_DEADLINE_S = 20.0
# Sounds that are written with two letters, tied by espeak-ng; longer ones first.
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
# The tie, the mark of a syllable, hyphens, and names of languages that espeak-ng switches to.
_DROPPED = re.compile("[\\^\u0329-]|\\([a-z-]+\\)")


def require_program() -> None:
    """Make sure that there is an espeak-ng to run.

    Raises:
        PermanentError: there is none.
    """
    program.require("espeak-ng", "nothing can be spoken")


async def write(piece: str, voice: str) -> str:
    """Return a piece of text in phonemes, with its punctuation; empty if there is nothing to say.

    Args:
        voice: its first letter tells the language.

    Raises:
        ServiceError: espeak-ng failed.
    """
    language = LANGUAGES[voice[0]]
    written = ""
    for clause, mark in sentence.clauses(piece):
        said = await _pronounce(clause, language) if any(map(str.isalnum, clause)) else ""
        if said:
            written += f" {said}" if written else said
        written += mark if written else ""
    return written


async def _pronounce(clause: str, language: str) -> str:
    # Its notation for phonemes among the text.
    clause = clause.replace("[[", " ").replace("]]", " ")
    command = ["espeak-ng", "-q", "--ipa", "--tie=^", "-v", language, "--stdin"]
    said = " ".join((await _run(command, clause.encode())).decode(errors="replace").split())
    for rules in _RULES.get(language, (_TIED,)):
        for old, new in rules.items():
            said = said.replace(old, new)
    return _DROPPED.sub("", _SYLLABIC.sub(r"ᵊ\1", said))


async def _run(command: Sequence[str], data: bytes) -> bytes:
    """Return what a command answers."""
    streams = {"stdin": program.PIPE, "stdout": program.PIPE, "stderr": program.NONE}
    async with program.run(command, **streams) as process:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                said, _ = await process.communicate(data)
        except TimeoutError:
            raise ServiceError("internal", "The text could not be pronounced in time.") from None
    if process.returncode != 0:
        raise ServiceError("internal", "The text could not be pronounced.")
    return said
