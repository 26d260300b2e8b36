"""The checkpoints that other tests stand on: they load, speak, and are the same every time."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.models.cache import make_prompt_cache

from tests.checkpoint import FAMILIES, build

pytestmark = pytest.mark.slow

PROMPTS = ("Hello there, how are you?", "1 2 3 4 5 6", "안녕하세요", "def f(x): return x")
CACHES = {
    "llama": {"KVCache"},
    "bytes": {"KVCache"},
    "quantised": {"KVCache"},
    "wide": {"KVCache"},
    "sliding": {"RotatingKVCache", "KVCache"},
    "recurrent": {"ArraysCache", "KVCache"},
}


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request):
    return request.param


@pytest.fixture(scope="module")
def loaded(family):
    return mlx_lm.load(str(build(family)))


def logits_of_greedy_text(model, prompt, tokens):
    """Return (ids, smallest lead of a token over the next likeliest)."""
    cache, ids, leads = make_prompt_cache(model), list(prompt), []
    logits = model(mx.array([ids]), cache=cache)[0, -1]
    for _ in range(tokens):
        second, first = mx.sort(mx.topk(logits, 2)).tolist()
        leads.append(first - second)
        ids.append(mx.argmax(logits).item())
        logits = model(mx.array([ids[-1:]]), cache=cache)[0, -1]
    return ids[len(prompt) :], min(leads)


def test_family_has_the_caches_it_is_for(family, loaded):
    model, _ = loaded
    assert {type(part).__name__ for part in make_prompt_cache(model)} == CACHES[family]


def test_greedy_text_wanders_and_never_ends(loaded):
    model, tokenizer = loaded
    for prompt in PROMPTS:
        ids, lead = logits_of_greedy_text(model, tokenizer.encode(prompt), tokens=64)
        assert len(set(ids)) > 16
        assert not set(ids) & tokenizer.eos_token_ids
        # Rounding moves a logit by some 1e-5: none of these choices hangs on it.
        assert lead > 2e-4


def test_sampled_end_is_all_but_impossible(family, loaded):
    model, tokenizer = loaded
    logits = model(mx.array([tokenizer.encode(PROMPTS[0])]))[0, -1]
    chance = mx.softmax(logits)[tokenizer.eos_token_id].item()
    # 256 bytes leave it a larger share than 49,152 tokens do.
    assert chance < (1e-4 if family == "bytes" else 1e-7)


def test_chat_template_renders_a_turn(loaded):
    _, tokenizer = loaded
    turn = [{"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


def test_another_build_writes_the_same_bytes(family, tmp_path):
    first, second = build(family), build(family, cache=tmp_path)
    names = sorted(path.name for path in second.iterdir())
    assert names == sorted(path.name for path in first.iterdir())
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_a_build_leaves_only_the_finished_folder(tmp_path):
    folder = build("bytes", cache=tmp_path)
    assert build("bytes", cache=tmp_path) == folder
    assert list(tmp_path.iterdir()) == [folder]


def test_missing_starter_is_said_and_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="install the starter model"):
        build("llama", starter=Path("nowhere"), cache=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "4bit"])
def test_a_type_of_weights_is_that_of_the_logits(dtype):
    model, _ = mlx_lm.load(str(build("recurrent", dtype)))
    expected = mx.float16 if dtype == "4bit" else getattr(mx, dtype)
    assert model(mx.array([[1, 2, 3]])).dtype == expected
    assert hasattr(model.lm_head, "scales") == (dtype == "4bit")
