"""The baseline of speech: mlx-audio's network, in its own process.

`python -m tests.perf.bare_speech MODEL` synthesizes the text of each line on stdin, divided as in
the server, and prints the seconds. It has no HTTP and no second process but espeak-ng; the slow
convolutions of MLX's CPU backend are replaced as in the server.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from workers import runtime
from workers.audio.speech import convolution, phoneme
from workers.audio.speech.kokoro import load_kokoro
from workers.audio.speech.splitting import split_text


def main() -> None:
    if runtime.choose_device(1.0).full_precision:
        convolution.install()
    model = load_kokoro(Path(sys.argv[1]))
    model.try_out()
    print("ready", flush=True)
    voice = model.voices[0]
    for line in sys.stdin:
        start_s = time.perf_counter()
        for piece in split_text(line):
            model.synthesize(asyncio.run(phoneme.convert(piece, voice)), voice, 1.0)
        print(time.perf_counter() - start_s, flush=True)


if __name__ == "__main__":
    main()
