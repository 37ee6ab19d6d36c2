"""What propose-test-release gives away, by what of its test is seen: the noisy margin, or only whether it passed.

A test is Laplace noise on the margin, or a coin of which nothing but the branch is ever seen.

The curves that dominate all neighbours, and what explicit data reach. Proofs: docs/proofs/testing.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from math import ceil, exp, hypot, log, log1p
from typing import Literal, NamedTuple

import numpy as np

from fedpriv.curves.atoms import ROUNDING, Atoms, hull_of_pairs
from fedpriv.curves.joint import joint
from fedpriv.curves.pair import Enclosure
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms._branch_pairs import Branch, Branches, by_branch, hull_of_branches
from fedpriv.mechanisms._settings import Tested
from fedpriv.mechanisms.ptr_renyi import laplace_scale

Seen = Literal["margin", "branch"]
DEEPEST = 500.0  # nats: where losses reach farther, masses underflow, and a release is held to give everything away
MANY = 256  # records of a coin's F, past which one Gaussian curve above all its margins' is as good as their hull
TRIED = 20  # margins of a coin at which explicit data are looked at
EVERYTHING = Tradeoff.between([1.0, 0.0], [0.0, 1.0])
NOTHING = Tradeoff.between([1.0], [1.0])


class Cases(NamedTuple):
    """The curves of neighbours, by whether a test may pass as it should.

    A release with losses past what floats hold is held to give everything away: `either` says so, the cases do not.
    """

    passes: Tradeoff  # of the neighbours of which one at least has a margin
    fails: Tradeoff  # of those without one
    either: Tradeoff  # the hull of both


class Attained(NamedTuple):
    """Explicit data in words, and a curve that their releases reach in every round."""

    proof: str
    curve: Tradeoff


@lru_cache(maxsize=16)
def ptr_cases(ptr: Tested, seen: Seen) -> Cases:
    """The curves that certify propose-test-release, where its noisy margin is seen, or the branch alone.

    fails: both margins are 0. The test says nothing, and with probability δ₀ the trimmed sum moves by R under noise στ.
    passes, margin seen: the margins differ by at most 1, and either branch moves by at most one noise: Lap(0, b) ×
    N(0, σ) against Lap(1, b) × N(1, σ). Branch seen: Bern(p_m) × N(0, σ) against Bern(p_{m−1}) × N(1, σ), p_m the
    chance that a margin of m passes, for the three m beside the threshold, which dominate every other m; of a coin for
    all of its m.
    """
    noise, failure = float(ptr.noise), float(ptr.failure)
    summed = Tradeoff.gaussian(1 / noise)
    if ptr.bound == 1:  # then the margin never moves
        return Cases(summed, summed, summed)
    deepest = 2 / ptr.test_noise if ptr.test_noise is not None else _reach(ptr.step or 0.0)
    if deepest + _reach(1 / noise) > DEEPEST:  # test or sum give everything away; they do as `summed` does
        return Cases(summed, summed, EVERYTHING)
    wrong = Tradeoff.gaussian(1 / (noise * float(ptr.bound)))
    if _reach(wrong.mu) > DEEPEST:  # masses underflow: held to give everything away
        wrong = Tradeoff(Enclosure(EVERYTHING.above, wrong.below))
    if seen == "margin":
        passes = joint([(Tradeoff.laplace(1 / laplace_scale(ptr)), 1), (summed, 1)])
        chance = log(failure), log1p(-failure)
        fails = by_branch(wrong, summed, chance, chance)
        return Cases(passes, fails, _dominating([passes, fails]))
    chance = ptr.log_chances(0)
    passes, fails = _tested(summed, ptr, ptr.enough), by_branch(wrong, summed, chance, chance)
    return Cases(passes, fails, Tradeoff(Enclosure(_hull_of_margins(ptr, fails.above), passes.below)))


def _hull_of_margins(ptr: Tested, fails: Atoms) -> Atoms:
    """The pair above all neighbours' where PTR's branch is seen: no margin, and each from which one record takes one.

    Of a coin with a large F a Gaussian curve stands for all margins, of the coin's μ and the sum's together.
    """
    moved = 1 / ptr.noise
    if ptr.trimmed is not None and ptr.trimmed > MANY:
        return hull_of_pairs(Tradeoff.gaussian(hypot(moved, ptr.step or 0.0)).above, fails)
    margins = range(1, ptr.trimmed + 1) if ptr.trimmed else range(ptr.enough - 1, ptr.enough + 2)
    pairs = [_pair_at(ptr, margin, margin - 1, moved) for margin in margins]
    return hull_of_branches([_pair_at(ptr, 0, 0, moved / ptr.bound), *pairs], ptr.failure).above


def _pair_at(ptr: Tested, before: int, after: int, trimmed: float) -> Branches:
    """Both branches of neighbours at two margins of PTR, where a trimmed sum moves by so many deviations."""
    (passed, failed), (passes, fails) = (map(exp, ptr.log_chances(margin)) for margin in (before, after))
    return Branch(passed, passes, trimmed), Branch(failed, fails, 1 / ptr.noise)


def _dominating(curves: Sequence[Tradeoff]) -> Tradeoff:
    """One curve for propose-test-release's cases: from above the hull of all, from below the first."""
    return Tradeoff(Enclosure(reduce(hull_of_pairs, (curve.above for curve in curves)), curves[0].below))


