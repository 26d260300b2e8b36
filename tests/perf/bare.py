"""The baseline: mlx-lm's `BatchGenerator` in a loop, in its own process.

`python -m tests.perf.bare MODEL` reads one job per line on stdin and prints one line per job, until
end of input. It has no detokenizing, no HTTP and no second process; the difference to a server is
the cost of the server.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import mlx_lm
from mlx_lm.generate import BatchGenerator
from mlx_lm.sample_utils import make_sampler


def main() -> None:
    model, tokenizer = mlx_lm.load(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(run(model, tokenizer, json.loads(line))), flush=True)


def run(model: Any, tokenizer: Any, job: dict[str, Any]) -> dict[str, float]:
    """Generate for all prompts in one batch; return the number of tokens and the seconds.

    One sampler for all rows is called once per step, as in a server whose requests have the same
    settings.
    """
    prompts = [encode(tokenizer, prompt) for prompt in job["prompts"]]
    generator = BatchGenerator(
        model,
        stop_tokens=[[token] for token in tokenizer.eos_token_ids],
        sampler=make_sampler(temp=job["temperature"], top_k=job["top_k"]),
        completion_batch_size=len(prompts),
        prefill_batch_size=len(prompts),
    )
    start_s = time.perf_counter()
    running = set(generator.insert(prompts, [job["max_tokens"]] * len(prompts)))
    tokens = 0
    while running:
        for response in generator.next_generated():
            tokens += 1
            if response.finish_reason is not None:
                running.discard(response.uid)
    seconds = time.perf_counter() - start_s
    generator.close()
    return {"tokens": tokens, "seconds": seconds}


def encode(tokenizer: Any, prompt: str) -> list[int]:
    """Return the tokens of a chat with one message."""
    turn = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=True)


if __name__ == "__main__":
    main()
