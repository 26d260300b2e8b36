"""Conversations with tools in the formats of model families: rendered, then parsed again.

The templates in tests/data/templates are written from the published formats, each with what it
refuses and drops. An earlier answer is rendered by the template and then parsed as if the model
had just written it: the same call must result.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pytest

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.checkpoint import ROOT
from tests.unit.text import tiny_tokenizer
from workers.text.answer.channel import ChannelSplitter
from workers.text.answer.reading import assemble_message
from workers.text.answer.reasoning import (
    AnswerPart,
    NoSplitter,
    ReasoningPart,
    TagSplitter,
    opens_reasoning,
)
from workers.text.prompt.prompter import Prompter
from workers.text.toolcalls.call_stream import CallStream
from workers.text.toolcalls.detection import detect

FOLDER = ROOT / "tests" / "data" / "templates"
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "exact": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "box": {"type": "object", "properties": {"north": {"type": "number"}}},
        "note": {"type": "string"},
    },
}
ARGUMENTS = {
    "city": 'Zürich, "old" town',
    "days": 2,
    "exact": True,
    "tags": ["a", "<b> & {c}"],
    "box": {"north": 47.5},
    "note": "two\nlines: 7",
}
TEXT = "Let me look that up."


@dataclass(frozen=True)
class Family:
    """How a family's conversations look.

    Attributes:
        form: of its calls.
        end: what the model ends such a turn with.
        keeps_text: whether the template shows the text beside a call as the answer it was.
        shows_reasoning: whether it shows the reasoning of the turns since the last question.
    """

    form: str
    end: str
    keeps_text: bool = True
    shows_reasoning: bool = False


FAMILIES = {
    "qwen3": Family("hermes", "<|im_end|>", shows_reasoning=True),
    "llama3": Family("llama3", "<|eot_id|>", keeps_text=False),
    "mistral_nemo": Family("mistral_nemo", "</s>", keeps_text=False),
    "mistral_small": Family("mistral", "</s>"),
    "function_gemma": Family("function_gemma", "<start_function_response>"),
    "gemma4": Family("gemma4", "<turn|>"),
    "gpt_oss": Family("harmony", "<|call|>", keeps_text=False, shows_reasoning=True),
    "glm": Family("glm47", "<|observation|>", shows_reasoning=True),
}
every_family = pytest.mark.parametrize("name", FAMILIES)


def make_prompter(name):
    template = (FOLDER / f"{name}.jinja").read_text("utf-8")
    return Prompter(tiny_tokenizer.byte_level(), template, {"enable_thinking": True})


def tool(name, **more):
    function = {"name": name, "parameters": PARAMETERS, **more}
    return pb.Tool(name=name, json=json.dumps({"type": "function", "function": function}))


def message(role, text="", **fields):
    return pb.Message(role=role, parts=[pb.Part(text=text)] if text else [], **fields)


def call(index, name="get_weather", arguments=ARGUMENTS):
    text = json.dumps(arguments, ensure_ascii=False)
    return pb.ToolCall(id=f"call_{index:024x}", name=name, arguments=text)


def result(index, text):
    return message("tool", text, tool_call_id=f"call_{index:024x}")


ASK = message("user", "How will it be?")


def render(name, *messages, tools=("get_weather", "get_time"), mode=pb.ToolChoice.MODE_AUTO):
    chat = pb.ChatPrompt(
        messages=messages,
        tools=map(tool, tools),
        tool_choice=pb.ToolChoice(mode=mode),
        add_generation_prompt=True,
    )
    return make_prompter(name).render(pb.GenerateRequest(chat=chat))


def written(name, turn, *results):
    """Return the prompt of a question, and what a template shows of the turn that answered it."""
    prompt = render(name, ASK)
    whole = render(name, ASK, turn, *results)
    assert whole.startswith(prompt)
    text, found, _ = whole[len(prompt) :].partition(FAMILIES[name].end)
    assert found
    return prompt, text


def read(name, prompt, text):
    """Return reasoning and message of an answer that arrives character by character."""
    prompter = make_prompter(name)
    form = detect(prompter.tool_template)
    assert form.name == FAMILIES[name].form
    splitter = NoSplitter()
    if form.name == "harmony":
        splitter = ChannelSplitter()
    elif prompter.tags is not None:
        in_reasoning = opens_reasoning(prompt[-64:], prompter.tags)
        splitter = TagSplitter(prompter.tags, in_reasoning=in_reasoning)
    stream = CallStream(form, {"get_weather": PARAMETERS, "get_time": PARAMETERS}, "x")
    parts = [part for letter in text for part in splitter.feed(letter)] + splitter.finish()
    events = [e for part in parts if isinstance(part, AnswerPart) for e in stream.feed(part.text)]
    reasoning = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
    return reasoning, assemble_message([*events, *stream.finish()])


def calls_of(answer):
    functions = [entry["function"] for entry in answer.get("tool_calls", [])]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


# ----------------------------------------------------------------------------- tools


@every_family
def test_tools_are_shown_to_the_model(name):
    shown = render(name, ASK)
    for word in ("get_weather", "get_time", "city", "days"):
        assert word in shown


@every_family
def test_tools_are_not_rendered_when_calls_are_forbidden(name):
    assert "get_weather" not in render(name, ASK, mode=pb.ToolChoice.MODE_NONE)
    assert "get_weather" not in render(name, ASK, tools=())


@every_family
def test_a_system_turn_and_its_tools_are_both_shown(name):
    shown = render(name, message("system", "Be terse."), ASK)
    assert "Be terse." in shown
    assert "get_weather" in shown


# ------------------------------------------------------------------- there and back


@every_family
def test_a_rendered_call_parses_as_the_same_call(name):
    prompt, text = written(name, message("assistant", tool_calls=[call(1)]), result(1, "sunny"))
    _, answer = read(name, prompt, text)
    assert calls_of(answer) == [("get_weather", ARGUMENTS)]
    assert answer["content"] is None


@every_family
def test_text_before_a_rendered_call_parses_as_content(name):
    turn = message("assistant", TEXT, tool_calls=[call(1)])
    prompt, text = written(name, turn, result(1, "sunny"))
    _, answer = read(name, prompt, text)
    if FAMILIES[name].keeps_text:
        assert calls_of(answer) == [("get_weather", ARGUMENTS)]
    # Otherwise the text is a turn of its own, or the reasoning of GPT-OSS.
    assert TEXT in text


@every_family
def test_a_rendered_call_without_arguments_parses_as_the_same_call(name):
    turn = message("assistant", tool_calls=[call(1, "get_time", {})])
    prompt, text = written(name, turn, result(1, "noon"))
    assert calls_of(read(name, prompt, text)[1]) == [("get_time", {})]


@every_family
def test_reasoning_of_a_tool_loop_is_rendered_and_parses_as_reasoning(name):
    turn = message("assistant", reasoning="It asks for weather.", tool_calls=[call(1)])
    prompt, text = written(name, turn, result(1, "sunny"))
    reasoning, answer = read(name, prompt, text)
    assert reasoning == ("It asks for weather." if FAMILIES[name].shows_reasoning else "")
    assert calls_of(answer) == [("get_weather", ARGUMENTS)]


@every_family
def test_a_turn_with_reasoning_text_and_a_call_is_accepted(name):
    turn = message("assistant", TEXT, reasoning="Hm.", tool_calls=[call(1)])
    shown = render(name, ASK, turn, result(1, "sunny"))
    assert ("Hm." in shown) is FAMILIES[name].shows_reasoning


@every_family
def test_all_calls_of_a_turn_and_their_results_are_shown(name):
    turn = message("assistant", TEXT, tool_calls=[call(1), call(2, "get_time", {"days": 3})])
    shown = render(name, ASK, turn, result(2, "noon"), result(1, "sunny"))
    offsets = [shown.rindex(word) for word in ("get_weather", "get_time", "sunny", "noon")]
    assert min(offsets) > shown.index("How will it be?")


def test_a_template_with_one_call_per_turn_gets_each_result_after_its_call():
    turn = message("assistant", tool_calls=[call(1), call(2, "get_time", {})])
    for name in ("llama3", "gpt_oss"):
        shown = render(name, ASK, turn, result(2, "noon"), result(1, "sunny"), result(9, "stray"))
        asked = shown.index("How will it be?")
        order = [shown.index(word, asked) for word in ("weather", "sunny", "get_time", "noon")]
        assert order == sorted(order)
        assert shown.index("stray") > order[-1]


@every_family
def test_a_tool_loop_of_twenty_rounds_is_rendered(name):
    turns = []
    for index in range(20):
        turns += [message("assistant", tool_calls=[call(index)]), result(index, f"day {index}.")]
    shown = render(name, ASK, *turns, message("assistant", "Fine."), ASK)
    assert all(f"day {index}." in shown for index in range(20))


@pytest.mark.parametrize("text", ["", '{"a": [1, "ü"]}', "[]", "null", 'a\nb </s> \\ "'])
@every_family
def test_results_of_any_content_are_rendered(name, text):
    shown = render(name, ASK, message("assistant", tool_calls=[call(1)]), result(1, text))
    spelled = {text, json.dumps(text, ensure_ascii=False)}
    assert any(spelling in shown for spelling in spelled)


# ----------------------------------------------------------------------------- quirks


def test_ids_are_shortened_for_a_template_that_requires_nine_characters():
    def shown_ids(name, own):
        asked = pb.ToolCall(id=own, name="get_time", arguments="{}")
        turns = [message("assistant", tool_calls=[asked]), message("tool", "1", tool_call_id=own)]
        return re.findall(r'(?:_?id": "|_ID\]|RESULTS\])(\w{9})\b', render(name, ASK, *turns))

    for name in ("mistral_nemo", "mistral_small"):
        asked, answered = shown_ids(name, "1")
        assert asked == answered
        assert shown_ids(name, "2") != [asked, asked]
        assert shown_ids(name, "a1b2c3d4e") == ["a1b2c3d4e"] * 2


def show_turns(template, *turns):
    chat = pb.ChatPrompt(messages=turns, add_generation_prompt=True)
    prompter = Prompter(tiny_tokenizer.byte_level(template=template), None, {})
    shown = json.loads(prompter.render(pb.GenerateRequest(chat=chat)))
    return [(turn["role"], turn["content"], turn.get("reasoning_content")) for turn in shown]


SHOW = "{{ messages | tojson }}"
ALTERNATING = "{# Roles must alternate. #}" + SHOW
LED = "{# System message must be at the beginning. #}" + SHOW


def test_later_system_turns_become_user_turns_where_the_system_turn_must_be_first():
    said = (("system", "s"), ("system", "t"), ("user", "a"), ("assistant", "b"), ("system", "c"))
    turns = [message(role, text) for role, text in said]
    assert show_turns(LED, *turns) == [
        ("system", "s\n\nt", None),
        ("user", "a", None),
        ("assistant", "b", None),
        ("user", "c", None),
    ]
    assert show_turns(SHOW, *turns) == [(role, text, None) for role, text in said]


def test_adjacent_turns_of_one_role_are_merged_where_roles_must_alternate():
    turns = [
        message("user", "a"),
        message("system", "b"),
        message("user", "c"),
        message("assistant", "", reasoning="hm"),
        message("assistant", "d"),
        message("user", "e"),
    ]
    assert show_turns(ALTERNATING, *turns) == [
        ("user", "a\n\nb\n\nc", None),
        ("assistant", "d", "hm"),
        ("user", "e", None),
    ]
    assert len(show_turns(SHOW, *turns)) == len(turns)


def test_a_result_gets_the_name_of_its_function_unless_it_has_one():
    turn = message("assistant", tool_calls=[call(1)])
    assert "response:get_weather{" in render("function_gemma", ASK, turn, result(1, "sunny"))
    named = message("tool", "sunny", tool_call_id=call(1).id, name="other")
    assert "response:other{" in render("function_gemma", ASK, turn, named)


def test_a_result_without_a_call_is_the_users_where_the_template_needs_its_name():
    shown = render("function_gemma", ASK, message("tool", "sunny", tool_call_id="nobody's"))
    assert "user\n<tool_response>\nsunny\n</tool_response><end_of_turn>" in shown


def test_a_refusal_by_a_template_is_reported_with_its_reason():
    with pytest.raises(ServiceError, match="never") as caught:
        show_turns("{{ raise_exception('never') }}", ASK)
    assert caught.value.code == "invalid_request"


def test_the_tool_template_is_used_when_tools_are_rendered():
    own = {"default": "plain", "tool_use": "{{ tools | length }} tools <tool_call>"}
    prompter = Prompter(tiny_tokenizer.byte_level(template=own), None, {})
    assert detect(prompter.tool_template).name == "hermes"

    def shown(**fields):
        chat = pb.ChatPrompt(messages=[ASK], add_generation_prompt=True, **fields)
        return prompter.render(pb.GenerateRequest(chat=chat))

    assert shown(tools=[tool("f")]) == "1 tools <tool_call>"
    assert shown() == "plain"
    none = pb.ToolChoice(mode=pb.ToolChoice.MODE_NONE)
    assert shown(tools=[tool("f")], tool_choice=none) == "plain"
