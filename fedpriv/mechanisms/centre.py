"""Votes about a mechanism's own centre: which way a sum of messages leans, exactly."""

from __future__ import annotations

from fractions import Fraction
from math import nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TWO = nextafter(2.0, 0.0)


def votes_past_centre(total: NDArray[Any], count: int, centre: Fraction) -> NDArray[np.float64]:
    """2 (T − n·centre) of the sum T of n messages, for majority votes: above 0 where they lean to plus, 0 in a tie.

    Doubled it is a whole number for all mechanisms but biased noise, whose centre lies between its symbols' halves.

    >>> votes_past_centre(np.array([1, 2, 3]), 1, Fraction(2)), votes_past_centre(np.array([5, 6]), 2, Fraction("2.7"))
    (array([-2.,  0.,  2.]), array([-0.8,  1.2]))
    """
    bound = count * centre
    whole = bound.numerator // bound.denominator
    rest = min(float(2 * (bound - whole)), _TWO)  # what rounds to 2 would make a tie of what is none
    return 2.0 * (np.asarray(total, np.float64) - whole) - rest
