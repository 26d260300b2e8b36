"""The split of reasoning and answer at any cut, and which reasoning a template is given."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.pb import text_pb2 as pb
from workers.text.answer.reasoning import (
    AnswerPart,
    ReasoningPart,
    Tags,
    TagSplitter,
    find_tags,
    opens_reasoning,
)
from workers.text.prompt.conversation import rendered_messages, rendered_tools

TAGS = Tags("<think>", "</think>")


def split(text, cuts=(), *, in_reasoning=False):
    splitter = TagSplitter(TAGS, in_reasoning=in_reasoning)
    edges = [0, *cuts, len(text)]
    parts = [p for a, b in itertools.pairwise(edges) for p in splitter.feed(text[a:b])]
    parts += splitter.finish()
    return tuple(
        "".join(part.text for part in parts if isinstance(part, kind))
        for kind in (ReasoningPart, AnswerPart)
    )


@pytest.mark.parametrize(
    ("text", "in_reasoning", "expected"),
    [
        ("<think>\n a b \n</think>\n\n hi", False, ("a b", "hi")),
        (" a b \n</think>\n\n hi", True, ("a b", "hi")),
        ("  hi <think> x", False, ("", "  hi <think> x")),
        ("<thi", False, ("", "<thi")),
        ("<think> abc </th", False, ("abc </th", "")),
        ("<think></think>x", False, ("", "x")),
        ("\n\nabc", True, ("abc", "")),
        ("  <think>  ", False, ("", "")),
    ],
)
def test_reasoning_and_answer_are_split(text, in_reasoning, expected):
    assert split(text, in_reasoning=in_reasoning) == expected


PIECE = st.sampled_from(["<think>", "</think>", "<", "think>", "</", " ", "\n", "a", "é"])


@given(st.lists(PIECE, max_size=10).map("".join), st.booleans(), st.data())
def test_the_split_does_not_depend_on_the_cuts(text, in_reasoning, data):
    whole = split(text, in_reasoning=in_reasoning)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    assert split(text, cuts, in_reasoning=in_reasoning) == whole
    assert split(text, range(1, len(text)), in_reasoning=in_reasoning) == whole


def test_tags_come_from_the_vocabulary_or_the_template():
    assert find_tags(("<a>", "</a>"), "") == Tags("<a>", "</a>")
    assert find_tags(None, "… <think>\n …") == TAGS
    assert find_tags(None, "{{ '[THINK]' + message.reasoning }}").closing == "[/THINK]"
    assert find_tags(None, "no reasoning") is None


@pytest.mark.parametrize(
    ("prompt", "open_"),
    [
        ("assistant\n<think>\n", True),
        ("<think>", True),
        ("<think>\n\n</think>\n\n", False),
        ("x", False),
    ],
)
def test_a_prompt_may_open_the_reasoning(prompt, open_):
    assert opens_reasoning(prompt, TAGS) is open_


# ------------------------------------------------------------ what templates get to see


def say(role, text, **fields):
    return pb.Message(role=role, parts=[pb.Part(text=text)], **fields)


CHAT = pb.ChatPrompt(
    messages=[
        say("user", "one"),
        say("assistant", "<think>old</think>\n\nfirst", reasoning="older"),
        say("user", "two"),
        say("assistant", "<think>new</think>second", reasoning="newer"),
        say("tool", "result", tool_call_id="c"),
    ]
)


def test_only_reasoning_since_the_last_user_turn_is_kept():
    _, old, _, new, _ = rendered_messages(CHAT, TAGS, keeps_reasoning=False)
    assert old == {"role": "assistant", "content": "first"}
    assert new["content"] == "<think>new</think>second"
    assert new["reasoning_content"] == "newer"


def test_a_result_in_the_user_role_keeps_the_reasoning_before_it():
    turn = say("user", "<tool_response>\n5\n</tool_response>")
    messages = [say("user", "one"), say("assistant", "a", reasoning="why"), turn]
    _, step, _ = rendered_messages(pb.ChatPrompt(messages=messages), TAGS, keeps_reasoning=False)
    assert step["reasoning_content"] == "why"


def test_all_reasoning_is_kept_on_request():
    _, old, *_ = rendered_messages(CHAT, TAGS, keeps_reasoning=True)
    assert old["content"].startswith("<think>old")
    assert old["reasoning_content"] == "older"


def tools_prompt(*messages, mode, name=""):
    tools = [pb.Tool(name=n, json=f'{{"function":{{"name":"{n}"}}}}') for n in ("f", "g")]
    choice = pb.ToolChoice(mode=mode, name=name)
    return pb.ChatPrompt(messages=messages, tools=tools, tool_choice=choice)


@pytest.mark.parametrize(
    ("roles", "index"), [(("system", "user"), 0), (("user", "assistant"), 0), ((), 0)]
)
def test_a_forced_choice_is_added_to_the_first_system_or_last_user_turn(roles, index):
    chat = tools_prompt(*(say(role, "x") for role in roles), mode=pb.ToolChoice.MODE_REQUIRED)
    messages = rendered_messages(chat, None, keeps_reasoning=False)
    assert "You must call one or more of the available functions" in messages[index]["content"]
    assert sum("must call" in message["content"] for message in messages) == 1
    assert "must call" not in str(chat)


def test_a_named_choice_renders_only_its_function():
    chat = tools_prompt(say("user", "x"), mode=pb.ToolChoice.MODE_NAMED, name="g")
    assert [tool["function"]["name"] for tool in rendered_tools(chat)] == ["g"]
    content = rendered_messages(chat, None, keeps_reasoning=False)[0]["content"]
    assert content.endswith("You must call the 'g' function.")


def test_choice_none_renders_no_tools():
    chat = tools_prompt(say("user", "x"), mode=pb.ToolChoice.MODE_NONE)
    assert rendered_tools(chat) == []
