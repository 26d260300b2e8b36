"""Allowed imports, checked in the source and in a running process."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache

import pytest

from tests.meta.source import ROOT, list_nodes

OURS = {"gateway", "workers", "shared", "deploy", "tests"}
ALLOWED = {
    "gateway": {"gateway", "shared"},
    "workers": {"workers", "shared"},
    "shared": {"shared"},
    # The formats of tool calls are pure text: one of its commands shows what they read. So are
    # the tables of the dialects, of which it makes a page.
    "deploy": {
        "deploy",
        "shared",
        "workers.text.answer",
        "workers.text.toolcalls",
        "gateway.dialects",
    },
}
# Room → the rooms of the same package that it may import besides itself, and no module beside them.
ROOMS = {
    "gateway": {
        "http": set(),
        "fleet": set(),
        "generation": {"fleet", "metrics"},
        "dialects": {"generation.fold"},
        "state": set(),
        "responses": {"dialects", "fleet", "generation", "state"},
        "routes": {
            "context",
            "dialects",
            "fleet",
            "generation",
            "http",
            "metrics",
            "responses",
            "state",
        },
    },
    "workers.audio": {
        "sound": set(),
        "recognition": {"checkpoint", "pace", "sound"},
        "speech": {"checkpoint", "pace", "sound"},
    },
    "workers.embed": {"network": set()},
    "workers.text": {
        "sampling": set(),
        "cache": set(),
        "engine": {"model", "cache", "sampling"},
        "toolcalls": set(),
        "answer": {"model", "toolcalls", "vocabulary"},
        "prompt": {"answer.reasoning", "toolcalls"},
    },
    "workers.text.answer": {"schema": set()},
    "workers.text.toolcalls": {
        "reader": set(),
        "formats": {
            "arguments",
            "block",
            "conversion",
            "format",
            "json_block",
            "notation",
            "pair_block",
            "quoted_block",
            "reader",
            "schema",
            "stream",
        },
    },
}
# Models, tokenizers and templates are the workers' business.
NOT_IN_THE_GATEWAY = {"mlx", "mlx_lm", "transformers", "tokenizers", "jinja2", "numpy"}


def list_sources(package):
    return sorted(path for path in (ROOT / package).rglob("*.py") if "pb" not in path.parts)


@cache
def list_imports(path):
    """Return the full names of the modules a file imports, at its top or inside functions."""
    package = path.relative_to(ROOT).parent.parts
    names = []
    for node in list_nodes(path):
        if isinstance(node, ast.Import):
            names += (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            names += (f"{module}.{item.name}" for item in node.names)
    return tuple(names)


def load(*arguments):
    """Return the top-level modules that a Python of its own has loaded, as it prints them."""
    command = [sys.executable, *arguments]
    run = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return {name.partition(".")[0] for name in run.stdout.split()}


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_it_may(package):
    allowed = tuple(f"{each}." for each in ALLOWED[package])
    for path in list_sources(package):
        for name in list_imports(path):
            if name.partition(".")[0] in OURS:
                assert f"{name}.".startswith(allowed), f"{path}: {name}"


@pytest.mark.parametrize(
    ("package", "room"), [(package, room) for package, rooms in ROOMS.items() for room in rooms]
)
def test_a_room_imports_only_the_rooms_it_may(package, room):
    allowed = {room, *ROOMS[package][room]}
    for path in list_sources(f"{package.replace('.', '/')}/{room}"):
        for name in list_imports(path):
            if name.startswith(f"{package}."):
                inner = f"{name.removeprefix(package + '.')}."
                assert any(inner.startswith(f"{other}.") for other in allowed), f"{path}: {name}"


def list_edges():
    """Return (importing module, imported module) for every import among our own modules."""
    paths = [path for package in ALLOWED for path in list_sources(package)]
    names = {path: name_module(path) for path in paths}
    modules = set(names.values())
    edges = set()
    for path, module in names.items():
        for name in list_imports(path):
            # The last part may be a name in the module, not a module.
            target = name if name in modules else name.rpartition(".")[0]
            if target in modules and target != module:
                edges.add((module, target))
    return edges


def name_module(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_cycle(edges):
    """Return the nodes of one cycle, or an empty list."""
    graph = {}
    for source, target in edges:
        graph.setdefault(source, set()).add(target)
    done = set()

    def visit(node, path):
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return []
        for target in sorted(graph.get(node, ())):
            if cycle := visit(target, [*path, node]):
                return cycle
        done.add(node)
        return []

    return next((cycle for node in sorted(graph) if (cycle := visit(node, []))), [])


def test_modules_import_each_other_in_no_circle():
    assert find_cycle(list_edges()) == []


def test_siblings_import_each_other_in_no_circle():
    """Of two files or folders in one folder, at most one imports the other, also indirectly."""
    folders = {}
    for source, target in list_edges():
        ours, theirs = source.split("."), target.split(".")
        depth = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None
        )
        if depth is not None:
            edges = folders.setdefault(".".join(ours[:depth]), set())
            edges.add((ours[depth], theirs[depth]))
    cycles = {folder: cycle for folder, edges in folders.items() if (cycle := find_cycle(edges))}
    assert cycles == {}


def test_the_search_for_cycles_finds_one():
    assert find_cycle({("a", "b"), ("b", "c"), ("c", "b")}) == ["b", "c"]


def test_the_gateway_imports_no_model_library():
    for path in list_sources("gateway"):
        named = {name.partition(".")[0] for name in list_imports(path)}
        assert not named & NOT_IN_THE_GATEWAY, path


def test_a_running_gateway_has_loaded_no_model_library():
    code = "import sys, gateway.__main__; print(*sys.modules, sep='\\n')"
    loaded = load("-c", code)
    assert "gateway" in loaded
    assert not loaded & NOT_IN_THE_GATEWAY
    assert "workers" not in loaded


def test_the_dialects_load_no_http_library():
    modules = ", ".join(map(name_module, list_sources("gateway/dialects")))
    loaded = load("-c", f"import sys, {modules}; print(*sys.modules, sep='\\n')")
    assert "msgspec" in loaded
    assert "aiohttp" not in loaded


def test_sound_is_decoded_and_encoded_without_a_model_library():
    modules = ", ".join(map(name_module, list_sources("workers/audio/sound")))
    loaded = load("-c", f"import sys, {modules}; print(*sys.modules, sep='\\n')")
    assert "ffmpeg" in loaded
    assert not loaded & (NOT_IN_THE_GATEWAY - {"numpy"})


def test_one_kind_of_worker_never_imports_another():
    kinds = {path.parent.name for path in (ROOT / "workers").glob("*/__main__.py")}
    for kind in kinds:
        for path in list_sources(f"workers/{kind}"):
            named = {
                name.split(".")[1] for name in list_imports(path) if name.startswith("workers.")
            }
            assert not (named & kinds) - {kind}, path


@pytest.mark.parametrize(
    ("modules", "package"),
    [
        # Before the environment exists there is the standard library alone.
        ("deploy.setup.bootstrap, deploy.run.preflight", "deploy"),
        # The launcher reads tool calls where no worker's libraries are installed.
        ("deploy.commands.parse", "workers"),
    ],
)
def test_it_runs_on_a_bare_python(modules, package):
    code = f"import sys, {modules}; print(*sys.modules, sep='\\n')"
    # -S leaves the packages of this environment out.
    loaded = load("-S", "-c", code)
    assert package in loaded
    assert loaded - set(sys.stdlib_module_names) <= {package, "deploy", "shared", "__main__"}
