"""Settings: declared once, read from flags, environment and the fleet file.

A group of settings is a frozen dataclass whose fields are made by `setting()`; the declaration
carries default, unit, help, flags and environment names, and `--help`, docs/configuration.md
and the sample fleet file are printed from it. Flag beats environment beats file; a setting
declared `additive` collects the values of all three.
"""

from __future__ import annotations

import argparse
import dataclasses
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

_META = "mlxcel"
T = TypeVar("T")
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
    """
    declaration = Declaration(
        help, tuple(flags), tuple(env), unit, additive, secret, is_path, tuple(choices), parse
    )
    return dataclasses.field(default=default, metadata={_META: declaration})


@dataclasses.dataclass(frozen=True)
class Entry:
    """One declared setting, resolved against its class: for parsers and for the docs."""

    name: str
    default: Any
    kind: type
    optional: bool
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

    def read(self, text: str, source: str) -> Any:
        """Return the value a text stands for.

        Raises:
            ConfigError: naming `source`.
        """
        try:
            return self._read(text)
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
            raise ValueError(f"{text!r} is not one of {', '.join(self.declaration.choices)}")
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
        return value


def entries(group: type) -> tuple[Entry, ...]:
    """Return the declared settings of a settings dataclass, in order."""
    hints = typing.get_type_hints(group)
    found = []
    for field in dataclasses.fields(group):
        kind, optional = _bare(hints[field.name])
        declaration = field.metadata[_META]
        found.append(Entry(field.name, field.default, kind, optional, declaration))
    return tuple(found)


def _bare(hint: Any) -> tuple[type, bool]:
    """Return the plain type of an annotation, and whether it admits None."""
    if isinstance(hint, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not types.NoneType]
        return _bare(inner[0])[0], True
    return typing.get_origin(hint) or hint, False


def add_arguments(parser: argparse.ArgumentParser, groups: Iterable[type]) -> None:
    """Add the flags of settings groups; those that several groups share appear once."""
    seen: set[str] = set()
    for group in groups:
        title = (group.__doc__ or group.__name__).splitlines()[0].rstrip(".")
        section = parser.add_argument_group(title)
        for entry in entries(group):
            if entry.dest in seen:
                continue
            seen.add(entry.dest)
            _add_argument(section, entry)


def _add_argument(section: Any, entry: Entry) -> None:
    declaration = entry.declaration
    text = declaration.help.replace("%", "%%")
    if declaration.unit:
        text += f" [{declaration.unit}]"
    if entry.default not in (None, (), "") and not declaration.secret:
        text += f" (default: {entry.default})"
    if declaration.env:
        text += f" (env: {', '.join(declaration.env)})"
    options: dict[str, Any] = {"dest": entry.dest, "default": None, "help": text}
    if entry.kind is bool:
        section.add_argument(*entry.flags, action=argparse.BooleanOptionalAction, **options)
        return
    if entry.kind is tuple:
        options["action"] = "append"
    options["metavar"] = "|".join(declaration.choices) or entry.kind.__name__.upper()
    section.add_argument(*entry.flags, **options)


def add_refusals(parser: argparse.ArgumentParser, sentences: Mapping[str, str]) -> None:
    """Make a parser know flags that are not served, so that each says why.

    Args:
        sentences: by flag. Parsing one of them raises a ConfigError.
    """
    for flag, sentence in sentences.items():
        parser.add_argument(flag, action=_Refuse, const=sentence, nargs="?", help=argparse.SUPPRESS)


class _Refuse(argparse.Action):
    """A flag that stops the start."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,  # noqa: ARG002
        values: Any,  # noqa: ARG002
        option_string: str | None = None,
    ) -> None:
        raise ConfigError(f"{option_string}: {self.const}")


def refuse_environment(environ: Mapping[str, str], sentences: Mapping[str, str]) -> None:
    """Refuse environment names that are not served, so that none is ignored in silence.

    Raises:
        ConfigError: naming the first of them, and why.
    """
    for name, sentence in sentences.items():
        if environ.get(name):
            raise ConfigError(f"{name}: {sentence}")


def resolve(
    group: type[T],
    arguments: argparse.Namespace,
    environ: Mapping[str, str],
    table: Mapping[str, Any],
    where: str,
) -> T:
    """Return a settings group with every value decided: flag, then environment, then file.

    Args:
        arguments: of a parser that `add_arguments` has filled.
        table: the process's own section of the fleet file.
        where: what to call that section in messages.

    Raises:
        ConfigError: a value can't be read; the message names its source.
    """
    values: dict[str, Any] = {}
    for entry in entries(group):
        found = list(_sources(entry, arguments, environ, table, where))
        if not found:
            continue
        if entry.declaration.additive:
            values[entry.name] = tuple(item for value in found for item in value)
        else:
            values[entry.name] = found[0]
    return group(**values)


def _sources(
    entry: Entry,
    arguments: argparse.Namespace,
    environ: Mapping[str, str],
    table: Mapping[str, Any],
    where: str,
) -> Iterable[Any]:
    """Yield the values that are given, strongest first."""
    flag = getattr(arguments, entry.dest, None)
    if isinstance(flag, list):
        yield tuple(item for text in flag for item in entry.read(text, entry.flags[0]))
    elif isinstance(flag, str):
        yield entry.read(flag, entry.flags[0])
    elif flag is not None:
        yield flag
    for name in entry.declaration.env:
        if name in environ:
            yield entry.read(environ[name], name)
            break
    if entry.name in table:
        yield entry.accept(table[entry.name], f"{where}.{entry.name}")


def check_keys(table: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Refuse keys of a fleet table that mean nothing.

    Raises:
        ConfigError: naming the first of them.
    """
    known = set(allowed)
    for key in table:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}")


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file.

    Raises:
        ConfigError: it is missing or broken.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as failure:
        raise ConfigError(f"{path}: {failure}") from None
