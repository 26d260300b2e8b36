"""The command `mlxcel-server`, and `python -m mlxcel_server`.

Makes the packages in `_app` importable, here and in the processes that are started. A checkout has
no such folder: its packages are importable as they are.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_APP: Final = Path(__file__).resolve().with_name("_app")


def add_app() -> None:
    """Make the packages of an installed wheel importable."""
    if _APP.is_dir():
        # First: the working folder, which `-m` puts there, may have a gateway.py.
        sys.path.insert(0, str(_APP))
        more = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(_APP), more] if more else [str(_APP)])


def main() -> None:
    add_app()
    from deploy import entry  # noqa: PLC0415 - only now importable

    entry.main()


if __name__ == "__main__":
    main()
