"""Everything around the processes: starting them, setting a machine up, models to begin with.

Starts gateway and workers as processes, and imports of their code only what it makes pages of.
"""

from pathlib import Path
from typing import Final

# The checkout.
ROOT: Final = Path(__file__).resolve().parent.parent
