"""Propose-test-release of a sum of records: the safety margin, the private test, who is trimmed. [P] section 5.

TSUM_F is the sum of all records but the F longest (nothing where there are no more than F); ties are broken by an order
fixed for the records, never by their place in the batch. Every function is pure; what is random takes a generator. The
release made of them is `private_sums.Ptr`, the only one there is.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Mask, Vector
from fedpriv.errors import FedprivError, natural, whole
from fedpriv.mechanisms import GeneralPtr, Ptr
from fedpriv.randomness.exact import bernoulli
from fedpriv.randomness.wide import rounded_real


def safety_margin(ptr: Ptr, norms: ArrayLike, trimmed: int) -> int:
    """PTR's margin: how many records must come or go before one more could move TSUM_F by more than τ.

    It is max(F − #{‖x‖ > τ}, 0).

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


def kept_rows(norms: ArrayLike, trimmed: int, order: ArrayLike | None = None) -> Mask:
    """Which records a trimmed sum adds up: all but the F longest, of equal ones those that come first in `order`.

    `order` numbers the records of the whole data set, each its own number whatever batch it is in. Where no two norms
    are equal none is needed.

    >>> kept_rows([1.0, 0.5, 1.0, 0.2], trimmed=1, order=[7, 3, 5, 4]).tolist()
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


def passes_test(ptr: Ptr | GeneralPtr, margin: int, rng: Generator) -> bool:
    """Whether PTR's test lets the trimmed sum through: by a coin, or where Δ + Lap(0, b), rounded, is `ptr.enough`.

    Δ = 0 does with a chance of at most δ₀.

    The margin is whole. The coin, or the noise drawn rounded, is exact. What is costed is the bit: nothing else leaves.
    """
    natural(margin=margin)
    if ptr.test_noise is None:
        rarer, chance = ptr.coin(margin)
        return bool(bernoulli([chance], rng)[0]) == rarer
    return margin + int(rounded_real(float(ptr.test_noise), 1).draw((), rng)) >= ptr.enough


def next_trimmed(trimmed: int, less: bool, *, step: int, most: int) -> int:
    """PTR's F, the gradients to trim, of the next round, from the test alone: `less` where the test says so, or more.

    It stays between 1 and `most`. By [P] Algorithm 2 and Remark 5.3 a test that passed says less; its Appendix B.1.3
    says the opposite: trim more the fewer long records there are.

    >>> next_trimmed(64, less=True, step=5, most=255), next_trimmed(64, less=False, step=5, most=255)
    (59, 69)
    """
    whole(trimmed=trimmed, step=step, most=most)
    return int(np.clip(trimmed - step if less else trimmed + step, 1, most))


def step_ratio(trimmed: int, batch: int) -> float:
    """PTR's learning rate after SUM over the one after TSUM_F, η_A/η_B = (n − F)/n. [P] Theorem 5.2.

    The ratio is its; its promise of convergence is not, where τ/R is below √((n − F)(n + 1))/n (docs/ptr.md).

    >>> step_ratio(trimmed=64, batch=256)
    0.75
    """
    whole(trimmed=trimmed, batch=batch)
    _below(trimmed, batch)
    return (batch - trimmed) / batch


def check_trimmed(ptr: Ptr, trimmed: int, batch: int) -> None:
    """Refuse a study's F (records trimmed) that is no less than the batch, or at which PTR's test hardly ever passes.

    That is at which no batch, however tame, passes every other time.

    >>> check_trimmed(Ptr(clip=1, bound=0.5, noise=1, test_noise=5, failure=1e-5), trimmed=20, batch=256)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: trimmed must be at least 55 for the test to pass (b·ln(1/2δ₀) = 54.1), got 20
    """
    whole(trimmed=trimmed, batch=batch)
    _below(trimmed, batch)
    if not ptr.passing(trimmed) >= 0.5:
        half = f"b·ln(1/2δ₀) = {ptr.threshold:.3g}" if ptr.trimmed is None else f"half of sure = {ptr.trimmed}"
        needed = f"at least {ptr.enough} for the test to pass ({half})"
        raise FedprivError(f"trimmed must be {needed}, got {trimmed}")


def _below(trimmed: int, batch: int) -> None:
    """Refuse a PTR study's F, the records to trim, that is no less than the expected batch."""
    if not trimmed < batch:
        raise FedprivError(f"trimmed must be less than the expected batch of {batch}, got {trimmed}")


def _checked(norms: ArrayLike) -> Vector:
    """Norms of a batch's records as an array, for trimming and PTR's test; refused where they are none."""
    lengths = np.asarray(norms, dtype=np.float64)
    if lengths.ndim != 1 or not (np.isfinite(lengths) & (lengths >= 0)).all():
        bad = lengths[~(np.isfinite(lengths) & (lengths >= 0))].ravel()
        what = f"got {bad[0]}" if bad.size else f"got the shape {lengths.shape}"
        raise FedprivError(f"norms must be a list of finite numbers at least 0, {what}")
    return lengths
