"""A sequence's events, and that an attempt which begins in the middle gives exactly the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from tests.unit.text import tiny_tokenizer
from tests.unit.text.reading import cut_at_stop
from tests.unit.text.request import make_sequence
from tests.unit.text.tiny_tokenizer import to_ids
from workers.text.sampling.repetition import LoopRule
from workers.text.vocabulary import Vocabulary

PIECES = [b"a\xed", b"\x95\x9c", "국어".encode(), b"ST", b"OP", b"\n\n", b"\xf0\x9f\x98"]
TOKENIZER = tiny_tokenizer.byte_level(PIECES)
VOCABULARY = Vocabulary(TOKENIZER, len(TOKENIZER))
BOS, EOS, OTHER_END = 1, 2, to_ids(b"#")[0]
Reason = pb.Finished


def step(sequence, token):
    """Give a sequence a token as the engine does, and return the frame it makes of it."""
    info = None
    if sequence.logprobs is not None:
        info = pb.TokenInfo(id=token, logprob=-0.25, top=[pb.TokenInfo(id=EOS, logprob=-3)])
    sequence.take_token(token, info)
    sequence.read()
    return take_frame(sequence)


def take_frame(sequence):
    """Return the next frame without what differs between attempts."""
    frame = sequence.take_frame()
    if frame is not None:
        frame.attempt = 0
        for event in frame.events:
            if event.HasField("finished"):
                event.finished.ClearField("timings")
    return frame


def run(sequence, ids):
    """Return the frame of each id up to the end of the sequence."""
    frames = []
    for token in ids:
        if sequence.ended:
            break
        frames.append(step(sequence, token))
    return frames


def events_of(frames):
    return [event for frame in frames if frame for event in frame.events]


def text_of(frames):
    return "".join(event.delta.text for event in events_of(frames))


def finished(frames):
    """Return the one final event; it must be the last."""
    found = [event for event in events_of(frames) if event.HasField("finished")]
    assert len(found) <= 1
    if found:
        assert events_of(frames)[-1] is found[0]
    return found[0].finished if found else None


token_ids = st.one_of(
    st.sampled_from(to_ids("한국어👍STOP\n".encode())),
    st.integers(3 + 256, len(TOKENIZER) - 1),
    st.sampled_from([BOS, EOS, OTHER_END]),
)
shapes = st.fixed_dictionaries(
    {
        "stop": st.lists(st.sampled_from(["STOP", "한국", "OP\n", "어", "\n\n", "#"]), max_size=2),
        "end_ids": st.sampled_from([(EOS,), (EOS, OTHER_END), ()]),
        "max_tokens": st.sampled_from([1, 5, 12, 1000]),
        "context_tokens": st.sampled_from([8, 4096]),
        "loop": st.sampled_from([LoopRule(), LoopRule(max_size=4, min_size=1, count=3)]),
        "logprobs": st.sampled_from([None, None, 1]),
    }
)


@settings(max_examples=150)
@given(st.lists(token_ids, min_size=1, max_size=25), shapes)
def test_an_attempt_cut_anywhere_goes_on_with_exactly_the_remaining_events(ids, shape):
    """Resuming rests on this: the ids of the first frames, replayed, leave the other frames."""
    shape["max_tokens"] = min(shape["max_tokens"], shape["context_tokens"] - 3)
    whole = make_sequence(VOCABULARY, **shape)
    frames = run(whole, ids)
    ids = ids[: len(frames)]
    assert [list(frame.token_ids) for frame in frames] == [[token] for token in ids]
    for cut in range(1, len(ids) + 1):
        later = make_sequence(VOCABULARY, forced_ids=ids[:cut], **shape)
        later.replay()
        if cut < len(ids):
            assert not later.ended
            assert later.take_frame() is None, "a replay emits nothing"
            assert run(later, ids[cut:]) == frames[cut:]
        elif whole.ended:
            # The worker died between the last token and its final event.
            assert later.completed
            assert finished([take_frame(later)]) == finished(frames)
        assert later.ids == whole.ids
        assert later.ended == whole.ended


@settings(max_examples=150)
@given(st.lists(token_ids, max_size=25), shapes)
def test_text_and_reason_are_those_of_the_whole(ids, shape):
    shape["max_tokens"] = min(shape["max_tokens"], shape["context_tokens"] - 3)
    sequence = make_sequence(VOCABULARY, **shape)
    frames = run(sequence, ids)
    ids = ids[: len(frames)]
    ends = bool(ids) and ids[-1] in shape["end_ids"]
    shown = [token for token in ids if token not in (BOS, EOS)]
    if ends and shown and shown[-1] == ids[-1]:
        shown = shown[:-1]
    data = b"".join(VOCABULARY.pieces[token] for token in shown)
    text, stop = cut_at_stop(data.decode("utf-8", "replace"), shape["stop"])
    last = finished(frames)
    if last is None:
        assert not sequence.ended
        return
    assert text_of(frames) == text
    assert last.stop_string == (stop or "")
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (3, len(ids))
    full = len(ids) + 3 == shape["context_tokens"]
    looped = shape["loop"].matches(ids)
    expected = (
        Reason.REASON_STOP
        if stop
        else Reason.REASON_EOS
        if ends
        else Reason.REASON_CONTEXT
        if len(ids) == shape["max_tokens"] and full
        else Reason.REASON_MAX_TOKENS
        if len(ids) == shape["max_tokens"]
        else Reason.REASON_LOOP
    )
    assert last.reason == expected
    assert looped or expected != Reason.REASON_LOOP


@pytest.mark.parametrize(
    ("shape", "ids", "text", "reason"),
    [
        ({"end_ids": [EOS]}, [*to_ids(b"ok"), EOS], "ok", Reason.REASON_EOS),
        ({"end_ids": [OTHER_END]}, [*to_ids(b"ok"), OTHER_END], "ok", Reason.REASON_EOS),
        ({"max_tokens": 2}, to_ids(b"okay"), "ok", Reason.REASON_MAX_TOKENS),
        ({"max_tokens": 2, "context_tokens": 5}, to_ids(b"okay"), "ok", Reason.REASON_CONTEXT),
        ({"stop": ["y"]}, to_ids(b"okay"), "oka", Reason.REASON_STOP),
        # Both at the same token: the string says more.
        ({"stop": ["y"], "max_tokens": 4}, to_ids(b"okay"), "oka", Reason.REASON_STOP),
        ({"loop": LoopRule(1, 1, 3)}, to_ids(b"abbb"), "abbb", Reason.REASON_LOOP),
        # What was held back is shown when the end comes first.
        ({"stop": ["STOP"], "max_tokens": 3}, to_ids(b"aST"), "aST", Reason.REASON_MAX_TOKENS),
        ({"stop": ["STOP"], "end_ids": [EOS]}, [*to_ids(b"ST"), EOS], "ST", Reason.REASON_EOS),
        ({"max_tokens": 2}, to_ids("한".encode()), "\ufffd", Reason.REASON_MAX_TOKENS),
    ],
)
def test_a_sequence_ends_for_its_reason_with_all_of_its_text(shape, ids, text, reason):
    sequence = make_sequence(VOCABULARY, **shape)
    frames = run(sequence, ids)
    assert text_of(frames) == text
    assert finished(frames).reason == reason
    assert sequence.ended
    assert sequence.completed


def test_a_stop_string_and_a_character_cut_by_a_resume_are_whole_afterwards():
    ids = to_ids("x한STOP".encode())
    for cut in range(1, len(ids)):
        sequence = make_sequence(VOCABULARY, forced_ids=ids[:cut], stop=["STOP"])
        sequence.replay()
        whole = make_sequence(VOCABULARY, stop=["STOP"])
        shown = text_of(run(whole, ids[:cut]))
        assert shown + text_of(run(sequence, ids[cut:])) == "x한"


def test_a_resumed_sequence_feeds_prompt_and_ids_and_asks_for_the_next_position():
    sequence = make_sequence(VOCABULARY, forced_ids=[30, 31])
    sequence.replay()
    assert sequence.feed == [1, 2, 3, 30, 31]
    assert sequence.ids == [30, 31]


def test_a_token_is_counted_before_its_text_is_worked_out():
    """The engine learns of a certain end at once; text waits until the next step is launched."""
    sequence = make_sequence(VOCABULARY, end_ids=[EOS])
    sequence.take_token(to_ids(b"a")[0], None)
    assert not sequence.ended
    assert sequence.take_frame() is None
    sequence.take_token(EOS, None)
    assert sequence.ended
    assert not sequence.completed
    sequence.read()
    assert sequence.completed
    frame = take_frame(sequence)
    assert list(frame.token_ids) == [to_ids(b"a")[0], EOS]
    assert text_of([frame]) == "a"


def test_started_is_said_once_and_progress_counts_prompt_tokens():
    sequence = make_sequence(VOCABULARY, forced_ids=[30])
    sequence.replay()
    sequence.start(5)
    sequence.start(9)
    sequence.fed_tokens = 2
    sequence.progress()
    sequence.fed_tokens = 4
    sequence.progress()
    started, *progress = events_of([take_frame(sequence)])
    assert started.started.step == 5
    assert [e.prompt_progress.done_tokens for e in progress] == [2, 3]
    assert {e.prompt_progress.total_tokens for e in progress} == {3}


def test_a_failure_is_the_last_event_and_a_cancelled_sequence_says_nothing():
    failing, cancelled = make_sequence(VOCABULARY), make_sequence(VOCABULARY)
    for sequence in (failing, cancelled):
        run(sequence, to_ids(b"a"))
        sequence.take_token(to_ids(b"b")[0], None)
    failing.fail(ServiceError("timeout", "late"))
    cancelled.cancel()
    for sequence in (failing, cancelled):
        sequence.read()
        assert sequence.ended
        assert not sequence.completed
    (event,) = events_of([take_frame(failing)])
    assert event.failed.error.code == "timeout"
    assert cancelled.take_frame() is None


def test_a_frame_carries_its_attempt_and_is_taken_once():
    sequence = make_sequence(VOCABULARY, forced_ids=[30])
    sequence.replay()
    sequence.start(1)
    frame = sequence.take_frame()
    assert (frame.key, frame.attempt) == (7, 2)
    assert sequence.take_frame() is None
