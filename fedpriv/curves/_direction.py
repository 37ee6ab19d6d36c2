"""Composition: what many releases give away together, between two bounds that hold.

The losses of independent releases add, so their masses convolve. A direction of every round is put on one lattice
(`lattice`) and composed by a Fourier transform after tilting by e^{θ·loss}, so that its bulk lies at the ε asked for
(`convolution`): δ = 1e−30 then costs no more than δ = 1e−3, and ε = 5,000 no more than 1. The same curve, made a little
more and a little less informative, gives the upper and the lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedpriv import lattice
from fedpriv.atoms import ROUNDING, Atoms
from fedpriv.composed_mu import composed_mu
from fedpriv.convolution import OUTSIDE, Convolution, Rounds, TooLarge, reach
from fedpriv.densities import Density
from fedpriv.errors import at_least_zero, probability, whole
from fedpriv.lattice import Lattice
from fedpriv.tilting import Sketch, Window, log_moment
from fedpriv.tradeoff import Enclosure, Tradeoff

HEAVIEST = 32  # outcomes a lattice is aligned to
MOST_ROUNDS = 1 << 34
LEAST_TILT = 1e-6  # at which lattices are compared where nothing is tilted
UPPER, LOWER, BOTH = +1, -1, 0
MANY = 1 << 17  # points past which a quick answer leaves the exact lattice for a coarser one
FINE, QUICK, ROUGH = 5e-7, 1e-4, 1e-3  # relative errors of ε that a step aims at


class Bounds(NamedTuple):
    """A number known from both sides; the truth lies between."""

    lower: float
    upper: float


Part = tuple[Tradeoff, int]
Way = Callable[[Atoms | Density, float, float], Lattice]


def compose(parts: Iterable[Part]) -> Composition:
    """The composition of curves, each with the number of times it is released.

    >>> vote = Tradeoff.between([0.6, 0.4], [0.4, 0.6])
    >>> low, high = compose([(vote, 1000)]).epsilon(1e-5)
    >>> high - low < 1e-6 * high
    True
    """
    checked = []
    for curve, count in parts:
        whole(at_least=0, rounds=count)
        if count:
            checked.append((curve, int(count)))
    return Composition(tuple(_gathered(checked)))


def _gathered(parts: Sequence[Part]) -> list[Part]:
    """Gaussian curves made one, G_√Σμ²; the same curve met twice counted together."""
    counts: dict[int, tuple[Tradeoff, int]] = {}
    squares = 0.0
    for curve, count in parts:
        if curve.gaussian_mu is not None:
            squares += count * curve.gaussian_mu**2
        else:
            counts[id(curve)] = (curve, count + counts.get(id(curve), (curve, 0))[1])
    together = [(Tradeoff.gaussian(float(np.sqrt(squares)) * (1 + 4 * ROUNDING)), 1)] if squares else []
    return list(counts.values()) + together


@dataclass(frozen=True, eq=False)
class Composition:
    """Releases composed; asked for δ at an ε or ε at a δ, it answers with bounds for the worse of both directions."""

    parts: tuple[Part, ...]

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """Q against P and, unless every curve is its own inverse, P against Q; none where nothing was released."""
        if not self.parts:
            return ()
        forward = Direction(self.parts)
        if all(curve.symmetric for curve, _ in self.parts):
            return (forward,)
        return forward, Direction(tuple((curve.inverse, count) for curve, count in self.parts))

    @cached_property
    def mu(self) -> float:
        """A certified Gaussian-DP parameter of the composition, ∞ where some curve has none."""
        return max((direction.mu for direction in self.directions), default=0.0)

    def delta(self, epsilon: float, tolerance: float = FINE) -> Bounds:
        """δ(ε) from both sides; a larger tolerance is quicker, its bounds hold as well and lie further apart."""
        at_least_zero(epsilon=epsilon)
        return self._worst(lambda direction, t: direction.delta(float(epsilon), t), tolerance)

    def epsilon(self, delta: float, tolerance: float = FINE) -> Bounds:
        """The smallest ε ≥ 0 with δ(ε) ≤ δ, from both sides; ∞ where there is none."""
        probability(delta=delta)
        return self._worst(lambda direction, t: direction.epsilon(float(delta), t), tolerance)

    def upper_epsilon(self, delta: float, tolerance: float) -> float:
        """The upper bound of ε(δ) alone."""
        probability(delta=delta)
        return max((side.epsilon(float(delta), tolerance, UPPER).upper for side in self.directions), default=0.0)

    def lower_epsilon(self, delta: float, tolerance: float) -> float:
        """The lower bound of ε(δ) alone."""
        probability(delta=delta)
        return max((side.epsilon(float(delta), tolerance, LOWER).lower for side in self.directions), default=0.0)

    def _worst(self, ask: Callable[[Direction, float], Bounds], tolerance: float) -> Bounds:
        """The larger answer of the directions; one that a rough look shows to be smaller is not looked at again."""
        if not self.parts:
            return Bounds(0.0, 0.0)
        open_ = list(self.directions)
        if len(open_) > 1 and tolerance < ROUGH:
            rough = [ask(direction, ROUGH) for direction in open_]
            largest = max(bounds.lower for bounds in rough)
            open_ = [direction for direction, bounds in zip(open_, rough, strict=True) if bounds.upper >= largest]
        answers = [ask(direction, tolerance) for direction in open_]
        return Bounds(max(a.lower for a in answers), max(a.upper for a in answers))


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction, Q against P, of composed curves."""

    parts: tuple[Part, ...]

    @cached_property
    def single(self) -> Tradeoff | None:
        """The curve itself where there is nothing to compose and it answers exactly."""
        if len(self.parts) == 1 and self.parts[0][1] == 1 and not isinstance(self.parts[0][0].pair, Enclosure):
            return self.parts[0][0]
        return None

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
        """Whether some curve has none for certain."""
        return any(not curve.below.finite.loss.size and curve.below.impossible > 0 for curve, _ in self.parts)

    @cached_property
    def largest_loss(self) -> float:
        """The pure ε: the sum of the largest losses, or ∞."""
        return float(sum(count * curve.largest_loss for curve, count in self.parts))

    @cached_property
    def sketch(self) -> Sketch:
        """The outline from which tilt and window are chosen."""
        return Sketch.of([(curve.outline, count) for curve, count in self.parts])

    @cached_property
    def step(self) -> float | None:
        """The step of the lattice that holds all losses of all curves, where there is one."""
        pairs = [curve.pair for curve, _ in self.parts]
        found = [lattice.step_of(pair.finite.loss) if isinstance(pair, Atoms) else None for pair in pairs]
        if any(step is None for step in found):
            return None
        steps = [step for step in found if step]
        if not steps:
            return 0.0
        return steps[0] if max(steps) - min(steps) <= 1e-15 * steps[0] else None

    def delta(self, epsilon: float, tolerance: float) -> Bounds:
        """δ(ε) of this direction."""
        if self.single:
            return _single_delta(self.single, epsilon)
        if self.nothing_shared:
            return Bounds(float(self.told_apart), 1.0)
        return self._answer(
            lambda some: some.sketch.tilt_for_epsilon(epsilon),
            lambda side: side.delta(epsilon),
            (1.0, lambda curve: curve.delta(epsilon)),
            tolerance,
        )

    def epsilon(self, delta: float, tolerance: float, wanted: int = BOTH) -> Bounds:
        """ε(δ) of this direction; one bound alone, the other one left open, takes half the time."""
        if self.single:
            return _single_epsilon(self.single, delta)
        if delta == 1:
            return Bounds(0.0, 0.0)
        if self.nothing_shared:
            return Bounds(np.inf if self.told_apart else 0.0, np.inf)
        pure = _rounded(max(self.largest_loss, 0.0), 1e-13)
        if delta == 0:
            return pure
        return self._answer(
            lambda some: some.sketch.tilt_for_delta(delta),
            lambda side: max(side.epsilon(delta), 0.0),
            (pure.upper, lambda curve: curve.epsilon(delta)),
            tolerance,
            wanted,
        )

    def _answer(
        self,
        tilt_of: Callable[[Direction], float],
        ask: Callable[[Convolution], float],
        ceiling: tuple[float, Callable[[Tradeoff], float]],
        tolerance: float,
        wanted: int = BOTH,
    ) -> Bounds:
        """Both bounds; of more rounds than a transform holds, the Gaussian bound and what fewer rounds give away."""
        try:
            return self._closed_in(tilt_of(self), ask, ceiling[0], tolerance, wanted)
        except TooLarge:
            by_gaussian = _rounded(ceiling[1](Tradeoff.gaussian(self.mu))).upper if self.mu < np.inf else np.inf
            upper = min(ceiling[0], by_gaussian)
        fewer = Direction(tuple((curve, -(-count // 64)) for curve, count in self.parts))
        if wanted == UPPER or fewer.rounds == self.rounds:
            return Bounds(0.0, upper)
        return Bounds(min(fewer._answer(tilt_of, ask, ceiling, tolerance).lower, upper), upper)

    def _closed_in(
        self, tilt: float, ask: Callable[[Convolution], float], ceiling: float, tolerance: float, wanted: int
    ) -> Bounds:
        """Both bounds at one tilt; at gentler ones while the answer lies outside the window, as single outcomes do."""
        low, high = 0.0, ceiling
        for gentler in (1.0, 0.5, 0.1, 0.01, 0.0):
            found, closed = self._composed(gentler * tilt, tolerance, ask, wanted)
            low, high = max(low, found.lower), min(high, found.upper)
            if closed:
                break
        return Bounds(float(min(low, high)), float(high))

    def _composed(
        self, tilt: float, tolerance: float, ask: Callable[[Convolution], float], wanted: int
    ) -> tuple[Bounds, bool]:
        """Both sides composed at one tilt and asked, and whether their answers lie inside the window."""
        if self.rounds > MOST_ROUNDS:
            raise TooLarge(f"{self.rounds} rounds are more than {MOST_ROUNDS}")
        window = self.sketch.window(tilt, OUTSIDE)
        points = lattice.LARGEST if tolerance < QUICK else MANY
        if self.step is not None and window.high - window.low <= self.step * points:
            shared = [(lattice.exact(curve.above, self.step), count) for curve, count in self.parts]
            rounds: dict[int, Rounds] = {UPPER: shared, LOWER: shared}
        else:
            rounds = self._approximated(tilt, window, tolerance, wanted)
        low, high, closed = 0.0, np.inf, True
        if wanted != LOWER:
            upper = Convolution(rounds[UPPER], tilt, window, UPPER)
            high, closed = ask(upper), upper.closed
        if wanted != UPPER:
            below = Convolution(rounds[LOWER], tilt, window, LOWER)
            low, closed = min(ask(below), high), closed and below.closed
        return Bounds(low, high), closed

    def _approximated(self, tilt: float, window: Window, tolerance: float, wanted: int) -> dict[int, Rounds]:
        """Every curve spread and merged on lattices of one step."""
        heavy = [heavy_losses(curve, tilt) for curve, _ in self.parts]
        step = self._step_within(tilt, window, tolerance)
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
        parts = zip(self.parts, starts, strict=True)
        return [(way(source(curve, sign), step, at), count) for (curve, count), at in parts]

    def _step_within(self, tilt: float, window: Window, tolerance: float) -> float:
        """The step whose spreading, at most n·h²/8 of loss, keeps ε within its tolerance, as far as points allow."""
        wanted = np.sqrt(8 * tolerance * max(1e-3, self.sketch.mean_and_variance(tilt)[0]) / self.rounds)
        width = window.high - window.low
        points = np.clip(width / wanted, 1 << 13, lattice.LARGEST)
        step = float(width / points)
        return max(step, *(lattice.finest(source(curve, sign)) for curve, _ in self.parts for sign in (+1, -1)))


def source(curve: Tradeoff, sign: int) -> Atoms | Density:
    """What a lattice is cut from: a density itself, else the finite pair on that side."""
    if isinstance(curve.pair, Density):
        return curve.pair
    return curve.above if sign > 0 else curve.below


def heavy_losses(curve: Tradeoff, tilt: float) -> list[tuple[float, float]]:
    """(loss, tilted weight) of the outcomes that carry mass of their own, heaviest first."""
    if isinstance(curve.pair, Density):
        return [(loss, 1.0) for loss in curve.pair.heavy]
    finite = curve.below.finite
    weight = np.exp(tilt * finite.loss + finite.log_q - log_moment(finite.loss, finite.log_q, tilt))
    top = np.argsort(-weight)[:HEAVIEST]
    return [(float(finite.loss[at]), float(weight[at])) for at in top if weight[at] > 1e-3]


def _single_delta(curve: Tradeoff, epsilon: float) -> Bounds:
    """δ(ε) of one release: the curve itself, asked a rounding error to either side."""
    slack = _slack(curve, epsilon)
    low, high = (
        curve.delta(epsilon + slack),
        curve.delta(epsilon - slack) if epsilon > slack else curve.delta(0.0) + slack,
    )
    return Bounds(low * (1 - 1e-11), min(high * (1 + 1e-11), 1.0))


def _single_epsilon(curve: Tradeoff, delta: float) -> Bounds:
    """ε(δ) of one release."""
    low, high = curve.epsilon(min(delta * (1 + 1e-11), 1.0)), curve.epsilon(delta * (1 - 1e-11))
    room = _slack(curve, high) if np.isfinite(high) else 0.0
    return Bounds(max(low - room, 0.0) if np.isfinite(low) else low, high + room if high > 0 else high)


def _slack(curve: Tradeoff, epsilon: float) -> float:
    """How far the losses of a curve may be off near ε."""
    return 4 * (curve.pair.error if isinstance(curve.pair, Atoms) else ROUNDING) * (1 + abs(epsilon))


def _rounded(value: float, relative: float = 1e-11) -> Bounds:
    """A number computed by one correctly written formula, with room for its rounding on either side."""
    slack = abs(value) * relative if np.isfinite(value) else 0.0
    return Bounds(value - slack, value + slack)
