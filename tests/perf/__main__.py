"""`python -m tests.perf [CASE …]`: compares this server with others, in one run on one machine.

Prints tables of ratios; nothing passes or fails. Needs the starter model; makes the tiny one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import signal
import sys

import uvloop

from tests.checkpoint import ROOT, build, starter_folder
from tests.perf import audio, encoder, latency, soak, structure, throughput
from tests.perf.client import BrokenStreamError
from tests.perf.contestant import StartError

CASES = (
    "tiny",
    "starter",
    "settings",
    "ttft",
    "gap",
    "prefix",
    "embed",
    "clients",
    "embed-long",
    "grammar",
    "grammar-tiny",
    "schemas",
    "audio",
    "soak",
)
# A thousand texts of each length take minutes.
_ASKED_FOR = ("embed-long", "soak")

SHORT_RUNS = (
    (1, encoder.SHORT),
    (32, encoder.SHORT),
    (1000, encoder.SHORT),
    (1, encoder.LONG),
    (32, encoder.LONG),
)


async def main(arguments: argparse.Namespace) -> None:
    """Run the chosen cases in turn."""
    _unwind_on_signals()
    tiny, starter, rounds = build("llama"), starter_folder(), arguments.rounds
    models = ROOT / "models"
    minilm = models / "all-MiniLM-L6-v2"
    cases = {
        "tiny": lambda: throughput.measure("a tiny llama", tiny, (1, 8, 32), 256, rounds),
        "starter": lambda: throughput.measure(starter.name, starter, (1, 4, 8), 24, rounds),
        "settings": lambda: throughput.measure_settings(tiny, 256, rounds),
        "ttft": lambda: latency.measure_ttft(starter, rounds + 2),
        "gap": lambda: latency.measure_gap(starter, 1500),
        "prefix": lambda: latency.measure_prefix(starter, 1000, rounds),
        "grammar": lambda: structure.measure_cost(starter.name, starter, 48, rounds),
        "grammar-tiny": lambda: structure.measure_cost("a tiny llama", tiny, 256, rounds),
        "schemas": lambda: structure.measure_schemas(starter.name, starter, arguments.schemas, 1),
        "embed": lambda: encoder.measure(minilm, SHORT_RUNS, rounds),
        "clients": lambda: encoder.measure_clients(minilm, 256, rounds),
        "embed-long": lambda: encoder.measure(minilm, ((1000, encoder.LONG),), 1),
        "audio": lambda: audio.measure(models / "whisper-tiny.en", models / "Kokoro-82M", rounds),
        "soak": lambda: soak.measure(tiny, arguments.minutes),
    }
    load = f"load of others {os.getloadavg()[0]:.1f}"
    print(f"{platform.machine()}, {os.cpu_count()} processors, {platform.platform()}, {load}")
    for name in arguments.case or [name for name in CASES if name not in _ASKED_FOR]:
        await cases[name]()


def _unwind_on_signals() -> None:
    """End every process started here on a signal; background jobs of a shell ignore Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.perf", description=__doc__)
    parser.add_argument(
        "case", nargs="*", help=f"of {', '.join(CASES)}; without: all but embed-long and soak"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--schemas", type=int, default=200, help="how many to generate")
    parser.add_argument("--minutes", type=float, default=10, help="length of the soak")
    arguments = parser.parse_args()
    if unknown := set(arguments.case) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    try:
        # The client shares the machine with the servers, so it must be cheap.
        uvloop.run(main(_arguments()))
    except (StartError, BrokenStreamError) as failure:
        sys.exit(f"{type(failure).__name__}: {failure}")
    except asyncio.CancelledError:
        sys.exit("stopped")
