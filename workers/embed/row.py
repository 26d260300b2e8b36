"""One sequence of tokens for the model. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Row:
    """Token ids, never empty.

    Attributes:
        types: which text of a pair each token belongs to, 0 or 1; None if all are 0.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def key(self) -> tuple[bytes, bytes]:
        """A key that is equal for rows with equal content."""
        return self.ids.tobytes(), b"" if self.types is None else self.types.tobytes()
