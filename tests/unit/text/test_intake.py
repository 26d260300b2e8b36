"""What a request may ask for, the defaults it gets, and how it is told what it may not."""

from __future__ import annotations

import dataclasses
import math

import pytest

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.settings import TextSettings
from tests.unit.text import tiny_tokenizer
from tests.unit.text.request import BYTES_PER_TOKEN, make_model
from tests.unit.text.tiny_tokenizer import to_ids
from workers.text.cache.footprint import GROWTH_TOKENS
from workers.text.intake import Intake
from workers.text.prompt.prompter import Prompter
from workers.text.sampling.defaults import describe_defaults
from workers.text.sampling.filter import SamplingRule
from workers.text.sampling.penalty import PenaltyRule
from workers.text.sampling.repetition import LoopRule

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
PIECES = [b"a\nb", b": ", b'."', b"**", b"word"]
TOKENIZER = tiny_tokenizer.byte_level(PIECES, template=TEMPLATE)
MODEL = make_model(TOKENIZER)
EOS = 2
CONTEXT_TOKENS = 100


def make_intake(model=MODEL, budget_bytes=10**9, **settings):
    settings = dataclasses.replace(TextSettings(), **settings)
    return Intake(
        model, Prompter(model.tokenizer, None, {}), settings, CONTEXT_TOKENS, budget_bytes
    )


def ask(text="hi", **fields):
    return pb.GenerateRequest(text=text, **fields)


def refusal(request, **values):
    with pytest.raises(ServiceError) as caught:
        make_intake(**values).make_sequence(request)
    return caught.value


# -------------------------------------------------------------------------- defaults

CHANGED = {
    "temperature": 0.5,
    "top_k": 11,
    "top_p": 0.75,
    "min_p": 0.125,
    "typical_p": 0.25,
    "top_n_sigma": 1.5,
    "xtc_probability": 0.625,
    "xtc_threshold": 0.375,
}


def test_a_silent_request_gets_the_servers_sampling():
    assert make_intake(**CHANGED).make_sequence(ask()).sampling == SamplingRule(**CHANGED)
    rule = make_intake().make_sequence(ask()).sampling
    # Settings travel in single precision, whoever made them.
    assert dataclasses.asdict(rule) == pytest.approx(dataclasses.asdict(SamplingRule()))


def test_a_request_is_told_every_setting_in_force():
    request = ask(sampling=pb.Sampling(top_k=3, dry_breaker_ids=[4]))
    make_intake(**CHANGED).make_sequence(request)
    settled = request.sampling
    assert (settled.top_k, settled.min_p, settled.repetition_penalty) == (3, 0.125, 1.0)
    assert (list(settled.dry_breaker_ids), list(settled.dry_breakers)) == ([4], [])
    make_intake().make_sequence(silent := ask())
    assert list(silent.sampling.dry_breakers) == ["\n", ":", '"', "*"]


def test_the_card_tells_the_defaults_as_they_are_written():
    told = describe_defaults(dataclasses.replace(TextSettings(), top_p=0.95, predict=-1))
    assert (told["top_p"], told["temperature"], told["max_tokens"]) == (0.95, 0.8, -1)
    assert {field.name for field in pb.Sampling.DESCRIPTOR.fields} >= told.keys() - {"max_tokens"}


def test_a_request_overrides_each_default_also_with_zero():
    zeros = dict.fromkeys(CHANGED, 0)
    for asked in (pb.Sampling(**CHANGED, p_less=True), pb.Sampling(**zeros)):
        rule = make_intake(temperature=1.25, top_k=3).make_sequence(ask(sampling=asked)).sampling
        for name in (*CHANGED, "p_less"):
            assert getattr(rule, name) == getattr(asked, name), name


def test_a_negative_top_k_is_off():
    assert make_intake().make_sequence(ask(sampling=pb.Sampling(top_k=-1))).sampling.top_k == 0


def test_a_silent_request_gets_the_servers_penalties():
    assert make_intake().make_sequence(ask()).penalty == PenaltyRule(dry_window_tokens=64)
    rule = (
        make_intake(
            repeat_penalty=1.5, frequency_penalty=0.5, presence_penalty=0.25, repeat_last_n=9
        )
        .make_sequence(ask())
        .penalty
    )
    assert (rule.repetition, rule.frequency, rule.presence) == (1.5, 0.5, 0.25)
    assert rule.window_tokens == 9


