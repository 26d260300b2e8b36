"""Writes what is derived from code: the Procfile, the sample fleet file, two pages of docs.

A test compares the committed files with what this module renders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from deploy import ROOT
from deploy.generate import dialect_page
from deploy.run import process
from shared.declaration import SettingEntry, entries
from shared.fleet import load_fleet
from shared.kind import DEFAULT, KINDS
from shared.settings import (
    GatewaySettings,
    LaunchSettings,
    SupervisorSettings,
    refused,
)

# As the Procfile names them: from the checkout's own folder.
_PYTHON: Final = ".venv/bin/python"
_CONFIG: Final = Path("deploy/mlxcel.toml")

# Keys of a worker's table that are not settings of its kind; shared/fleet.py reads them.
_WORKER_KEYS: Final = (
    ("name", '"text"', "What the log and this machine's processes call it; letters, digits, _, -."),
    ("kind", f'"{DEFAULT}"', f"What the worker does. One of {', '.join(KINDS)}."),
    (
        "address",
        '""',
        "Empty: started here, on a socket. HOST:PORT: on another machine; a comma list: replicas.",
    ),
    ("replicas", "1", "Processes that serve the same model."),
    ("memory_share", "0.0", "Part of the device's memory, 0 to 1; 0: a part of what others leave."),
)


def render_all() -> dict[Path, str]:
    """Return every derived file, by its path in the checkout."""
    fleet = load_fleet(ROOT / _CONFIG)
    return {
        Path("Procfile"): process.render_procfile(process.plan(fleet, _PYTHON, _CONFIG)),
        Path("deploy/sample.toml"): render_sample(),
        Path("docs/configuration.md"): render_page(),
        Path("docs/dialects.md"): dialect_page.render(),
    }


def render_sample() -> str:
    """Return a fleet file that names every setting, each commented out at its default."""
    lines = ["# Every setting of a fleet file, at its default; `make docs` writes this file.", ""]
    lines += ["[gateway]", *_sample_lines(GatewaySettings)]
    lines += ["[supervisor]", *_sample_lines(SupervisorSettings)]
    lines += ["[[workers]]"]
    for name, default, text in _WORKER_KEYS:
        lines += [f"# {text}", f"# {name} = {default}", ""]
    for kind in KINDS.values():
        lines += [f'# ---- with kind = "{kind.name}"', "", *_sample_lines(kind.settings)]
    return "\n".join(lines).rstrip() + "\n"


def _sample_lines(group: type) -> Iterator[str]:
    for entry in entries(group):
        yield f"# {_sentence(entry)}"
        yield f"# {entry.name} = {entry.default_text}"
        yield ""


def _sentence(entry: SettingEntry) -> str:
    unit = f" [{entry.declaration.unit}]" if entry.declaration.unit else ""
    limits = f" ({entry.limits})" if entry.limits else ""
    return entry.declaration.help + unit + limits


def render_page() -> str:
    """Return docs/configuration.md."""
    groups: Mapping[str, type] = {
        "Gateway: `[gateway]`": GatewaySettings,
        **{
            f'{kind.title} worker: `[[workers]]` with `kind = "{kind.name}"`': kind.settings
            for kind in KINDS.values()
        },
        "Supervisor: `[supervisor]`": SupervisorSettings,
        "Launcher: flags of `mlxcel-server` alone": LaunchSettings,
    }
    parts = [_PAGE_HEAD]
    for title, group in groups.items():
        parts += [f"## {title}\n", *_table(group), ""]
    parts += ["## Any worker: `[[workers]]`\n", "| key | default | meaning |", "|---|---|---|"]
    parts += [f"| `{name}` | `{default}` | {text} |" for name, default, text in _WORKER_KEYS]
    parts += ["", _REFUSED_HEAD, "| names | why | but for |", "|---|---|---|"]
    for refusal in refused.REFUSED:
        known = (*refusal.flags, *refusal.env)
        names = ", ".join(f"`{name}`" for name in known)
        parts.append(f"| {names} | {refusal.sentence} | {', '.join(_inert(known))} |")
    return "\n".join(parts) + "\n"


def _inert(names: Iterable[str]) -> Iterator[str]:
    """Yield what is let through of names that are refused."""
    for name in names:
        for value in refused.INERT.get(name, ())[:1]:
            yield f"`{name}{'=' if value else ''}{value}`"


_PAGE_HEAD: Final = """\
# Configuration

<!-- `make docs` writes this page from shared/settings. -->

Each process reads its own section of the fleet file (`deploy/mlxcel.toml`). A flag of
`mlxcel-server` takes precedence over the environment, and both over the file; API keys of all
three add up. Relative paths in the fleet file start at its folder, those of flags at the working
folder. `deploy/sample.toml` is a fleet file with every setting at its default.
"""


_REFUSED_HEAD: Final = """\
## Names that are refused

Flags and environment names of similar servers that are not served here. Each stops the start with
its message, except with a value that asks for what this server does anyway.
"""


def _table(group: type) -> Iterator[str]:
    yield "| setting | flag | environment | default | meaning |"
    yield "|---|---|---|---|---|"
    for entry in entries(group):
        flags = ", ".join(f"`{flag}`" for flag in entry.flags)
        names = ", ".join(f"`{name}`" for name in entry.declaration.env)
        meaning = _sentence(entry) + (f" {entry.expects.capitalize()}." if entry.choices else "")
        cells = (f"`{entry.name}`", flags, names, f"`{entry.default_text}`", meaning)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main() -> None:
    """Write every derived file that differs."""
    for path, text in render_all().items():
        target = ROOT / path
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
