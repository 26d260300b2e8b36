"""The table of worker kinds: everything the rest of the code needs to know about a kind.

Launcher, gateway, workers, set-up and docs read it, so that a new kind is one entry here beside
its own folder, proto file and route module. Modules are named and imported when they are used:
the set-up reads the table on the system's Python, which has the standard library alone. Pure
data.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared import model_folder


@dataclass(frozen=True)
class Capability:
    """Something that a model of a kind can do.

    Attributes:
        name: as `/v1/models` lists it.
        card_flag: field of the model card that says whether a model can, as "audio.speaks";
            empty where every model of the kind can.
        unserved: message of the 501 of a server that has no such model.
    """

    name: str
    card_flag: str = ""
    unserved: str = ""


@dataclass(frozen=True)
class SystemPackage:
    """A program that is installed if that is possible; the set-up continues without it.

    Attributes:
        name: of the program and of its Debian package.
        loss: what does not work without it.
        formula: its name in Homebrew.
    """

    name: str
    loss: str
    formula: str


@dataclass(frozen=True)
class Trial:
    """A request that shows that a server answers; without a body it is a GET."""

    path: str
    body: str = ""


@dataclass(frozen=True)
class WorkerKind:
    """One kind of worker.

    Attributes:
        name: as in the fleet file.
        title: how docs and messages call it.
        module: run with `python -m`; may serve several kinds.
        extra: group of optional dependencies in pyproject.toml.
        library: module of the extra; without it the extra is not installed. Empty: unknown.
        settings_path: "module:Class" of its settings.
        route_modules: modules of the gateway whose `routes()` need such a worker.
        capabilities: what its models can do.
        trial: what the start announcement suggests.
        models: settings that name a model, the main one first.
        memory_weight: share of a machine's memory beside other workers.
        is_unary: each call is answered by itself; otherwise generated text is streamed in steps.
        launch_flag: setting of the launcher that serves -m as this kind.
        recognises: whether a model folder is of this kind; asked of one kind after the other, so
            that at most one of them may say yes.
        programs: what it needs installed.
        environment: variables that its processes set for the libraries they use, unless they are
            set already.
    """

    name: str
    title: str
    module: str
    extra: str
    settings_path: str
    route_modules: tuple[str, ...]
    capabilities: tuple[Capability, ...]
    library: str = ""
    trial: Trial = Trial("/v1/models")
    models: tuple[str, ...] = ("model",)
    memory_weight: int = 1
    is_unary: bool = True
    launch_flag: str = ""
    recognises: Callable[[Path], bool] = lambda _: False
    programs: tuple[SystemPackage, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def settings(self) -> type:
        """The settings group, imported on first use."""
        module, _, name = self.settings_path.partition(":")
        group: type = getattr(importlib.import_module(module), name)
        return group

    @property
    def is_installed(self) -> bool:
        """Whether the packages of the extra are there, as far as `library` shows."""
        return not self.library or importlib.util.find_spec(self.library) is not None

    def unserved(self, capability: str) -> str:
        """Return the message of the 501 of a server that can't do something."""
        return next(each.unserved for each in self.capabilities if each.name == capability)


# From M5 and macOS 26.2 on, MLX multiplies float32 with the mantissa of TF32 unless this is 0. It
# reads it at the first matrix product. Source: mlx/utils.h, `enable_tf32`.
_FULL_FLOAT32: Final = (("MLX_ENABLE_TF32", "0"),)

_TEXT: Final = WorkerKind(
    name="text",
    title="Text",
    module="workers.text",
    extra="text",
    settings_path="shared.settings:TextSettings",
    route_modules=(
        "gateway.routes.text",
        "gateway.routes.completions",
        "gateway.routes.responses",
        "gateway.routes.tokens",
        "gateway.routes.operations.cache",
        "gateway.routes.operations.slots",
        "gateway.routes.operations.props",
    ),
    capabilities=(Capability("completion"),),
    library="mlx_lm",
    trial=Trial(
        "/v1/chat/completions",
        '{"messages":[{"role":"user","content":"What is the capital of France?"}],'
        '"temperature":0,"stream":true}',
    ),
    # It holds keys and values beside the weights.
    memory_weight=6,
    is_unary=False,
)

_EMBED: Final = WorkerKind(
    name="embed",
    title="Embedding",
    module="workers.embed",
    extra="embed",
    settings_path="shared.settings:EmbedSettings",
    route_modules=("gateway.routes.embeddings",),
    capabilities=(
        Capability(
            "embedding",
            unserved="This server does not support embeddings. Start it with `--embeddings` and "
            "an embedding checkpoint in -m, or with `--embedding-model <path>`.",
        ),
    ),
    library="mlx_lm",
    trial=Trial("/v1/embeddings", '{"input":"The cat sits on the mat."}'),
    launch_flag="embeddings",
    recognises=model_folder.embeds,
    environment=_FULL_FLOAT32,
)

_RERANK: Final = WorkerKind(
    name="rerank",
    title="Rerank",
    module="workers.embed",
    extra="embed",
    settings_path="shared.settings:RerankSettings",
    route_modules=("gateway.routes.embeddings",),
    capabilities=(
        Capability(
            "rerank",
            unserved="This server does not support reranking. Start it with `--reranking` and a "
            "reranker in -m, or with `--reranker-model <path>`.",
        ),
    ),
    library="mlx_lm",
    trial=Trial(
        "/v1/rerank",
        '{"query":"where do cats sleep","documents":["On rugs.","Markets fell today."]}',
    ),
    launch_flag="reranking",
    recognises=model_folder.classifies,
    environment=_FULL_FLOAT32,
)

_AUDIO: Final = WorkerKind(
    name="audio",
    title="Audio",
    module="workers.audio",
    extra="audio",
    settings_path="shared.settings:AudioSettings",
    route_modules=("gateway.routes.audio", "gateway.routes.speech"),
    capabilities=(
        Capability("transcription", "audio.transcribes", "audio model kind not loaded: stt"),
        Capability("speech", "audio.speaks", "audio model kind not loaded: tts"),
    ),
    library="mlx_audio",
    models=("model", "speech_model"),
    recognises=lambda folder: model_folder.transcribes(folder) or model_folder.speaks(folder),
    programs=(
        SystemPackage("ffmpeg", "only WAV and PCM can be read and written", "ffmpeg"),
        SystemPackage("espeak-ng", "speech can't be made from text", "espeak-ng"),
        SystemPackage("npm", "the voices of the speech model can't be downloaded", "node"),
    ),
    environment=_FULL_FLOAT32,
)

# By name, in the order of help and docs.
KINDS: Final[dict[str, WorkerKind]] = {kind.name: kind for kind in (_TEXT, _EMBED, _RERANK, _AUDIO)}
# What a worker is that the fleet file gives no kind, and a model of -m that nothing else fits.
DEFAULT: Final = _TEXT.name


def kind_of_folder(path: Path) -> str:
    """Return the kind of worker that a model is for, as far as its folder shows.

    Some folders tell too little: Qwen3-Reranker looks like a model for text.
    """
    return next((kind.name for kind in KINDS.values() if kind.recognises(path)), DEFAULT)


def list_extras() -> list[str]:
    """Return the dependency groups of all kinds."""
    return list(dict.fromkeys(kind.extra for kind in KINDS.values()))
