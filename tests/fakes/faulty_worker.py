"""A text worker whose model fails on demand: the real worker with a llama that has triggers.

    python -m tests.fakes.faulty_worker --config FLEET --name NAME

Prefill of a prompt that holds a token of `FAULTS` does what stands there. A fault that happens
once leaves a mark in the folder that MLXCEL_TEST_FAULTS names, and the next process does not
repeat it. Everything but the model is the worker that ships.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import mlx.core as mx
from mlx_lm.models import llama

from workers.text.__main__ import main

FOLDER_ENV: Final = "MLXCEL_TEST_FAULTS"


def _explode() -> None:
    raise RuntimeError("[metal] this is what a fault of the device says")


# Token of the starter model's tokenizer → action, and whether it is repeated.
FAULTS: Final[dict[int, tuple[str, Callable[[], None], bool]]] = {
    3467: (" raise", _explode, False),
    12193: (" hang", lambda: time.sleep(600), True),
    34704: (" abort", os.abort, True),
}


class Model(llama.Model):
    """A llama with triggers. Completions are fed one token at a time and trigger nothing."""

    def __call__(self, inputs: mx.array, *arguments: Any, **named: Any) -> mx.array:
        if inputs.shape[1] > 1:
            for token in inputs.flatten().tolist():
                if token in FAULTS:
                    _happen(*FAULTS[token])
        return super().__call__(inputs, *arguments, **named)


def _happen(word: str, fault: Callable[[], None], always: bool) -> None:
    mark = Path(os.environ[FOLDER_ENV], word.strip())
    if always or not mark.exists():
        mark.touch()
        fault()


if __name__ == "__main__":
    llama.Model = Model  # mlx-lm looks a family's class up by this name
    main()
