"""What no file of the repository may contain."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Joined from parts, so that this file does not match.
REGISTRY = "|".join(
    [
        "index" + "-url",
        r"https?://[^ \"]*/(simple|packages/[0-9a-f]{2})/",
        "pypi" + r"\.org",
        "python" + r"hosted\.org",
        "registry" + r"\.npmjs",
        "deb" + r"\.debian\.org",
    ]
)
MACHINE = r"(^|[^A-Za-z0-9_./-])/(" + "work|farm|root|tmp/exp" + ")/"
PENDING = "|".join(
    [
        r"\bTO" + r"DO\b",
        r"\bFIX" + r"ME\b",
        "NotImplemented" + "Error",
        r"pytest\.sk" + r"ip\(",
        r"mark\.(sk" + r"ip|xf" + r"ail)",
    ]
)


def read_tracked():
    """Return the text files of the repository by name, without generated code."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = {}
    for name in listing.stdout.split("\0"):
        path = ROOT / name
        if not name or name.startswith("shared/pb/") or not path.is_file():
            continue
        try:
            found[name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


TRACKED = read_tracked()


def list_matches(pattern, names):
    expression = re.compile(pattern, re.MULTILINE)
    return [
        f"{name}:{number}: {line}"
        for name in names
        # Of the whole text first: nearly every file has none.
        if expression.search(TRACKED[name])
        for number, line in enumerate(TRACKED[name].splitlines(), 1)
        if expression.search(line)
    ]


def test_no_file_names_a_package_registry():
    assert list_matches(REGISTRY, TRACKED) == []


def test_no_file_names_a_path_of_a_machine():
    assert list_matches(MACHINE, TRACKED) == []


def test_no_source_has_pending_work():
    sources = [name for name in TRACKED if name.endswith(".py")]
    assert len(sources) > 30
    assert list_matches(PENDING, sources) == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (REGISTRY, "--extra-index" + "-url x"),
        (MACHINE, "cd /wo" + "rk/main"),
        (PENDING, "# TO" + "DO: later"),
    ],
)
def test_each_pattern_matches_its_example(pattern, line):
    assert re.search(pattern, line)


def test_no_module_is_named_vaguely():
    vague = {"utils", "helpers", "common", "manager", "handler"}
    for name in TRACKED:
        path = Path(name)
        assert path.suffix != ".py" or path.stem not in vague, name


def test_pages_name_only_modules_that_exist():
    pages = [name for name in TRACKED if name.endswith(".md")]
    found = {
        (page, path)
        for page in pages
        for path in re.findall(
            r"`((?:gateway|workers|shared|deploy|tests)/[\w/]+\.py)`", TRACKED[page]
        )
    }
    assert len(found) > 60
    assert sorted((page, path) for page, path in found if not (ROOT / path).is_file()) == []
