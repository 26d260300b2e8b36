"""The subcommand that shows how a raw answer is parsed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.commands.parse import main

ROOT = Path(__file__).resolve().parents[4]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'
HARMONY_CALL = '<|channel|>commentary to=functions.f json<|message|>{"a": "é"}<|call|>'
TOOLS = [{"type": "function", "function": {"name": "F", "parameters": {}}}]

SEVERAL = [
    {"name": "default", "template": "{{ messages }}"},
    {"name": "tool_use", "template": "{{ tools }}<tool_call>"},
]


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs the command and returns its lines, exit code and error text."""

    def run(text, *arguments):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = None
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
        shown = capsys.readouterr()
        # sys.exit with a text would print it.
        said = shown.err + (code if isinstance(code, str) else "")
        return [json.loads(line) for line in shown.out.splitlines()], code, said

    return run


def test_it_prints_events_and_the_message():
    command = [sys.executable, "-m", "deploy.entry", "deploy.cli", "parse", "--format", "hermes"]
    said = f"Hi\n{CALL}".encode()
    done = subprocess.run(command, check=True, input=said, cwd=ROOT, capture_output=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.get("event") for line in lines] == ["text", "start", "arguments", "end", None]
    assert lines[0] == {"event": "text", "text": "Hi\n"}
    function = {"name": "f", "arguments": '{"a": "é"}'}
    call = {"id": lines[1]["id"], "type": "function", "function": function}
    message = {"role": "assistant", "content": "Hi\n", "tool_calls": [call]}
    assert lines[-1] == {"format": "hermes", "message": message}


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (f"<think>\nhm {CALL}\n</think>\n\n{CALL}", ("--format", "hermes")),
        (f"hm {CALL}\n</think>\n\n{CALL}", ("--format", "hermes", "--thinking")),
        (
            f"<|channel|>analysis<|message|>hm {CALL}<|end|>{HARMONY_CALL}",
            ("--format", "harmony"),
        ),
    ],
)
def test_reasoning_is_split_off_as_in_the_server(run, text, arguments):
    lines, code, _ = run(text, *arguments, "--cut", "every")
    assert lines[0] == {"event": "reasoning", "text": f"hm {CALL}"}
    message = lines[-2]["message"]
    assert message["reasoning_content"] == f"hm {CALL}"
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["f"]
    assert (lines[-1]["differing"], code) == (0, None)


def test_a_cut_size_shows_the_events_of_each_piece_and_every_compares_all_cuts(run):
    lines, _, _ = run(CALL, "--format", "hermes", "--cut", "4")
    assert [line["text"] for line in lines if line.get("event") == "arguments"] == [
        "{",
        '"a":',
        ' "é"',
        "}",
    ]
    lines, code, _ = run(CALL, "--format", "hermes", "--cut", "every")
    assert not code
    assert lines[-1] == {"cuts": len(CALL) - 1, "differing": 0}


def test_with_tools_a_name_is_that_of_the_declared_function(run, tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS))
    lines, code, _ = run(CALL, "--format", "hermes", "--tools", str(path))
    assert not code
    assert [call["function"]["name"] for call in lines[-1]["message"]["tool_calls"]] == ["F"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat_template.jinja", "{% if tools %}<tool_call></tool_call>"),
        ("tokenizer_config.json", '{"chat_template": "{% if tools %}<tool_call></tool_call>"}'),
        ("tokenizer_config.json", json.dumps({"chat_template": SEVERAL})),
    ],
)
def test_the_format_is_detected_from_the_models_template(run, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    lines, _, _ = run(CALL, "--format", "auto", "--model", str(tmp_path))
    assert lines[-1]["format"] == "hermes"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--format", "nonsense"], "unknown format 'nonsense'"),
        (["--format", "auto"], "--format auto needs --model"),
        (["--format", "auto", "--model", "/nowhere"], "No such file"),
        (["--format", "hermes", "--cut", "0"], "--cut: a number of characters or every"),
        (["--format", "hermes", "--tools", "/nowhere"], "No such file"),
    ],
)
def test_an_error_is_one_line(run, arguments, fault):
    _, code, said = run("x", *arguments)
    assert code
    assert fault in said
