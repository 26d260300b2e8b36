"""The memory of the device that a worker computes on: its limits, what is wired, what is released.

Which numbers apply where is decided here alone; MLX is called through `MemoryLibrary`, so that
tests can play a Mac. Called on the thread that runs the model, except for `set_limits`.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Mapping
from typing import Final, Protocol

import mlx.core as mx

from shared.settings.process import WIRE_WEIGHTS

log = logging.getLogger(__name__)

_GB: Final = 1024**3
# Freed buffers kept for reuse. On the CPU more than a few hundred MB save no time and look like a
# leak. On Metal each buffer that is given back and allocated again changes what the driver keeps
# resident, which costs time, and in excess is what IOGPUMemory panics have been traced to.
# Source: ml-explore/mlx#3186.
_CPU_POOL_BYTES: Final = _GB // 2
_METAL_POOL_BYTES: Final = 2 * _GB
_METAL_POOL_PART: Final = 0.1
# Idle time after which memory kept for reuse is released. Long enough for the next request of
# somebody who reads and types.
CPU_RELEASE_AFTER_S: Final = 3.0
METAL_RELEASE_AFTER_S: Final = 60.0
# macOS unwires the memory of a GPU that has been idle for about a second, and the next step waits
# for it. Source: ggml-org/llama.cpp#17766, whose heartbeat also ends after three minutes.
_WARM_FOR_S: Final = 180.0


class MemoryLibrary(Protocol):
    """The functions of MLX that choose a device and manage its memory."""

    def has_metal(self) -> bool:
        """Return whether MLX was built for Metal."""

    def has_gpu(self) -> bool:
        """Return whether a GPU can be opened."""

    def describe_gpu(self) -> Mapping[str, str | int]: ...

    def use_cpu(self) -> None: ...

    def set_memory_limit(self, limit_bytes: int) -> None: ...

    def set_cache_limit(self, limit_bytes: int) -> None: ...

    def set_wired_limit(self, limit_bytes: int) -> None: ...

    def active_bytes(self) -> int: ...

    def clear_cache(self) -> None: ...

    def run_tiny_kernel(self) -> None:
        """Keep the GPU busy for an instant, and wait for it."""


class Mlx:
    """The `MemoryLibrary` of this process."""

    def has_metal(self) -> bool:
        return mx.metal.is_available()

    def has_gpu(self) -> bool:
        # `mx.metal.is_available` is true for every build for macOS; this opens the device.
        return mx.is_available(mx.gpu)

    def describe_gpu(self) -> Mapping[str, str | int]:
        return mx.device_info(mx.gpu)

    def use_cpu(self) -> None:
        mx.set_default_device(mx.cpu)

    def set_memory_limit(self, limit_bytes: int) -> None:
        mx.set_memory_limit(limit_bytes)

    def set_cache_limit(self, limit_bytes: int) -> None:
        mx.set_cache_limit(limit_bytes)

    def set_wired_limit(self, limit_bytes: int) -> None:
        mx.set_wired_limit(limit_bytes)

    def active_bytes(self) -> int:
        return mx.get_active_memory()

    def clear_cache(self) -> None:
        mx.clear_cache()

    def run_tiny_kernel(self) -> None:
        mx.eval(mx.zeros(1) + 1)


class DeviceMemory:
    """The memory policy of one process.

    Args:
        share_bytes: of the device's memory that this process may use.
        recommended_bytes: Metal's recommended working set; 0 without Metal.
        wired: bytes to wire once the model is loaded, or `WIRE_WEIGHTS`.
        keep_warm: run a tiny kernel whenever the model thread is idle and was not for long.

    Attributes:
        release_after_s: idle time after which `rest` releases memory.
    """

    def __init__(
        self,
        share_bytes: int,
        recommended_bytes: int,
        *,
        wired: int = WIRE_WEIGHTS,
        keep_warm: bool = True,
        library: MemoryLibrary | None = None,
    ) -> None:
        self._share_bytes = share_bytes
        self._recommended_bytes = recommended_bytes
        self._wired = wired
        self._keeps_warm = keep_warm and recommended_bytes > 0
        self._library = library or Mlx()
        self._released = False
        self.release_after_s = METAL_RELEASE_AFTER_S if recommended_bytes else CPU_RELEASE_AFTER_S

    def set_limits(self) -> None:
        """Limit what MLX holds; before the model is loaded."""
        if not self._recommended_bytes:
            self._library.set_cache_limit(min(_CPU_POOL_BYTES, self._share_bytes // 8))
            return
        # MLX's own limit is one and a half times the whole device, for each process. Near the
        # limit it gives freed buffers back, so the pool's limit need not fit the share.
        self._library.set_memory_limit(self._share_bytes)
        pool_bytes = max(_METAL_POOL_BYTES, int(self._share_bytes * _METAL_POOL_PART))
        self._library.set_cache_limit(pool_bytes)

    def wire_weights(self) -> None:
        """Wire the loaded model, whose arrays must have been evaluated.

        The limit is set when only weights are allocated, to their size. So keys, values and
        scratch buffers, which come and go, are never wired: changing the set of wired buffers
        while others compute is what panics were traced to (ml-explore/mlx#3186). Not wiring
        weights makes large models many times slower (ollama/ollama#17367).
        """
        if not self._recommended_bytes:
            return
        self._library.clear_cache()
        is_auto = self._wired == WIRE_WEIGHTS
        wanted = min(self._library.active_bytes(), self._share_bytes) if is_auto else self._wired
        limit_bytes = min(wanted, self._recommended_bytes)
        if limit_bytes:
            self._library.set_wired_limit(limit_bytes)
            log.info("wired %d MB", limit_bytes >> 20)

    def rest(self, idle_s: float) -> None:
        """Do what is due while the model thread is idle; called about twice a second.

        Args:
            idle_s: seconds since it last worked.
        """
        if idle_s <= self.release_after_s:
            self._released = False
        elif not self._released:
            self._released = True
            self._release()
        if self._keeps_warm and idle_s < _WARM_FOR_S:
            self._library.run_tiny_kernel()

    def _release(self) -> None:
        """Release freed memory that MLX and the C library's heap keep for reuse.

        glibc keeps freed buffers of up to 32 MB in its heap (mallopt(3), M_MMAP_THRESHOLD):
        hundreds of megabytes after prefills of long prompts.
        """
        self._library.clear_cache()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)
