"""One sequence of tokens on its way to the model. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Row:
    """Token ids, never empty.

    Attributes:
        types: which text of a pair each belongs to; None where all are of the first.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def key(self) -> tuple[bytes, bytes]:
        """What two rows have in common if the model sees the same."""
        return self.ids.tobytes(), b"" if self.types is None else self.types.tobytes()
