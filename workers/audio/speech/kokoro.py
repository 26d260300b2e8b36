"""Kokoro, loaded: a piece of text in phonemes becomes samples.

Owns the network and its voices. mlx-audio has the network; what it makes phonemes with needs
spaCy, so that is phoneme.py's. Runs on the lane's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_audio.tts.models.kokoro import Model, ModelConfig

from shared.errors import ServiceError
from shared.lifecycle import PermanentError
from workers.audio import checkpoint
from workers.audio.sound.encoding import Samples
from workers.audio.speech.phoneme import LANGUAGES

_DEFAULT_VOICE = "af_heart"
# Clients of OpenAI say a voice's name alone, such as "alloy"; some of Kokoro's have the same.
_PREFIXES = ("af", "am", "bf", "bm")
# Half of what the network takes at once: a step of the lane is to be short.
_MOST_PHONEMES = 250
_SEED = 0


class Kokoro:
    """A model that is ready to speak.

    Args:
        styles: name of a voice → the file of its styles.

    Attributes:
        voices: their names; the first is the default.
    """

    def __init__(self, network: Any, styles: Mapping[str, Path]) -> None:
        self.network = network
        self._files = styles
        self._styles: dict[str, mx.array] = {}
        self._known = frozenset(network.vocab)
        self.voices = tuple(sorted(styles, key=lambda name: (name != _DEFAULT_VOICE, name)))
        self.rate_hz = int(network.sample_rate)

    def choose(self, name: str) -> str:
        """Return the voice that a name means; the default for one that is nobody's."""
        wanted = (name, *(f"{prefix}_{name}" for prefix in _PREFIXES))
        return next((voice for voice in wanted if voice in self._files), self.voices[0])

    def divide(self, phonemes: str) -> list[str]:
        """Return what the model knows of some phonemes, in parts of which each is one step."""
        rest = "".join(filter(self._known.__contains__, phonemes)).strip()
        parts = []
        while any(map(str.isalpha, rest)):
            place = len(rest)
            if place > _MOST_PHONEMES:
                place = rest.rfind(" ", 1, _MOST_PHONEMES) + 1 or _MOST_PHONEMES
            parts.append(rest[:place].strip())
            rest = rest[place:].strip()
        return parts

    def speak(self, phonemes: str, voice: str, speed: float) -> Samples:
        """Return a part, spoken; the same each time.

        Args:
            phonemes: as `divide` gives them.

        Raises:
            ServiceError: the voice's file is broken.
        """
        styles = self._load_style(voice)
        # Source: Kokoro's pipeline.py: a voice has a style for every length.
        style = styles[min(len(phonemes), len(styles)) - 1]
        mx.random.seed(_SEED)
        spoken = self.network(phonemes, style, speed)
        samples: Samples = np.array(spoken.astype(mx.float32)).reshape(-1)
        return samples

    def try_out(self) -> None:
        """Compile what is needed, on a vowel.

        Raises:
            PermanentError: nothing comes of it.
        """
        try:
            samples = self.speak("ə", self.voices[0], 1.0)
        except ServiceError as failure:
            raise PermanentError(failure.message) from failure
        if not len(samples) or not np.isfinite(samples).all():
            raise PermanentError("the Kokoro model gives no sound")

    def _load_style(self, voice: str) -> mx.array:
        if voice not in self._styles:
            try:
                (style,) = mx.load(str(self._files[voice])).values()
                mx.eval(style)
            # One of many; the others can still be spoken with.
            except (RuntimeError, ValueError) as failure:
                text = f"The voice {voice} can't be read: its file is broken."
                raise ServiceError("internal", text) from failure
            self._styles[voice] = style
        return self._styles[voice]


def load(path: Path) -> Kokoro:
    """Return the model in a folder.

    Raises:
        PermanentError: it is no Kokoro, or not whole.
    """
    styles = _find_voices(path)
    with checkpoint.whole(path, "Kokoro"):
        config = checkpoint.read_config(path)
        network = Model(ModelConfig.from_dict(config))
        weights = network.sanitize(checkpoint.read_weights(path.glob("*.safetensors")))
        checkpoint.quantize(network, config, weights)
        network.load_weights(list(weights.items()), strict=True)
        network.eval()
        mx.eval(network.parameters())
    return Kokoro(network, styles)


def _find_voices(path: Path) -> dict[str, Path]:
    files = {file.stem: file for file in (path / "voices").glob("*.safetensors")}
    styles = {name: file for name, file in files.items() if name[0] in LANGUAGES}
    if not styles:
        raise PermanentError(f"{path} has no voices; each is a file in its folder voices")
    return styles
