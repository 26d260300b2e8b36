"""What the engine learns of the machine's speed."""

import random

from hypothesis import given
from hypothesis import strategies as st

from workers.text.engine.pace import Pace


def taught(sizes, base_s, token_s, noise=0.0):
    pace, rng = Pace(), random.Random(1)
    for size in sizes:
        took_s = (base_s + token_s * size) * (1 + noise * rng.uniform(-1, 1))
        pace.note_prefill(size, took_s)
    return pace


def test_one_chunk_tells_a_speed():
    assert taught([50], 0.0, 0.01).prefill_tokens(0.2) == 20


def test_what_a_chunk_costs_whatever_its_size_is_told_from_what_its_tokens_cost():
    pace = taught([60, 20, 45, 30, 8, 25, 60, 30], base_s=0.1, token_s=0.008)
    for span_s in (0.26, 0.34, 0.5):
        wanted = (span_s - 0.1) / 0.008
        assert abs(pace.prefill_tokens(span_s) - wanted) <= 0.1 * wanted


def test_a_tiny_last_piece_does_not_shrink_the_next_chunks():
    pace = taught([60, 30, 30, 30, 3], base_s=0.1, token_s=0.008)
    assert 25 <= pace.prefill_tokens(0.34) <= 35


def test_chunks_settle_at_the_span_they_may_take():
    pace, took_s = Pace(), 0.0
    pace.note_prefill(500, 1.0)
    for _ in range(20):
        tokens = max(8, pace.prefill_tokens(0.25))
        took_s = 0.09 + 0.007 * tokens
        pace.note_prefill(tokens, took_s)
    assert 0.2 <= took_s <= 0.3


def test_a_step_is_measured_without_the_prefill_in_it():
    now_s = [5.0]
    pace = Pace(lambda: now_s[0])
    for _ in range(3):
        pace.note_step()
        pace.note_prefill(40, 0.3)
        now_s[0] += 0.3 + 0.1
    assert abs(pace.step_s - 0.1) < 1e-9


def test_an_idle_time_is_no_step():
    now_s = [5.0]
    pace = Pace(lambda: now_s[0])
    for pause_s in (0.1, 0.1, 60.0):
        pace.note_step()
        now_s[0] += pause_s
    pace.pause()
    pace.note_step()
    assert abs(pace.step_s - 0.1) < 1e-9


@given(
    st.lists(st.tuples(st.integers(1, 100_000), st.floats(0, 1e4)), max_size=20),
    st.floats(0, 1e4),
)
def test_the_answer_is_a_number_of_tokens_whatever_was_measured(chunks, span_s):
    pace = Pace()
    for tokens, took_s in chunks:
        pace.note_prefill(tokens, took_s)
    assert pace.prefill_tokens(span_s) >= 0


def test_the_first_chunk_is_small():
    assert Pace().prefill_tokens(4.0) == 4
