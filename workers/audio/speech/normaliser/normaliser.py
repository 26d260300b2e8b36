"""Writes a text out as it is spoken in a language. Pure, in time linear in the text.

Owns the order of the steps: each leaves words that the next ones pass over, and the last one
guarantees that nothing but letters and pauses reaches the phonemes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from shared.errors import ServiceError
from workers.audio.speech.normaliser import cleaning, markdown
from workers.audio.speech.normaliser.abbreviation import Abbreviations
from workers.audio.speech.normaliser.address import join_initials, spell_addresses
from workers.audio.speech.normaliser.arithmetic import Arithmetic
from workers.audio.speech.normaliser.language.english import American, English
from workers.audio.speech.normaliser.language.french import French
from workers.audio.speech.normaliser.language.grammar import Language
from workers.audio.speech.normaliser.language.hindi import Hindi
from workers.audio.speech.normaliser.language.italian import Italian
from workers.audio.speech.normaliser.language.number import LONGEST_DIGITS
from workers.audio.speech.normaliser.language.portuguese import Portuguese
from workers.audio.speech.normaliser.language.spanish import Spanish
from workers.audio.speech.normaliser.moment import Moments
from workers.audio.speech.normaliser.picture import name_pictures
from workers.audio.speech.normaliser.preparation import drop_joiners, unify
from workers.audio.speech.normaliser.quantity import Quantities
from workers.audio.speech.normaliser.script import find_unspoken

_LANGUAGES: Final[Mapping[str, type[Language]]] = {
    language.code: language
    for language in (American, English, Spanish, French, Hindi, Italian, Portuguese)
}
_DIGIT: Final = re.compile(r"\d")
# Of one block: a few sentences, which take milliseconds.
_SHORTEST_BLOCK, _LONGEST_BLOCK = 600, 1200
_LONG_DIGITS: Final = re.compile(rf"\d{{{LONGEST_DIGITS + 1},}}+")


class Normaliser:
    """The steps of one language."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._abbreviations = Abbreviations(language)
        self._moments = Moments(language)
        self._quantities = Quantities(language)
        self._arithmetic = Arithmetic(language)

    def prepare(self, text: str) -> list[str]:
        """Return a text without markup, in blocks that are written out one by one.

        Raises:
            ServiceError: `invalid_request`, it is in a script that can't be spoken.
        """
        language = self._language
        text = markdown.remove(unify(text))
        text = name_pictures(text, language.code[:2], frozenset(language.words.signs))
        text = drop_joiners(text)
        if (script := find_unspoken(text, language.scripts)) is not None:
            raise ServiceError(
                "invalid_request",
                f"input: text in {script} script can't be spoken by this voice",
                "input",
            )
        return list(_cut_blocks(text))

    def write_out(self, block: str) -> str:
        """Return a block as words and pauses."""
        language = self._language
        text = _LONG_DIGITS.sub(lambda m: f" {language.spell_digits(m[0])} ", block)
        text = join_initials(self._abbreviations.write_out(text))
        text = spell_addresses(text, language)
        if _DIGIT.search(text):
            text = self._write_numbers(text)
        return cleaning.clean(self._arithmetic.write_signs(text), language)

    def _write_numbers(self, text: str) -> str:
        arithmetic = self._arithmetic
        text = self._moments.write_out(text)
        text = arithmetic.write_phones(text)
        text = self._moments.write_decades(text)
        text = self._quantities.write_out(text)
        text = arithmetic.write_signs(arithmetic.write_ordinals(text))
        text = arithmetic.write_numbers(self._moments.write_years(text))
        return self._language.elide(text)


def _cut_blocks(text: str) -> Iterator[str]:
    """Yield a text in blocks that end with a line, else a sentence, else a word."""
    begin = 0
    while len(text) - begin > _LONGEST_BLOCK:
        end = begin + _LONGEST_BLOCK
        cuts = (text.rfind(mark, begin + _SHORTEST_BLOCK, end) + 1 for mark in ("\n", ". ", " "))
        end = next(filter(None, cuts), end)
        yield text[begin:end]
        begin = end
    yield text[begin:]


@cache
def load_normaliser(code: str) -> Normaliser:
    """Return the steps of a language, by espeak-ng's name of it."""
    return Normaliser(_LANGUAGES[code]())
