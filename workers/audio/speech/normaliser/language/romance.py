"""What Spanish, French, Italian and Portuguese share: dates, and scales above thousands. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from workers.audio.speech.normaliser.language.grammar import Language


class Romance(Language):
    """Readings of one of these languages.

    Attributes:
        months: their names, from January.
        first: the first day of a month.
        date_link: between the parts of a date.
    """

    scripts = frozenset({"GREEK"})
    months: ClassVar[Sequence[str]]
    first: ClassVar[str]
    date_link: ClassVar[str] = " "

    def date(self, day: int | None, month: int, year: int | None) -> str:
        parts = [self.months[month - 1]]
        if day is not None:
            parts.insert(0, self.first if day == 1 else self.cardinal(day))
        if year is not None:
            parts.append(self.cardinal(year))
        return self.date_link.join(parts)

    @abstractmethod
    def name_scale(self, count: int, scale: int) -> str:
        """Return a count of millions, for the scale 0, or of what follows them."""

    def add_scales(self, words: list[str], high: int, size: int = 1000) -> list[str]:
        """Return the words of a number with those of its part above them, `high`, in front.

        Args:
            size: how many of one scale make one of the next.
        """
        scale = 0
        while high:
            high, count = divmod(high, size)
            if count:
                words.insert(0, self.name_scale(count, scale))
            scale += 1
        return words
