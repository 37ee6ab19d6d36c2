"""Composition: what many releases give away together, between two bounds that hold.

The losses of independent releases add, so their masses convolve. A direction of every round is put on one lattice
(`lattice`), tilted by e^{θ·loss} so that its bulk lies at the ε asked for, transformed, raised to the number of
rounds, transformed back and untilted: δ = 1e−30 then costs no more than δ = 1e−3, and ε = 5,000 no more than 1.
Everything that is not exact is added to the upper bound and taken from the lower one: spreading and merging, residuals,
the mass outside the window (Chernoff), and the rounding of the transform itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from fedpriv import atoms as hockey
from fedpriv import lattice
from fedpriv.arrays import Vector
from fedpriv.atoms import ROUNDING, Atoms
from fedpriv.densities import Density
from fedpriv.errors import FedprivError, probability, whole
from fedpriv.lattice import Lattice
from fedpriv.tilting import Sketch, Window, log_moment
from fedpriv.tradeoff import Enclosure, Tradeoff

HEAVIEST = 32  # outcomes a lattice is aligned to
MANY = 1 << 17  # points past which a quick answer leaves the exact lattice for a coarser one
OUTSIDE = -26.0  # ln of the tilted mass that may lie outside the window
DRIFT = -24.0  # ln of the chance that residuals of the lower bound add up to more than is taken off
FINE, QUICK, ROUGH = 1e-6, 1e-4, 1e-3  # relative errors of ε that a step aims at


class Bounds(NamedTuple):
    """A number known from both sides; the truth lies between."""

    lower: float
    upper: float


Part = tuple[Tradeoff, int]
Rounds = list[tuple[Lattice, int]]


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
        if isinstance(curve.pair, Density) and curve.pair.gaussian is not None:
            squares += count * curve.pair.gaussian**2
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
        """A certified Gaussian-DP parameter of the composition: √Σ n·μ², ∞ where some curve has none."""
        squares = sum(count * max(curve.mu, curve.inverse.mu) ** 2 for curve, count in self.parts)
        return float(np.sqrt(squares) * (1 + 8 * ROUNDING)) if self.parts else 0.0

    def delta(self, epsilon: float, tolerance: float = FINE) -> Bounds:
        """δ(ε) from both sides; a larger tolerance is quicker, its bounds hold as well and lie further apart."""
        if not epsilon >= 0:
            raise FedprivError(f"epsilon must be at least 0, got {epsilon}")
        return self._worst(lambda direction, t: direction.delta(float(epsilon), t), tolerance)

    def epsilon(self, delta: float, tolerance: float = FINE) -> Bounds:
        """The smallest ε ≥ 0 with δ(ε) ≤ δ, from both sides; ∞ where there is none."""
        probability(delta=delta)
        return self._worst(lambda direction, t: direction.epsilon(float(delta), t), tolerance)

    def upper_epsilon(self, delta: float, tolerance: float) -> float:
        """The upper bound of ε(δ) alone."""
        probability(delta=delta)
        return max((side.epsilon(float(delta), tolerance, lower=False).upper for side in self.directions), default=0.0)

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

    @cached_property
    def revealing(self) -> bool:
        """Whether some curve gives everything away: no outcome that both sides give."""
        return any(not curve.above.finite.loss.size for curve, _ in self.parts)

    @cached_property
    def largest_loss(self) -> float:
        """The pure ε: the sum of the largest losses, or ∞."""
        return float(sum(count * curve.above.largest_loss for curve, count in self.parts))

    @cached_property
    def sketch(self) -> Sketch:
        """The outline from which tilt and window are chosen."""
        return Sketch.of([(curve.above, count) for curve, count in self.parts])

    @cached_property
    def step(self) -> float | None:
        """The step of the lattice that holds all losses of all curves, where there is one."""
        found = [lattice.step_of(curve.above.finite.loss) for curve, _ in self.parts]
        if any(step is None for step in found) or any(curve.above is not curve.below for curve, _ in self.parts):
            return None
        steps = [step for step in found if step]
        if not steps:
            return 0.0
        return steps[0] if max(steps) - min(steps) <= 1e-15 * steps[0] else None

    def delta(self, epsilon: float, tolerance: float) -> Bounds:
        """δ(ε) of this direction."""
        if self.single:
            return _rounded(self.single.delta(epsilon))
        if self.revealing:
            return Bounds(1.0, 1.0)
        return self._at(self.sketch.tilt_for_epsilon(epsilon), tolerance, lambda side: side.delta(epsilon))

    def epsilon(self, delta: float, tolerance: float, lower: bool = True) -> Bounds:
        """ε(δ) of this direction; without the lower bound in half the time."""
        if self.single:
            return _rounded(self.single.epsilon(delta))
        if self.revealing or delta == 1:
            return Bounds(0.0, 0.0) if delta == 1 else Bounds(np.inf, np.inf)
        pure = _rounded(max(self.largest_loss, 0.0))
        if delta == 0:
            return pure
        found = self._at(
            self.sketch.tilt_for_delta(delta), tolerance, lambda side: max(side.epsilon(delta), 0.0), lower
        )
        return Bounds(found.lower, min(found.upper, pure.upper))

    def _at(self, tilt: float, tolerance: float, ask: Callable[[Side], float], lower: bool = True) -> Bounds:
        """Both sides composed at one tilt and asked."""
        window = self.sketch.window(tilt, OUTSIDE)
        if self.step is not None and window.high - window.low <= self.step * (
            lattice.LARGEST if tolerance < QUICK else MANY
        ):
            both = [(lattice.exact(curve.above, self.step), count) for curve, count in self.parts]
            sides = both, both
        else:
            sides = self._approximated(tilt, window, tolerance)
        upper = ask(Side(sides[0], tilt, window, +1))
        return Bounds(min(ask(Side(sides[1], tilt, window, -1)), upper) if lower else 0.0, upper)

    def _approximated(self, tilt: float, window: Window, tolerance: float) -> tuple[Rounds, Rounds]:
        """Every curve spread and merged on lattices of one step."""
        heavy = [heavy_losses(curve, tilt) for curve, _ in self.parts]
        step = self._step_within(tilt, window, tolerance)
        if any(heavy):
            step, _ = lattice.aligned(max(heavy, key=len), step)
        placed = [
            (curve, count, own[0][0] if own else 0.0) for (curve, count), own in zip(self.parts, heavy, strict=True)
        ]
        upper = [(lattice.spread(source(curve, +1), step, start), count) for curve, count, start in placed]
        lower = [(lattice.merged(source(curve, -1), step, start), count) for curve, count, start in placed]
        return upper, lower

    def _step_within(self, tilt: float, window: Window, tolerance: float) -> float:
        """The step whose spreading, at most n·h²/8 of loss, keeps ε within its tolerance, as far as points allow."""
        count = sum(count for _, count in self.parts)
        wanted = np.sqrt(8 * tolerance * max(1.0, self.sketch.mean_and_variance(tilt)[0]) / count)
        width = window.high - window.low
        return float(width / np.clip(width / wanted, 1 << 13, lattice.LARGEST))


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


class Side:
    """One bound of one direction, composed at one tilt. `sign` is +1 for the upper bound, −1 for the lower one."""

    def __init__(self, rounds: Rounds, tilt: float, window: Window, sign: int) -> None:
        self.rounds, self.tilt, self.sign = rounds, tilt, sign
        self.step = rounds[0][0].step or 1.0
        self.offset = sum(n * one.offset for one, n in rounds)
        self.log_total = self._log_moment(tilt)
        self.first, self.size = self._window(window)
        self.shift, self.log_drift = self._drift()
        self.profile, self.impossible = self._compose()

    def _log_moment(self, tilt: float) -> float:
        return sum(n * log_moment(one.loss, one.log_mass, tilt) for one, n in self.rounds)

    def _window(self, window: Window) -> tuple[int, int]:
        """First index and number of points, wide enough that e^OUTSIDE of the tilted mass lies beyond either end."""
        smallest = sum(n * int(one.index[0]) for one, n in self.rounds)
        largest = sum(n * int(one.index[-1]) for one, n in self.rounds)
        high = (self._log_moment(self.tilt + window.up) - self.log_total - OUTSIDE) / window.up
        low = -(self._log_moment(self.tilt - window.down) - self.log_total - OUTSIDE) / window.down
        first = max(int(np.floor((low - self.offset) / self.step)) - 1, smallest)
        last = min(int(np.ceil((high - self.offset) / self.step)) + 1, largest)
        size = max(last - first + 1, 2)
        if size > 4 * lattice.LARGEST:
            raise FedprivError(f"this composition needs {size:.3g} lattice points, more than {4 * lattice.LARGEST}")
        self.log_spill = self.log_total + OUTSIDE + np.log(2.0) if largest - smallest + 1 > size else -np.inf
        return first, int(next_fast_len(size, real=True))

    def _drift(self) -> tuple[float, float]:
        """How much the sum of all residuals may move the loss, and ln of the chance (after tilting) that it is more.

        Upper: the largest residual, every time. Lower: the residuals' tilted mean, every time, less a Chernoff bound on
        the rest, from Σ over rounds of ln E[e^{θ·loss − λ(r − mean)}].
        """
        slack = sum(2 * n * one.error for one, n in self.rounds)
        if self.sign > 0:
            return sum(n * float(one.residual.max(initial=0.0)) for one, n in self.rounds) + slack, -np.inf
        rest, variance, shift = [], 0.0, -slack
        for one, n in self.rounds:
            log_weight = self.tilt * one.loss + one.log_mass - log_moment(one.loss, one.log_mass, self.tilt)
            weight = np.exp(log_weight)
            mean = float(weight @ one.residual)
            rest.append((one.residual - mean, log_weight, n))
            shift, variance = shift + n * mean, variance + n * float(weight @ (one.residual - mean) ** 2)
        worst = sum(n * float(-r.min(initial=0.0)) for r, _, n in rest)
        if worst <= 1e-13 * (1 + abs(shift)):
            return shift - worst, -np.inf
        margins = [worst]
        for rate in np.sqrt(-2 * DRIFT / max(variance, 1e-300)) * np.array([0.25, 0.5, 1.0, 2.0]):
            grown = sum(n * log_moment(r, log_weight, -rate) for r, log_weight, n in rest)
            margins.append(float(max(grown - DRIFT, 0.0) / rate))
        return shift - min(margins), DRIFT

    def _compose(self) -> tuple[tuple[Vector, Vector, Vector], float]:
        """The hockey stick of the composition: tilt, transform, multiply, transform back, untilt."""
        n = self.size
        product, log_bound = np.ones(n // 2 + 1, dtype=complex), np.zeros(n // 2 + 1)
        relative = np.zeros(n // 2 + 1)
        transform_error = 2 * ROUNDING * np.log2(n)
        for one, count in self.rounds:
            log_tilted = self.tilt * one.loss + one.log_mass
            mass = np.exp(log_tilted - log_moment(one.loss, one.log_mass, self.tilt))
            wrapped = np.asarray(np.bincount((one.index - one.index[0]) % n, mass, minlength=n), dtype=float)
            values = rfft(wrapped)
            size = np.abs(values)
            off = transform_error * np.sqrt(n) * _norm(wrapped)
            product *= _power(values, count)
            log_bound += count * np.log(size + off)
            relative += count * (np.log(size + off) - np.log(np.maximum(size, 1e-300))) + 8 * ROUNDING * (count + 4)
        size = np.abs(product)
        error_hat = np.minimum(size * np.expm1(np.minimum(relative, 50.0)), np.exp(log_bound) + size)
        first = sum(c * int(one.index[0]) for one, c in self.rounds)
        mass = np.roll(irfft(product, n), -((self.first - first) % n))
        error = 2 * float(error_hat.mean()) + transform_error * _norm(mass)
        return self._untilted(mass, error)

    def _untilted(self, mass: Vector, error: float) -> tuple[tuple[Vector, Vector, Vector], float]:
        """Masses widened by the transform's error, weighed back by e^−θ·loss, and everything outside put aside."""
        loss = self.offset + (self.first + np.arange(mass.size)) * self.step
        bounded = np.maximum(mass, 0.0) + error if self.sign > 0 else mass - error
        kept = bounded > 0
        centre = float((mass * loss).sum())
        kept &= self.tilt * (centre - loss) < 400  # far below ε a mass has no say in δ(ε)
        kept &= self.log_total - self.tilt * loss > -740
        many = sum(n * 2 * one.error for one, n in self.rounds) + 8 * ROUNDING * (
            8 + abs(self.log_total) + self.tilt * abs(centre)
        )
        loss = loss[kept][::-1]
        log_q = np.log(bounded[kept][::-1]) + self.log_total - self.tilt * loss + self.sign * many
        impossible = any_of([(one.impossible, n) for one, n in self.rounds]) * (1 + self.sign * many)
        loss = loss + self.shift
        return hockey.corners(loss, log_q - loss, impossible), impossible

    def _correction(self, epsilon: float) -> float:
        """What the window left outside, and (lower bound) the chance of a larger drift, at most e^{K(θ) − θ·ε}·that."""
        at = -self.tilt * (epsilon - abs(self.shift) if self.sign > 0 else epsilon)
        log_correction = np.logaddexp(self.log_spill + at, self.log_total + self.log_drift + at)
        return float(np.exp(min(log_correction, 0.0)))

    def delta(self, epsilon: float) -> float:
        """The bound on δ(ε)."""
        value = float(hockey.hockey_stick(self.profile, self.impossible, epsilon))
        return float(np.clip(value * (1 + self.sign * 1e-13) + self.sign * self._correction(epsilon), 0.0, 1.0))

    def epsilon(self, delta: float) -> float:
        """The bound on ε(δ): bisection around the profile's own answer, keeping the end that holds."""
        guess = hockey.smallest_epsilon(self.profile, self.impossible, delta)
        if np.isinf(guess):
            return float(guess)
        width = 1e-13 * (1 + abs(guess))
        low, high = guess - width, guess + width
        while self.delta(low) <= delta and width < 1e6:
            low, width = low - width, 4 * width
        width = 1e-13 * (1 + abs(guess))
        while self.delta(high) > delta and width < 1e6 * (1 + abs(guess)):
            high, width = high + width, 4 * width
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high if self.sign > 0 else low


def _rounded(value: float) -> Bounds:
    """A number computed by one correctly written formula, with room for its rounding on either side."""
    slack = abs(value) * 1e-13 if np.isfinite(value) else 0.0
    return Bounds(value - slack, value + slack)


def _norm(values: Vector) -> float:
    """The Euclidean norm by plain sums: BLAS would wake a second thread for it."""
    return float(np.sqrt(np.square(values).sum()))


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """values^count in polar form; its relative error grows as count times that of one angle."""
    with np.errstate(divide="ignore"):
        log_size = count * np.log(np.abs(values))
    return np.asarray(np.exp(log_size) * np.exp(1j * count * np.angle(values)))


def any_of(chances: Sequence[tuple[float, int]]) -> float:
    """1 − Π (1 − p)^n."""
    if any(p >= 1 and n for p, n in chances):
        return 1.0
    return float(-np.expm1(sum(n * np.log1p(-p) for p, n in chances)))