def log_passing(test_noise: float, enough: int, margin: int) -> tuple[float, float]:
    """ln of the chances that PTR's test passes and fails at a margin: noise is whole, the threshold `enough` − ½."""
    short = (enough - 0.5 - margin) / test_noise
    seldom = -abs(short) - log(2)
    often = log1p(-exp(seldom))
    return (seldom, often) if short >= 0 else (often, seldom)


def ptr_attained(ptr: Tested, seen: Seen, *, rate: float, rounds: int, dimension: int) -> tuple[Attained, ...]:
    """The lower bounds' data for propose-test-release: what explicit records reach in each round, whatever F is.

    >>> from fedpriv.mechanisms import Ptr
    >>> ptr = Ptr(clip=1, bound=0.5, noise=2, test_noise=1, failure=1e-8)
    >>> [found.proof for found in ptr_attained(ptr, "branch", rate=0.5, rounds=9, dimension=1)]
    ['none known: on a sample the other records blur a sum of one coordinate']
    """
    own = ptr_cases(ptr, seen)
    one, found = "explicit records: one of norm clip joins", []
    if rate == 1:
        if seen == "margin" or ptr.bound == 1:  # a margin of any size
            found = [Attained(f"{one} a batch with a margin", own.passes)]
        elif rounds <= 1 and own.either is not EVERYTHING:  # beside the threshold, where F stays by one round alone
            summed, first = Tradeoff.gaussian(1 / ptr.noise), 1 if ptr.trimmed else max(ptr.enough - 1, 1)
            for margin in range(first, ptr.enough + 1, ceil(ptr.enough / TRIED) if ptr.trimmed else 1):
                curve = _tested(summed, ptr, margin)
                found.append(Attained(f"{one} a batch with a margin of {margin}", curve))
        return (*found, Attained("explicit records: all of norm clip, no margin", own.fails))
    if dimension > 1:
        found.append(Attained(f"{one} many longer ones at right angles to it, no margin", own.fails))
    if seen == "margin" and (alone := _alone(ptr)) is not None:
        found.append(Attained(f"{one} none, F = 1", alone))
    if not found:
        return (Attained("none known: on a sample the other records blur a sum of one coordinate", NOTHING),)
    return tuple(Attained(f"{proof}, Poisson sampled", curve.subsampled(rate, "add-remove")) for proof, curve in found)


def _tested(summed: Tradeoff, ptr: Tested, margin: int) -> Tradeoff:
    """The curve of a record that takes PTR's margin from m to m − 1 and moves either branch's sum by one noise."""
    before, after = ptr.log_chances(margin), ptr.log_chances(margin - 1)
    return by_branch(summed, summed, before, after)


def _alone(ptr: Tested) -> Tradeoff | None:
    """The curve of one record or none with F = 1, Δ̂ seen, a witness for sampled PTR; None where it tells nothing.

    Where the test passes no sum is left, so that is one outcome.

    With noise turned round, a test that passes is the far end of the side on which Lap(1) is e^{−1/b} times Lap(0).
    """
    short = ptr.enough - 1.5  # by how much a margin of 1 falls short
    own = ptr_cases(ptr, "margin")
    if short < 0 or own.either is EVERYTHING or ptr.bound == 1:
        return None
    b = laplace_scale(ptr)
    laplace, passing = Tradeoff.laplace(1 / b).below, -short / b
    left = np.where(laplace.loss == laplace.loss[-1], log1p(-exp(passing)) if passing < 0 else -np.inf, 0.0)
    failing = replace(laplace, log_p=laplace.log_p + left, log_q=laplace.log_q + left)
    both = joint([(Tradeoff(failing), 1), (Tradeoff.gaussian(1 / ptr.noise), 1)]).below
    log_p, log_q = passing - log(2), passing - log(2) - 1 / b
    doubt = 4 * ROUNDING * (1 + abs(log_q))
    return Tradeoff(
        Atoms.sorted(
            np.append(both.log_p, log_p), np.append(both.log_q, log_q), np.append(both.loss, log_q - log_p),
            both.error + doubt,
        )
    )  # fmt: skip


def _reach(mu: float) -> float:
    """The largest loss of a Gaussian pair at which floats hold either mass: past it PTR gives everything away."""
    return (37 + mu / 2) * mu
