"""Committed generated files are up to date."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.generate import dialect_page, document, protobuf
from shared import fleet
from shared.declaration import entries
from shared.kind import KINDS
from shared.settings import GatewaySettings, SupervisorSettings

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("path", document.render_all(), ids=str)
def test_a_generated_file_is_up_to_date(path):
    assert (ROOT / path).read_text(encoding="utf-8") == document.render_all()[path], "make docs"


def test_generated_protobuf_code_equals_the_committed_code(tmp_path):
    protobuf.generate(tmp_path)
    made = {path.name: path.read_text() for path in (tmp_path / "shared/pb").iterdir()}
    committed = {path.name: path.read_text() for path in (ROOT / "shared/pb").glob("*_pb2*")}
    assert made.keys() == committed.keys()
    for name, text in made.items():
        assert committed[name] == text, f"{name}: make proto"


@pytest.mark.parametrize("kind", KINDS)
def test_the_sample_fleet_file_with_all_settings_enabled_gives_the_defaults(tmp_path, kind):
    head, *sections = document.render_sample().split("# ---- with kind = ")
    section = next(text for text in sections if text.startswith(f'"{kind}"'))
    lines = f"{head}# {section}".splitlines()
    names = {name for name, _, _ in document._WORKER_KEYS}
    groups = (GatewaySettings, SupervisorSettings, KINDS[kind].settings)
    names |= {entry.name for group in groups for entry in entries(group)}
    on = [line[2:] if line[2:].partition(" = ")[0] in names else line for line in lines]
    path = tmp_path / "fleet.toml"
    path.write_text("\n".join(on).replace('kind = "text"', f'kind = "{kind}"'))
    loaded = fleet.load_fleet(path)
    assert {entry.name for entry in entries(GatewaySettings)} == set(loaded.gateway)
    for entry in entries(KINDS[kind].settings):
        given = loaded.workers[0].options[entry.name]
        assert entry.decode(given, entry.name) == entry.default


def test_the_sample_names_every_key_of_a_worker():
    assert {name for name, _, _ in document._WORKER_KEYS} == set(fleet._WORKER_KEYS)


def test_constraints_pin_exact_versions_without_urls_or_paths():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) > 50
    for line in pins:
        requirement = line.partition(";")[0].strip()
        name, separator, version = requirement.partition("==")
        assert separator, line
        assert name.replace("-", "").replace("_", "").replace(".", "").isalnum(), line
        assert version[0].isdigit(), line
        assert "/" not in line, line


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    name: {*map(Requirement, lines)} for name, lines in PROJECT["optional-dependencies"].items()
}
DEPENDENCIES = {*map(Requirement, PROJECT["dependencies"])}


def test_every_declared_package_is_pinned_within_its_bounds():
    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, _, version = line.partition(";")[0].strip().partition("==")
            pins[canonicalize_name(name)] = version
    for requirement in DEPENDENCIES.union(*EXTRAS.values()):
        pin = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin), requirement


def select(requirements, platform):
    """Return what requirements install on a platform, as text without markers."""
    return {
        f"{item.name} {sorted(item.extras)} {item.specifier}"
        for item in requirements
        if item.marker is None or item.marker.evaluate({"sys_platform": platform})
    }


@pytest.mark.parametrize(
    ("platform", "extras"), [("linux", {"text", "embed"}), ("darwin", {"text", "embed", "audio"})]
)
def test_the_extras_of_a_platform_are_installed_by_default(platform, extras):
    default = select(DEPENDENCIES, platform)
    for extra in extras:
        assert select(EXTRAS[extra], platform) <= default
    assert ("audio" in extras) == (select(EXTRAS["audio"], platform) <= default)


def test_the_page_of_dialects_shows_every_table_of_unserved_fields():
    shown = [table for dialect in dialect_page.DIALECTS for table in dialect[2:]]
    paths = sorted((ROOT / "gateway/dialects").rglob("wire.py"))
    assert len(paths) >= 2
    for path in paths:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        tables = vars(importlib.import_module(name))
        for key, table in tables.items():
            if key.endswith(("IGNORED", "REFUSED")):
                assert any(table is each for each in shown), f"{name}.{key}"


def test_no_field_is_both_ignored_and_refused():
    for dialect in dialect_page.DIALECTS:
        assert not dialect.ignored.keys() & dialect.refused.keys(), dialect.title
