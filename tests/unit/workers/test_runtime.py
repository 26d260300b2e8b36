"""Device settings of a worker process."""

from __future__ import annotations

import ctypes
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
