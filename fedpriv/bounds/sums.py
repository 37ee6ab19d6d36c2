"""What a server that sees only sums of votes can learn, when `clients` contributors drew honest noise for certain.

Each of the M votes of each contributor is 1 with probability (B + x)/2B in [1 − p_max, p_max], p_max = (B + r)/2B.
One coordinate: `scalar_pair` is a certificate, `scalar_pair_lower` what real data reach. A vector under ‖x‖₂ ≤ c:
`vector_bound` and `vector_pair_lower`. Proofs: docs/proofs/secure-aggregation.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log, sqrt

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.bounds._coin_slope import coin_slope
from fedpriv.bounds.coins import certain_coins, likely_window, log_binomial, lower_quantile
from fedpriv.errors import FedprivError, above, at_most, natural, positive, whole

Pair = tuple[Vector, Vector]  # masses of the same outcomes under the two data sets


def scalar_pair(clients: int, trials: int, p_max: float, *, set_aside: float = 1e-18, atoms: int = 200_000) -> Pair:
    """The pair that certifies one coordinate of a sum of votes: K coins, seen, hide this client's M votes.

    Bin(K, ½) + Bin(M, p_max) against Bin(K, ½) + Bin(M, 1 − p_max).

    Theorem A′ of the proofs. Values of K are grouped downwards to keep to about `atoms`; what lies beyond the tables,
    of mass at most `set_aside`, is told apart for certain (the last two atoms).

    >>> p, q = scalar_pair(20, 3, 0.7)
    >>> len(p), round(float(np.abs(p - q).sum() / 2), 6)
    (1872, 0.157344)
    """
    _check(clients, trials, p_max)
    votes = np.exp(log_binomial(trials, p_max, 0, trials))
    if clients == 1:
        return votes, votes[::-1]
    groups = _coin_groups(trials * (clients - 1), 2 * (1 - p_max), set_aside / 2, atoms)
    sums = []
    for coins, weight in groups:
        first, _ = likely_window(coins, 0.5, set_aside / 2)  # centred on K/2
        fair = np.exp(log_binomial(coins, 0.5, first, coins - first))
        sums.append(weight * np.convolve(fair, votes))
    return _told_apart(sums, set_aside)


def scalar_pair_lower(clients: int, trials: int, p_max: float, *, high: int, merged: float = 1e-18) -> Pair:
    """The pair that real data reach in a sum of votes: `high` of the others at the top of their interval.

    The rest of them is at its bottom, this client at either end.

    A lower bound on what is given away. Outcomes in the far tails are merged, which only hides. The worst `high`
    depends on δ: try 0, clients − 1 and half of it.

    >>> p, q = scalar_pair_lower(20, 3, 0.7, high=19)
    >>> round(float(np.abs(p - q).sum() / 2), 6)
    0.134875
    """
    _check(clients, trials, p_max)
    natural(high=high)
    at_most("clients - 1", clients - 1, high=high)
    votes = np.exp(log_binomial(trials, p_max, 0, trials))
    top = _binomial(trials * high, p_max, merged**2)
    bottom = _binomial(trials * (clients - 1 - high), 1 - p_max, merged**2)
    others = np.convolve(top, bottom)
    p, q = np.convolve(others, votes), np.convolve(others, votes[::-1])
    total = p + q  # the first and the last outcomes, of about `merged` each, become one outcome each
    start = int(np.searchsorted(np.cumsum(total), merged))
    end = len(p) - 1 - int(np.searchsorted(np.cumsum(total[::-1]), merged))
    starts = np.concatenate([[0], np.arange(start + 1, end + 1)])
    return np.add.reduceat(p, starts), np.add.reduceat(q, starts)


def ternary_pair(
    clients: int, peak: float, spread: float, scale: float, *, set_aside: float = 1e-18, atoms: int = 200_000
) -> Pair:
    """The pair that certifies one coordinate of a sum of ternary symbols: K lazy coins, seen, hide one at ±r.

    A message in {−1, 0, 1} is with probability 1 − r/B a lazy coin, ±1 with (A − r)/2(B − r) each, whatever the data
    (section 6 of the proofs). There is no bound of this kind for vectors yet.

    >>> p, q = ternary_pair(200, 1.0, 2.0, 5.0)
    >>> round(float(np.abs(p - q).sum() / 2), 6)
    0.025168
    """
    whole(clients=clients)
    positive(peak=peak)
    above("peak", peak, spread=spread)
    above("spread", spread, scale=scale)
    message = np.array([(spread - peak) / (2 * scale), 1 - spread / scale, (spread + peak) / (2 * scale)])
    if clients == 1:
        return message, message[::-1]
    side = (spread - peak) / (2 * (scale - peak))
    groups = _coin_groups(clients - 1, 1 - peak / scale, set_aside / 2, atoms // 2)
    crowds = _lazy_sums([coins for coins, _ in groups], np.array([side, 1 - 2 * side, side]), set_aside / 2)
    sums = [weight * np.convolve(law, message) for (_, weight), law in zip(groups, crowds, strict=True)]
    return _told_apart(sums, set_aside)


def ternary_pair_lower(clients: int, level: float, spread: float, scale: float, *, merged: float = 1e-18) -> Pair:
    """The pair that real data reach in a sum of ternary symbols: all others at 0, this client at ±level.

    >>> p, q = ternary_pair_lower(200, 1.0, 2.0, 5.0)
    >>> round(float(np.abs(p - q).sum() / 2), 6) < 0.025168
    True
    """
    whole(clients=clients)
    message = np.array([(spread - level) / (2 * scale), 1 - spread / scale, (spread + level) / (2 * scale)])
    if clients == 1:
        return message, message[::-1]
    side = spread / (2 * scale)
    crowd = _lazy_sums([clients - 1], np.array([side, 1 - 2 * side, side]), merged)[0]
    p, q = np.convolve(crowd, message), np.convolve(crowd, message[::-1])
    return np.append((1 - merged) * p, merged), np.append((1 - merged) * q, merged)  # far crowds told apart by nothing


def published_epsilon(p_min: float, p_max: float, trials: int = 1) -> float:
    """The ε that [F] Theorem 9 prints for M = `trials` votes in a sum: M·max(ln((1−p_min)/(1−p_max)), ln(p_max/p_min)).

    That ε is right; the chords are the curve of pure ε-DP where p_min + p_max = 1 alone, and elsewhere lie above it.
    It does not see the other clients at all: the crowd buys nothing there. The paper proves M = 1 and calls M > 1
    straightforward: M votes are M messages of one, so their ratios of chances multiply.

    >>> round(published_epsilon(0.3, 0.7), 6)
    0.847298
    """
    positive(p_min=p_min)
    if not p_min <= p_max < 1:
        raise FedprivError(f"p_max must be at least p_min = {p_min} and below 1, got {p_max}")
    return trials * max(log((1 - p_min) / (1 - p_max)), log(p_max / p_min))


@dataclass(frozen=True, slots=True)
class VectorBound:
    """One round of one vector is `mu`-GDP up to a failure of probability `failure`."""

    coins: int  # K, certain up to half the failure
    slope: float  # S
    mu: float  # 2cS
    failure: float


def vector_bound(
    clients: int,
    trials: int,
    clip: float,
    peak: float,
    scale: float,
    *,
    dimension: int,
    failure: float = 1e-15,
    tolerance: float = 1e-7,
) -> VectorBound:
    """Theorem B: the μ of a vector of votes, ‖x‖₂ ≤ c, |x_j| ≤ r, of which sums of `clients` are seen: 2cS.

    T rounds: μ√T, failure·T added to δ.

    >>> bound = vector_bound(1294, 4, 1.0, 0.2, 0.911, dimension=650, failure=1e-12 / 40)
    >>> bound.coins, round(bound.mu * 40**0.5, 5)
    (3780, 0.91533)
    """
    whole(dimension=dimension)
    positive(clip=clip, failure=failure)
    share = failure / (2 * dimension)
    coins = certain_coins(clients, trials, (scale - peak) / (2 * scale), share)
    _, slope = coin_slope(coins, trials, peak, scale, negligible=share, tolerance=tolerance)
    return VectorBound(coins, slope, 2 * clip * slope, failure)


def _check(clients: int, trials: int, p_max: float) -> None:
    """Refuse, for a pair of sums, clients or votes that are no whole numbers from 1 on, and p_max not in (1/2, 1)."""
    whole(clients=clients, trials=trials)
    if not 0.5 < p_max < 1:
        raise FedprivError(f"p_max must lie between 1/2 and 1, got {p_max}")


def _binomial(n: int, p: float, failure: float) -> Vector:
    """Probabilities of Bin(n, p), others' votes in a sum, in a window that it leaves with probability ≤ failure."""
    return np.exp(log_binomial(n, p, *likely_window(n, p, failure)))


