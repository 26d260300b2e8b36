"""Files that a contributor looks for exist, and pages name only paths that exist."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("gateway", "workers", "shared", "deploy", "tests", "proto", "docs")
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[^`\s]*)`")
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(f"{p.relative_to(ROOT)}" for p in ROOT.glob("docs/**/*.md")),
]


def read_tracked():
    """Return the names of tracked files and of their folders."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    names = {name for name in listing.stdout.split("\0") if (ROOT / name).is_file()}
    return names | {str(parent) for name in names for parent in Path(name).parents}


TRACKED = read_tracked()


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page):
    text = (ROOT / page).read_text("utf-8")
    named = {path.rstrip("/") for path in PATH.findall(text)}
    assert [path for path in sorted(named) if not fnmatch.filter(TRACKED, path)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_links_to_exists(page):
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", (ROOT / page).read_text("utf-8"))
    folder = (ROOT / page).parent
    assert [link for link in links if not (folder / link).exists()] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", ".editorconfig", ".pre-commit-config.yaml"])
def test_a_file_for_contributors_exists(name):
    assert name in TRACKED


def test_the_license_is_the_one_that_the_project_declares():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_hooks_run_what_make_lint_runs():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.findall(r"entry: (.*)", hooks) == commands
    assert "repo: http" not in hooks


def test_contributing_names_only_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\bmake ([a-z-]+)", (ROOT / page).read_text("utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page}: make {target}"
