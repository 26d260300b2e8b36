"""The wheel, installed in an environment of its own, serves from outside the repository.

The environment borrows the packages of this one, but not this checkout: a `.pth` file that another
`.pth` file names is not read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from deploy.starter_models.table import STARTERS
from tests import checkpoint
from tests.client import connect
from tests.server import ROOT, serve

pytestmark = pytest.mark.slow

BARE = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(*words, **options):
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=BARE, **options)
    return done.stdout


def copy_sources(target):
    """Copy the files of the repository: a build writes into their folder."""
    listing = run("git", "ls-files", "-co", "-z", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    copy_sources(folder / "source")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    options = ("--no-deps", "--no-index")
    run(*pip, "wheel", "--no-build-isolation", *options, "-w", folder, folder / "source")
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    python = folder / "env" / "bin" / "python"
    run(*pip, "--python", python, "install", *options, wheel)
    return folder / "env"


@pytest.fixture(scope="module")
def site_packages(environment):
    """The folder of the installed package, read-only, with the packages of this environment."""
    (path,) = environment.glob("lib/python*/site-packages")
    (path / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    for folder, _, _ in os.walk(path):
        Path(folder).chmod(0o555)
    return path


def list_files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_the_wheel_installs_one_top_level_package(environment, site_packages):
    names = {path.name for path in site_packages.iterdir()} - {"borrowed.pth"}
    assert names == {"mlxcel_server", "mlxcel_server-0.1.0.dist-info"}
    code = "from importlib.metadata import files; print(*files('mlxcel-server'), sep='\\n')"
    listed = run(environment / "bin" / "python", "-I", "-c", code).split()
    words = "workers/audio/speech/normaliser/language/fr-fr.toml"
    for name in ("deploy/mlxcel.toml", "deploy/sample.toml", "shared/pb/text_pb2.pyi", words):
        assert f"mlxcel_server/_app/{name}" in listed


@pytest.mark.parametrize("words", [("mlxcel-server",), ("python", "-m", "mlxcel_server")])
def test_both_commands_print_help(environment, site_packages, words, tmp_path):
    text = run(environment / "bin" / words[0], *words[1:], "--help", cwd=tmp_path)
    assert text.startswith("usage: mlxcel-server [-m MODEL")


async def test_it_serves_a_chat_and_writes_nothing_to_its_folder(
    environment, site_packages, make_folder
):
    before = list_files(site_packages)
    program = [str(environment / "bin" / "mlxcel-server")]
    model = checkpoint.build("llama")
    # Without the working folder on sys.path of `-m`.
    environ = {"PYTHONSAFEPATH": "1"}
    with serve(make_folder(), "-m", str(model), program=program, environ=environ) as server:
        async with connect(server.url) as client:
            answer = await client.ask("Hello", max_tokens=4)
        assert answer.usage["completion_tokens"] == 4
        for module in ("gateway", "workers.text"):
            (found,) = server.find(module)
            assert found.cmdline()[0].startswith(str(environment))
    assert list_files(site_packages) == before


def test_the_default_fleet_finds_starter_models_in_the_cache(environment, site_packages, tmp_path):
    before = list_files(site_packages)
    text = STARTERS["text"]
    made = tmp_path / "mlxcel" / "models" / text.key / text.name
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    code = (
        "import os, mlxcel_server.__main__ as entry; entry.add_app(); from deploy import cli; "
        "fleet = cli.prepare(cli.build_parser().parse_args(['--port', '0']), os.environ); "
        "print(*(model for worker in fleet.workers for model in worker.models), sep='\\n')"
    )
    environ = BARE | {"XDG_CACHE_HOME": str(tmp_path)}
    command = [environment / "bin" / "python", "-c", code]
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    models = [Path(line) for line in done.stdout.split()]
    assert {path.parent for path in models} == {tmp_path / "mlxcel" / "starter"}
    assert models[0].resolve() == made
    assert list_files(site_packages) == before
