"""The command that shows what a raw answer is read as."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "g", "parameters": {}}}]

SEVERAL = [
    {"name": "default", "template": "{{ messages }}"},
    {"name": "tool_use", "template": "{{ tools }}<tool_call>"},
]


def run(text, *arguments):
    """Return the lines the command prints, its exit code and what it says of a fault."""
    command = [sys.executable, "-m", "deploy.launch", "parse", *arguments]
    done = subprocess.run(command, check=False, input=text.encode(), cwd=ROOT, capture_output=True)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr


def test_it_prints_events_and_the_message():
    lines, code, _ = run(f"Hi\n{CALL}", "--format", "hermes")
    assert code == 0
    assert [line.get("event") for line in lines] == ["text", "start", "arguments", "end", None]
    assert lines[0] == {"event": "text", "text": "Hi\n"}
    function = {"name": "f", "arguments": '{"a": "é"}'}
    call = {"id": lines[1]["id"], "type": "function", "function": function}
    message = {"role": "assistant", "content": "Hi\n", "tool_calls": [call]}
    assert lines[-1] == {"format": "hermes", "message": message}


def test_a_cut_shows_the_events_of_each_piece_and_every_compares_them_all():
    lines, _, _ = run(CALL, "--format", "hermes", "--cut", "4")
    assert [line["text"] for line in lines if line.get("event") == "arguments"] == [
        "{",
        '"a":',
        ' "é"',
        "}",
    ]
    lines, code, _ = run(CALL, "--format", "hermes", "--cut", "every")
    assert code == 0
    assert lines[-1] == {"cuts": len(CALL) - 1, "differing": 0}


def test_with_tools_only_declared_functions_are_called(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS))
    lines, code, _ = run(CALL, "--format", "hermes", "--tools", str(path))
    assert code == 0
    assert lines[-1]["message"] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat_template.jinja", "{% if tools %}<tool_call></tool_call>"),
        ("tokenizer_config.json", '{"chat_template": "{% if tools %}<tool_call></tool_call>"}'),
        ("tokenizer_config.json", json.dumps({"chat_template": SEVERAL})),
    ],
)
def test_the_format_is_that_of_the_models_template(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    lines, _, _ = run(CALL, "--format", "auto", "--model", str(tmp_path))
    assert lines[-1]["format"] == "hermes"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--format", "nonsense"], b"unknown format 'nonsense'"),
        (["--format", "auto"], b"--format auto needs --model"),
        (["--format", "auto", "--model", "/nowhere"], b"No such file"),
        (["--format", "hermes", "--cut", "0"], b"--cut: a number of characters or every"),
        (["--format", "hermes", "--tools", "/nowhere"], b"No such file"),
    ],
)
def test_a_fault_is_one_line(arguments, fault):
    _, code, said = run("x", *arguments)
    assert code != 0
    assert fault in said
    assert b"Traceback" not in said
