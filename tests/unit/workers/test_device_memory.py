"""Which memory limits a worker sets, in which order, on a Mac that is played by a fake."""

from __future__ import annotations

import pytest

from shared.lifecycle import PermanentError
from shared.settings.process import WIRE_WEIGHTS
from tests.fakes.metal import FakeMetal
from workers.device_memory import DeviceMemory
from workers.runtime import choose_device

GB = 1024**3
# What a Mac Studio of 256 GB recommends, about.
RECOMMENDED = 192 * GB


def make(metal, *, share=0.5, **settings):
    """Return the memory of a worker after its start up to the load of its model."""
    device = choose_device(share, metal)
    memory = DeviceMemory(device.memory_bytes, device.recommended_bytes, library=metal, **settings)
    memory.set_limits()
    return memory


@pytest.fixture
def metal():
    return FakeMetal(recommended=RECOMMENDED)


def test_nothing_is_wired_before_the_model_is_loaded(metal):
    make(metal)
    assert metal.calls == [
        ("set_memory_limit", 96 * GB),
        ("set_cache_limit", int(9.6 * GB)),
    ]


def test_a_small_share_keeps_two_gigabytes_of_freed_buffers(metal):
    make(metal, share=0.02)
    assert metal.calls[1] == ("set_cache_limit", 2 * GB)


def test_the_weights_alone_are_wired_once_freed_buffers_are_gone(metal):
    memory = make(metal)
    metal.calls.clear()
    metal.active = 70 * GB
    memory.wire_weights()
    assert metal.calls == [
        ("clear_cache", 0),
        ("active_bytes", 70 * GB),
        ("set_wired_limit", 70 * GB),
    ]


@pytest.mark.parametrize(
    ("wired", "weights", "expected"),
    [
        (WIRE_WEIGHTS, 250 * GB, [("set_wired_limit", 96 * GB)]),
        (WIRE_WEIGHTS, 0, []),
        (0, 70 * GB, []),
        (12 * GB, 70 * GB, [("set_wired_limit", 12 * GB)]),
        (999 * GB, 70 * GB, [("set_wired_limit", RECOMMENDED)]),
    ],
)
def test_the_setting_decides_what_is_wired(metal, wired, weights, expected):
    memory = make(metal, wired=wired)
    metal.active = weights
    memory.wire_weights()
    assert [call for call in metal.calls if call[0] == "set_wired_limit"] == expected


def idle(metal, memory, *seconds):
    """Return what is called when the model thread has been idle for these times."""
    metal.calls.clear()
    for idle_s in seconds:
        memory.rest(idle_s)
    return [name for name, _ in metal.calls]


def test_freed_buffers_are_kept_for_a_minute_on_metal_and_released_once(metal):
    memory = make(metal, keep_warm=False)
    assert idle(metal, memory, 0.5, 3.5, 59.5) == []
    assert idle(metal, memory, 60.5, 61.0, 300.0) == ["clear_cache"]
    assert idle(metal, memory, 0.5, 30.0) == []
    assert idle(metal, memory, 61.0) == ["clear_cache"]


def test_the_gpu_is_kept_warm_for_three_minutes(metal):
    memory = make(metal)
    assert idle(metal, memory, 0.5, 1.0, 1.5) == ["run_tiny_kernel"] * 3
    assert idle(metal, memory, 179.5, 180.0, 180.5) == ["clear_cache", "run_tiny_kernel"]


def test_a_processor_has_a_small_pool_is_released_soon_and_wires_nothing():
    cpu = FakeMetal(metal=False, gpu=False)
    memory = make(cpu)
    memory.wire_weights()
    ((first, _), (second, pool_bytes)) = cpu.calls
    assert (first, second) == ("use_cpu", "set_cache_limit")
    assert pool_bytes <= GB // 2
    assert idle(cpu, memory, 0.5, 2.5, 3.5, 4.0, 90.0) == ["clear_cache"]


def test_a_share_of_the_gpu_is_a_share_of_what_metal_recommends(metal):
    device = choose_device(0.25, metal)
    assert device.name == "Apple M3 Ultra"
    assert (device.memory_bytes, device.recommended_bytes) == (48 * GB, RECOMMENDED)
    assert (device.pass_tokens, device.full_precision) == (2048, False)


def test_a_mac_without_a_gpu_ends_the_start_with_one_line():
    with pytest.raises(PermanentError, match=r"^no GPU can be opened; run the server on .*\Z"):
        choose_device(1.0, FakeMetal(gpu=False))
