"""Where the value of a setting comes from: flag, environment or fleet file.

Owns their order (flag beats environment beats file; a setting declared `additive` collects the
values of all three), the flags of a command line, and the reading of a TOML file. What a setting
is stands in declaration.py. Pure but for reading that file.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from shared.declaration import ConfigError, SettingEntry, entries

T = TypeVar("T")


def add_arguments(
    parser: argparse.ArgumentParser, groups: Iterable[type], common: Sequence[str] = ()
) -> None:
    """Add the flags of settings groups; a flag that several groups share appears once.

    Args:
        common: the settings that `--help` lists first, by `SettingEntry.dest`.
    """
    known: dict[str, SettingEntry] = {}
    for group in groups:
        for entry in entries(group):
            known.setdefault(entry.dest, entry)
    sections: dict[str, list[SettingEntry]] = {}
    if common:
        sections["Common options"] = [known.pop(dest) for dest in common]
    for entry in known.values():
        sections.setdefault(entry.section, []).append(entry)
    for title, found in sections.items():
        section = parser.add_argument_group(title)
        for entry in found:
            section.add_argument(*entry.flags, **_options(entry))


def _options(entry: SettingEntry) -> dict[str, Any]:
    """Return how argparse takes a setting. It keeps the text: `resolve` decodes it."""
    options = {"dest": entry.dest, "default": None, "help": _help(entry)}
    if entry.is_switch:
        return options | {"action": argparse.BooleanOptionalAction}
    action = "append" if entry.is_list else "store"
    return options | {"action": action, "metavar": entry.metavar}


def _help(entry: SettingEntry) -> str:
    default = entry.default
    details = (
        entry.limits,
        "" if default in ((), "") else f"default: {_show(default)}",
        f"env: {', '.join(entry.declaration.env)}" if entry.declaration.env else "",
    )
    text = f"{entry.declaration.help} ({'; '.join(filter(None, details))})"
    return text.removesuffix(" ()").replace("%", "%%")


def _show(default: Any) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return " ".join(map(repr, default)) if isinstance(default, tuple) else str(default)


def plain_switches(words: Iterable[str], groups: Iterable[type]) -> list[str]:
    """Return a command line with `--no-x` for `--x=false`, which argparse does not know.

    Raises:
        ConfigError: the value of a switch is neither true nor false.
    """
    switches = {
        flag: entry
        for group in groups
        for entry in entries(group)
        if entry.is_switch
        for flag in entry.flags
    }

    def plain(word: str) -> str:
        flag, given, text = word.partition("=")
        if not given or flag not in switches:
            return word
        return flag if switches[flag].decode(text, flag) else f"--no-{flag.removeprefix('--')}"

    return [plain(word) for word in words]


def add_refusals(
    parser: argparse.ArgumentParser,
    sentences: Mapping[str, str],
    inert: Mapping[str, Sequence[str]],
) -> None:
    """Make a parser know flags that are not served, so that each says why.

    Args:
        sentences: by flag. Parsing one of them raises a ConfigError.
        inert: by flag, the values that are let through; "" for none.
    """
    for flag, sentence in sentences.items():
        const = (sentence, inert.get(flag, ()))
        parser.add_argument(flag, action=_Refuse, const=const, nargs="?", help=argparse.SUPPRESS)


class _Refuse(argparse.Action):
    """A flag that stops the start; its `const` is the sentence, and the values that do not."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,  # noqa: ARG002
        values: Any,
        option_string: str | None = None,
    ) -> None:
        sentence, inert = self.const
        # Without a value, argparse hands on the const.
        if ("" if values == self.const else values) not in inert:
            raise ConfigError(f"{option_string}: {sentence}")


def refuse_environment(
    environ: Mapping[str, str], sentences: Mapping[str, str], inert: Mapping[str, Sequence[str]]
) -> None:
    """Refuse environment names that are not served, so that none is ignored in silence.

    Raises:
        ConfigError: naming the first of them, and why.
    """
    for name, sentence in sentences.items():
        value = environ.get(name)
        if value and value not in inert.get(name, ()):
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
    entry: SettingEntry,
    arguments: argparse.Namespace,
    environ: Mapping[str, str],
    table: Mapping[str, Any],
    where: str,
) -> Iterable[Any]:
    """Yield the values that are given, strongest first."""
    flag = getattr(arguments, entry.dest, None)
    if isinstance(flag, list):
        yield tuple(item for text in flag for item in entry.decode(text, entry.flag))
    elif flag is not None:
        yield entry.decode(flag, entry.flag)
    for name in entry.declaration.env:
        if name in environ:
            yield entry.decode(environ[name], name)
            break
    if entry.name in table:
        yield entry.decode(table[entry.name], f"{where}.{entry.name}")


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
