"""One direction of composed curves, Q against P: lattices chosen and cut, composed, and asked between two bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedpriv.curves import _lattice as lattice
from fedpriv.curves._composed_mu import composed_mu
from fedpriv.curves._convolution import Convolution
from fedpriv.curves._densities import Density
from fedpriv.curves._lattice import Lattice
from fedpriv.curves._transforms import OUTSIDE, Counts, Rounds, TooLarge, Transforms, reach
from fedpriv.curves.atoms import ROUNDING, Atoms
from fedpriv.curves.pair import Enclosure
from fedpriv.curves.tilting import Sketch, Window, log_moment
from fedpriv.curves.tradeoff import Tradeoff

HEAVIEST = 32  # outcomes a lattice is aligned to
MOST_ROUNDS = 1 << 34  # composed at once; of more, fewer are looked at
LEAST_TILT = 1e-6  # at which lattices are compared where nothing is tilted
UPPER = +1  # the bound that is wanted, and the sign of the room for rounding
LOWER = -1
BOTH = 0
FEWEST = 1 << 13  # points of a coarse lattice
MANY = 1 << 17  # points past which a quick answer leaves the exact lattice for a coarser one
# relative errors of ε that a step aims at
FINE = 5e-7
QUICK = 1e-4
ROUGH = 1e-3


class Bounds(NamedTuple):
    """A number known from both sides; the truth lies between."""

    lower: float
    upper: float


Part = tuple[Tradeoff, int]
Way = Callable[[Atoms | Density, float, float], Lattice]


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction, Q against P, of composed curves."""

    parts: tuple[Part, ...]  # curves, each with the number of times it is released
    _taken: dict[tuple[float, float, int], Transforms] = field(default_factory=dict)  # by tilt, tolerance and sign
    _asked: dict[tuple[float, ...], list[Convolution]] = field(default_factory=dict)  # the untilted ones asked last

    @cached_property
    def single(self) -> Tradeoff | None:
        """The one curve released once, if it answers exactly, else None: `delta` and `epsilon` then ask it."""
        if len(self.parts) == 1 and self.parts[0][1] == 1 and not isinstance(self.parts[0][0].pair, Enclosure):
            return self.parts[0][0]
        return None

    @property
    def gaussian_mu(self) -> float | None:
        """μ where there is nothing to compose and the curve is exactly G_μ."""
        return self.single.gaussian_mu if self.single else None

    @property
    def rounds(self) -> int:
        """How many curves are composed, each counted as often as it is released."""
        return sum(count for _, count in self.parts)

    @cached_property
    def mu(self) -> float:
        """A Gaussian-DP parameter of the composition: √Σμ² of each curve composed, ∞ where some curve has none."""
        squares = sum(min(composed_mu(curve, count), 1e150) ** 2 for curve, count in self.parts)
        return float(np.sqrt(squares) * (1 + 8 * ROUNDING)) if squares < 1e290 else np.inf

    @cached_property
    def nothing_shared(self) -> bool:
        """Whether some curve has no outcome that both sides give, as far as is proved: the upper bound gives up."""
        return any(not curve.outline.finite.loss.size for curve, _ in self.parts)

    @property
    def told_apart(self) -> bool:
        """Whether some curve, for certain, has no outcome that both sides give: the lower bound of δ is then 1."""
        return any(not curve.below.finite.loss.size and curve.below.impossible > 0 for curve, _ in self.parts)

    @cached_property
    def largest_loss(self) -> float:
        """The pure ε of the composition in this direction: the sum of its curves' largest losses, or ∞."""
        return float(sum(count * curve.largest_loss for curve, count in self.parts))

    @cached_property
    def _pure(self) -> Bounds:
        """The pure ε from both sides: the largest losses of the pairs above and below the curves, errors added."""
        low = high = 0.0
        for curve, count in self.parts:
            if isinstance(curve.pair, Density):
                slack = 1e-13 * abs(curve.largest_loss) if curve.largest_loss < np.inf else 0.0
                low, high = low + count * (curve.largest_loss - slack), high + count * (curve.largest_loss + slack)
            else:
                above, below = curve.above, curve.below
                low += count * (below.largest_loss - 4 * below.error)
                high += count * (above.largest_loss + 4 * above.error)
        return Bounds(max(low * (1 - 1e-13), 0.0) if low < np.inf else low, max(high * (1 + 1e-13), 0.0))

    @cached_property
    def sketch(self) -> Sketch:
        """The composed curves in outline, from which the tilt and the window of their lattices are chosen."""
        return Sketch.of([(curve.outline, count) for curve, count in self.parts])

    @cached_property
    def step(self) -> float | None:
        """The step of the lattice that holds all losses of all curves, or None: then they are spread and merged."""
        pairs = [curve.pair for curve, _ in self.parts]
        found = [lattice.step_of(pair.finite.loss) if isinstance(pair, Atoms) else None for pair in pairs]
        if any(step is None for step in found):
            return None
        steps = [step for step in found if step]
        if not steps:
            return 0.0
        return steps[0] if max(steps) - min(steps) <= 1e-15 * steps[0] else None

    def delta(self, epsilon: float, tolerance: float) -> Bounds:
        """δ(ε) of the composed curves in this direction, from both sides: `Composition` takes the worse one."""
        if self.single:  # the curve itself, asked a rounding error to either side
            slack = _slack(self.single, epsilon)
            low = self.single.delta(epsilon + slack)
            high = self.single.delta(epsilon - slack) if epsilon > slack else self.single.delta(0.0) + slack
            return Bounds(low * (1 - 1e-11), min(high * (1 + 1e-11), 1.0))
        if self.nothing_shared:
            return Bounds(float(self.told_apart), 1.0)
        return self._answer(
            lambda some: some.sketch.tilt_for_epsilon(epsilon),
            lambda side: side.delta(epsilon),
            (1.0, lambda curve: curve.delta(epsilon)),
            tolerance,
        )

    def epsilon(self, delta: float, tolerance: float, wanted: int = BOTH) -> Bounds:
        """ε(δ) of the composed curves in this direction, from both sides; one bound alone takes half the time."""
        if self.single:  # the curve itself, asked a rounding error to either side
            low, high = 0.0, np.inf
            if wanted != UPPER:
                low = self.single.epsilon(min(delta * (1 + 1e-11), 1.0))
                low = max(low - _slack(self.single, low), 0.0) if np.isfinite(low) else low
            if wanted != LOWER:
                high = self.single.epsilon(delta * (1 - 1e-11))
                high += _slack(self.single, high) if 0 < high < np.inf else 0.0
            return Bounds(low, high)
        if delta == 1:
            return Bounds(0.0, 0.0)
        if self.nothing_shared:
            return Bounds(np.inf if self.told_apart else 0.0, np.inf)
        if delta == 0:
            return self._pure
        return self._answer(
            lambda some: some.sketch.tilt_for_delta(delta),
            lambda side: max(side.epsilon(delta), 0.0),
            (_rounded(max(self.largest_loss, 0.0), 1e-13).upper, lambda curve: curve.epsilon(delta)),
            tolerance,
            wanted,
        )

    def _answer(
        self,
        tilt_of: Callable[[Direction], float],
        ask: Callable[[Convolution], float],
        ceiling: tuple[float, Callable[[Tradeoff], float]],  # what holds anyway, and what a curve by itself answers
        tolerance: float,
        wanted: int = BOTH,
    ) -> Bounds:
        """Both bounds on δ or ε; past what a transform holds, the Gaussian bound and what fewer rounds give away."""
        try:
            return self.closed_in(tilt_of(self), ask, ceiling[0], tolerance, wanted)
        except TooLarge:
            by_gaussian = _rounded(ceiling[1](Tradeoff.gaussian(self.mu))).upper if self.mu < np.inf else np.inf
            upper = min(ceiling[0], by_gaussian)
        fewer = self.fewer
        if wanted == UPPER or fewer.rounds == self.rounds:
            return Bounds(0.0, upper)
        return Bounds(min(fewer._answer(tilt_of, ask, ceiling, tolerance).lower, upper), upper)

    @property
    def fewer(self) -> Direction:
        """A part of all rounds, which gives away no more: what is looked at where all are too many."""
        return Direction(tuple((curve, -(-count // 64)) for curve, count in self.parts))

    def closed_in(
        self, tilt: float, ask: Callable[[Convolution], float], ceiling: float, tolerance: float, wanted: int = BOTH,
        counts: Counts | None = None,
    ) -> Bounds:  # fmt: skip
        """Both bounds on δ or ε at one tilt; at gentler ones while the answer lies outside the window.

        `counts` are this direction's own or smaller ones: its transforms are taken once for all of them.
        """
        own = [count for _, count in self.parts] if counts is None else counts
        low, high = 0.0, ceiling
        for gentler in (1.0, 0.5, 0.1, 0.01, 0.0):
            sides = [Convolution(one, own) for one in self._transforms(gentler * tilt, tolerance, wanted)]
            for side in sides:
                low, high = (low, min(high, ask(side))) if side.sign > 0 else (max(low, ask(side)), high)
            if all(side.closed for side in sides):
                break
        return Bounds(float(min(low, high)), float(high))

    def untilted(self, tolerance: float, wanted: int = BOTH, counts: Counts | None = None) -> list[Convolution]:
        """The wanted sides at tilt 0, of so many rounds: an error of a mass is one of an error rate there, at any ε."""
        own = [count for _, count in self.parts] if counts is None else counts
        key = (tolerance, wanted, *own)
        if key not in self._asked:  # μ and β are asked for one after the other
            self._asked.clear()
            self._asked[key] = [Convolution(one, own) for one in self._transforms(0.0, tolerance, wanted)]
        return self._asked[key]

    def _transforms(self, tilt: float, tolerance: float, wanted: int) -> list[Transforms]:
        """Transforms of the curves for the wanted bounds at a tilt, made once; on one lattice of all if small."""
        signs = [sign for sign in (UPPER, LOWER) if wanted in (sign, BOTH)]
        if any((tilt, tolerance, sign) not in self._taken for sign in signs):
            if self.rounds > MOST_ROUNDS:
                raise TooLarge(f"{self.rounds} rounds are more than {MOST_ROUNDS}")
            window = self.sketch.window(tilt, OUTSIDE)
            points = lattice.LARGEST if tolerance < QUICK else MANY
            if self.step is None or window.high - window.low > self.step * points:
                lattices = self._approximated(tilt, window, tolerance, wanted)
            else:
                shared = [(lattice.exact(curve.above, self.step), count) for curve, count in self.parts]
                lattices = dict.fromkeys(signs, shared)
            for sign, rounds in lattices.items():
                self._taken[tilt, tolerance, sign] = Transforms(rounds, tilt, window, sign)
        return [self._taken[tilt, tolerance, sign] for sign in signs]

    def _approximated(self, tilt: float, window: Window, tolerance: float, wanted: int) -> dict[int, Rounds]:
        """Every curve put on lattices of one step, spread for the upper bound and merged for the lower one.

        Spreading costs at most n·h²/8 of loss. So the step keeps ε within its tolerance, as far as points allow.
        """
        wide = np.sqrt(8 * tolerance * max(1e-3, self.sketch.mean_and_variance(tilt)[0]) / self.rounds)
        width = window.high - window.low
        step = float(width / np.clip(width / wide, FEWEST, lattice.LARGEST))
        step = max(step, *(lattice.finest(source(curve, sign)) for curve, _ in self.parts for sign in (UPPER, LOWER)))
        heavy = [heavy_losses(curve, tilt) for curve, _ in self.parts]
        if any(heavy):
            step, _ = lattice.aligned(max(heavy, key=len), step)
        starts = [own[0][0] if own else 0.0 for own in heavy]
        found: dict[int, Rounds] = {}
        if wanted != LOWER:
            found[UPPER] = self._put(lattice.spread, UPPER, step, starts)
        if wanted != UPPER:
            finite = any(isinstance(source(curve, LOWER), Atoms) for curve, _ in self.parts)
            ways = (lattice.merged, lattice.gathered) if finite else (lattice.merged,)
            tried = [self._put(way, LOWER, step, starts) for way in ways]
            found[LOWER] = max(tried, key=lambda rounds: reach(rounds, max(tilt, LEAST_TILT)))
        return found

    def _put(self, way: Way, sign: int, step: float, starts: Sequence[float]) -> Rounds:
        """Every curve put on a lattice of that step in one way, each with a point at its own start, and its count."""
        parts = zip(self.parts, starts, strict=True)
        return [(way(source(curve, sign), step, at), count) for (curve, count), at in parts]


def source(curve: Tradeoff, sign: int) -> Atoms | Density:
    """What a curve's lattice is cut from for one bound: a density itself, else the finite pair on that side."""
    if isinstance(curve.pair, Density):
        return curve.pair
    return curve.above if sign > 0 else curve.below


def heavy_losses(curve: Tradeoff, tilt: float) -> list[tuple[float, float]]:
    """(loss, tilted weight) of a curve's outcomes with mass of their own, heaviest first: they align lattices."""
    if isinstance(curve.pair, Density):
        return [(loss, 1.0) for loss in curve.pair.heavy]
    finite = curve.below.finite
    weight = np.exp(tilt * finite.loss + finite.log_q - log_moment(finite.loss, finite.log_q, tilt))
    top = np.argsort(-weight)[:HEAVIEST]
    return [(float(finite.loss[at]), float(weight[at])) for at in top if weight[at] > 1e-3]


def _slack(curve: Tradeoff, epsilon: float) -> float:
    """How far the losses of a curve may be off near ε: what `Direction` allows for when a single curve answers."""
    return 4 * (curve.pair.error if isinstance(curve.pair, Atoms) else ROUNDING) * (1 + abs(epsilon))


def _rounded(value: float, relative: float = 1e-11) -> Bounds:
    """Bounds around a number of one correctly written formula, as a pure ε, with room for rounding on either side."""
    slack = abs(value) * relative if np.isfinite(value) else 0.0
    return Bounds(value - slack, value + slack)
