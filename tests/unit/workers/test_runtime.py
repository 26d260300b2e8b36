"""Device settings of a worker process."""

from __future__ import annotations

import ctypes
import os
import time

import pytest

from workers import runtime


@pytest.fixture
def threads(monkeypatch):
    """Yield OpenBLAS's getter of its thread count, None without OpenBLAS; restore the count."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    library = ctypes.CDLL(None)
    if not hasattr(library, "openblas_get_num_threads"):
        yield None
        return
    before = library.openblas_get_num_threads()
    yield library.openblas_get_num_threads
    library.openblas_set_num_threads(before)


@pytest.mark.parametrize("more_is_faster", [True, False])
def test_the_fastest_number_of_threads_is_kept(threads, more_is_faster):
    if threads is None:
        assert runtime.settle_threads(lambda: None) is None
        return
    most = threads()

    def run():
        time.sleep(0.1 / threads() ** 3 if more_is_faster else 0.01 * threads() ** 3)

    chosen = runtime.settle_threads(run)
    # Powers of two are tried.
    assert chosen == (1 << (most.bit_length() - 1) if more_is_faster else 1)
    assert threads() == chosen


def test_a_thread_count_set_in_the_environment_is_kept(threads, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    assert runtime.settle_threads(lambda: pytest.fail("no trial is needed")) is None


def test_memory_is_what_the_process_holds_now_not_its_peak():
    before = runtime.rss_bytes()
    held = bytearray(200 << 20)
    held[:: 1 << 12] = bytes(len(held) >> 12)
    grown = runtime.rss_bytes()
    del held
    assert grown > before + (150 << 20)
    assert runtime.rss_bytes() < grown - (150 << 20)


class FakeLibrary:
    """A C library with macOS's `proc_pid_rusage`, which fills in the words of the structure."""

    def __init__(self, result=0):
        self.result = result

    def proc_pid_rusage(self, pid, flavor, pointer):
        assert (pid, flavor) == (os.getpid(), 0)
        # After the 16 bytes of the uuid, ten words; the footprint is the eighth.
        words = (ctypes.c_uint64 * 12).from_buffer(pointer._obj)
        words[:] = range(100, 112)
        assert ctypes.sizeof(pointer._obj) == ctypes.sizeof(words)
        return self.result


def test_the_footprint_of_macos_is_read_from_its_own_field():
    assert runtime.read_footprint(FakeLibrary()) == 109
    assert runtime.read_footprint(FakeLibrary(result=-1)) == 0


def test_a_system_without_footprints_gives_none():
    assert runtime.read_footprint(object()) == 0
