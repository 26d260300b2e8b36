"""Tokens per second of many streams, as ratios to the bare loop.

Contestants take turns within a round, and a ratio is the median of the ratios of the rounds, so
that a change of the machine's speed affects all of them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.perf.client import GREEDY, SAMPLED, Load
from tests.perf.contestant import Bare, Server, bare, mlx_lm_server, mlxcel
from tests.perf.table import show

TOPICS: Final = ("rivers", "clocks", "bread", "bridges", "whales", "glass", "maps", "chess")
WARM_UP_TOKENS: Final = 8
_numbers = itertools.count(1)


def prompts(count: int) -> list[str]:
    """Return new prompts of some ten tokens, which are in no prompt cache."""
    return [
        f"Story {next(_numbers)}: a long tale about {TOPICS[index % len(TOPICS)]}."
        for index in range(count)
    ]


async def measure(
    title: str, model: Path, streams: Sequence[int], max_tokens: int, rounds: int
) -> None:
    """Compare the three contestants for several numbers of streams, greedy and sampled."""
    rows = []
    async with contextlib.AsyncExitStack() as stack:
        contestants: list[Bare | Server] = [
            await stack.enter_async_context(bare(model)),
            await stack.enter_async_context(mlxcel(model, max(streams))),
            await stack.enter_async_context(mlx_lm_server(model, max(streams))),
        ]
        for label, settings in (("greedy", GREEDY), ("sampled", SAMPLED)):
            for count in streams:
                loads = await _rounds(contestants, count, max_tokens, settings, rounds)
                rows.append({"rows": label, "streams": count, **_row(loads)})
    show(f"Throughput on {title}, {max_tokens} tokens each, tokens/s (rounds: {rounds})", rows)


async def _rounds(
    contestants: Sequence[Bare | Server],
    count: int,
    max_tokens: int,
    settings: Mapping[str, Any],
    rounds: int,
) -> dict[str, list[Load]]:
    for contestant in contestants:
        await contestant.run(prompts(count), WARM_UP_TOKENS, settings)
    loads: dict[str, list[Load]] = {contestant.name: [] for contestant in contestants}
    for number in range(rounds):
        # The order changes, so that none always follows the heaviest.
        for contestant in [*contestants[number % 3 :], *contestants[: number % 3]]:
            load = await contestant.run(prompts(count), max_tokens, settings)
            loads[contestant.name].append(load)
    return loads


def _row(loads: Mapping[str, Sequence[Load]]) -> dict[str, object]:
    names = [name for name in loads if name != "bare"]
    row: dict[str, object] = {
        name: median(load.tokens_per_s for load in loads[name]) for name in loads
    }
    for name in names:
        row[f"{name} ÷ bare"] = median(ratios(loads[name], loads["bare"]))
    row["mlxcel ÷ mlx_lm"] = median(ratios(loads["mlxcel"], loads["mlx_lm.server"]))
    row["client CPU"] = f"{max(load.client_cpu for load in loads['mlxcel']):.0%}"
    return row


def ratios(loads: Sequence[Load], baseline: Sequence[Load]) -> list[float]:
    """Return the speed of each round, divided by the baseline of the same round."""
    pairs = zip(loads, baseline, strict=True)
    return [mine.tokens_per_s / other.tokens_per_s for mine, other in pairs]


DISTINCT: Final = tuple(
    {"temperature": 0.6 + 0.1 * number, "top_k": 20 + 10 * number, "top_p": 0.99, "min_p": 0.0}
    for number in range(8)
)


async def measure_settings(model: Path, max_tokens: int, rounds: int) -> None:
    """Compare eight streams with different sampling settings with eight of equal ones."""
    shared: list[Load] = []
    distinct: list[Load] = []
    async with mlxcel(model, len(DISTINCT)) as server:
        for settings in ((DISTINCT[3],), DISTINCT):
            await server.run(prompts(8), WARM_UP_TOKENS, *settings)
        for _ in range(rounds):
            shared.append(await server.run(prompts(8), max_tokens, DISTINCT[3]))
            distinct.append(await server.run(prompts(8), max_tokens, *DISTINCT))
    row = {
        "one setting": median(load.tokens_per_s for load in shared),
        "8 settings": median(load.tokens_per_s for load in distinct),
        "8 ÷ one": median(ratios(distinct, shared)),
    }
    show(f"Sampling settings on 8 streams of mlxcel, tokens/s (rounds: {rounds})", [row])
