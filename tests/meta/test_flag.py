"""Every flag and environment name of the reference is either served or refused with a reason."""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path

import pytest

from deploy import cli
from deploy.run import resolution
from shared.declaration import ConfigError, entries
from shared.refusal import refuse_environment
from shared.settings import refused

# The names in the reference and in the notes on its server.
NAMES = Path(__file__).with_name("name.txt").read_text("utf-8").split()
FLAGS = [name for name in NAMES if name.startswith("-")]
ENVIRONMENT = [name for name in NAMES if not name.startswith("-")]

SETTINGS = [entry for group in resolution.GROUPS for entry in entries(group)]
# Read by the library of the hub.
OTHERS = {"HF_TOKEN"}


@cache
def served_flags() -> set[str]:
    parser = cli.build_parser()
    hidden = {
        flag
        for action in parser._actions
        if action.nargs == "?" and action.help == argparse.SUPPRESS
        for flag in action.option_strings
    }
    return set(parser._option_string_actions) - hidden


def served_names() -> set[str]:
    return {name for entry in SETTINGS for name in entry.declaration.env} | OTHERS


def test_a_default_is_valid():
    for entry in SETTINGS:
        assert entry.decode(entry.default, entry.name) == entry.default, entry.name


@pytest.mark.parametrize(
    ("names", "served", "not_served"),
    [(FLAGS, served_flags, refused.FLAGS), (ENVIRONMENT, served_names, refused.ENVIRONMENT)],
    ids=["flags", "environment"],
)
def test_a_name_is_served_or_refused(names, served, not_served):
    found = served()
    assert [name for name in names if (name in found) == (name in not_served)] == []


def test_only_names_of_the_reference_are_refused():
    assert set(refused.FLAGS) <= set(FLAGS)
    assert set(refused.ENVIRONMENT) <= set(ENVIRONMENT)


@pytest.mark.parametrize(
    "words", [["--lora", "x.gguf"], ["--no-batch"], ["-v"], ["-md", "x", "-m", "y"], ["--lora=x"]]
)
def test_a_refused_flag_stops_the_start_with_its_reason(words, capsys):
    with pytest.raises(SystemExit):
        cli.main(words)
    flag = words[0].partition("=")[0]
    assert capsys.readouterr().err == f"error: {flag}: {refused.FLAGS[flag]}\n"


def test_a_refused_environment_name_stops_the_start_unless_empty():
    refuse_environment({"LLAMA_ARG_TAGS": "", "PATH": "/bin"})
    with pytest.raises(ConfigError, match=r"^LLAMA_ARG_TAGS: one server serves"):
        refuse_environment({"LLAMA_ARG_TAGS": "x"})


def test_a_refused_flag_with_an_inert_value_is_accepted():
    words = ["--cache-reuse", "0", "--warmup", "--cache-type-k=f16", "--port", "1"]
    assert cli.build_parser().parse_args(words).port == "1"
    for words in (["--cache-reuse", "256"], ["--cache-reuse"], ["--warmup", "0"]):
        with pytest.raises(ConfigError):
            cli.build_parser().parse_args(words)
    environ = {"LLAMA_ARG_CACHE_REUSE": "0", "APC_ENABLED": "false"}
    refuse_environment(environ)
    with pytest.raises(ConfigError, match=r"^APC_ENABLED: "):
        refuse_environment({"APC_ENABLED": "1"})
    assert refused.INERT.keys() <= refused.FLAGS.keys() | refused.ENVIRONMENT.keys()


@pytest.mark.parametrize("refusal", refused.REFUSED, ids=lambda r: (*r.flags, *r.env)[0])
def test_a_reason_is_a_sentence_without_a_full_stop(refusal):
    assert len(refusal.sentence.split()) >= 4
    assert not refusal.sentence.endswith(".")
