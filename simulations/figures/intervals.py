"""How sure a mean over seeds is: Student's t interval about it, the one notion behind every ± of reports.

Of n values with mean m and standard deviation s (n − 1) the interval is m ± t·s/√n, t being the 97.5% quantile of
Student's law of n − 1 degrees of freedom. If seeds are independent draws of one normal law it covers at 95% what ever
more seeds would average to: the luck of a seed (first weights, division, noise, who is drawn), not that of the test
records, which all seeds share. Where k intervals are to hold together, the 5% are shared among them (Bonferroni): t is
the quantile of 1 − 0.05/(2k).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.special import stdtrit

CONFIDENCE = 0.95
FEWEST = 3  # seeds without which nothing is ranked
ROUNDING = 1e-12  # what floats may add to a difference that is 0


class Interval(NamedTuple):
    """A mean over seeds and half the width of its 95% interval, None of a single seed; the worst and best seed."""

    mean: float
    half: float | None
    low: float  # of the worst seed, which is no end of the interval
    high: float  # of the best
    seeds: int  # how many

    @property
    def side(self) -> int:
        """On which side of 0 a report's paired differences lie: 1 above, −1 below, 0 where seeds do not tell."""
        told = self.half is not None and self.seeds >= FEWEST and abs(self.mean) > self.half + ROUNDING
        return (1 if self.mean > 0 else -1) if told else 0


def interval_of(values: Sequence[float], together: int = 1) -> Interval | None:
    """The mean of values, one a seed, and its 95% t interval, for reports; None of no value.

    `together` is how many such intervals are to hold at once, as where a winner is named among one more.

    >>> found = interval_of([0.50, 0.52, 0.54])
    >>> round(found.mean, 4), round(found.half, 4), found.seeds, interval_of([0.5]).half, interval_of([])
    (0.52, 0.0497, 3, None, None)
    """
    n = len(values)
    if not n:
        return None
    share = (1 - CONFIDENCE) / (2 * max(1, together))
    half = float(-stdtrit(n - 1, share)) * stdev(values) / sqrt(n) if n > 1 else None
    return Interval(fmean(values), half, min(values), max(values), n)


def paired_interval(one: Mapping[int, float], other: Mapping[int, float], together: int = 1) -> Interval | None:
    """The interval of how much more one has than another, seed by seed, for reports; None where no seed has both.

    >>> found = paired_interval({1: 0.8, 2: 0.9, 3: 0.7}, {1: 0.7, 2: 0.8, 3: 0.6, 4: 0.1})
    >>> round(found.mean, 4), round(found.half, 4), found.seeds, found.side
    (0.1, 0.0, 3, 1)
    """
    return interval_of([one[seed] - other[seed] for seed in sorted(one) if seed in other], together)


def interval_words(found: Interval | None, digits: int = 3, scale: float = 1.0, sign: str = "") -> str:
    """A mean over seeds with half of its interval, in words for tables: "0.840 ± 0.011"; scale 100 for percent.

    With the sign "+" a mean above 0 has it, as differences do.

    >>> interval_words(interval_of([0.50, 0.52, 0.54])), interval_words(interval_of([0.84])), interval_words(None)
    ('0.520 ± 0.050', '0.840', '–')
    """
    if found is None:
        return "–"
    words = f"{scale * found.mean:{sign}.{digits}f}"
    return words if found.half is None else f"{words} ± {scale * found.half:.{digits}f}"
