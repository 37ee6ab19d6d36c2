"""Curves composed over and over: ε after any number of repetitions, of which few are prepared.

Repetitions whose number lies between two powers of four share one tilt, one window's width and one step, hence lattices
and transforms; each then takes a power and one transform back. Both bounds hold for each number by itself
(docs/proofs/composition.md, section 14), and depend on the number alone, not on what was asked before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, log2
from typing import NamedTuple, TypeVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.curves._convolution import any_of
from fedpriv.curves._densities import Density
from fedpriv.curves._direction import LOWER, ROUGH, UPPER, Direction, Part
from fedpriv.curves._transforms import TooLarge
from fedpriv.curves._untilted import least_type_two, smallest_mu
from fedpriv.curves.compose import QUICK, Band, Composition, compose
from fedpriv.curves.tilting import Estimate, Ladder, Sketch

CLOSE = 2e-6  # relative error of ε
STEADY = 1.6  # by how much a block's tilt may differ from that which suits its first or its last number
TILTS = 4  # between one and its double, where it differs by more
ALONE = 32  # releases up to twice as many of which are composed as they are
Own = TypeVar("Own")
WIDER = 4  # the most repetitions of a block over those of the block before


def last_of_block(times: int) -> int:
    """The most repetitions of a composition that share lattices with so many: the next power of four.

    >>> [last_of_block(times) for times in (1, 2, 4, 5, 40)]
    [1, 4, 4, 16, 64]
    """
    last = 1
    while last < times:
        last *= WIDER
    return last


def first_of_block(times: int) -> int:
    """The fewest repetitions of a composition that share lattices with so many: one more than a power of four.

    >>> [first_of_block(times) for times in (1, 2, 4, 5, 40)]
    [1, 2, 2, 5, 17]
    """
    return last_of_block(times) // WIDER + 1


def scaled_parts(parts: Iterable[Part], times: int, base: int) -> list[Part]:
    """A composition's (curve, count) of `base` repetitions as those of `times`: halves shared out whole.

    >>> [count for _, count in scaled_parts([("one", 2), ("other", 2)], 3, 4)]
    [2, 1]
    """
    found, seen, given = [], 0, 0
    for curve, count in parts:
        seen += count
        found.append((curve, -(-seen * times // base) - given))
        given += found[-1][1]
    return found


def first_parts(parts: Iterable[tuple[Own, int]], times: int) -> list[tuple[Own, int]]:
    """The first `times` of a composition's (curve or event, count), which come one after the other.

    >>> [count for _, count in first_parts([("one", 2), ("other", 2), ("last", 1)], 3)]
    [2, 1, 0]
    """
    found: list[tuple[Own, int]] = []
    for own, count in parts:
        found.append((own, min(count, times)))
        times -= found[-1][1]
    return found


def powers_of_two(count: int) -> list[int]:
    """A number as a sum of powers of two and of less than `ALONE`.

    >>> powers_of_two(1000), powers_of_two(40)
    ([512, 256, 128, 64, 40], [40])
    """
    found = []
    while count >= 2 * ALONE:
        found.append(1 << (count.bit_length() - 1))
        count -= found[-1]
    return [*found, count] if count else found


class _Side(NamedTuple):
    """One direction of a block's most repetitions."""

    direction: Direction
    tilt: float  # which suits the middle of the block
    ladder: Ladder | None  # where one tilt does not serve the whole block, as near the largest loss there is
    near: bool  # whether it may be the one that gives away more


