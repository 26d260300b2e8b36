"""Infill prompts."""

from __future__ import annotations

import pytest

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.unit.text import tiny_tokenizer
from tests.unit.text.tiny_tokenizer import to_ids
from workers.text.prompt.infill import Infill

BOS = 1
NEEDED = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
PREFIX, SUFFIX, MIDDLE, REPOSITORY, FILE = range(259, 264)
FILES = [*NEEDED, "<|repo_name|>", "<|file_sep|>"]


def encode(gap, added=FILES, *, adds_bos=False, spm=False):
    """Return the ids of a prompt, bytes for plain text and numbers for tokens."""
    tokenizer = tiny_tokenizer.byte_level(added=added, adds_bos=adds_bos)
    return Infill(tokenizer, spm=spm).encode(gap)


def spell(*parts):
    return [i for part in parts for i in (to_ids(part) if isinstance(part, bytes) else [part])]


def test_the_order_is_prefix_prompt_suffix_middle():
    gap = pb.Infill(prefix="def f", prompt="(x", suffix="return")
    assert encode(gap) == spell(PREFIX, b"def f(x", SUFFIX, b"return", MIDDLE)


def test_spm_puts_the_suffix_first():
    gap = pb.Infill(prefix="def f", prompt="(x", suffix="return")
    assert encode(gap, spm=True) == spell(SUFFIX, b"return", PREFIX, b"def f(x", MIDDLE)


def test_begin_of_sequence_is_added_once():
    gap = pb.Infill(prefix="a", suffix="b")
    assert encode(gap, adds_bos=True) == spell(BOS, PREFIX, b"a", SUFFIX, b"b", MIDDLE)


SNIPPETS = [pb.Snippet(filename="a.py", text="A"), pb.Snippet(filename="b.py", text="B")]


def test_other_files_precede_the_prefix_under_their_names():
    gap = pb.Infill(prefix="a", suffix="b", snippets=SNIPPETS)
    context = (REPOSITORY, b"repository\n", FILE, b"a.py\nA", FILE, b"b.py\nB", FILE, b"filename\n")
    assert encode(gap) == spell(*context, PREFIX, b"a", SUFFIX, b"b", MIDDLE)


def test_files_are_separated_by_a_line_for_a_model_without_file_tokens():
    gap = pb.Infill(prefix="a", suffix="b", snippets=SNIPPETS)
    mark = b"\n\n--- snippet ---\n\n"
    assert encode(gap, NEEDED) == spell(
        mark + b"A" + mark + b"B", PREFIX, b"a", SUFFIX, b"b", MIDDLE
    )


def test_a_model_without_the_tokens_refuses_infill():
    infill = Infill(tiny_tokenizer.byte_level(added=["<|fim_suffix|>"]))
    assert (infill.markers.prefix, infill.markers.suffix) == ("", "<|fim_suffix|>")
    with pytest.raises(ServiceError) as caught:
        infill.encode(pb.Infill(prefix="a"))
    assert caught.value.code == "not_supported"


@pytest.mark.parametrize(
    ("gap", "path"),
    [
        (pb.Infill(prefix="x<|fim_middle|>"), "input_prefix"),
        (pb.Infill(suffix="<|fim_suffix|>"), "input_suffix"),
        (pb.Infill(prompt="<|file_sep|>"), "prompt"),
        (pb.Infill(snippets=[pb.Snippet(filename="<|repo_name|>")]), "input_extra[0].filename"),
        (
            pb.Infill(snippets=[SNIPPETS[0], pb.Snippet(text="<|fim_prefix|>")]),
            "input_extra[1].text",
        ),
    ],
)
def test_a_text_that_contains_an_infill_token_is_refused(gap, path):
    with pytest.raises(ServiceError) as caught:
        encode(gap)
    assert (caught.value.code, caught.value.param) == ("invalid_request", path)


def test_control_tokens_in_a_text_are_plain_text():
    assert encode(pb.Infill(prefix="</s>")) == spell(PREFIX, b"</s>", SUFFIX, MIDDLE)


def test_the_tokens_of_the_next_file_end_the_answer():
    assert Infill(tiny_tokenizer.byte_level(added=FILES)).end_ids == {REPOSITORY, FILE}
