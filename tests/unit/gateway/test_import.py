"""The gateway knows protocols, not models."""

from __future__ import annotations

import subprocess
import sys

FORBIDDEN = ("mlx", "mlx_lm", "transformers", "tokenizers", "jinja2", "numpy", "torch", "workers")


def test_the_gateway_loads_no_machine_learning_library():
    program = (
        "import sys, pkgutil, importlib, gateway\n"
        "for found in pkgutil.walk_packages(gateway.__path__, 'gateway.'):\n"
        "    importlib.import_module(found.name)\n"
        f"print([name for name in {FORBIDDEN!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
