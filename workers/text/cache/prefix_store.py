"""Prompt-cache entries on disk, so that a restarted worker need not prefill them again.

One safetensors file per entry, named by the SHA-256 of its content, in a folder named by the
model's digest: a file of another model, quantisation or template is never read. A truncated or
foreign file is removed. Written by a thread of this module; read on the engine thread. When the
disk is full or too slow, entries are dropped instead of delaying requests. Replicas of a model
share its folder: each knows the files it found and wrote, and any may remove the oldest.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import os
import queue
import stat
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx_lm.models.cache import load_prompt_cache, save_prompt_cache

from shared.rundir import Lock
from workers.text.cache.prefix_cache import PrefixEntry

log = logging.getLogger(__name__)

_FORMAT = "mlxcel-prefix-1"
_MAX_HEADER_BYTES = 64 * 1024 * 1024
_MAX_WAITING = 8
# What reading the header of a malformed file raises.
_MALFORMED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    zlib.error,
)


@dataclass(frozen=True)
class Stored:
    """An entry on disk, without its arrays."""

    path: Path
    namespace: bytes
    tokens: np.ndarray
    trimmable: bool
    nbytes: int


class PrefixStore:
    """The entries of one model in a folder.

    Args:
        folder: for all models; this one's is a sub-folder named by `digest`.
        capacity_bytes: of this model's files together.

    Raises:
        OSError: the folder can't be used.
    """

    def __init__(self, folder: Path, digest: str, capacity_bytes: int) -> None:
        self._folder = folder / digest
        self._capacity_bytes = capacity_bytes
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        self._index: dict[Path, Stored] = {}
        self._waiting: queue.Queue[PrefixEntry] = queue.Queue(_MAX_WAITING)
        self._is_failing = False
        for path in self._folder.iterdir():
            if _is_scratch(path):
                _remove_scratch(path)
            else:
                self._admit(path)
        threading.Thread(target=self._write_all, name="prefix-store", daemon=True).start()

    def put(self, entry: PrefixEntry) -> None:
        """Write an entry some time soon, or not at all when too much waits."""
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            log.debug("left a prefix of %d tokens off the disk", len(entry.tokens))

    def entries(self, namespace: bytes) -> list[Stored]:
        """Return what is on disk of a namespace."""
        with self._lock:
            return [item for item in self._index.values() if item.namespace == namespace]

    def load(self, stored: Stored) -> list[Any] | None:
        """Return the cache of an entry; None, and the file removed, when it is not whole."""
        try:
            content = stored.path.read_bytes()
            _check(content, stored.path.stem)
            cache = load_prompt_cache(str(stored.path))
            # Loading is lazy, and the file may go before the first use.
            mx.eval([part.state for part in cache])
            stored.path.touch()
        # mlx raises RuntimeError on a malformed file, load_prompt_cache whatever it meets.
        except Exception as failure:  # noqa: BLE001
            self._forget(stored.path, str(failure))
            return None
        return list(cache)

    def _admit(self, path: Path) -> None:
        try:
            stored = _read_header(path)
        except _MALFORMED as failure:
            self._forget(path, str(failure))
            return
        with self._lock:
            self._index[path] = stored

    def _forget(self, path: Path, reason: str) -> None:
        log.warning("removed %s from the prompt cache folder: %s", path.name, reason)
        with self._lock:
            self._index.pop(path, None)
        _remove(path)

    # ------------------------------------------------------- the writer's thread

    def _write_all(self) -> None:
        while True:
            entry = self._waiting.get()
            try:
                self._write(entry)
                self._shrink()
                self._is_failing = False
            # The disk is full or gone: the worker goes on without it, and says so once.
            except (OSError, RuntimeError) as failure:
                if not self._is_failing:
                    log.warning("prefixes can't be written, going on without: %s", failure)
                self._is_failing = True

    def _write(self, entry: PrefixEntry) -> None:
        scratch = self._folder / f".{threading.get_native_id()}.safetensors"
        # Held as long as it is written, so that a replica that starts leaves it alone.
        lock = Lock(scratch)
        lock.acquire(0)
        try:
            save_prompt_cache(str(scratch), entry.cache, _describe(entry))
            with scratch.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            path = scratch.replace(self._folder / f"{digest}.safetensors")
        finally:
            _remove(scratch)
            lock.release()
        self._admit(path)

    def _shrink(self) -> None:
        """Remove the longest unused files, of any replica, until the rest is small enough."""
        found = [
            (info.st_mtime, info.st_size, path)
            for path in self._folder.iterdir()
            if not _is_scratch(path) and (info := _look_at(path)) is not None
        ]
        total = sum(nbytes for _, nbytes, _ in found)
        for _, nbytes, path in sorted(found):
            if total <= self._capacity_bytes:
                return
            total -= nbytes
            with self._lock:
                self._index.pop(path, None)
            _remove(path)


def _is_scratch(path: Path) -> bool:
    return path.name.startswith(".")


def _remove_scratch(path: Path) -> None:
    """Remove what a killed process has left half written, not what a living one writes."""
    if _look_at(path) is not None:
        lock = Lock(path)
        if lock.acquire(0):
            _remove(path)
            lock.release()


def _remove(path: Path) -> None:
    """Remove a file if it is there and may be removed."""
    with contextlib.suppress(OSError):
        path.unlink()


def _look_at(path: Path) -> os.stat_result | None:
    """Return what the disk says of a plain file; None for anything else, or when it has gone."""
    try:
        info = path.lstat()
    except OSError:
        return None
    return info if stat.S_ISREG(info.st_mode) else None


def _check(content: bytes, digest: str) -> None:
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError("checksum differs")


def _describe(entry: PrefixEntry) -> dict[str, str]:
    tokens = base64.b64encode(zlib.compress(entry.tokens.tobytes())).decode()
    return {
        "format": _FORMAT,
        "namespace": entry.namespace.hex(),
        "tokens": tokens,
        "trimmable": str(int(entry.trimmable)),
    }


def _read_header(path: Path) -> Stored:
    """Return what a file says about itself, without reading its arrays.

    Raises:
        One of `_MALFORMED`: it is none of ours, or not whole.

    Source: the safetensors format: a little-endian length, then that many bytes of JSON, which
    says where each array begins and ends in the rest.
    """
    # Opening a pipe or a device might never return.
    if path.suffix != ".safetensors" or _look_at(path) is None:
        raise ValueError("not an entry")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= _MAX_HEADER_BYTES:
            raise ValueError("no safetensors header")
        tensors = json.loads(file.read(length))
    header = tensors.pop("__metadata__")
    nbytes = path.stat().st_size
    if nbytes != 8 + length + max(item["data_offsets"][1] for item in tensors.values()):
        raise ValueError("torn")
    # save_prompt_cache flattens its three metadata trees; ours is the first.
    if header["0.format"] != _FORMAT:
        raise ValueError("unknown format")
    packed = zlib.decompressobj().decompress(base64.b64decode(header["0.tokens"]), 2**28)
    return Stored(
        path=path,
        namespace=bytes.fromhex(header["0.namespace"]),
        tokens=np.frombuffer(packed, dtype=np.int32),
        trimmable=header["0.trimmable"] == "1",
        nbytes=nbytes,
    )


def model_digest(folder: Path, template: str, kv_bits: int) -> str:
    """Return the name of everything that decides a cache's content but the prompt.

    The weights count by name, size and time of change: hashing them would take longer than the
    prefill that a hit saves.
    """
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        info = path.stat()
        digest.update(f"{path.name} {info.st_size} {info.st_mtime_ns}".encode())
    digest.update(f"{mlx_lm.__version__} {kv_bits} {template}".encode())
    return digest.hexdigest()[:32]