def _coin_groups(n: int, p: float, failure: float, atoms: int) -> list[tuple[int, float]]:
    """The number of hidden coins, Bin(n, p), in groups: of each the smallest K and its mass; outside ≤ `failure`."""
    first, last = lower_quantile(n, p, failure / 2), n - lower_quantile(n, 1 - p, failure / 2)
    low, high = likely_window(last, 0.5, failure)
    step = -(-(last - first + 1) * (high - low + 1) // atoms)
    masses = np.exp(log_binomial(n, p, first, last))
    starts = np.arange(0, len(masses), step)
    return list(zip((first + starts).tolist(), np.add.reduceat(masses, starts).tolist(), strict=True))


def _told_apart(sums: Sequence[Vector], failure: float) -> Pair:
    """The pair of the sums' masses and their mirror images, but for a failure, which tells the two data apart."""
    p = (1 - failure) * np.concatenate(sums)
    q = (1 - failure) * np.concatenate([mass[::-1] for mass in sums])
    return np.append(p, [failure, 0.0]), np.append(q, [0.0, failure])


def _lazy_sums(counts: list[int], coin: Vector, failure: float) -> list[Vector]:
    """Laws of the sums of the first `counts` of lazy coins: the crowd around a ternary symbol, from −reach to reach.

    Given that no block summed here went too far.
    """
    blocks = 4 * max(counts) + 4  # more than are summed below
    laws = [_lazy_sum(coin, counts[0], failure / blocks)]
    for before, after in pairwise(counts):
        step = _lazy_sum(coin, after - before, failure / blocks)
        laws.append(_trimmed(np.convolve(laws[-1], step), after, coin, failure / blocks))
    return [law / law.sum() for law in laws]


def _lazy_sum(coin: Vector, count: int, failure: float) -> Vector:
    """The law of a sum of `count` lazy coins by doubling blocks; all terms are positive, so masses keep digits."""
    law: Vector = np.ones(1)
    block, size, done = coin, 1, 0
    while done < count:
        if count & size:
            done += size
            law = _trimmed(np.convolve(law, block), done, coin, failure)
        size *= 2
        if size <= count:
            block = _trimmed(np.convolve(block, block), size, coin, failure)
    return law


def _trimmed(law: Vector, count: int, coin: Vector, failure: float) -> Vector:
    """The law of a sum of lazy coins cut to |sum| ≤ reach, which it passes with probability ≤ failure.

    By the smaller of Hoeffding's and Bernstein's bound.
    """
    doubt, variance, middle = log(2 / failure), count * float(coin[0] + coin[2]), len(law) // 2
    bernstein = doubt / 3 + sqrt(doubt**2 / 9 + 2 * variance * doubt)
    reach = min(middle, ceil(min(sqrt(2 * count * doubt), bernstein)))
    return law[middle - reach : middle + reach + 1]
