"""Examples of the documentation, run as a reader would run them.

Owns how an example is found on a page, pointed at a server under test and judged: a command is
run by bash with the real curl, Python with the real clients. Everything here blocks.
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
# What the reference leaves open.
_GAPS = {'"messages": [...]': '"messages": [{"role": "user", "content": "Hi"}]'}
_NAMED = re.compile(r"^# (\w+)\n(.*?)(?=\n\n#|\Z)", re.MULTILINE | re.DOTALL)
_ADDRESS = re.compile(r"http://(localhost|127\.0\.0\.1):8080")
# The word after the language is the kind of worker it asks, unless that is the text worker.
_FENCE = re.compile(r"^```(sh|python)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OURS = ("make ", ".venv/bin/")
_EXPECTED = re.compile(r"^# answers (\d+)$", re.MULTILINE)
# Quiet but for what goes wrong, the status after the body, and an end to every wait.
_CURL = "curl() { command curl -sS --max-time 240 -w '\\n%{http_code}' \"$@\"; }\n"


@dataclass(frozen=True)
class Example:
    """One fenced example.

    Attributes:
        place: page and number, for the test's name.
        kind: of the worker it asks.
    """

    place: str
    language: str
    kind: str
    text: str

    @property
    def is_command(self) -> bool:
        """Whether it asks a server, as most commands do that are not about a checkout."""
        return self.language == "sh" and not self.text.startswith(_OURS)

    @property
    def expected_status(self) -> int:
        """What its comment says that the server answers; 200 without one."""
        found = _EXPECTED.search(self.text)
        return int(found[1]) if found else 200


@dataclass(frozen=True)
class Outcome:
    """What a command printed: the body of the answer and its status."""

    status: int
    body: str


def read_pages(*kinds: str) -> list[Example]:
    """Return the examples of the README and of docs/api that ask workers of some kinds."""
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
    """Return the curl examples of the REST reference, with its gaps filled, by name."""
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
    """Run commands: those that ask for an answer at the same time, as a server batches them.

    The others come after them: a server with all its slots taken says so in its health.
    """
    asking = {name: text for name, text in commands.items() if " -d " in text}
    with ThreadPoolExecutor(len(asking)) as pool:
        outcomes = pool.map(lambda command: run_command(command, url), asking.values())
        found = dict(zip(asking, outcomes, strict=True))
    found.update((n, run_command(t, url)) for n, t in commands.items() if n not in asking)
    return found


def run_python(text: str, url: str) -> str:
    """Run a program against a server and return what it printed."""
    printed = io.StringIO()
    code = compile(_ADDRESS.sub(url, text), "example", "exec")
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    names["client"].close()
    return printed.getvalue()