def test_a_request_overrides_the_servers_penalties():
    asked = pb.Sampling(
        repetition_penalty=1.0,
        repetition_context_tokens=0,
        frequency_penalty=-0.5,
        presence_penalty=0.0,
        dry_multiplier=2.0,
        dry_base=3.0,
        dry_allowed_length=5,
        dry_penalty_last_n=7,
        logit_bias={7: 1.5, 8: -math.inf},
    )
    rule = make_intake(repeat_penalty=1.5, presence_penalty=0.25).make_sequence(ask(sampling=asked))
    penalty = dataclasses.replace(rule.penalty, dry_breaker_ids=frozenset())
    assert penalty == PenaltyRule(
        bias={7: 1.5, 8: -math.inf},
        repetition=1.0,
        frequency=-0.5,
        presence=0.0,
        window_tokens=0,
        dry_multiplier=2.0,
        dry_base=3.0,
        dry_allowed_length=5,
        dry_window_tokens=7,
    )


@pytest.mark.parametrize(
    ("server_window", "asked_window", "window", "on"),
    [
        (64, None, 64, True),
        # As a server default 0 turns DRY off; a request's 0 is the whole context, and so is -1.
        (0, None, 0, False),
        (0, 0, 0, True),
        (64, 0, 0, True),
        (64, -1, 0, True),
        (-1, None, 0, True),
        (0, 5, 5, True),
    ],
)
def test_the_window_of_dry(server_window, asked_window, window, on):
    asked = pb.Sampling(dry_multiplier=1.0, dry_penalty_last_n=asked_window)
    rule = make_intake(dry_penalty_last_n=server_window).make_sequence(ask(sampling=asked)).penalty
    assert (rule.dry_window_tokens, rule.repeats) == (window, on)


def breakers(**asked):
    sampling = pb.Sampling(dry_multiplier=1.0, **asked)
    return make_intake().make_sequence(ask(sampling=sampling)).penalty.dry_breaker_ids


def test_dry_breaks_at_every_token_that_holds_a_breaker():
    first = 3 + 256
    standard = {*to_ids(b'\n:"*'), first, first + 1, first + 2, first + 3}
    assert breakers() == standard
    assert breakers(dry_breakers=["wor"]) == {first + 4}
    assert breakers(dry_breaker_ids=[40, 41]) == {40, 41}
    assert breakers(dry_breakers=["wor", ""], dry_breaker_ids=[40]) == {40, first + 4}


@pytest.mark.parametrize(
    ("server", "asked", "found"),
    [((), {}, set()), (("wor",), {}, {3 + 256 + 4}), (("wor",), {"dry_breaker_ids": [40]}, {40})],
)
def test_a_server_may_have_breakers_of_its_own(server, asked, found):
    sampling = pb.Sampling(dry_multiplier=1.0, **asked)
    intake = make_intake(dry_sequence_breakers=server)
    assert intake.make_sequence(ask(sampling=sampling)).penalty.dry_breaker_ids == found


def test_a_server_may_have_stops_for_requests_that_name_none():
    intake = make_intake(reverse_prompt=("User:", "\n\n"))
    intake.make_sequence(silent := ask())
    intake.make_sequence(asked := ask(stop=pb.Stop(strings=["."])))
    assert list(silent.stop.strings) == ["User:", "\n\n"]
    assert list(asked.stop.strings) == ["."]


def test_a_server_may_ignore_the_models_end():
    sequence = make_intake(ignore_eos=True).make_sequence(ask())
    assert sequence.end_ids == frozenset()
    assert sequence.penalty.bias[EOS] == -math.inf


def test_without_dry_no_breakers_are_looked_up():
    assert make_intake().make_sequence(ask()).penalty.dry_breaker_ids == frozenset()


@pytest.mark.parametrize(
    ("setting", "model_type", "asked", "rule"),
    [
        ("", "llama", None, LoopRule()),
        ("", "gemma4_text", None, LoopRule(20, 1, 4)),
        ("off", "gemma4_text", None, LoopRule()),
        ("2,9,5", "llama", None, LoopRule(9, 2, 5)),
        # A request that says anything says everything.
        ("on", "gemma4", {"max_pattern_size": 3}, LoopRule(3, 0, 0)),
        ("on", "gemma4", {"min_count": 3}, LoopRule(0, 0, 3)),
        ("", "llama", {"max_pattern_size": 8, "min_count": 2}, LoopRule(8, 0, 2)),
    ],
)
def test_loop_detection_of_request_then_setting_then_family(setting, model_type, asked, rule):
    intake = make_intake(make_model(TOKENIZER, model_type=model_type), loop_detection=setting)
    sampling = pb.Sampling(loop_detection=pb.LoopDetection(**asked) if asked else None)
    assert intake.make_sequence(ask(sampling=sampling)).loop == rule


