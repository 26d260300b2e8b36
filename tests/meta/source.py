"""Syntax trees of the project's modules, each parsed once per test process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def list_nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return the imports and classes of a module, at its top or inside functions."""
    wanted = ast.Import | ast.ImportFrom | ast.ClassDef
    return tuple(node for node in ast.walk(parse(path)) if isinstance(node, wanted))
