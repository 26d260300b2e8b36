"""The split of reasoning, answers and calls of a model that writes to channels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.text.answer.channel import TAGS, ChannelSplitter
from workers.text.answer.reasoning import AnswerPart, ReasoningPart

START = "<|start|>assistant"
ANALYSIS = "<|channel|>analysis<|message|>Hm, <b>.<|end|>"
PREAMBLE = f"{START}<|channel|>commentary<|message|>Let me look.<|end|>"
CALL = (
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    '{"a": "<|end|><|start|>"}<|call|>'
)
TO = " to=functions.f<|channel|>commentary<|message|>{}<|call|>"
FINAL = f"{START}<|channel|>final<|message|>Done.<|return|>"

MARKS = (
    "<|start|>",
    "assistant",
    "<|channel|>",
    "analysis",
    "final",
    " to=functions.f",
    "<|constrain|>json",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "{",
    '"',
    "<|",
    "text",
)


def split(parts):
    """Return the reasoning and the answer in a text given in parts."""
    splitter = ChannelSplitter()
    found = [part for text in parts for part in splitter.feed(text)]
    found += splitter.finish()
    kinds = (ReasoningPart, AnswerPart)
    return tuple("".join(p.text for p in found if isinstance(p, kind)) for kind in kinds)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        (ANALYSIS + FINAL, "Hm, <b>.", "Done."),
        (ANALYSIS + PREAMBLE + START + CALL, "Hm, <b>.", f"Let me look.{START}{CALL}"),
        (CALL, "", CALL),
        (TO, "", TO),
        (ANALYSIS + START + ANALYSIS + FINAL, "Hm, <b>.Hm, <b>.", "Done."),
        ("<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Done.", "Hm", "Done."),
        ("<|channel|>analysis<|message|>Hm", "Hm", ""),
        (f"{ANALYSIS}{START}<|channel|>fin", "Hm, <b>.", ""),
        ("Plain text.", "", "Plain text."),
        ("<|channel|>analysis<|end|><|start|>assistant<|channel|>final<|message|>Ok", "", "Ok"),
        ("", "", ""),
    ],
)
def test_channels_are_split_wherever_the_text_is_cut(text, reasoning, answer):
    assert split([text]) == (reasoning, answer)
    assert split(text) == (reasoning, answer)
    for offset in range(1, len(text)):
        assert split([text[:offset], text[offset:]]) == (reasoning, answer)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(MARKS), max_size=14).map("".join), st.data())
def test_any_mixture_of_markers_is_split_the_same_however_it_is_cut(text, data):
    whole = split([text])
    assert split(text) == whole
    offset = data.draw(st.integers(0, len(text)))
    assert split([text[:offset], text[offset:]]) == whole


def test_it_is_in_reasoning_until_the_answer_begins():
    splitter = ChannelSplitter()
    seen = []
    for char in ANALYSIS + FINAL:
        splitter.feed(char)
        seen.append(splitter.in_reasoning)
        assert splitter.answer_begun == (not splitter.in_reasoning)
        if char == "D":
            break
    assert seen == [True] * (len(seen) - 2) + [False] * 2


def test_the_part_of_the_closing_text_already_read_is_held():
    splitter = ChannelSplitter()
    # The prompt has ended in the beginning of a message.
    assert TAGS.closing.removeprefix(splitter.held) == "<|channel|>final<|message|>"
    splitter.feed("<|channel|>analysis<|message|>Hm.")
    assert splitter.held == ""
    splitter.feed("<|end|><|start|>ass")
    assert TAGS.closing == f"{splitter.held}istant<|channel|>final<|message|>"
    splitter.feed("istant<|channel|>final<|message|>")
    assert (splitter.in_reasoning, splitter.held) == (False, "")
