"""What a worker process asks of the machine: device, memory limits, memory readings.

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

# Freed buffers kept for reuse. Beyond a few hundred MB they gain nothing and look like a leak.
_POOL_BYTES = 512 * 1024 * 1024
# A worker that has had nothing to do for this long gives back what it keeps for reuse. Sooner, and
# the next request of somebody who reads and types pays for getting it again.
RELEASE_AFTER_S: Final = 3.0
# How often each number of threads is tried, at least and for how long, and how much slower than the
# best fewer threads may be: what they leave idle, others use.
_TRIES = 3
_TRY_S = 0.2
_WORTH = 1.25


@dataclass(frozen=True)
class Device:
    """The device this process computes on.

    Attributes:
        name: for the log.
        memory_bytes: what the process may use: its share of the device.
        pass_tokens: of one forward pass over texts; more gain nothing and make others wait.
        full_precision: whether float32 is what it multiplies fastest.
    """

    name: str
    memory_bytes: int
    pass_tokens: int
    full_precision: bool


def set_up(share: float) -> Device:
    """Choose the device and set MLX's limits.

    Args:
        share: part of the device's memory this worker may use, 0 to 1.

    On Metal the whole is the recommended working set; elsewhere half of the machine's RAM, since
    gateway, tokenizers and the page cache live there too.
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
    """Choose how many threads OpenBLAS uses, by what they are worth here.

    A decode step's matrix products are narrow: more threads wait for each other and for memory,
    and take cores from the gateway. Small and busy machines are faster with one. Nothing is
    chosen where another library multiplies (Metal, Accelerate) or the environment has chosen.

    Args:
        run: computes what is worth being fast; called a few times.

    Returns:
        the number of threads, or None where nothing was chosen.
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
    """Give back what was freed and is kept for reuse, by MLX and by the C library's heap.

    glibc keeps freed buffers of up to 32 MB in its heap (mallopt(3), M_MMAP_THRESHOLD), which
    prefills of long prompts leave hundreds of megabytes of. For a moment in which nothing runs.
    """
    mx.clear_cache()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def read_memory() -> worker_pb2.Memory:
    """Return what this process and its allocator hold now."""
    return worker_pb2.Memory(
        rss_bytes=rss_bytes(),
        active_bytes=mx.get_active_memory(),
        pooled_bytes=mx.get_cache_memory(),
        peak_bytes=mx.get_peak_memory(),
    )


def rss_bytes() -> int:
    """Return the resident set of this process, now.

    Without /proc (macOS) it is the peak, the only figure the standard library has there.
    """
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