def test_log_probabilities_are_counted_only_where_asked_for():
    make = make_intake().make_sequence
    assert make(ask()).logprobs is None
    assert make(ask(logprobs=pb.Logprobs())).logprobs == 0
    assert make(ask(logprobs=pb.Logprobs(top=5))).logprobs == 5


# ------------------------------------------------------------------------------ ends


def test_the_models_end_tokens_and_the_requests_own_end_a_sequence():
    sequence = make_intake().make_sequence(ask(stop=pb.Stop(token_ids=[50])))
    assert sequence.end_ids == {EOS, 50}


def test_ignoring_the_end_makes_it_impossible_to_sample():
    stop = pb.Stop(token_ids=[50], ignore_eos=True)
    sequence = make_intake().make_sequence(ask(stop=stop))
    assert sequence.end_ids == {50}
    assert sequence.penalty.bias == {EOS: -math.inf}


@pytest.mark.parametrize(
    ("asked", "predict", "max_tokens"),
    [
        (None, -1, CONTEXT_TOKENS - 10),
        (None, 20, 20),
        (None, 5000, CONTEXT_TOKENS - 10),
        (7, -1, 7),
        (7, 3, 7),
        (CONTEXT_TOKENS - 10, -1, CONTEXT_TOKENS - 10),
        (CONTEXT_TOKENS, -1, CONTEXT_TOKENS - 10),
        (2**31, -1, CONTEXT_TOKENS - 10),
        # The gateway's word for "no limit", which the server's default does not lower.
        (2**32 - 1, 20, CONTEXT_TOKENS - 10),
    ],
)
def test_max_tokens_is_clamped_to_what_the_context_leaves(asked, predict, max_tokens):
    sequence = make_intake(predict=predict).make_sequence(ask("x" * 10, max_tokens=asked))
    assert sequence.max_tokens == max_tokens
    assert sequence.context_tokens == CONTEXT_TOKENS
    # The memory of all of it is kept, an open end being at most as long as the context here.
    assert sequence.reserved_tokens == 10 + max_tokens


def test_an_open_end_reserves_a_page_and_a_known_one_all_of_it():
    context_tokens = 5000
    settings = TextSettings()
    prompter = Prompter(TOKENIZER, None, {})
    intake = Intake(MODEL, prompter, settings, context_tokens, 10**9)
    assert intake.make_sequence(ask("xx")).reserved_tokens == 2 + 1024
    assert intake.make_sequence(ask("xx", max_tokens=2**32 - 1)).reserved_tokens == 2 + 1024
    assert intake.make_sequence(ask("xx", max_tokens=3000)).reserved_tokens == 2 + 3000


def test_a_resumed_request_continues_its_ids():
    ids = to_ids(b"wel")
    sequence = make_intake().make_sequence(ask(forced_ids=ids, max_tokens=5))
    assert sequence.ids == ids
    assert not sequence.ended
    done = make_intake().make_sequence(ask(forced_ids=[*ids, EOS], max_tokens=5))
    assert done.completed


@pytest.mark.parametrize("kind", ["chat", "text"])
def test_the_first_space_is_dropped_in_a_chat_alone(kind):
    names = ["▁Hi", "h", "i"]
    tokenizer = tiny_tokenizer.sentence_piece(names, strips=True)
    tokenizer.chat_template = TEMPLATE
    intake = make_intake(make_model(tokenizer))
    message = pb.Message(role="user", parts=[pb.Part(text="hi")])
    chat = pb.ChatPrompt(messages=[message], add_generation_prompt=True)
    request = pb.GenerateRequest(chat=chat) if kind == "chat" else ask("hi")
    events = intake.make_sequence(request).output.feed(3 + 256)
    assert events[-1].delta.text == ("Hi" if kind == "chat" else " Hi")


# -------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("length", [CONTEXT_TOKENS, CONTEXT_TOKENS + 50])
def test_a_prompt_that_leaves_no_room_is_refused_with_both_numbers(length):
    error = refusal(ask("x" * length))
    assert error.code == "context_length_exceeded"
    assert error.details == {"n_prompt_tokens": length, "n_ctx": CONTEXT_TOKENS}
    assert str(length) in error.message
    assert str(CONTEXT_TOKENS) in error.message


@pytest.mark.parametrize(
    "request_",
    [
        ask("x" * 100_000),
        pb.GenerateRequest(pieces=pb.Pieces(pieces=[pb.TokenizePiece(text="x" * 100_000)])),
        pb.GenerateRequest(infill=pb.Infill(suffix="x" * 100_000)),
    ],
)
def test_a_text_that_is_far_too_long_is_refused_by_its_beginning(request_):
    error = refusal(request_)
    assert (error.code, error.details["n_ctx"]) == ("context_length_exceeded", CONTEXT_TOKENS)
    assert "maximum context length is 100 tokens. The prompt has more than 1600" in error.message


