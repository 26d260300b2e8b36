"""The declared functions, found by the names that models write for them.

Models change the case of names, and put a namespace before them that they know from training. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Sources: the namespaces of GPT-OSS and Kimi K2, of Gemini and Gemma, and of generic prompts.
_PREFIXES = (
    "functions.",
    "functions:",
    "functions/",
    "function.",
    "tools.",
    "tool.",
    "default_api.",
    "default_api:",
    "api.",
)


class DeclaredTools(Mapping[str, Mapping[str, Any]]):
    """The parameter schemas of functions by name, where a name may have another case or a prefix.

    Names that are equal but for their case are not told apart: they are found only as they are.
    """

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        self._tools = tools
        self._folded: dict[str, str | None] = {}
        for name in tools:
            folded = name.casefold()
            self._folded[folded] = None if folded in self._folded else name

    def find(self, name: str) -> str | None:
        """Return the declared name that a name means; None if it means none."""
        for candidate in (name, _strip(name)):
            if candidate in self._tools:
                return candidate
            if known := self._folded.get(candidate.casefold()):
                return known
        return None

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return self._tools[self.find(name) or name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def _strip(name: str) -> str:
    for prefix in _PREFIXES:
        if name.casefold().startswith(prefix) and len(name) > len(prefix):
            return name[len(prefix) :]
    return name
