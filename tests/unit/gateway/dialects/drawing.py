"""Hypothesis strategies for all dialects: items of answers, and any JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from gateway.generation.fold import Completion, Item, fold_batch
from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

KINDS = (pb.BlockStart.KIND_ANSWER, pb.BlockStart.KIND_REASONING, pb.BlockStart.KIND_TOOL_CALL)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


@st.composite
def answers(draw) -> list[Item]:
    """Draw items in the order of text.proto, with any optional parts."""
    logprobs = draw(st.booleans())
    items: list[Item] = [pb.Accepted(prompt_tokens=3), pb.Event(started=pb.Started())]
    items += [pb.Event(prompt_progress=pb.PromptProgress(done_tokens=1))] * draw(st.integers(0, 2))
    for index in range(draw(st.integers(0, 4))):
        start = pb.BlockStart(kind=draw(st.sampled_from(KINDS)), tool_call_id=f"call_{index}")
        items.append(pb.Event(block_start=start))
        for text in draw(st.lists(texts, max_size=5)):
            infos = [pb.TokenInfo(id=1, text=b"\xff\xe2", logprob=-1.0)] * draw(st.integers(0, 2))
            items.append(pb.Event(delta=pb.Delta(text=text, infos=infos if logprobs else [])))
        items.append(pb.Event(block_stop=pb.BlockStop()))
    reason = draw(st.sampled_from(pb.Finished.Reason.values()))
    items.append(pb.Event(finished=pb.Finished(reason=reason)))
    return items


def whole(items) -> Completion:
    completion = Completion()
    fold_batch(completion, items)
    return completion


def fail_at(items: Sequence[Item], cut: int) -> list[Item]:
    """Return the items of an answer that fails after `cut` events and its Accepted."""
    failed = pb.Event(failed=pb.Failed(error={"code": "engine_failed", "message": "m"}))
    return [items[0], *items[1:-1][:cut], failed]


def refusal(parse: Callable[[bytes], object], body: bytes) -> ServiceError | None:
    """Return the error of a body; None if it is parsed."""
    try:
        parse(body)
    except ServiceError as failure:
        return failure
    return None
