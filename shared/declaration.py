"""What a setting is: declared once, with everything that reads or prints it derived from that.

A group of settings is a frozen dataclass. Each field's annotation holds the type, its bounds
(msgspec's `Meta`), and a `Setting` with the names and the help text; msgspec checks the values.
`--help`, docs/configuration.md and the sample fleet file are printed from the entries here. Where
values come from belongs to config.py. Pure.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import inspect

# msgspec reads true, false, 1 and 0 by itself.
_SWITCH: Final = {
    **dict.fromkeys(("on", "yes", "enabled"), "true"),
    **dict.fromkeys(("off", "no", "disabled"), "false"),
}
_NOUNS: Final[Mapping[type, str]] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "a text",
    inspect.VarTupleType: "a list of texts",
}


class ConfigError(Exception):
    """A setting or fleet file that can't be used. The message is one line."""


@dataclass(frozen=True)
class Form:
    """How the text of a value is read, where its type alone does not say.

    Attributes:
        expects: what a value has to be, for messages: "a size such as 12G".
        parse: from text to what msgspec then checks. Values of the fleet file that are not text
            are not parsed.
    """

    expects: str
    parse: Callable[[str], Any] | None = None


@dataclass(frozen=True)
class Setting:
    """What a field declares besides its type, bounds and default.

    Attributes:
        names: flags, then environment names; of several set environment names the first wins.
        help: one sentence.
        unit: of the value.
        metavar: what `--help` shows for the value, if not the unit or "N".
        means: values that stand for others, by their text.
        additive: flag, environment and file add up (tuples only).
        secret: never printed.
        is_path: names files; in the fleet file, relative to its folder.
    """

    names: str
    help: str
    unit: str = ""
    metavar: str = ""
    means: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    additive: bool = False
    secret: bool = False
    is_path: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(name for name in self.names.split() if name.startswith("-"))

    @property
    def env(self) -> tuple[str, ...]:
        return tuple(name for name in self.names.split() if not name.startswith("-"))


@dataclass(frozen=True)
class SettingEntry:
    """One declared setting, as parsers and docs see it.

    Attributes:
        type: the annotation, with its bounds.
        info: msgspec's description of it.
        section: title of the group that declares it.
    """

    name: str
    default: Any
    type: Any
    info: inspect.Type
    section: str
    declaration: Setting
    form: Form | None

    @property
    def flags(self) -> tuple[str, ...]:
        return self.declaration.flags

    @property
    def flag(self) -> str:
        """The flag that messages name."""
        return next(flag for flag in self.flags if flag.startswith("--"))

    @property
    def dest(self) -> str:
        """Name in a parsed command line: settings of two groups share it when they share flags."""
        return self.flag[2:].replace("-", "_")

    @property
    def is_switch(self) -> bool:
        return isinstance(self.info, inspect.BoolType)

    @property
    def is_list(self) -> bool:
        return isinstance(self.info, inspect.VarTupleType)

    @property
    def choices(self) -> tuple[Any, ...]:
        return tuple(self.info.values) if isinstance(self.info, inspect.LiteralType) else ()

    @property
    def metavar(self) -> str:
        """What `--help` shows for the value."""
        if self.choices:
            return "|".join(str(choice) for choice in self.choices if choice != "")
        unit = self.declaration.unit.upper()
        return self.declaration.metavar or {"S": "SECONDS"}.get(unit, unit) or "N"

    @property
    def bounds(self) -> str:
        """The numbers allowed, in words; empty where every number is."""
        least, most = getattr(self.info, "ge", None), getattr(self.info, "le", None)
        if most is not None:
            return f"from {least} to {most}"
        return "" if least is None else f"at least {least}"

    @property
    def limits(self) -> str:
        """The bounds, and the values that stand for others."""
        means = (f"{value} means {other}" for value, other in self.declaration.means.items())
        return "; ".join(filter(None, (self.bounds, *means)))

    @property
    def expects(self) -> str:
        """What a value has to be, for messages."""
        if self.choices:
            return f"one of {', '.join(str(choice) for choice in self.choices if choice != '')}"
        noun = self.form.expects if self.form else _NOUNS[type(self.info)]
        return f"{noun} {'of ' if self.bounds.startswith('at') else ''}{self.bounds}".rstrip()

    def decode(self, value: Any, source: str) -> Any:
        """Return a checked value from the text of a flag or name, or from a fleet file's value.

        Raises:
            ConfigError: naming `source`.
        """
        try:
            return self._convert(value)
        except ValueError:
            shown = "the value" if self.declaration.secret else repr(value)
            raise ConfigError(f"{source}: {shown} is not {self.expects}") from None

    def _convert(self, value: Any) -> Any:
        plain = self._read(value) if isinstance(value, str) else value
        plain = self.declaration.means.get(str(plain), plain)
        decoded = msgspec.convert(plain, self.type, strict=False)
        if isinstance(decoded, float) and not math.isfinite(decoded):
            raise ValueError(value)
        return decoded

    def _read(self, text: str) -> Any:
        """Return the text as something that msgspec converts."""
        if self.form and self.form.parse:
            return self.form.parse(text)
        if self.is_list:
            return [part.strip() for part in text.split(",") if part.strip()]
        if isinstance(self.info, inspect.StrType | inspect.LiteralType):
            return text
        word = text.strip()
        return _SWITCH.get(word.lower(), word) if self.is_switch else word


def entries(group: type) -> tuple[SettingEntry, ...]:
    """Return the declared settings of a settings dataclass, in order."""
    return _read_group(group)


@functools.cache
def _read_group(group: type) -> tuple[SettingEntry, ...]:
    hints = typing.get_type_hints(group, include_extras=True)
    return tuple(_describe(group, field, hints[field.name]) for field in dataclasses.fields(group))


def _describe(group: type, field: dataclasses.Field[Any], hint: Any) -> SettingEntry:
    owner = next(base for base in group.__mro__ if field.name in vars(base)["__annotations__"])
    section = (owner.__doc__ or owner.__name__).splitlines()[0].rstrip(".")
    (declaration,) = (extra for extra in hint.__metadata__ if isinstance(extra, Setting))
    form = next((extra for extra in hint.__metadata__ if isinstance(extra, Form)), None)
    info = inspect.type_info(hint)
    return SettingEntry(field.name, field.default, hint, info, section, declaration, form)
