"""Limits on the size of folders and modules, and unique names."""

from __future__ import annotations

import ast
import statistics
from collections import Counter

from tests.meta.source import ROOT, list_nodes

PACKAGES = ("gateway", "workers", "shared", "deploy")
MOST_MODULES = 16
MOST_LINES = 300
MEDIAN_LINES = 120
BOUNDED = ("gateway", "shared", "deploy", "workers")
# Folders with one module per format or part of a dialect have no limit.
UNBOUNDED = ("gateway/dialects", "workers/text/toolcalls/formats")

MODULES = [
    path.relative_to(ROOT)
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if "pb" not in path.parts
]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_a_folder_holds_few_modules():
    counts = Counter(str(path.parent) for path in MODULES if path.name != "__init__.py")
    large = {folder for folder, count in counts.items() if count > MOST_MODULES}
    assert not {folder for folder in large if not folder.startswith(UNBOUNDED)}


def test_modules_are_short():
    lines = {str(path): len(read(path).splitlines()) for path in MODULES}
    long = {path: count for path, count in lines.items() if count > MOST_LINES}
    assert not {path for path in long if path.startswith(BOUNDED)}
    assert statistics.median(lines.values()) <= MEDIAN_LINES


def test_a_class_name_is_given_once():
    found = {}
    for path in MODULES:
        for node in list_nodes(ROOT / path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_our_own_modules_are_imported_under_their_names():
    aliases = {
        f"{path}: {name} as {alias}"
        for path in MODULES
        for name, alias in list_aliases(ROOT / path)
        # Aliases of generated modules are allowed: text_pb2 as pb.
        if name.startswith(PACKAGES) and not name.startswith("shared.pb")
    }
    assert aliases == set()


def list_aliases(path):
    """Yield the full names that a module imports under others, and those."""
    for node in list_nodes(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            for item in node.names:
                if item.asname is not None:
                    yield f"{module}.{item.name}".lstrip("."), item.asname
