"""Debian's OpenBLAS, preloaded into processes that compute.

The CPU wheel of MLX for Linux links a reference BLAS that reaches about 1.6 GFLOP/s; with
Debian's threaded OpenBLAS preloaded, fp32 matrix products run about sixty times faster with the
same results. macOS has Metal and Accelerate and does not need it.

Run as `python -m deploy.setup.openblas COMMAND …` to start any command that way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DEBIAN_PACKAGE: Final = "libopenblas0-pthread"
# Its idle threads spin for 2^n processor cycles before they sleep, 2^26 by default: with a step
# every few milliseconds they never sleep and use the cores that other processes need.
_SPIN: Final = {"OPENBLAS_THREAD_TIMEOUT": "4"}
# Debian installs it below the folder of the machine's own architecture triplet.
_PATTERN: Final = "*/openblas-pthread/libopenblas.so.0"


def find(root: Path = Path("/usr/lib")) -> Path | None:
    """Return the library, or None where it is missing or not needed."""
    if sys.platform != "linux":
        return None
    return next(iter(sorted(root.glob(_PATTERN))), None)


def preload(environ: Mapping[str, str], library: Path | None) -> dict[str, str]:
    """Return the environment with `library` first in what it preloads."""
    changed = _SPIN | dict(environ) if library is not None else dict(environ)
    if library is not None and str(library) not in changed.get("LD_PRELOAD", ""):
        changed["LD_PRELOAD"] = f"{library} {changed.get('LD_PRELOAD', '')}".strip()
    return changed


def main() -> None:
    os.execvpe(sys.argv[1], sys.argv[1:], preload(os.environ, find()))  # noqa: S606 - the purpose


if __name__ == "__main__":
    main()
