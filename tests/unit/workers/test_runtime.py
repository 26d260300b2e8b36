"""What a worker asks of the machine."""

from __future__ import annotations

import ctypes
import time

import pytest

from workers import runtime


@pytest.fixture
def threads(monkeypatch):
    """Yield what tells how many threads OpenBLAS uses; afterwards it uses as many as before."""
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


def test_what_the_environment_has_chosen_stays(threads, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    assert runtime.settle_threads(lambda: pytest.fail("there is nothing to find out")) is None
