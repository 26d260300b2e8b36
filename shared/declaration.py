"""What a setting is: declared once, and read by everybody from its declaration.

A group of settings is a frozen dataclass whose fields are made by `setting()`; the declaration
carries default, unit, help, flags and environment names, and `--help`, docs/configuration.md
and the sample fleet file are printed from it. Owns how the text of a value is read; where values
come from is config.py's. Pure.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Sequence
from typing import Any

_META = "mlxcel"
_TRUE = {"1", "true", "on", "yes", "enabled"}
_FALSE = {"0", "false", "off", "no", "disabled"}


class ConfigError(Exception):
    """A setting or fleet file that can't be used. The message is one line."""


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What a `setting()` says about itself besides its name, type and default."""

    help: str
    flags: tuple[str, ...]
    env: tuple[str, ...]
    unit: str
    additive: bool
    secret: bool
    is_path: bool
    choices: tuple[str, ...]
    parse: Callable[[str], Any] | None
    least: float | None
    most: float | None


def setting(  # noqa: PLR0913 - a declaration has this many facets
    default: Any,
    help: str,  # noqa: A002 - the word argparse uses
    *,
    flags: Sequence[str] = (),
    env: Sequence[str] = (),
    unit: str = "",
    additive: bool = False,
    secret: bool = False,
    is_path: bool = False,
    choices: Sequence[str] = (),
    parse: Callable[[str], Any] | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """Declare one field of a settings dataclass.

    Args:
        default: value when nothing sets it; its type is the field's annotation.
        help: one sentence.
        flags: command-line names; without any, `--field-name`.
        env: environment names, the first set one wins.
        unit: of the value, for the docs.
        additive: flag, environment and file add up (tuples only).
        secret: never printed.
        is_path: names files; in the fleet file, relative to its folder.
        choices: allowed strings.
        parse: text to value, when the annotation's own reading is not enough.
        least: smallest number allowed.
        most: largest number allowed.
    """
    declaration = Declaration(
        help,
        tuple(flags),
        tuple(env),
        unit,
        additive,
        secret,
        is_path,
        tuple(choices),
        parse,
        least,
        most,
    )
    return dataclasses.field(default=default, metadata={_META: declaration})


@dataclasses.dataclass(frozen=True)
class Entry:
    """One declared setting, resolved against its class: for parsers and for the docs."""

    name: str
    default: Any
    kind: type
    declaration: Declaration

    @property
    def flags(self) -> tuple[str, ...]:
        """The command-line names."""
        return self.declaration.flags or ("--" + self.name.replace("_", "-"),)

    @property
    def dest(self) -> str:
        """Name in a parsed command line: settings of two groups share it when they share flags."""
        flag = next(flag for flag in self.flags if flag.startswith("--"))
        return flag[2:].replace("-", "_")

    @property
    def bounds(self) -> str:
        """The numbers allowed, in words; empty where every number is."""
        least, most = self.declaration.least, self.declaration.most
        if most is not None:
            return f"{least} to {most}"
        return "" if least is None else f"at least {least}"

    def read(self, text: str, source: str) -> Any:
        """Return the value a text stands for.

        Raises:
            ConfigError: naming `source`.
        """
        try:
            return self._bound(self._read(text))
        except (ValueError, TypeError) as failure:
            raise ConfigError(f"{source}: {failure}") from None

    def _read(self, text: str) -> Any:
        if self.declaration.parse is not None:
            return self.declaration.parse(text)
        if self.kind is bool:
            word = text.strip().lower()
            if word not in _TRUE | _FALSE:
                raise ValueError(f"{text!r} is neither true nor false")
            return word in _TRUE
        if self.kind is tuple:
            return tuple(part for part in text.split(",") if part)
        if self.declaration.choices and text not in self.declaration.choices:
            known = ", ".join(filter(None, self.declaration.choices))
            raise ValueError(f"{text!r} is not one of {known}")
        if self.kind in (int, float):
            try:
                return self.kind(text)
            except ValueError:
                word = "a whole number" if self.kind is int else "a number"
                raise ValueError(f"{text!r} is not {word}") from None
        return self.kind(text)

    def accept(self, value: Any, source: str) -> Any:
        """Return a value of the fleet file, checked.

        Raises:
            ConfigError: naming `source`.
        """
        if isinstance(value, str):
            return self.read(value, source)
        if self.kind is tuple and isinstance(value, list):
            return tuple(str(item) for item in value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind:
            if self.declaration.parse is not None and not isinstance(value, list | dict):
                return self.read(str(value), source)
            raise ConfigError(f"{source}: {value!r} is not of type {self.kind.__name__}")
        try:
            return self._bound(value)
        except ValueError as failure:
            raise ConfigError(f"{source}: {failure}") from None

    def _bound(self, value: Any) -> Any:
        """Return a value that is within its bounds; a number has to be finite."""
        least, most = self.declaration.least, self.declaration.most
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a number")
        if least is not None and value < least:
            raise ValueError(f"{value} is less than {least}")
        if most is not None and value > most:
            raise ValueError(f"{value} is more than {most}")
        return value


def entries(group: type) -> tuple[Entry, ...]:
    """Return the declared settings of a settings dataclass, in order."""
    hints = typing.get_type_hints(group)
    found = []
    for field in dataclasses.fields(group):
        hint = hints[field.name]
        kind = typing.get_origin(hint) or hint
        found.append(Entry(field.name, field.default, kind, field.metadata[_META]))
    return tuple(found)
