"""What a comparison of two simulators found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rci.data.errors import RciError


@dataclass
class Parity:
    """Episodes that two simulators ran side by side. `worst`: largest absolute difference, by quantity."""

    case: str
    episodes: int = 0
    steps: int = 0
    crashed: int = 0
    bitwise: int = 0  # episodes of which every bit was equal
    worst: dict[str, float] = field(default_factory=dict)
    first_difference: str = ""

    @property
    def largest(self) -> float:
        """The largest difference in any quantity."""
        return max(self.worst.values(), default=0.0)

    def same(self, name: str, theirs: Any, mine: Any, where: str) -> bool:
        """Whether a quantity is equal in every bit; a difference is noted."""
        a, b = np.asarray(theirs), np.asarray(mine)
        if a.shape != b.shape:
            raise RciError(f"{where}: {name} has shape {a.shape} in the original, {b.shape} here.")
        a, b = a.astype(np.float64), b.astype(np.float64)
        if a.tobytes() == b.tobytes():
            return True
        difference = float(np.abs(a - b).max())
        difference = difference if np.isfinite(difference) else math.inf
        self.worst[name] = max(self.worst.get(name, 0.0), difference)
        self.first_difference = self.first_difference or f"{where}: {name} differs by {difference:.3g}"
        return False
