"""Propose-test-release of a sum of records: the safety margin, the noisy test, the two branches. [P] section 5.

TSUM_F is the sum of all records but the F longest (nothing where there are no more than F); ties are broken by an order
fixed for the records, never by their place in the batch. Every function is pure; what is random takes a generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedpriv.arrays import Vector
from fedpriv.clipping import clip_factors
from fedpriv.errors import FedprivError, whole
from fedpriv.mechanisms import Ptr

Mask = NDArray[np.bool_]


def safety_margin(ptr: Ptr, norms: ArrayLike, trimmed: int) -> int:
    """How many records must come or go before one more could move TSUM_F by more than τ: max(F − #{‖x‖ > τ}, 0).

    [P] Theorem 5.1 in linear time: the r-th long record that joins puts x₍m−F+1+r₎ next in line, and that is longer
    than τ once r ≥ F − #{‖x‖ > τ}. It holds for batches smaller than F too, the empty one included; to take records
    away never helps. `norms` are those of clipped records, rounded up if at all. Where τ = R none is longer, whatever
    its rounding, and the margin is F.

    >>> ptr = Ptr(clip=1, bound=0.5, noise=1, test_noise=1, failure=1e-3)
    >>> safety_margin(ptr, [0.2, 0.9, 0.4, 1.0], trimmed=3)
    1
    """
    lengths = _checked(norms)
    whole(trimmed=trimmed)
    long = int((lengths > ptr.limit).sum()) if ptr.bound < 1 else 0
    return max(trimmed - long, 0)


def kept(norms: ArrayLike, trimmed: int, order: ArrayLike | None = None) -> Mask:
    """Which records TSUM_F adds up: all but the F longest, of equal ones those that come first in `order`.

    `order` numbers the records of the whole data set, each its own number whatever batch it is in. Where no two norms
    are equal none is needed.

    >>> kept([1.0, 0.5, 1.0, 0.2], trimmed=1, order=[7, 3, 5, 4]).tolist()
    [False, True, True, True]
    """
    lengths = _checked(norms)
    whole(trimmed=trimmed)
    place = np.arange(lengths.size) if order is None else np.asarray(order)
    if place.shape != lengths.shape or np.unique(place).size != place.size:
        raise FedprivError(f"order must number the {lengths.size} records, each differently")
    many = max(lengths.size - trimmed, 0)
    sequence = np.lexsort((place, lengths))
    if order is None and many and lengths[sequence[many - 1]] == lengths[sequence[many]]:
        raise FedprivError("records of equal norm need an order that is fixed for them: give order")
    chosen = np.zeros(lengths.size, dtype=bool)
    chosen[sequence[:many]] = True
    return chosen


class Verdict(NamedTuple):
    """What the test lets out: Δ̂, and whether the trimmed sum is released."""

    margin: int
    passed: bool


def verdict(ptr: Ptr, margin: int, rng: Generator) -> Verdict:
    """Δ̂ = Δ + Lap(0, b) rounded to a whole number; it passes at `ptr.enough`, which Δ = 0 reaches with chance ≤ δ₀.

    The margin is whole and the noise is rounded before they are added: no low bits of a float are there to tell Δ.
    """
    whole(at_least=0, margin=margin)
    noisy = margin + round(float(rng.laplace(0.0, ptr.test_noise)))
    return Verdict(noisy, noisy >= ptr.enough)


@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """A noisy sum and the test that chose it: all three may be seen. `dropped` may not: it is not private."""

    total: Vector  # divide by the batch size expected, never by the one drawn
    margin: int  # Δ̂
    passed: bool  # whether it is the trimmed sum
    dropped: int  # records that were not finite


def release(ptr: Ptr, records: ArrayLike, trimmed: int, rng: Generator, order: ArrayLike | None = None) -> Released:
    """[P] Algorithm 3 on the rows of a Poisson batch: Σ + σR·N(0, I), or TSUM_F + στ·N(0, I) where the test passes.

    Rows are brought within the clip norm for certain; a row that is not finite is dropped, and counted. An empty batch
    is released like any other: noise alone. The Gaussian noise is numpy's, in double precision, as `Gaussian`'s is.

    >>> ptr = Ptr(clip=1, bound=0.5, noise=2, test_noise=1, failure=1e-3)
    >>> found = release(ptr, np.zeros((0, 3)), trimmed=20, rng=np.random.default_rng(1))
    >>> found.passed, found.total.shape
    (True, (3,))
    """
    rows = np.asarray(records, dtype=np.float64)
    factors = clip_factors(rows, ptr.clip, "clip")
    usable = np.isfinite(factors)
    rows = rows[usable] * factors[usable, None]
    numbers = np.asarray(order)[usable] if order is not None else None
    norms = _upper_norms(rows)
    test = verdict(ptr, safety_margin(ptr, norms, trimmed), rng)
    chosen = kept(norms, trimmed, numbers) if test.passed else np.ones(norms.size, dtype=bool)
    scale = ptr.noise * (ptr.limit if test.passed else ptr.clip)
    total = rows[chosen].sum(axis=0) + rng.normal(0.0, scale, rows.shape[1])
    return Released(total=total, margin=test.margin, passed=test.passed, dropped=int((~usable).sum()))


def next_trimmed(trimmed: int, passed: bool, *, step: int, most: int) -> int:
    """F of the next round, from the released test alone: more after SUM, less after TSUM_F, between 1 and `most`.

    [P] Algorithm 2 and Remark 5.3. Its Appendix B.1.3 says the opposite: trim more the fewer long records there are.

    >>> next_trimmed(64, passed=True, step=5, most=255), next_trimmed(64, passed=False, step=5, most=255)
    (59, 69)
    """
    whole(trimmed=trimmed, step=step, most=most)
    return int(np.clip(trimmed - step if passed else trimmed + step, 1, most))


def step_ratio(trimmed: int, batch: int) -> float:
    """η_A/η_B = (n − F)/n: the learning rate after SUM over the one after TSUM_F. [P] Theorem 5.2.

    >>> step_ratio(trimmed=64, batch=256)
    0.75
    """
    whole(trimmed=trimmed, batch=batch)
    _below(trimmed, batch)
    return (batch - trimmed) / batch


def passing_chance(ptr: Ptr, margin: int) -> float:
    """The chance that a batch of this margin passes. It is never more than at a margin of F.

    >>> round(passing_chance(Ptr(clip=1, bound=0.5, noise=1, test_noise=5, failure=1e-5), 55), 2)
    0.55
    """
    above = ptr.enough - 0.5 - margin
    share = exp(-abs(above) / ptr.test_noise) / 2
    return share if above >= 0 else 1 - share


def check_trimmed(ptr: Ptr, trimmed: int, batch: int) -> None:
    """Refuse an F that is no less than the expected batch, or at which no batch, however tame, passes every other time.

    >>> check_trimmed(Ptr(clip=1, bound=0.5, noise=1, test_noise=5, failure=1e-5), trimmed=20, batch=256)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: trimmed must be at least 55 for the test to pass (b·ln(1/2δ₀) = 54.1), got 20
    """
    whole(trimmed=trimmed, batch=batch)
    _below(trimmed, batch)
    if not passing_chance(ptr, trimmed) >= 0.5:
        needed = f"at least {ptr.enough} for the test to pass (b·ln(1/2δ₀) = {ptr.threshold:.3g})"
        raise FedprivError(f"trimmed must be {needed}, got {trimmed}")


def _below(trimmed: int, batch: int) -> None:
    if not trimmed < batch:
        raise FedprivError(f"trimmed must be less than the expected batch of {batch}, got {trimmed}")


def _checked(norms: ArrayLike) -> Vector:
    lengths = np.asarray(norms, dtype=np.float64)
    if lengths.ndim != 1 or not (np.isfinite(lengths) & (lengths >= 0)).all():
        bad = lengths[~(np.isfinite(lengths) & (lengths >= 0))].ravel()
        what = f"got {bad[0]}" if bad.size else f"got the shape {lengths.shape}"
        raise FedprivError(f"norms must be a list of finite numbers at least 0, {what}")
    return lengths


def _upper_norms(rows: Vector) -> Vector:
    """ℓ2 norms, rounded up past any order of summation: what is not counted as long is not long."""
    return np.asarray(np.sqrt(np.vecdot(rows, rows)) * (1 + (rows.shape[1] + 8) * 2.0**-52))
