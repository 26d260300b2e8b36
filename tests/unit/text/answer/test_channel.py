"""Thoughts, answers and calls of a model that writes to channels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.text.answer.channel import TAGS, ChannelSplitter
from workers.text.answer.reasoning import AnswerPart, ReasoningPart

START = "<|start|>assistant"
THOUGHT = "<|channel|>analysis<|message|>Hm, <b>.<|end|>"
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
    """Return the thoughts and the answer in a text given in parts."""
    splitter = ChannelSplitter()
    found = [part for text in parts for part in splitter.feed(text)]
    found += splitter.finish()
    kinds = (ReasoningPart, AnswerPart)
    return tuple("".join(p.text for p in found if isinstance(p, kind)) for kind in kinds)


@pytest.mark.parametrize(
    ("text", "thoughts", "answer"),
    [
        (THOUGHT + FINAL, "Hm, <b>.", "Done."),
        (THOUGHT + PREAMBLE + START + CALL, "Hm, <b>.", f"Let me look.{START}{CALL}"),
        (CALL, "", CALL),
        (TO, "", TO),
        (THOUGHT + START + THOUGHT + FINAL, "Hm, <b>.Hm, <b>.", "Done."),
        ("<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Done.", "Hm", "Done."),
        ("<|channel|>analysis<|message|>Hm", "Hm", ""),
        (f"{THOUGHT}{START}<|channel|>fin", "Hm, <b>.", ""),
        ("Plain text.", "", "Plain text."),
        ("<|channel|>analysis<|end|><|start|>assistant<|channel|>final<|message|>Ok", "", "Ok"),
        ("", "", ""),
    ],
)
def test_channels_are_told_apart_wherever_the_text_is_cut(text, thoughts, answer):
    assert split([text]) == (thoughts, answer)
    assert split(text) == (thoughts, answer)
    for place in range(1, len(text)):
        assert split([text[:place], text[place:]]) == (thoughts, answer)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(MARKS), max_size=14).map("".join), st.data())
def test_any_mixture_of_marks_is_split_the_same_however_it_is_cut(text, data):
    whole = split([text])
    assert split(text) == whole
    place = data.draw(st.integers(0, len(text)))
    assert split([text[:place], text[place:]]) == whole


def test_it_thinks_until_the_answer_begins():
    splitter = ChannelSplitter()
    seen = []
    for char in THOUGHT + FINAL:
        splitter.feed(char)
        seen.append(splitter.in_reasoning)
        assert splitter.answer_begun == (not splitter.in_reasoning)
        if char == "D":
            break
    assert seen == [True] * (len(seen) - 2) + [False] * 2


def test_the_beginning_of_the_end_of_thoughts_is_known():
    splitter = ChannelSplitter()
    # The prompt has ended in the beginning of a message.
    assert TAGS.closing.removeprefix(splitter.held) == "<|channel|>final<|message|>"
    splitter.feed("<|channel|>analysis<|message|>Hm.")
    assert splitter.held == ""
    splitter.feed("<|end|><|start|>ass")
    assert TAGS.closing == f"{splitter.held}istant<|channel|>final<|message|>"
    splitter.feed("istant<|channel|>final<|message|>")
    assert (splitter.in_reasoning, splitter.held) == (False, "")
