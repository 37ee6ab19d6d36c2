"""How ε and δ become the noise of every access before any is made: by the certified accountant, or by the paper.

All noise is Gaussian, so an access is a μ: its sensitivity over its noise. Certified: the μ at which one Gaussian
release meets (ε, δ − δ₀) is shared by squares, for Gaussian curves compose as μ² adds up; δ₀ is what the histogram
needs. As published ([M] Algorithms 9, 10, Lemma G.13): a hundredth of ε and δ for the range, the rest by advanced
composition, with ε capped at 0.9 and √(2 ln(1.25/δ)) a release. The accountant then says what that noise is worth: far
less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from typing import Literal, NamedTuple

from scipy.special import ndtri

from fedpriv._base.arrays import Vector
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Ledger
from fedpriv.bounds import Box, Norm
from fedpriv.estimation._estimate import Estimate
from fedpriv.mechanisms import Costed, Gaussian, Histogram
from fedpriv.trust import Adjacency, Central

Composition = Literal["certified", "published"]
INWARD = 1 - 1e-6  # of μ, so that no rounding in a composition takes ε past the target
RANGE_DELTA = 0.1  # of δ, for bins that only one of two neighbours has
LEAST_EPSILON = 1e-9  # below it, plans overflow
LEAST_DELTA = 1e-300  # below it, plans overflow
CAP = 0.9  # of ε, in the paper's advanced composition
RANGE_PUBLISHED = 0.01  # of ε and δ, in the paper

_EPSILON = lru_cache(maxsize=64)(Ledger.epsilon)  # the same plan is often run again


class Access(NamedTuple):
    """A query of the records that a plan may make."""

    name: str
    times: int  # at most
    share: float  # of μ², all times together


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The noise of every access, as μ = sensitivity/noise, and of the histograms that find the range."""

    mus: dict[str, float]  # of one access, by name
    histogram: Histogram | None  # of one coordinate; None where the range is known


def split(
    accesses: Sequence[Access],
    *,
    range_share: float,  # of μ², for the histograms; 0 where the range is known
    dimension: int,
    epsilon: float,
    delta: float,
    composition: Composition,
) -> Budget:
    """The noise (μ) of every access of a private mean to its records, and of the histograms that find their range.

    >>> found = split([Access("moments", 4, 1.0)], range_share=0, dimension=2, epsilon=1, delta=1e-5,
    ...               composition="certified")
    >>> round(2 * found.mus["moments"], 3)
    0.268
    """
    if composition == "published":
        return _published(accesses, range_share > 0, dimension, epsilon, delta)
    failure = RANGE_DELTA * delta if range_share else 0.0
    mu = _mu(epsilon, delta - failure)
    total = range_share + sum(access.share for access in accesses)
    mus = {name: mu * sqrt(share / total / count) for name, count, share in accesses}
    if not range_share:
        return Budget(mus=mus, histogram=None)
    noise = sqrt(2 * dimension * total / range_share) / mu
    return Budget(mus=mus, histogram=_histogram(noise, failure / dimension))


@lru_cache(maxsize=64)
def _mu(epsilon: float, delta: float) -> float:
    """The μ at which one Gaussian release meets (ε, δ): what an estimator's certified accesses share."""
    gaussian, _ = calibrate("Gaussian", {"clip": 0.5}, release, epsilon=epsilon, delta=delta)
    return INWARD / float(gaussian.noise)


def _published(accesses: Sequence[Access], ranged: bool, dimension: int, epsilon: float, delta: float) -> Budget:
    """The noise of every access as [M] Algorithms 9 and 10 have it: a hundredth of ε, δ for a range looked for."""
    share = 1 - RANGE_PUBLISHED if ranged else 1.0
    count = sum(access.times for access in accesses)
    each, failure = _advanced(share * epsilon, share * delta, count)
    mus = {access.name: each / sqrt(2 * log(1.25 / failure)) for access in accesses}
    if not ranged:
        return Budget(mus=mus, histogram=None)
    each, failure = _advanced(RANGE_PUBLISHED * epsilon, RANGE_PUBLISHED * delta, dimension)
    noise = sqrt(2) * sqrt(2 * log(1.25 / (failure / 2))) / each
    return Budget(mus=mus, histogram=_histogram(noise, failure / 2))


def _histogram(noise: float, failure: float) -> Histogram:
    """The histogram that finds a range at that noise, its threshold the least that keeps to `failure`.

    An empty bin, given one record, passes it with a chance of failure/2: there are two.
    """
    return Histogram(noise=noise, threshold=1 - noise * float(ndtri(failure / 2 * INWARD)))


def _advanced(epsilon: float, delta: float, count: int) -> tuple[float, float]:
    """(ε, δ) of each access of a private mean as published: (min(ε, 0.9)/(2√(2k ln(2/δ))), δ/2k). [M] Lemma G.13."""
    return min(epsilon, CAP) / (2 * sqrt(2 * count * log(2 / delta))), delta / (2 * count)


def release(mechanism: Costed, *, rounds: int = 1, dimension: int = 1, adjacency: Adjacency = "replace") -> Event:
    """The event an estimator's ledger is charged for a curator's answers about records, a neighbour's one replaced."""
    many = Box(mechanism.peak) if isinstance(mechanism, Histogram) else Norm(mechanism.clip)
    return Event(
        mechanism=mechanism, bound=many if dimension > 1 else None, dimension=dimension, trust=Central(),
        unit="record", adjacency=adjacency, rounds=rounds,
    )  # fmt: skip


def gaussian(sensitivity: float, mu: float) -> Gaussian:
    """The Gaussian mechanism that makes an access of that sensitivity μ-GDP: under replacement twice its `clip`."""
    return Gaussian(clip=sensitivity / 2, noise=sensitivity / mu)


def charged(events: Sequence[Event]) -> Ledger:
    """The ledger of an estimator's whole plan, every event added: charged before records are looked at."""
    ledger = Ledger()
    for each in events:
        ledger = ledger.add(each)
    return ledger


def costed(
    mean: Vector | None,
    events: Sequence[Event],  # the whole plan, made or not
    delta: float,
    made: tuple[str, ...],  # names of the accesses that were made
    failure: str | None = None,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """What an estimator gives back: its mean or failure, with the certified ε of its whole plan's events."""
    ledger = charged(events)
    epsilon = _EPSILON(ledger, delta)
    return Estimate(mean=mean, failure=failure, ledger=ledger, made=made, epsilon=epsilon, delta=delta, notes=notes)
