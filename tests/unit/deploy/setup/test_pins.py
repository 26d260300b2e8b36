"""The Pythons that pins are resolved for, and packages without a pin."""

from __future__ import annotations

import tomllib

from deploy import ROOT
from deploy.setup import pins


def test_every_declared_python_from_3_11_is_resolved():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert pins.list_pythons(project) == ["3.11", "3.12", "3.13", "3.14"]
    assert project["requires-python"] == ">=3.11"


def test_packages_without_a_pin_are_found_whatever_their_spelling():
    pinned = "# a==2\nA_b.c==1 ; sys_platform == 'darwin'\nd==3\n"
    assert pins.find_unpinned("# made by uv\na-b-c==1\nd==3\n", pinned) == []
    assert pins.find_unpinned("a==2\nd==4\n", pinned) == ["a==2", "d==4"]
