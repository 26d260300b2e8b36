"""Who may import whom, read from the source and from a running process."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
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
# Models, tokenizers and templates are the workers' business.
NOT_IN_THE_GATEWAY = {"mlx", "mlx_lm", "transformers", "tokenizers", "jinja2", "numpy"}


def list_sources(package):
    return sorted(path for path in (ROOT / package).rglob("*.py") if "pb" not in path.parts)


def list_imports(path):
    """Yield the full names of the modules a file imports, at its top or inside functions."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield from (f"{module}.{item.name}" for item in node.names)


def load(*arguments):
    """Return the top-level modules that a Python of its own has loaded, as it prints them."""
    command = [sys.executable, *arguments]
    run = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return {name.partition(".")[0] for name in run.stdout.split()}


def list_all():
    return [
        pytest.param(path, package, id=str(path.relative_to(ROOT)))
        for package in ALLOWED
        for path in list_sources(package)
    ]


@pytest.mark.parametrize(("path", "package"), list_all())
def test_a_package_imports_only_what_it_may(path, package):
    for name in list_imports(path):
        if name.partition(".")[0] in OURS:
            assert any(f"{name}.".startswith(f"{allowed}.") for allowed in ALLOWED[package]), name


@pytest.mark.parametrize("path", list_sources("gateway"), ids=lambda p: p.name)
def test_the_gateway_imports_no_model_library(path):
    assert not {name.partition(".")[0] for name in list_imports(path)} & NOT_IN_THE_GATEWAY


def test_a_running_gateway_has_loaded_no_model_library():
    code = "import sys, gateway.__main__; print(*sys.modules, sep='\\n')"
    loaded = load("-c", code)
    assert "gateway" in loaded
    assert not loaded & NOT_IN_THE_GATEWAY
    assert "workers" not in loaded


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