@dataclass(frozen=True, eq=False)
class Repeated:
    """Curves, each as often as `base` repetitions have it, asked for ε at one δ after any number of repetitions.

    >>> from fedpriv.curves.tradeoff import Tradeoff
    >>> votes = Repeated([(Tradeoff.between([0.6, 0.4], [0.4, 0.6]), 1)], base=1, delta=1e-5)
    >>> low, high = votes.lower(1000), votes.upper(1000)
    >>> high - low < 1e-6 * high
    True
    """

    parts: Sequence[Part]  # curves, each with the number of times it is released in `base` repetitions
    base: int
    delta: float
    in_turn: int | None = None  # a repetition is the next so many of the parts; None: a share of all of them
    _blocks: dict[int, list[_Side]] = field(default_factory=dict)  # by a block's most repetitions

    def after(self, times: int) -> list[Part]:
        """The curves of so many repetitions of a composition, each with the number of times it is released in them."""
        if self.in_turn is not None:
            return first_parts(self.parts, times * self.in_turn)
        return scaled_parts(self.parts, times, self.base)

    def upper(self, times: int, tolerance: float = CLOSE, aside: float = 0.0) -> float:
        """An upper bound of ε(δ − aside) after so many repetitions; the tolerance is the relative error aimed at."""
        delta = self.delta - aside
        if self._by_itself(times, delta):
            return compose(self.after(times)).upper_epsilon(delta, tolerance)
        try:
            worst, *others = self._block(times)
            found = self._asked(worst, times, delta, UPPER, tolerance)
            for other in others:  # as a rule a rough look shows that the other direction gives away less
                if (rough := self._asked(other, times, delta, UPPER, ROUGH)) > found:
                    found = max(found, min(rough, self._asked(other, times, delta, UPPER, tolerance)))
            return found
        except TooLarge:
            return compose(self.after(times)).upper_epsilon(delta, tolerance)

    def lower(self, times: int, tolerance: float = CLOSE) -> float:
        """A lower bound of ε(δ) after so many repetitions, by the direction that seems worse, or both where close."""
        if self._by_itself(times, self.delta):
            return compose(self.after(times)).lower_epsilon(self.delta, tolerance)
        try:
            near = [side for side in self._block(times) if side.near]
            return max(self._asked(side, times, self.delta, LOWER, tolerance) for side in near)
        except TooLarge:
            return compose(self.after(times)).lower_epsilon(self.delta, tolerance)

    def tradeoff(self, times: int, alpha: Vector, wanted: int) -> Band:
        """The least type II error at each type I error after so many repetitions: one bound, the other left open.

        What data reach is looked at in the direction alone in which they give away more.
        """
        if not self._by_itself(times, self.delta):
            counts = [count for _, count in _distinct(self.after(times))]
            sides = [own.direction for own in self._block(times)[: 1 if wanted == LOWER else None]]
            with suppress(TooLarge):
                found = [least_type_two(side, side, alpha, QUICK, wanted, counts) for side in sides]
                return Band(*np.min(found, axis=0))
        return compose(self.after(times)).tradeoff(alpha, QUICK, wanted)

    def mu_up_to(self, times: int, up_to: float) -> float:
        """A μ after so many repetitions with T ≥ G_μ − up_to."""
        if not self._by_itself(times, self.delta):
            counts = [count for _, count in _distinct(self.after(times))]
            sides = [own.direction for own in self._block(times)]
            with suppress(TooLarge):
                both = zip(sides, sides[::-1], strict=True)
                return max(smallest_mu(*pair, up_to, QUICK, UPPER, counts).upper for pair in both)
        return compose(self.after(times)).mu_between(up_to, QUICK, UPPER).upper

    def mu(self, times: int) -> float:
        """A μ after so many repetitions, ∞ where there is none: a few powers of two are composed for all numbers."""
        parts = [(curve, n) for curve, count in self.after(times) for n in powers_of_two(count)]
        return max(Direction(tuple(own)).mu for own in (parts, [(curve.inverse, n) for curve, n in parts]))

    def estimate(self, times: int) -> Estimate:
        """About what ε(δ) is after so many repetitions: to choose between routes by, proof of nothing."""
        if not 0 < self.delta < 1 or self._hidden or self._reveals(times):
            return Estimate(inf, 0.0, 0.0)
        if self._gaussian:
            return Estimate(self.upper(times), 0.0, 0.0)
        return max(ladder.estimate(times / self.base, self.delta) for ladder in self._ladders)

    @cached_property
    def _gaussian(self) -> bool:
        """Whether all curves are Gaussian, and so their composition: nothing is prepared for them."""
        return all(curve.gaussian_mu is not None for curve, _ in self.parts)

    @cached_property
    def _hidden(self) -> bool:
        """Whether a curve has no outcome that both sides give: its repetitions are composed by themselves."""
        return any(not curve.outline.finite.loss.size for curve, count in self.parts if count)

    def _reveals(self, times: int) -> bool:
        """Whether what one side alone gives is likelier than δ in so many repetitions, so that ε(δ) is ∞."""
        parts = self.after(times)
        finite = [(curve, count) for curve, count in parts if not isinstance(curve.pair, Density)]
        worse = [(max(curve.below.impossible, curve.inverse.below.impossible), count) for curve, count in finite]
        return any_of(worse) > self.delta

    def _by_itself(self, times: int, delta: float) -> bool:
        """Whether so many repetitions share nothing with others: all Gaussian, a single curve, or without a window."""
        alone = sum(count for _, count in self.after(times)) == 1
        return self._gaussian or alone or not 0 < delta < 1 or self._hidden

    @cached_property
    def _ladders(self) -> list[Ladder]:
        """Moments of the losses of `base` repetitions in each direction: tilts and estimates come from them."""
        return [
            Sketch.of([(curve.outline, count) for curve, count in side.parts]).ladder
            for side in Composition(_distinct(self.parts)).directions
        ]

    def _block(self, times: int) -> list[_Side]:
        """The directions prepared at the most repetitions of this number's block, the worse one first."""
        last = last_of_block(times)
        if last not in self._blocks:
            about = [ladder.estimate(last / (2 * self.base), self.delta) for ladder in self._ladders]
            best, revealed = max(about), self._reveals(last)
            sides = Composition(_distinct(self.after(last))).directions
            found = []
            for side, own, ladder in zip(sides, about, self._ladders, strict=True):
                ends = [ladder.estimate(at / self.base, self.delta).tilt for at in (first_of_block(last), last)]
                steady = max(ends) <= STEADY * own.tilt <= STEADY**2 * min(ends)
                near = revealed or own.doubt > 0 or best.doubt > 0 or own.epsilon == best.epsilon
                found.append((own.epsilon, _Side(side, own.tilt, None if steady else ladder, near)))
            self._blocks[last] = [side for _, side in sorted(found, key=lambda pair: -pair[0])]
        return self._blocks[last]

    def _asked(self, own: _Side, times: int, delta: float, wanted: int, tolerance: float) -> float:
        """One bound, of one direction, on ε(δ) after so many repetitions, from what its block has prepared."""
        counts = [count for _, count in _distinct(self.after(times))]
        largest = [curve.largest_loss for curve, _ in own.direction.parts]
        pure = sum(count * loss for loss, count in zip(largest, counts, strict=True) if count)
        tilt = own.tilt
        if own.ladder is not None:  # the nearest of a few tilts to what suits this number
            tilt = 2.0 ** (round(TILTS * log2(own.ladder.estimate(times / self.base, self.delta).tilt)) / TILTS)
        most = max(pure, 0.0) * (1 + 1e-13)
        bounds = own.direction.closed_in(
            tilt, lambda one: max(one.epsilon(delta), 0.0), most, tolerance, wanted, counts
        )
        return bounds.upper if wanted == UPPER else bounds.lower


def _distinct(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Every curve once, with the number of times that all its parts have, in their order: what a block composes."""
    found: dict[int, Part] = {}
    for curve, count in parts:
        found[id(curve)] = (curve, count + found.get(id(curve), (curve, 0))[1])
    return tuple(found.values())
