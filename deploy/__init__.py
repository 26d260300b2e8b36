"""Everything around the processes: starting them, setting a machine up, models to begin with.

Starts gateway and workers as processes, and imports of their code only what it makes pages of.
"""

from pathlib import Path
from typing import Final

# The folder of our packages: the checkout, or `mlxcel_server/_app` of an installed wheel.
ROOT: Final = Path(__file__).resolve().parent.parent
IS_CHECKOUT: Final = (ROOT / "pyproject.toml").is_file()
