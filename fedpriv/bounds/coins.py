"""Fair coins hidden in other people's votes: how many there are for certain, and binomial laws of any size.

A vote that is 1 with probability p in [p_min, 1 − p_min] is, with probability 2·p_min, a fair coin tossed whatever
the data. Under secure aggregation the coins of all others stand between a client and the server.
Proofs: docs/proofs/secure-aggregation.md, section 1.
"""

from __future__ import annotations

from math import ceil, floor, inf, log, log1p, sqrt

import numpy as np
from scipy.special import gammaln, xlogy

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, positive, probability, whole

ROUNDING = float(np.finfo(np.float64).eps)
LONGEST_SUM = 4096  # tail terms added one by one; a geometric series bounds the rest


def certain_coins(clients: int, trials: int, p_min: float, failure: float) -> int:
    """How many fair coins K the other clients' votes surely hold: fewer come with probability at most `failure`.

    The largest K with P(coins < K) ≤ failure, where coins ~ Bin(trials·(clients − 1), 2·p_min).

    Lemma 1 of the proofs. Every rounding goes downwards, so K is never too large.

    >>> certain_coins(1294, 4, (0.911 - 0.2) / 1.822, failure=1e-12 / (650 * 40))
    3782
    """
    whole(clients=clients, trials=trials)
    positive(p_min=p_min)
    if not p_min < 0.5:
        raise FedprivError(f"p_min must be below 1/2, got {p_min}")
    probability(failure=failure)
    return lower_quantile(trials * (clients - 1), 2 * p_min, failure)


def lower_quantile(n: int, p: float, failure: float) -> int:
    """The largest k ≤ np that Bin(n, p), a number of hidden coins, stays below with probability ≤ failure.

    By bisection on a bound of the tail.
    """
    target = log(failure) if failure > 0 else -inf
    good, bad = 0, floor(n * p) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if log_lower_tail(middle - 1, n, p) <= target:
            good = middle
        else:
            bad = middle
    return good


def log_lower_tail(k: int, n: int, p: float) -> float:
    """An upper bound of ln P(Bin(n, p) ≤ k) for k ≤ np, by which a certificate counts the coins it may rely on.

    Terms are added downwards from k, then a geometric series.
    """
    below = k - np.arange(min(k, LONGEST_SUM) + 1, dtype=np.float64)
    ratios = below * (1 - p) / ((n - below + 1) * p)  # P(j − 1) / P(j), falling with j and below 1
    terms = np.cumprod(ratios)
    last = float(terms[-1])
    total = float(terms.sum()) + (last * ratios[-1] / (1 - ratios[-1]) if last else 0.0)
    parts = np.array([gammaln(n + 1), -gammaln(k + 1), -gammaln(n - k + 1), xlogy(k, p), (n - k) * log1p(-p)])
    return float(parts.sum() + log1p(total) + 8 * ROUNDING * (np.abs(parts).sum() + len(terms)))


def log_binomial(n: int, p: float, first: int, last: int) -> Vector:
    """Logarithms of P(Bin(n, p) = k | first ≤ k ≤ last), the law of votes or coins; large n keep their digits.

    They are summed up from ratios.

    >>> np.exp(log_binomial(4, 0.5, 0, 4)) * 16
    array([1., 4., 6., 4., 1.])
    """
    k = np.arange(first + 1, last + 1, dtype=np.float64)
    steps = np.log((n - k + 1) / k) + (log(p) - log1p(-p))
    heights = np.concatenate([[0.0], np.cumsum(steps)])
    heights -= heights.max()
    return heights - log(np.exp(heights).sum())


def likely_window(n: int, p: float, failure: float) -> tuple[int, int]:
    """First and last k that a table of Bin(n, p) needs: outside of them lies at most `failure` (Hoeffding).

    >>> likely_window(10_000, 0.5, 1e-18)
    (4540, 5460)
    """
    reach = sqrt(n * log(2 / failure) / 2) if failure > 0 else inf
    return (floor(max(0.0, n * p - reach)), ceil(min(float(n), n * p + reach)))
