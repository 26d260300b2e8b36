"""A loaded Kokoro model: from phonemes to samples.

Owns the network and its voices. mlx-audio has the network; its own phonemizer needs spaCy, so
phoneme.py takes its place. Runs on the model thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_audio.tts.models.kokoro import Model, ModelConfig

from shared.errors import ServiceError
from shared.lifecycle import PermanentError
from workers.arrays import read_arrays
from workers.audio import checkpoint
from workers.audio.pace import StepSize
from workers.audio.sound.samples import Samples
from workers.audio.speech.phoneme import LANGUAGES
from workers.audio.speech.splitting import split_phonemes

_DEFAULT_VOICE = "af_heart"
# OpenAI's voices have no prefix, such as "alloy"; Kokoro has some of the same names with one.
_PREFIXES = ("af", "am", "bf", "bm")
# Of one step, whatever its duration: half of what the network takes at once.
_MOST_PHONEMES = 250
# Of one step: about two words; fewer are badly pronounced.
_FEWEST_PHONEMES = 12
# Phonemes per second of sound at speed 1, about.
_PHONEMES_PER_S = 14
# Seconds of sound of one step. The decoder's cost grows with it, and thus with 1 / speed.
_SHORTEST_S, _USUAL_S, _LONGEST_S = 2.5, 20.0, 80.0
_SEED = 0


class Kokoro:
    """A model that is ready to run.

    Args:
        styles: name of a voice → the file of its styles.

    Attributes:
        voices: names; the first is the default.
    """

    def __init__(self, network: Any, styles: Mapping[str, Path]) -> None:
        self.network = network
        self._files = styles
        self._styles: dict[str, mx.array] = {}
        self._known = frozenset(network.vocab)
        self.voices = tuple(sorted(styles, key=lambda name: (name != _DEFAULT_VOICE, name)))
        self.rate_hz = int(network.sample_rate)
        self._step_size = StepSize(_SHORTEST_S, _USUAL_S, _LONGEST_S)

    def find_voice(self, name: str) -> str:
        """Return the voice of a name; the default for an unknown one."""
        wanted = (name, *(f"{prefix}_{name}" for prefix in _PREFIXES))
        return next((voice for voice in wanted if voice in self._files), self.voices[0])

    def split(self, phonemes: str, speed: float) -> Iterator[str]:
        """Yield the phonemes that the model knows, in parts of one step each."""
        known = "".join(filter(self._known.__contains__, phonemes))
        fitting = int(self._step_size.size * _PHONEMES_PER_S * speed)
        return split_phonemes(known, min(max(fitting, _FEWEST_PHONEMES), _MOST_PHONEMES))

    def synthesize(self, phonemes: str, voice: str, speed: float) -> Samples:
        """Return the samples of one part, at `rate_hz`; deterministic.

        Raises:
            ServiceError: the voice's file is broken.
        """
        styles = self._load_styles(voice)
        began_s = time.monotonic()
        # Source: Kokoro's pipeline.py: a voice has one style per number of phonemes.
        style = styles[min(len(phonemes), len(styles)) - 1]
        mx.random.seed(_SEED)
        sound = self.network(phonemes, style, speed)
        samples: Samples = np.array(sound.astype(mx.float32)).reshape(-1)
        self.note_step(len(samples) / self.rate_hz, time.monotonic() - began_s)
        return samples

    def note_step(self, sound_s: float, took_s: float) -> None:
        """Note how long a step took, so that the next are short enough."""
        self._step_size.note(sound_s, took_s)

    def try_out(self) -> None:
        """Compile the kernels, by synthesizing a vowel.

        Raises:
            PermanentError: the result is no sound.
        """
        try:
            samples = self.synthesize("ə", self.voices[0], 1.0)
        except ServiceError as failure:
            raise PermanentError(failure.message) from failure
        if not len(samples) or not np.isfinite(samples).all():
            raise PermanentError("the Kokoro model produces no sound")

    def _load_styles(self, voice: str) -> mx.array:
        if voice not in self._styles:
            try:
                (styles,) = read_arrays([self._files[voice]]).values()
                mx.eval(styles)
            # Only this voice fails; the others work.
            except (RuntimeError, ValueError) as failure:
                text = f"The voice {voice} can't be read: its file is broken."
                raise ServiceError("internal", text) from failure
            self._styles[voice] = styles
        return self._styles[voice]


def load_kokoro(path: Path) -> Kokoro:
    """Return the model in a folder.

    Raises:
        PermanentError: it is no Kokoro, or incomplete.
    """
    styles = _find_voices(path)
    with checkpoint.refuse_broken(path, "Kokoro"):
        config = checkpoint.read_config(path)
        network = Model(ModelConfig.from_dict(config))
        weights = network.sanitize(read_arrays(path.glob("*.safetensors")))
        checkpoint.quantize(network, config, weights)
        network.load_weights(list(weights.items()), strict=True)
        network.eval()
        mx.eval(network.parameters())
    return Kokoro(network, styles)


def _find_voices(path: Path) -> dict[str, Path]:
    files = {file.stem: file for file in (path / "voices").glob("*.safetensors")}
    styles = {name: file for name, file in files.items() if name[0] in LANGUAGES}
    if not styles:
        raise PermanentError(f"{path} has no voices: there is no voices/*.safetensors in it")
    return styles
