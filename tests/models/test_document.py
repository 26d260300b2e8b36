"""Every example of the documentation works."""

from __future__ import annotations

import pytest

from tests.example import read_pages, run_python
from tests.models.conftest import NAME

EXAMPLES = {example.label: example for example in read_pages("text")}
COMMANDS = [label for label, example in EXAMPLES.items() if example.is_command]
PROGRAMS = [label for label, example in EXAMPLES.items() if example.language == "python"]


def test_the_documentation_has_examples():
    assert COMMANDS and PROGRAMS


@pytest.mark.parametrize("label", COMMANDS)
def test_a_command_gets_its_status(outcomes, label):
    outcome = outcomes[label]
    assert outcome.status == EXAMPLES[label].expected_status, outcome.body
    assert outcome.body


@pytest.mark.parametrize("label", PROGRAMS)
def test_a_program_prints_output(server, label):
    assert run_python(EXAMPLES[label].text, server.url).strip()


def test_the_documentation_names_the_starter_model():
    named = [example for example in EXAMPLES.values() if '"model"' in example.text]
    for example in named:
        assert NAME in example.text, example.label
