"""A real tokenizer and the compiler of its grammars."""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer

from tests.checkpoint import starter_folder
from workers.text.answer.grammar import GrammarCompiler

VOCAB, EOS = 49152, 2


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(starter_folder())


@pytest.fixture(scope="module")
def compiler(tokenizer):
    return GrammarCompiler(tokenizer, VOCAB, [EOS])