def test_a_prompt_with_room_for_one_token_is_taken():
    assert make_intake().make_sequence(ask("x" * (CONTEXT_TOKENS - 1))).max_tokens == 1


@pytest.mark.parametrize(
    "request_", [pb.GenerateRequest(tokens=pb.TokenIds()), pb.GenerateRequest()]
)
def test_an_empty_prompt_is_refused(request_):
    assert refusal(request_).code == "invalid_request"


def test_token_ids_outside_of_the_vocabulary_are_refused():
    size = len(TOKENIZER)
    inside = pb.GenerateRequest(tokens=pb.TokenIds(ids=[size - 1]))
    assert make_intake().make_sequence(inside).prompt == [size - 1]
    error = refusal(pb.GenerateRequest(tokens=pb.TokenIds(ids=[4, size])))
    assert (error.code, error.param) == ("invalid_request", "prompt")
    assert error.message == f"token id {size} is out of vocabulary range (vocab_size {size})"


def test_a_bias_outside_of_the_vocabulary_is_refused():
    error = refusal(ask(sampling=pb.Sampling(logit_bias={len(TOKENIZER): 1.0})))
    assert (error.code, error.param) == ("invalid_request", "logit_bias")


@pytest.mark.parametrize(
    ("strings", "taken"),
    [
        (["x"] * 256, True),
        (["x"] * 257, False),
        (["x" * 4096], True),
        (["x" * 2048, "y" * 2049], False),
    ],
)
def test_stop_strings_are_limited_in_number_and_length(strings, taken):
    request = ask(stop=pb.Stop(strings=strings))
    if taken:
        assert not make_intake().make_sequence(request).ended
    else:
        error = refusal(request)
        assert (error.code, error.param) == ("invalid_request", "stop")


@pytest.mark.parametrize(("max_tokens", "taken"), [(1000, True), (None, False), (899, False)])
def test_thoughts_may_take_what_the_client_allows_though_the_context_is_smaller(max_tokens, taken):
    prompter = Prompter(TOKENIZER, f"{TEMPLATE}<think>", {})
    intake = Intake(MODEL, prompter, TextSettings(), CONTEXT_TOKENS, 10**9)
    message = pb.Message(role="user", parts=[pb.Part(text="hi")])
    request = pb.GenerateRequest(
        chat=pb.ChatPrompt(messages=[message], add_generation_prompt=True),
        reasoning=pb.Reasoning(budget_tokens=900),
        max_tokens=max_tokens,
    )
    if taken:
        assert intake.make_sequence(request).max_tokens < CONTEXT_TOKENS
    else:
        with pytest.raises(ServiceError, match=r"thinking_budget_tokens \(900\) must be <="):
            intake.make_sequence(request)


MEDIA = pb.Part(media={"data": b"\x89PNG"})


def test_media_is_refused():
    message = pb.Message(role="user", parts=[MEDIA])
    request = pb.GenerateRequest(chat=pb.ChatPrompt(messages=[message]))
    assert refusal(request).code == "not_supported"


def test_a_request_that_never_fits_the_memory_is_refused_with_both_numbers():
    budget = 2 * GROWTH_TOKENS * BYTES_PER_TOKEN
    model = dataclasses.replace(MODEL, context_tokens=10_000)
    settings, prompter = TextSettings(), Prompter(TOKENIZER, None, {})
    intake = Intake(model, prompter, settings, 10_000, budget)
    assert intake.make_sequence(ask(max_tokens=2 * GROWTH_TOKENS - 2)).reserved_tokens == 512
    with pytest.raises(ServiceError) as caught:
        intake.make_sequence(ask(max_tokens=2 * GROWTH_TOKENS - 1))
    assert caught.value.code == "request_memory_budget_exceeded"
    assert caught.value.details == {
        "estimated_bytes": 3 * GROWTH_TOKENS * BYTES_PER_TOKEN,
        "budget_bytes": budget,
    }


# ---------------------------------------------------------------------- prompt cache


@pytest.mark.parametrize(
    ("server", "asked", "used"),
    [(True, None, True), (True, True, True), (True, False, False), (False, True, False)],
)
def test_a_request_may_keep_away_from_the_prompt_cache_but_not_switch_it_on(server, asked, used):
    policy = None if asked is None else pb.CachePolicy(enabled=asked)
    sequence = make_intake(cache_prompt=server).make_sequence(ask(cache=policy))
    assert (sequence.namespace is not None) == used
