"""Where the value of a setting comes from: flag, environment or fleet file.

Owns their precedence (flag, environment, file; a setting declared `additive` collects the values
of all three), the flags of a command line, and the reading of a TOML file. What a setting is
belongs to declaration.py.
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
            _add_flags(section, entry)


def _add_flags(section: Any, entry: SettingEntry) -> None:
    """Add the flags of a setting. argparse keeps the text, which `resolve` decodes."""
    options: dict[str, Any] = {"dest": entry.dest, "help": _help(entry), "metavar": entry.metavar}
    if entry.kind is not bool:
        options["action"] = "append" if entry.kind is tuple else "store"
        section.add_argument(*entry.flags, **options)
        return
    section.add_argument(*entry.flags, nargs="?", const=True, **options)
    names = [f"--no-{flag.removeprefix('--')}" for flag in entry.flags]
    section.add_argument(
        *names, dest=entry.dest, action="store_const", const=False, help=argparse.SUPPRESS
    )


def _help(entry: SettingEntry) -> str:
    default = {"true": "on", "false": "off"}.get(entry.default_text, entry.default_text)
    details = [entry.limits] if entry.limits else []
    if entry.default not in ("", ()):
        details.append("default: " + default.strip('"'))
    details.append(f"env: {', '.join(entry.declaration.env)}")
    return f"{entry.declaration.help} ({'; '.join(details)})".replace("%", "%%")


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
