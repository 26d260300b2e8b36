"""Runs the examples of the documentation against a server under test.

Owns how examples are found on a page, changed to the server's address and run: commands by bash
with the real curl, Python with the real clients. All calls block.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Placeholders in the reference.
_GAPS = {'"messages": [...]': '"messages": [{"role": "user", "content": "Hi"}]'}
_NAMED = re.compile(r"^# (\w+)\n(.*?)(?=\n\n#|\Z)", re.MULTILINE | re.DOTALL)
_ADDRESS = re.compile(r"http://(localhost|127\.0\.0\.1):8080")
# The word after the language is the kind of worker; without one it is text.
_FENCE = re.compile(r"^```(sh|python)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OURS = ("make ", ".venv/bin/")
_EXPECTED = re.compile(r"^# answers (\d+)$", re.MULTILINE)
# Prints errors only, the status after the body, and has a time limit.
_CURL = "curl() { command curl -sS --max-time 240 -w '\\n%{http_code}' \"$@\"; }\n"


@dataclass(frozen=True)
class Example:
    """One fenced example.

    Attributes:
        label: page and number, for the name of the test.
        kind: of the worker.
    """

    label: str
    language: str
    kind: str
    text: str

    @property
    def is_command(self) -> bool:
        """Whether it calls a server; others need a checkout."""
        return self.language == "sh" and not self.text.startswith(_OURS)

    @property
    def expected_status(self) -> int:
        """The status of its comment `# answers N`, else 200."""
        found = _EXPECTED.search(self.text)
        return int(found[1]) if found else 200


@dataclass(frozen=True)
class Outcome:
    """The output of a command: body and status."""

    status: int
    body: str


def read_pages(*kinds: str) -> list[Example]:
    """Return the examples of the README and docs/api for some kinds of workers."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs/api").glob("*.md"))]
    found = [example for path in paths for example in _read_page(path)]
    return [example for example in found if example.kind in kinds]


def _read_page(path: Path) -> list[Example]:
    found = _FENCE.findall(path.read_text("utf-8"))
    return [
        Example(f"{path.relative_to(ROOT)}-{number}", language, kind or "text", text)
        for number, (language, kind, text) in enumerate(found, 1)
    ]


def read_reference() -> dict[str, str]:
    """Return the curl examples of the REST reference by name, with placeholders filled."""
    text = (ROOT / "tests/models/reference.sh").read_text("utf-8")
    for gap, filled in _GAPS.items():
        text = text.replace(gap, filled)
    return dict(_NAMED.findall(text))


def run_command(command: str, url: str) -> Outcome:
    """Run one curl command against a server."""
    script = _CURL + _ADDRESS.sub(url, command)
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    body, _, status = run.stdout.rpartition("\n")
    return Outcome(int(status), body)


def run_commands(commands: dict[str, str], url: str) -> dict[str, Outcome]:
    """Run commands, those with a body at the same time, which the server batches.

    The others follow: a server with no free slot reports that in /health.
    """
    posting = {name: text for name, text in commands.items() if " -d " in text}
    with ThreadPoolExecutor(len(posting)) as pool:
        outcomes = pool.map(lambda command: run_command(command, url), posting.values())
        found = dict(zip(posting, outcomes, strict=True))
    found.update((n, run_command(t, url)) for n, t in commands.items() if n not in posting)
    return found


def run_python(text: str, url: str) -> str:
    """Run a program against a server and return its output."""
    printed = io.StringIO()
    code = compile(_ADDRESS.sub(url, text), "example", "exec")
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    names["client"].close()
    return printed.getvalue()
