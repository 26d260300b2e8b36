"""Who runs next: classes, arrival, aging, slots, memory, and who must make room."""

from __future__ import annotations

import math

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.priority import AGING_S
from tests.unit.text import tiny_tokenizer
from tests.unit.text.request import BYTES_PER_TOKEN, HIGH, LOW, NORMAL, make_waiting
from workers.text.cache.footprint import GROWTH_TOKENS, Footprint
from workers.text.engine.pace import Pace
from workers.text.engine.scheduler import MIN_CHUNK_TOKENS, MemoryPlan, Scheduler
from workers.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(tiny_tokenizer.byte_level(), 259)
ROOMY = 10**9


class Clock:
    """Seconds that pass when told to."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def make_scheduler(
    clock, slots=2, *, budget_bytes=ROOMY, chunk_tokens=512, preempts=True, pads=False
):
    plan = MemoryPlan(Footprint(((BYTES_PER_TOKEN, math.inf),), 0), budget_bytes)
    return Scheduler(slots, chunk_tokens, plan, clock, preempts=preempts, pads=pads)


def enqueue(scheduler, priority=NORMAL, **values):
    """Queue a sequence that arrives now."""
    values.setdefault("queued_s", scheduler._clock())
    sequence = make_waiting(VOCABULARY, priority, **values)
    scheduler.waiting.append(sequence)
    return sequence


def feed(*sequences):
    """Say that prompts are fed: their first token is at hand."""
    for sequence in sequences:
        sequence.pending = mx.array([0])


def drain(scheduler):
    """Return all that wait in the order of their turns, one slot at a time."""
    order = []
    while scheduler.waiting:
        (sequence,) = scheduler.admit([])
        scheduler.prefilling.clear()
        order.append(sequence)
    return order


# -------------------------------------------------------------------------- slots


def test_each_gets_the_first_slot_that_nobody_holds(clock):
    scheduler = make_scheduler(clock, slots=3)
    first, second, third = [enqueue(scheduler) for _ in range(3)]
    scheduler.admit([])
    assert [first.slot, second.slot, third.slot] == [0, 1, 2]
    feed(first, second, third)
    decoding = scheduler.take_fed()
    decoding.remove(second)
    late = enqueue(scheduler)
    assert scheduler.admit(decoding) == [late]
    assert late.slot == 1


# -------------------------------------------------------------------------- order


def test_inside_a_class_the_first_to_arrive_goes_first(clock):
    scheduler = make_scheduler(clock, slots=1)
    sequences = [enqueue(scheduler) for _ in range(5)]
    scheduler.waiting.reverse()
    assert drain(scheduler) == sequences


def test_higher_classes_go_first_and_no_class_is_normal(clock):
    scheduler = make_scheduler(clock, slots=1)
    low, plain, normal, high = (enqueue(scheduler, p) for p in (LOW, 0, NORMAL, HIGH))
    assert drain(scheduler) == [high, plain, normal, low]


@pytest.mark.parametrize(
    ("waited_s", "order"),
    [
        (0.0, ["high", "normal", "low"]),
        (AGING_S * 0.99, ["high", "normal", "low"]),
        # One class up, and older than what is there.
        (AGING_S, ["high", "low", "normal"]),
        (AGING_S * 2, ["low", "high", "normal"]),
        (AGING_S * 50, ["low", "high", "normal"]),
    ],
)
def test_who_waits_long_rises_class_by_class(clock, waited_s, order):
    scheduler = make_scheduler(clock, slots=1)
    names = {id(enqueue(scheduler, LOW)): "low"}
    clock.now_s += waited_s
    names[id(enqueue(scheduler, NORMAL))] = "normal"
    names[id(enqueue(scheduler, HIGH))] = "high"
    assert [names[id(sequence)] for sequence in drain(scheduler)] == order


def test_a_low_request_gets_its_turn_in_a_flood_of_high_ones(clock):
    scheduler = make_scheduler(clock, slots=1)
    low = enqueue(scheduler, LOW)
    for _ in range(100):
        clock.now_s += 1
        enqueue(scheduler, HIGH)
        enqueue(scheduler, HIGH)
        (admitted,) = scheduler.admit([])
        scheduler.prefilling.clear()
        if admitted is low:
            break
    assert admitted is low
    assert clock.now_s <= 1000 + 2 * AGING_S


# -------------------------------------------------------------------------- slots


def test_slots_are_filled_in_order_and_no_further(clock):
    scheduler = make_scheduler(clock, slots=3)
    sequences = [enqueue(scheduler) for _ in range(5)]
    decoding = [make_waiting(VOCABULARY)]
    assert scheduler.admit(decoding) == sequences[:2]
    assert scheduler.prefilling == sequences[:2]
    assert scheduler.waiting == sequences[2:]
    assert scheduler.admit(decoding) == []
    assert scheduler.admit([]) == sequences[2:3]


def test_a_suspect_runs_alone(clock):
    scheduler = make_scheduler(clock, slots=4)
    first = enqueue(scheduler)
    suspect = enqueue(scheduler, isolate=True)
    last = enqueue(scheduler)
    assert scheduler.admit([]) == [first]
    # It holds up who comes after it, and is held up by who runs.
    assert scheduler.admit([first]) == []
    scheduler.prefilling.clear()
    assert scheduler.admit([]) == [suspect]
    assert scheduler.admit([]) == []
    scheduler.prefilling.clear()
    assert scheduler.admit([suspect]) == []
    assert scheduler.admit([]) == [last]


def test_a_suspect_that_got_a_new_token_is_none_any_more(clock):
    scheduler = make_scheduler(clock, slots=2)
    suspect = enqueue(scheduler, isolate=True)
    suspect.request.forced_ids.extend([5, 6])
    suspect.ids = [5, 6]
    scheduler.admit([])
    other = enqueue(scheduler)
    assert scheduler.admit([]) == []
    suspect.ids.append(7)
    assert scheduler.admit([]) == [other]


def test_what_has_ended_leaves_the_queues(clock):
    scheduler = make_scheduler(clock, slots=1)
    running, gone, waiting = (enqueue(scheduler) for _ in range(3))
    scheduler.admit([])
    gone.cancel()
    assert scheduler.drop_ended() == [gone]
    running.cancel()
    assert scheduler.drop_ended() == [running]
    assert (scheduler.prefilling, scheduler.waiting) == ([], [waiting])


def test_fed_prompts_leave_for_the_batch(clock):
    scheduler = make_scheduler(clock, slots=3)
    one, two, three = (enqueue(scheduler) for _ in range(3))
    scheduler.admit([])
    feed(one, three)
    assert scheduler.take_fed() == [one, three]
    assert scheduler.prefilling == [two]
    assert scheduler.take_fed() == []


# ------------------------------------------------------------------------- memory


def test_a_sequence_waits_for_memory_and_holds_up_those_behind_it(clock):
    page = GROWTH_TOKENS * BYTES_PER_TOKEN
    scheduler = make_scheduler(clock, slots=4, budget_bytes=3 * page)
    small = enqueue(scheduler)
    large = enqueue(scheduler, max_tokens=GROWTH_TOKENS * 2)
    small_again = enqueue(scheduler)
    assert scheduler.admit([]) == [small]
    scheduler.prefilling.clear()
    # Alone it fits, whatever the estimate says.
    assert scheduler.admit([]) == [large]
    assert scheduler.admit([]) == []
    scheduler.prefilling.clear()
    assert scheduler.admit([small]) == [small_again]


def test_an_answer_without_a_limit_grows_until_somebody_must_make_room(clock):
    page = GROWTH_TOKENS * BYTES_PER_TOKEN
    scheduler = make_scheduler(clock, slots=4, budget_bytes=3 * page)
    old, young_high, young_low = (
        make_waiting(VOCABULARY, priority, max_tokens=GROWTH_TOKENS - 3)
        for priority in (NORMAL, HIGH, LOW)
    )
    rows = [old, young_high, young_low]
    assert scheduler.overrun(rows) is None
    old.ids = [5] * (GROWTH_TOKENS - 3)
    assert scheduler.overrun(rows) is young_low
    assert old.reserved_tokens == 2 * GROWTH_TOKENS
    assert scheduler.overrun([old, young_high]) is None
    assert scheduler.overrun([old]) is None


# --------------------------------------------------------------------- preemption


def test_the_youngest_low_sequence_makes_room_for_a_high_one(clock):
    scheduler = make_scheduler(clock, slots=3)
    old, young = make_waiting(VOCABULARY, LOW), make_waiting(VOCABULARY, LOW)
    rows = [young, old, make_waiting(VOCABULARY, NORMAL)]
    for sequence in rows:
        sequence.queued_s = clock.now_s
    assert scheduler.victim(rows) is None
    enqueue(scheduler, NORMAL)
    assert scheduler.victim(rows) is None
    enqueue(scheduler, HIGH)
    assert scheduler.victim(rows) is young
    assert scheduler.victim(rows[1:]) is None, "a slot is free"
    assert scheduler.victim([rows[2]] * 3) is None, "nobody is low"


def test_a_low_sequence_that_still_prefills_makes_room_too(clock):
    scheduler = make_scheduler(clock, slots=1)
    low = enqueue(scheduler, LOW)
    scheduler.admit([])
    enqueue(scheduler, HIGH)
    assert scheduler.victim([]) is low


def test_a_high_sequence_short_of_memory_takes_a_low_ones(clock):
    page = GROWTH_TOKENS * BYTES_PER_TOKEN
    scheduler = make_scheduler(clock, slots=4, budget_bytes=2 * page)
    low = make_waiting(VOCABULARY, LOW, queued_s=clock.now_s)
    enqueue(scheduler, HIGH)
    assert scheduler.victim([low]) is None
    scheduler.waiting.clear()
    enqueue(scheduler, HIGH, max_tokens=GROWTH_TOKENS + 1)
    assert scheduler.victim([low]) is low


def test_nobody_is_taken_out_when_preemption_is_off(clock):
    scheduler = make_scheduler(clock, slots=1, preempts=False)
    enqueue(scheduler, HIGH)
    assert scheduler.victim([make_waiting(VOCABULARY, LOW, queued_s=clock.now_s)]) is None


def test_a_low_sequence_does_not_rise_while_it_runs(clock):
    """However long its answer has taken, it has not waited: a high one still gets its slot."""
    scheduler = make_scheduler(clock, slots=1)
    low = enqueue(scheduler, LOW)
    scheduler.admit([])
    scheduler.prefilling.clear()
    clock.now_s += AGING_S * 10
    high = enqueue(scheduler, HIGH)
    assert scheduler.victim([low]) is low
    scheduler.put_back(low)
    assert scheduler.admit([]) == [high]


def test_a_low_sequence_that_waited_its_turn_keeps_its_slot(clock):
    """Preempted again at once, it would never get on."""
    scheduler = make_scheduler(clock, slots=1)
    low = enqueue(scheduler, LOW)
    clock.now_s += AGING_S * 2
    enqueue(scheduler, HIGH)
    assert scheduler.admit([]) == [low]
    assert scheduler.victim([]) is None


def test_waiting_adds_up_over_preemptions(clock):
    scheduler = make_scheduler(clock, slots=1)
    low = enqueue(scheduler, LOW)
    for _ in range(4):
        clock.now_s += AGING_S / 2
        scheduler.admit([])
        clock.now_s += AGING_S * 7
        scheduler.put_back(low)
        assert scheduler.prefilling == []
    enqueue(scheduler, HIGH)
    assert scheduler.admit([]) == [low]


ages = st.integers(0, 100)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from([HIGH, NORMAL, LOW]), ages), max_size=5),
    st.lists(st.tuples(st.sampled_from([NORMAL, LOW]), ages, ages), min_size=2, max_size=2),
)
def test_who_made_room_is_never_let_in_before_the_one_it_made_room_for(waiting, running):
    """Else the two would trade places for ever, and neither would get a token."""
    clock = Clock()
    scheduler = make_scheduler(clock, slots=2)
    rows = []
    for priority, waited_s, ran_s in running:
        row = make_waiting(VOCABULARY, priority, queued_s=clock.now_s - waited_s - ran_s)
        row.slot_s = clock.now_s - ran_s
        rows.append(row)
    for priority, age_s in waiting:
        enqueue(scheduler, priority, queued_s=clock.now_s - age_s)
    first, victim = scheduler.next_waiting(), scheduler.victim(rows)
    if victim is not None:
        rows.remove(victim)
        scheduler.put_back(victim)
        assert scheduler.admit(rows) == [first]
        assert scheduler.victim(rows) is not first


# ------------------------------------------------------------------------- chunks


def at(tokens_per_s):
    return lambda span_s: int(span_s * tokens_per_s)


def running(clock, for_s=1.0):
    """Return a stream that had its first token so long ago."""
    sequence = make_waiting(VOCABULARY)
    sequence.first_token_s = clock.now_s - for_s
    return sequence


def test_prompts_that_came_before_any_streams_first_token_are_fed_together(clock):
    scheduler = make_scheduler(clock, slots=8)
    for size in (40, 40, 40, 5000):
        enqueue(scheduler, queued_s=clock.now_s - 2).prompt[:] = range(size)
    scheduler.admit([])
    for rows, tokens in (
        ([running(clock, 1.0)], 120),
        ([running(clock, 1.0), running(clock, 3.0)], 40),
    ):
        assert scheduler.chunk_tokens(0.1, at(200.0), rows) == tokens


def test_a_chunk_is_whole_while_nobody_decodes(clock):
    assert make_scheduler(clock).chunk_tokens(0.01, at(500.0), []) == 512


def test_a_short_prompt_is_fed_whole_where_a_long_one_gets_a_chunk(clock):
    scheduler = make_scheduler(clock)
    enqueue(scheduler).prompt[:] = range(40)
    scheduler.admit([])
    assert scheduler.chunk_tokens(0.1, at(200.0), [running(clock)]) == 40
    long = enqueue(scheduler)
    long.prompt[:] = range(400)
    scheduler.prefilling.clear()
    scheduler.admit([])
    assert scheduler.chunk_tokens(0.1, at(200.0), [running(clock)]) == 25
    # Its last piece is a chunk like the others: streams have paused for it often enough.
    long.fed_tokens = len(long.feed) - 40
    assert scheduler.chunk_tokens(0.1, at(200.0), [running(clock)]) == 25


def test_a_chunk_takes_little_more_than_a_step_while_others_decode(clock):
    scheduler = make_scheduler(clock)
    for step_s in (0.005, 0.02, 0.1):
        for tokens_per_s in (200.0, 1000.0, 5000.0):
            tokens = scheduler.chunk_tokens(step_s, at(tokens_per_s), [running(clock)])
            assert MIN_CHUNK_TOKENS <= tokens <= 512
            assert tokens <= max(MIN_CHUNK_TOKENS, 1.5 * step_s * tokens_per_s)


@settings(max_examples=60)
@given(st.floats(0, 1e4), st.floats(0, 1e9), st.integers(1, 4096))
def test_a_chunk_is_bounded_whatever_was_measured(step_s, tokens_per_s, chunk_tokens):
    clock = Clock()
    scheduler = make_scheduler(clock, chunk_tokens=chunk_tokens)
    tokens = scheduler.chunk_tokens(step_s, at(tokens_per_s), [running(clock)])
    assert 1 <= tokens <= max(MIN_CHUNK_TOKENS, chunk_tokens)


@pytest.mark.parametrize(
    ("seconds_per_token", "seconds_per_chunk"),
    [(1e-5, 0.0), (0.002, 0.01), (0.01, 0.1), (0.5, 0.5), (0.001, 3.0), (4.0, 0.0)],
)
@pytest.mark.parametrize("slowdown_tokens", [math.inf, 2000.0])
def test_no_chunk_takes_more_than_some_seconds_on_any_device(
    clock, seconds_per_token, seconds_per_chunk, slowdown_tokens
):
    """A chunk gets slower with the context before it; `-b 8192` is no reason for a long step."""
    scheduler, pace = make_scheduler(clock, chunk_tokens=8192), Pace()
    sequence = enqueue(scheduler, prompt=[1] * 20_000)
    scheduler.admit([])
    longest_s, largest = 0.0, 0
    for _ in range(60):
        tokens = scheduler.chunk_tokens(pace.step_s, pace.prefill_tokens, [])
        context = sequence.fed_tokens + tokens / 2
        took_s = seconds_per_chunk + seconds_per_token * tokens * (1 + context / slowdown_tokens)
        pace.note_prefill(tokens, took_s)
        sequence.fed_tokens += tokens
        longest_s, largest = max(longest_s, took_s), max(largest, tokens)
    # The first chunk is small, but its time is not known.
    assert longest_s <= max(16, 13 * seconds_per_token)
    assert largest >= min(300, 1.5 / seconds_per_token)


def test_a_chunk_beyond_the_default_is_no_larger_than_what_was_fed_before(clock):
    scheduler = make_scheduler(clock, chunk_tokens=8192)
    sequence = enqueue(scheduler)
    scheduler.admit([])
    for fed, cached, tokens in ((0, 0, 512), (512, 0, 512), (1500, 0, 1500), (9000, 8900, 512)):
        sequence.fed_tokens, sequence.cached_tokens = fed, cached
        assert scheduler.chunk_tokens(0.0, at(1e6), []) == tokens


def test_prompts_of_a_class_take_turns_of_bounded_length(clock):
    scheduler = make_scheduler(clock, slots=3)
    sequences = [enqueue(scheduler) for _ in range(3)]
    scheduler.admit([])
    turns = [scheduler.turns(512) for _ in range(6)]
    assert [sequence for (sequence,), _ in turns] == sequences * 2
    assert len({tokens for _, tokens in turns}) == 1
    assert turns[0][1] < 512


def test_a_higher_class_is_prefilled_first_and_a_prompt_alone_gets_the_whole_budget(clock):
    scheduler = make_scheduler(clock, slots=3)
    normal, high = enqueue(scheduler, NORMAL), enqueue(scheduler, HIGH)
    scheduler.admit([])
    assert scheduler.turns(512) == ([high], 512)
    assert scheduler.turns(512) == ([high], 512)
    feed(high)
    assert scheduler.turns(512) == ([normal], 512)
    assert scheduler.turns(0) is None
    feed(normal)
    assert scheduler.turns(512) is None


def test_a_short_prompt_is_not_held_up_by_a_long_one(clock):
    scheduler = make_scheduler(clock, slots=2)
    long, short = enqueue(scheduler), enqueue(scheduler)
    scheduler.admit([])
    left = {id(long): 5000, id(short): 40}
    for _ in range(2):
        (sequence,), tokens = scheduler.turns(512)
        left[id(sequence)] -= tokens
    assert left[id(short)] <= 0


def enqueue_all(scheduler, clock, lengths, **values):
    sequences = [
        enqueue(scheduler, prompt=[1] * length, queued_s=clock(), **values) for length in lengths
    ]
    scheduler.admit([])
    return sequences


def test_short_prompts_are_fed_side_by_side_as_far_as_the_budget_and_their_lengths_allow(clock):
    scheduler = make_scheduler(clock, slots=8, pads=True)
    *similar, long, late = enqueue_all(scheduler, clock, [30, 20, 35, 90, 40])
    assert scheduler.turns(140) == (similar, 140)
    feed(*similar)
    assert scheduler.turns(512)[0] == [long]
    assert scheduler.turns(512)[0] == [late]


def test_what_can_not_be_fed_whole_is_fed_alone(clock):
    scheduler = make_scheduler(clock, slots=8, pads=True)
    begun, stops, free, other = enqueue_all(scheduler, clock, [30, 30, 30, 30])
    begun.cache, begun.fed_tokens = [], 10
    stops.snapshots = (20,)
    assert [scheduler.turns(512)[0] for _ in range(3)] == [[begun], [stops], [free, other]]


def test_a_model_that_can_not_pad_feeds_one_prompt_at_a_time(clock):
    scheduler = make_scheduler(clock, slots=8)
    first, second = enqueue_all(scheduler, clock, [30, 30])
    assert [scheduler.turns(512)[0] for _ in range(2)] == [[first], [second]]
