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
from typing import Any, Final, Literal

import msgspec

# msgspec reads true, false, 1 and 0 by itself.
_SWITCH: Final = {
    **dict.fromkeys(("on", "yes", "enabled"), "true"),
    **dict.fromkeys(("off", "no", "disabled"), "false"),
}
_NOUNS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of texts",
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

    expects: str = ""
    parse: Callable[[str], Any] | None = None


@dataclass(frozen=True)
class Setting:
    """What a field declares besides its type, bounds and default.

    Attributes:
        names: flags, then environment names; of several set environment names the first wins.
        help: one sentence.
        unit: of the value.
        means: values that stand for others, by their text.
        additive: flag, environment and file add up (tuples only).
        secret: never printed.
        is_path: names files; in the fleet file, relative to its folder.
    """

    names: str
    help: str
    unit: str = ""
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
        type: the annotation.
        kind: bool, int, float, str, tuple or Literal.
        choices: the values of a Literal.
        section: title of the group that declares it.
    """

    name: str
    default: Any
    type: Any
    kind: Any
    choices: tuple[Any, ...]
    section: str
    declaration: Setting
    bounds: msgspec.Meta
    form: Form

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
    def metavar(self) -> str:
        """What `--help` shows for the value: its choices or unit, N, or its name's last word."""
        if self.kind is bool or self.choices:
            return "|".join(str(choice) for choice in self.choices if choice != "") or "on|off"
        if unit := self.declaration.unit.upper():
            return {"S": "SECONDS"}.get(unit, unit)
        return "N" if self.kind in (int, float) else self.name.rpartition("_")[2].upper()

    @property
    def default_text(self) -> str:
        """The default as TOML; JSON's form is TOML's for what settings hold."""
        return msgspec.json.encode(self.default).decode()

    @property
    def limits(self) -> str:
        """The numbers allowed, and the values that stand for others."""
        means = (f"{value} means {other}" for value, other in self.declaration.means.items())
        return "; ".join(filter(None, (self._range, *means)))

    @property
    def expects(self) -> str:
        """What a value has to be, for messages."""
        known = ", ".join(str(choice) for choice in self.choices if choice != "")
        noun = f"one of {known}" if known else self.form.expects or _NOUNS[self.kind]
        return f"{noun} {self._range.replace('at least', 'of at least')}".rstrip()

    @property
    def _range(self) -> str:
        least, most = self.bounds.ge, self.bounds.le
        if most is not None:
            return f"from {least} to {most}"
        return "" if least is None else f"at least {least}"

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
        if self.form.parse:
            return self.form.parse(text)
        if self.kind is tuple:
            return [part.strip() for part in text.split(",") if part.strip()]
        if self.kind is bool:
            return _SWITCH.get(text.strip().lower(), text.strip())
        return text.strip() if self.kind in (int, float) else text


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
    base, extras = hint.__origin__, {type(extra): extra for extra in hint.__metadata__}
    kind = typing.get_origin(base) or base
    return SettingEntry(
        name=field.name,
        default=field.default,
        type=hint,
        kind=kind,
        choices=typing.get_args(base) if kind is Literal else (),
        section=section,
        declaration=extras[Setting],
        bounds=extras.get(msgspec.Meta, msgspec.Meta()),
        form=extras.get(Form, Form()),
    )
