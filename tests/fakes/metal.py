"""A Mac's GPU as the memory policy of a worker sees it: it records what is called."""

from __future__ import annotations

from collections.abc import Mapping


class FakeMetal:
    """A GPU, or a machine without one.

    Attributes:
        calls: (name, bytes) of everything that changes something, in order.
        active: what `active_bytes` returns.
    """

    def __init__(self, *, recommended: int = 0, metal: bool = True, gpu: bool = True) -> None:
        self._recommended = recommended
        self._metal = metal
        self._gpu = gpu
        self.active = 0
        self.calls: list[tuple[str, int]] = []

    def has_metal(self) -> bool:
        return self._metal

    def has_gpu(self) -> bool:
        return self._gpu

    def describe_gpu(self) -> Mapping[str, str | int]:
        if not self._gpu:
            raise RuntimeError("[metal::load_device] No device")
        return {
            "device_name": "Apple M3 Ultra",
            "max_recommended_working_set_size": self._recommended,
        }

    def use_cpu(self) -> None:
        self.calls.append(("use_cpu", 0))

    def set_memory_limit(self, limit_bytes: int) -> None:
        self.calls.append(("set_memory_limit", limit_bytes))

    def set_cache_limit(self, limit_bytes: int) -> None:
        self.calls.append(("set_cache_limit", limit_bytes))

    def set_wired_limit(self, limit_bytes: int) -> None:
        # MLX refuses more with an exception.
        assert limit_bytes <= self._recommended
        self.calls.append(("set_wired_limit", limit_bytes))

    def active_bytes(self) -> int:
        self.calls.append(("active_bytes", self.active))
        return self.active

    def clear_cache(self) -> None:
        self.calls.append(("clear_cache", 0))

    def run_tiny_kernel(self) -> None:
        self.calls.append(("run_tiny_kernel", 0))
