"""The baseline of transcription: mlx-audio's `generate`, in its own process.

`python -m tests.perf.bare_audio MODEL SOUND` transcribes per line on stdin, as many times
as the line says, and prints the seconds. It has no HTTP and no second process.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from mlx_audio.stt.models.whisper.whisper import MultiHeadAttention

from workers import runtime
from workers.audio.recognition import whisper
from workers.audio.sound import recording


def main() -> None:
    device = runtime.choose_device(1.0)
    model = whisper.load_network(Path(sys.argv[1]), full_precision=device.full_precision)
    _restore(model)
    data = Path(sys.argv[2]).read_bytes()
    print("ready", flush=True)
    for line in sys.stdin:
        start_s = time.perf_counter()
        for _ in range(int(line)):
            samples = asyncio.run(recording.decode(data, 3600))
            model.generate(samples, fp16=not device.full_precision, language="en")
        print(time.perf_counter() - start_s, flush=True)


def _restore(model: Any) -> None:
    """Undo the server's replacements in the network."""
    for block in model.decoder.blocks:
        ours = block.cross_attn
        block.cross_attn = MultiHeadAttention(ours.query.weight.shape[0], ours.n_head)
        block.cross_attn.update(ours.parameters())


if __name__ == "__main__":
    main()
