"""The cost of structured output: time per token, and the share of generated schemas that finish.

Both modes take turns on one server, and a ratio is the median of the rounds, so that a change of
the machine's speed affects both.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.perf.client import GREEDY, BrokenStreamError, Load
from tests.perf.contestant import Server, mlxcel
from tests.perf.table import show
from tests.perf.throughput import WARM_UP_TOKENS, prompts, ratios
from tests.schema import check_answer, make_schemas, to_fields

STREAMS: Final = 8
# Longer than any measured answer: a list of objects with a text, an enum and a number.
ENDLESS: Final = {
    "type": "array",
    "minItems": 200,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 30},
            "kind": {"enum": ["animal", "plant", "stone"]},
            "count": {"type": "integer", "minimum": 0, "maximum": 999},
        },
        "required": ["name", "kind", "count"],
        "additionalProperties": False,
    },
}
MAX_TOKENS: Final = 120


async def measure_cost(title: str, model: Path, max_tokens: int, rounds: int) -> None:
    """Compare streams under a grammar with streams without one."""
    plain, guided = GREEDY, {**GREEDY, **to_fields(ENDLESS)}
    loads: dict[str, list[Load]] = {"plain": [], "grammar": []}
    async with mlxcel(model, STREAMS) as server:
        for settings in (plain, guided):
            await server.run(prompts(STREAMS), WARM_UP_TOKENS, settings)
        for _ in range(rounds):
            loads["plain"].append(await server.run(prompts(STREAMS), max_tokens, plain))
            loads["grammar"].append(await server.run(prompts(STREAMS), max_tokens, guided))
    row = {
        "plain, ms per token": 1000 / median(load.tokens_per_s for load in loads["plain"]),
        "grammar": 1000 / median(load.tokens_per_s for load in loads["grammar"]),
        "grammar ÷ plain": median(ratios(loads["plain"], loads["grammar"])),
    }
    show(f"Grammar on {STREAMS} streams of {title} (rounds: {rounds})", [row])


async def measure_schemas(title: str, model: Path, count: int, seed: int) -> None:
    """Count the generated schemas whose answers finish; an invalid answer is an error."""
    schemas = make_schemas(count, seed)
    limit = asyncio.Semaphore(STREAMS)
    async with mlxcel(model, STREAMS) as server:

        async def one(index: int) -> bool:
            async with limit:
                return await _answer(server, schemas[index], index)

        began_s = time.perf_counter()
        finished = await asyncio.gather(*map(one, range(count)))
        seconds = time.perf_counter() - began_s
    row = {"schemas": count, "finished and valid": f"{sum(finished) / count:.1%}", "s": seconds}
    show(f"Generated schemas on {title}, up to {MAX_TOKENS} tokens (seed: {seed})", [row])


async def _answer(server: Server, schema: dict[str, Any], index: int) -> bool:
    body = {
        "messages": [{"role": "user", "content": f"Give me an example, number {index}."}],
        "seed": index,
        "max_tokens": MAX_TOKENS,
        **to_fields(schema),
    }
    async with server.client.session.post("/v1/chat/completions", json=body) as response:
        if response.status != 200:
            raise BrokenStreamError(str(response.status), server.name, await response.text())
        reply = await response.json()
    return check_answer(reply["choices"][0], schema)
