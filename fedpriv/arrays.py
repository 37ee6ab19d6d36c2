"""The two kinds of array that cross module borders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.floating[Any]]  # data, probabilities, losses
Symbols = NDArray[np.integer[Any]]  # what a mechanism sends, in the smallest integer type that holds its alphabet
