"""The device of a worker process, its threads and its memory readings.

With device_memory.py the only module of workers/ that may branch on the platform. Called on the
thread that owns the model, since MLX objects and streams belong to the thread that made them.
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
from typing import Any, Final

import mlx.core as mx

from shared.lifecycle import PermanentError
from shared.pb import worker_pb2
from workers.device_memory import MemoryLibrary, Mlx

# Tokens of one forward pass over texts. More save no time, and on a GPU that another process
# shares, its decode steps wait for the pass.
_METAL_PASS_TOKENS: Final = 2048
_CPU_PASS_TOKENS: Final = 512
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
        recommended_bytes: Metal's recommended working set, of all processes; 0 without Metal.
    """

    name: str
    memory_bytes: int
    pass_tokens: int
    full_precision: bool
    recommended_bytes: int = 0


def choose_device(share: float, library: MemoryLibrary | None = None) -> Device:
    """Choose the device.

    Args:
        share: of the device's memory that this worker may use, 0 to 1.

    The device's memory is the recommended working set on Metal, and elsewhere half of the RAM,
    which gateway, tokenizers and the page cache share.

    Raises:
        PermanentError: this is a Mac, and no GPU can be opened.
    """
    library = library or Mlx()
    if not library.has_metal():
        library.use_cpu()
        ram_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Device("CPU", int(ram_bytes * 0.5 * share), _CPU_PASS_TOKENS, full_precision=True)
    if not library.has_gpu():
        raise PermanentError(
            "no GPU can be opened; run the server on the Mac itself, outside virtual machines "
            "and sandboxes"
        )
    info = library.describe_gpu()
    recommended = int(info["max_recommended_working_set_size"])
    return Device(
        str(info.get("device_name", "Metal")),
        int(recommended * share),
        _METAL_PASS_TOKENS,
        full_precision=False,
        recommended_bytes=recommended,
    )


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


def read_memory() -> worker_pb2.Memory:
    """Return the memory that this process and MLX's allocator hold now."""
    return worker_pb2.Memory(
        rss_bytes=rss_bytes(),
        active_bytes=mx.get_active_memory(),
        pooled_bytes=mx.get_cache_memory(),
        peak_bytes=mx.get_peak_memory(),
    )


def rss_bytes() -> int:
    """Return the memory this process holds now; without a source for it, the most it has held.

    On macOS the physical footprint, which counts what the GPU uses.
    """
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()
    except OSError:
        footprint = read_footprint(ctypes.CDLL(None))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return footprint or (peak if sys.platform == "darwin" else peak * 1024)


class _ResourceUsage(ctypes.Structure):
    """`struct rusage_info_v0` of macOS's <sys/resource.h>."""

    _fields_ = (
        ("uuid", ctypes.c_uint8 * 16),
        *((name, ctypes.c_uint64) for name in ("user_time", "system_time", "pkg_idle_wkups")),
        *((name, ctypes.c_uint64) for name in ("interrupt_wkups", "pageins", "wired_size")),
        *((name, ctypes.c_uint64) for name in ("resident_size", "phys_footprint")),
        *((name, ctypes.c_uint64) for name in ("start_abstime", "exit_abstime")),
    )


def read_footprint(library: Any) -> int:
    """Return the physical footprint of this process in bytes; 0 if the system does not tell.

    Args:
        library: the C library; macOS's has `proc_pid_rusage` (<libproc.h>).
    """
    usage = _ResourceUsage()
    try:
        failed = library.proc_pid_rusage(os.getpid(), 0, ctypes.byref(usage))
    except AttributeError:
        return 0
    return 0 if failed else int(usage.phys_footprint)
