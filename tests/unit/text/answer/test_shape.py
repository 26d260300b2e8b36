"""Whole answers as the engine makes them: thoughts, content and calls of what a model writes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from shared.pb import text_pb2 as pb
from shared.settings import TextSettings
from tests.unit.text import tiny_tokenizer
from tests.unit.text.request import make_model
from tests.unit.text.tiny_tokenizer import to_ids
from workers.text.intake import Intake
from workers.text.prompt.prompter import Prompter

EOS = 2
# Control tokens of GPT-OSS, and a tag that is one token, as Qwen3 has it.
CONTROL = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|constrain|>")
TOKENIZER = tiny_tokenizer.byte_level([b"k>y", b"</"], CONTROL)
MODEL = make_model(TOKENIZER)
CONTROL_IDS = {name: TOKENIZER.convert_tokens_to_ids(name) for name in CONTROL}

OPENED = "{{ messages[-1].content }}{% if tools %}<tool_call>{% endif %}\n<think>\n"
CLOSED = "{{ messages[-1].content }}{% if tools %}<tool_call>{% endif %}{# <think> #}"
HARMONY = "{% if tools %}<|channel|>commentary<|message|>{% endif %}<|start|>assistant"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


@dataclasses.dataclass
class Told:
    """What a client gets to know of an answer."""

    ids: list[int]
    thoughts: str = ""
    content: str = ""
    calls: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    infos: list[int] = dataclasses.field(default_factory=list)
    finished: pb.Finished | None = None


def make_intake(template: str, **settings: Any) -> Intake:
    settings = dataclasses.replace(TextSettings(), **settings)
    return Intake(MODEL, Prompter(TOKENIZER, template, {}), settings, 1000, 10**9)


def request(*, tools=(), **fields: Any) -> pb.GenerateRequest:
    chat = pb.ChatPrompt(
        messages=[pb.Message(role="user", parts=[pb.Part(text="hi")])],
        tools=[
            pb.Tool(name=n, json=json.dumps({"function": {"name": n, "parameters": SCHEMA}}))
            for n in tools
        ],
        tool_choice=pb.ToolChoice(mode=fields.pop("mode", pb.ToolChoice.MODE_AUTO)),
        add_generation_prompt=True,
    )
    return pb.GenerateRequest(request_id="x", chat=chat, **fields)


def spell(text: str) -> list[int]:
    """Return the ids of a text: control tokens, and bytes."""
    return list(TOKENIZER.encode(text, add_special_tokens=False))


def sample(sequence, text: str) -> Iterator[pb.SequenceFrame]:
    """Yield the frames of a model that writes a text, but where it is told what to write."""
    wanted = [*spell(text), EOS]
    while not sequence.ended and wanted:
        forced = sequence.guide.forced if sequence.guide else None
        token = wanted.pop(0) if forced is None else forced
        info = None if sequence.logprobs is None else pb.TokenInfo(id=token, logprob=-0.5)
        sequence.take_token(token, info)
        sequence.read()
        yield sequence.take_frame()


def gather(frames: list[pb.SequenceFrame]) -> Told:
    told = Told([token for frame in frames for token in frame.token_ids])
    kind, text = None, {}
    for event in (event for frame in frames for event in frame.events):
        name = event.WhichOneof("event")
        if name == "block_start":
            kind = event.block_start.kind
            if kind == pb.BlockStart.KIND_TOOL_CALL:
                told.calls.append((event.block_start.tool_name, ""))
        elif name == "finished":
            told.finished = event.finished
        elif name == "delta":
            told.infos += [info.id for info in event.delta.infos]
            text = event.delta.text
            if kind == pb.BlockStart.KIND_REASONING:
                told.thoughts += text
            elif kind == pb.BlockStart.KIND_TOOL_CALL:
                told.calls[-1] = (told.calls[-1][0], told.calls[-1][1] + text)
            else:
                told.content += text
    return told


def tell(text: str, template: str = OPENED, settings: Mapping[str, Any] = {}, **fields: Any):
    sequence = make_intake(template, **settings).make_sequence(request(**fields))
    return gather(list(sample(sequence, text)))


# -------------------------------------------------------------------------- thoughts


@pytest.mark.parametrize("logprobs", [None, pb.Logprobs(top=0)])
@pytest.mark.parametrize(
    ("form", "thoughts", "content"),
    [
        ("auto", "hm", "yes"),
        ("deepseek", "hm", "yes"),
        ("deepseek-legacy", "hm", "hm\n</think>\n\nyes"),
        ("none", "", "hm\n</think>\n\nyes"),
    ],
)
def test_where_thoughts_go_is_a_setting(form, thoughts, content, logprobs):
    told = tell("hm\n</think>\n\nyes", settings={"reasoning_format": form}, logprobs=logprobs)
    assert (told.thoughts, told.content) == (thoughts, content)
    assert told.finished.usage.reasoning_tokens == len(spell("hm\n</think>"))
    assert told.infos == (told.ids[:-1] if logprobs else [])


@pytest.mark.parametrize("tools", [(), ("f",)])
def test_a_server_may_leave_everything_as_the_model_wrote_it(tools):
    text = f"hm</think>yes {CALL}"
    told = tell(text, settings={"skip_chat_parsing": True}, tools=tools)
    assert (told.thoughts, told.content, told.calls) == ("", text, [])
    assert told.finished.reason == pb.Finished.REASON_EOS


def test_a_request_may_ask_for_the_raw_text():
    told = tell("hm</think>yes", reasoning=pb.Reasoning(raw=True))
    assert (told.thoughts, told.content) == ("", "hm</think>yes")


@pytest.mark.parametrize(
    ("template", "text", "thoughts", "content"),
    [
        (OPENED, "and on and on", "and on and on", ""),
        (OPENED, "and on </thi", "and on </thi", ""),
        (OPENED, "</think>now", "", "now"),
        (CLOSED, "<think>hm</think>\nyes", "hm", "yes"),
        (CLOSED, "\n<think>hm", "hm", ""),
        (CLOSED, "yes <think>no</think>", "", "yes <think>no</think>"),
        (CLOSED, " yes", "", " yes"),
    ],
)
def test_thoughts_are_opened_by_prompt_or_model_and_may_stay_open(
    template, text, thoughts, content
):
    told = tell(text, template)
    assert (told.thoughts, told.content) == (thoughts, content)


def test_a_call_that_is_only_thought_of_is_none():
    told = tell(f"{CALL}</think>\n\nno", tools=["f"])
    assert (told.thoughts, told.content, told.calls) == (CALL, "no", [])


# --------------------------------------------------------------------------- budgets


@pytest.mark.parametrize(
    ("begun", "thoughts", "content"),
    [("<think>\nSo", " it is", "yes"), ("<think>So</think>", "", " it is</think>yes")],
)
def test_thoughts_that_are_to_be_continued_go_on_as_thoughts(begun, thoughts, content):
    asked = request()
    asked.chat.messages.add(role="assistant", parts=[pb.Part(text=begun)])
    asked.chat.add_generation_prompt = False
    sequence = make_intake("{{ messages[-1].content }}{# <think> #}").make_sequence(asked)
    told = gather(list(sample(sequence, " it is</think>yes")))
    assert (told.thoughts, told.content) == (thoughts.strip(), content)


LONG = "thinking on and on</think>yes"


@pytest.mark.parametrize(
    ("server", "asked", "thoughts"),
    [
        (-1, None, "thinking on and on"),
        (5, None, "think"),
        (5, 8, "thinking"),
        (5, 0, ""),
        (5, -1, "thinking on and on"),
        (0, None, ""),
        (100, None, "thinking on and on"),
    ],
)
def test_a_requests_budget_wins_over_the_servers(server, asked, thoughts):
    told = tell(
        LONG,
        settings={"reasoning_budget": server},
        reasoning=pb.Reasoning(budget_tokens=asked),
        logprobs=pb.Logprobs(top=0),
    )
    assert told.thoughts == thoughts
    # The forced end is sampled like any other text, and each of its tokens is shown.
    assert TOKENIZER.decode(told.ids).startswith(f"{thoughts}</think>")
    assert told.infos == told.ids[:-1]
    assert told.content.endswith("yes")


def test_the_server_may_say_why_thoughts_end():
    settings = {"reasoning_budget": 5, "reasoning_budget_message": "... enough."}
    assert tell(LONG, settings=settings).thoughts == "think... enough."


def test_a_forced_end_shows_where_thoughts_are_part_of_the_answer():
    settings = {"reasoning_format": "none"}
    told = tell(LONG, settings=settings, reasoning=pb.Reasoning(budget_tokens=5))
    assert told.content.startswith("think</think>")


def test_a_model_that_does_not_think_has_no_use_for_a_budget():
    template = "{{ messages[-1].content }}"
    told = tell("yes", template, reasoning=pb.Reasoning(budget_tokens=0))
    assert (told.content, told.thoughts) == ("yes", "")


# ----------------------------------------------------------------------------- calls


def test_every_token_of_a_call_has_its_own_place():
    text = f"hm</think>Well. {CALL}\n{CALL}"
    told = tell(text, tools=["f"], logprobs=pb.Logprobs(top=0))
    assert (told.thoughts, told.content.strip()) == ("hm", "Well.")
    assert told.calls == [("f", '{"a": 1}')] * 2
    assert told.infos == told.ids[:-1] == spell(text)


@pytest.mark.parametrize(
    ("text", "warned"), [(f"</think>{CALL}", False), ("</think>Sorry.", True), ("hm", True)]
)
def test_a_forced_choice_that_ends_without_a_call_is_warned_of(text, warned, caplog):
    # A schema that can't be enforced leaves the model to its own devices.
    chosen = request(tools=["f"], mode=pb.ToolChoice.MODE_REQUIRED)
    chosen.chat.tools[0].json = json.dumps(
        {"function": {"name": "f", "parameters": {"not": {"const": "secret"}}}}
    )
    sequence = make_intake(OPENED).make_sequence(chosen)
    told = gather(list(sample(sequence, text)))
    assert bool(told.calls) is not warned
    assert any("a forced tool call did not come" in r.message for r in caplog.records) is warned
    assert all(r.levelname == "WARNING" for r in caplog.records)
    assert "secret" not in caplog.text


def test_channels_of_gpt_oss_become_thoughts_content_and_calls():
    text = (
        "<|channel|>analysis<|message|>Hm.<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>Let me look.<|end|>"
        "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
        '{"a": 1}<|call|>'
    )
    told = tell(text, HARMONY, tools=["f"], logprobs=pb.Logprobs(top=0))
    assert (told.thoughts, told.content) == ("Hm.", "Let me look.")
    assert [(name, json.loads(text)) for name, text in told.calls] == [("f", {"a": 1})]
    assert told.infos == told.ids[:-1]


def test_a_budget_of_channels_begins_the_answer():
    text = "<|channel|>analysis<|message|>thinking on and on"
    told = tell(text, HARMONY, reasoning=pb.Reasoning(budget_tokens=12))
    assert told.thoughts
    assert told.thoughts != "thinking on and on"
    shown = TOKENIZER.decode(told.ids)
    assert "<|end|><|start|>assistant<|channel|>final<|message|>" in shown


# ---------------------------------------------------------------- grammars and resuming


def test_what_follows_a_schema_is_content_even_if_it_looks_like_a_call():
    grammar = pb.Grammar(json_schema=json.dumps({"const": CALL}))
    told = tell(f"</think>{json.dumps(CALL)}", grammar=grammar, tools=["f"])
    assert (told.content, told.calls) == (json.dumps(CALL), [])


def test_a_grammar_begins_behind_the_thoughts_and_ends_the_answer():
    grammar = pb.Grammar(json_schema=json.dumps({"enum": ["yes", "no"]}))
    told = tell('hm "maybe"</think>"yes" and more', grammar=grammar)
    assert (told.thoughts, told.content) == ('hm "maybe"', '"yes"')
    assert told.finished.reason == pb.Finished.REASON_GRAMMAR


def test_an_answer_whose_grammar_is_lost_fails_even_as_it_ends():
    """The engine ends what has grown too complex for it; that is no end of the answer."""
    grammar = pb.Grammar(json_schema=json.dumps({"enum": ["yes", "no"]}))
    sequence = make_intake("{{ messages[-1].content }}").make_sequence(request(grammar=grammar))
    sequence.guide.matcher.consume_token(*to_ids(b"x"))
    sequence.take_token(EOS, None)
    assert sequence.take_frame().events[-1].WhichOneof("event") == "failed"


def test_a_token_that_reaches_beyond_the_end_of_thoughts_says_nothing_of_the_answer():
    """The vocabulary has `k>y`: the grammar could not have followed its last letter."""
    grammar = pb.Grammar(json_schema=json.dumps({"enum": ["yes"]}))
    sequence = make_intake(OPENED).make_sequence(request(grammar=grammar))
    ids = [*to_ids(b"hm</thin"), TOKENIZER.convert_tokens_to_ids("k>y"), *to_ids(b'"yes"')]
    frames = []
    for token in ids:
        sequence.take_token(token, None)
        sequence.read()
        frames.append(sequence.take_frame())
    told = gather([frame for frame in frames if frame])
    assert (told.thoughts, told.content) == ("hm", '"yes"')
    assert told.finished.reason == pb.Finished.REASON_GRAMMAR


CHANNELS = (
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Answer."
)
GRAMMAR = pb.Grammar(json_schema=json.dumps({"enum": ["yes", "no"]}))


@pytest.mark.parametrize("logprobs", [None, pb.Logprobs(top=0)])
@pytest.mark.parametrize(
    ("text", "template", "fields"),
    [
        (f"hm</think>Well.{CALL}{CALL} bye", OPENED, {"tools": ["f"]}),
        (f"hm</think>Well.{CALL}", OPENED, {"tools": ["f"], "budget": 1}),
        ('</think>"no"', OPENED, {"grammar": GRAMMAR, "budget": 0}),
        ('hm</think>"no"', OPENED, {"grammar": GRAMMAR}),
        (CHANNELS, HARMONY, {"budget": 40}),
        (f"hm</think>{CALL}", OPENED, {"tools": ["f"], "mode": pb.ToolChoice.MODE_REQUIRED}),
    ],
    ids=["calls", "budget", "closed", "grammar", "channels", "forced"],
)
def test_an_answer_cut_anywhere_goes_on_as_if_nothing_had_happened(
    text, template, fields, logprobs
):
    fields = dict(fields)
    if "budget" in fields:
        fields["reasoning"] = pb.Reasoning(budget_tokens=fields.pop("budget"))
    intake, asked = make_intake(template), request(logprobs=logprobs, **fields)
    frames = list(sample(intake.make_sequence(asked), text))
    ids = [token for frame in frames for token in frame.token_ids]
    for cut in range(1, len(ids)):
        again = pb.GenerateRequest()
        again.CopyFrom(asked)
        again.forced_ids[:] = ids[:cut]
        sequence = intake.make_sequence(again)
        assert sequence.take_frame() is None
        later = []
        for token in ids[cut:]:
            forced = sequence.guide.forced if sequence.guide else None
            assert forced in (None, token)
            info = None if logprobs is None else pb.TokenInfo(id=token, logprob=-0.5)
            sequence.take_token(token, info)
            sequence.read()
            later.append(sequence.take_frame())
        for frame in (*later, *frames):
            for event in frame.events:
                if event.HasField("finished"):
                    event.finished.ClearField("timings")
        assert later == frames[cut:]
