"""The device of a worker process, its memory limits, its threads and its memory readings.

The only module of workers/ that may branch on the platform. Called on the thread that owns the
model, since MLX objects and streams belong to the thread that made them.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import mlx.core as mx

from shared.pb import worker_pb2

# Freed buffers kept for reuse. More than a few hundred MB save no time and look like a leak.
_POOL_BYTES = 512 * 1024 * 1024
# Idle time after which a worker releases memory that is kept for reuse. Long enough for the next
# request of somebody who reads and types.
RELEASE_AFTER_S: Final = 3.0
# How often each number of threads is tried at least, for how long, and how much slower than the
# best a smaller number may be.
_TRIES = 3
_TRY_S = 0.2
_WORTH = 1.25


@dataclass(frozen=True)
class Device:
    """The device this process computes on.

    Attributes:
        memory_bytes: the process's share of the device's memory.
        pass_tokens: of one forward pass over texts; more save no time and delay other calls.
        full_precision: whether it multiplies float32 fastest.
    """

    name: str
    memory_bytes: int
    pass_tokens: int
    full_precision: bool


def set_up(share: float) -> Device:
    """Choose the device and set MLX's limits.

    Args:
        share: of the device's memory that this worker may use, 0 to 1.

    The device's memory is the recommended working set on Metal, and elsewhere half of the RAM,
    which gateway, tokenizers and the page cache share.
    """
    if mx.metal.is_available():
        info = mx.device_info()
        total = int(info["max_recommended_working_set_size"])
        memory_bytes = int(total * share)
        mx.set_wired_limit(memory_bytes)
        name, pass_tokens = str(info.get("device_name", "Metal")), 8192
    else:
        mx.set_default_device(mx.cpu)
        memory_bytes = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.5 * share)
        name, pass_tokens = "CPU", 512
    mx.set_cache_limit(min(_POOL_BYTES, memory_bytes // 8))
    return Device(name, memory_bytes, pass_tokens, full_precision=name == "CPU")


def settle_threads(run: Callable[[], None]) -> int | None:
    """Choose OpenBLAS's number of threads, by measurement.

    A decode step's matrix products are narrow: more threads wait for each other and for memory,
    and take cores from the gateway. Small and busy machines are faster with one. The number is
    left alone without OpenBLAS (Metal, Accelerate) or if the environment sets it.

    Args:
        run: the computation to be fast; called a few times.

    Returns:
        the number of threads; None if it was left alone.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "openblas_set_num_threads") or "OPENBLAS_NUM_THREADS" in os.environ:
        return None
    most = int(library.openblas_get_num_threads())
    took_s: dict[int, list[float]] = {1 << power: [] for power in range(most.bit_length())}
    until_s = time.perf_counter() + _TRY_S
    while len(took_s[1]) < _TRIES or time.perf_counter() < until_s:
        for threads, times_s in took_s.items():
            library.openblas_set_num_threads(threads)
            began_s = time.perf_counter()
            run()
            times_s.append(time.perf_counter() - began_s)
    best_s = min(median(times_s) for times_s in took_s.values())
    chosen = next(n for n in took_s if median(took_s[n]) <= _WORTH * best_s)
    library.openblas_set_num_threads(chosen)
    return chosen


def release_memory() -> None:
    """Release freed memory that MLX and the C library's heap keep for reuse. Call when idle.

    glibc keeps freed buffers of up to 32 MB in its heap (mallopt(3), M_MMAP_THRESHOLD): hundreds
    of megabytes after prefills of long prompts.
    """
    mx.clear_cache()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def read_memory() -> worker_pb2.Memory:
    """Return the memory that this process and MLX's allocator hold now."""
    return worker_pb2.Memory(
        rss_bytes=rss_bytes(),
        active_bytes=mx.get_active_memory(),
        pooled_bytes=mx.get_cache_memory(),
        peak_bytes=mx.get_peak_memory(),
    )


def rss_bytes() -> int:
    """Return the resident set of this process: now, or its peak without /proc (macOS)."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
