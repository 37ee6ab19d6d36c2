"""One bound of one direction of a composition: lattices tilted, transformed, multiplied, transformed back, untilted.

Everything that is not exact goes to the safe side: the residuals of the lattice, the tilted mass outside the window
(Chernoff), the rounding of masses and of the transform. Proofs: docs/proofs/composition.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from fedpriv import atoms as hockey
from fedpriv.arrays import Vector
from fedpriv.atoms import ROUNDING
from fedpriv.errors import FedprivError
from fedpriv.lattice import LARGEST, Lattice
from fedpriv.tilting import Window, log_moment

OUTSIDE = -26.0  # ln of the tilted mass that may lie beyond either end of the window
DRIFT = -24.0  # ln of the tilted chance that residuals of the lower bound add up to more than is taken off
UNSEEN = -69.0  # ln of a tilted mass whose rounding cannot matter
DEEP = 400.0  # nats of tilting below the bulk at which masses have no say in δ(ε)

Rounds = Sequence[tuple[Lattice, int]]


class TooLarge(FedprivError):
    """More lattice points than a transform may have."""


class Convolution:
    """The rounds composed at one tilt. `sign` is +1 for an upper bound, −1 for a lower one."""

    def __init__(self, rounds: Rounds, tilt: float, window: Window, sign: int) -> None:
        self.rounds, self.tilt, self.sign = rounds, tilt, sign
        self.closed = True  # whether the last answer was found inside the window
        self.step = rounds[0][0].step or 1.0
        self.offset = sum(n * one.offset for one, n in rounds)
        self.slack = _slack(rounds)
        self.log_total = _log_moment(rounds, tilt)
        self.first, self.size, self.log_spill = self._window(window)
        self.shift, self.log_drift = drift(rounds, tilt, sign)
        self.profile, self.impossible = self._composed()

    def delta(self, epsilon: float) -> float:
        """The bound on δ(ε); below the last corner that was kept an upper bound knows nothing."""
        self.closed = self.complete or epsilon >= self.lowest
        if self.sign > 0 and not self.closed:
            return 1.0
        value = float(hockey.hockey_stick(self.profile, self.impossible, epsilon))
        value *= 1 + self.sign * ROUNDING * (64 + self.profile[0].size)  # the running sums of `corners`
        value += self.sign * self._correction(epsilon)
        if np.isnan(value):  # arithmetic that left the range of floats proves nothing
            return 1.0 if self.sign > 0 else 0.0
        return float(np.clip(value, 0.0, 1.0))

    def epsilon(self, delta: float) -> float:
        """The bound on ε(δ), by bisection, the end returned that holds; ∞ or −∞ where nothing is known."""
        if self.sign < 0 and self.impossible > delta:  # whatever is left of the other outcomes: it may underflow
            return np.inf
        if not self.profile[0].size:
            return self.sign * np.inf
        low, high = self._bracket(delta)
        closed = bool(np.isfinite(low) and np.isfinite(high))
        while closed and high - low > 1e-14 * (1 + abs(high)):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        self.closed = self.complete or (closed and low >= self.lowest)
        return high if self.sign > 0 else low

    def _bracket(self, delta: float) -> tuple[float, float]:
        """An ε with a bound above δ and a larger one without: nearest the profile's own answer, which is nearly it."""
        top, guess = float(self.profile[0][0]), hockey.smallest_epsilon(self.profile, self.impossible, delta)
        guess = float(np.clip(guess, self.lowest, top)) if not np.isnan(guess) else top
        for width in 1e-13 * (1 + abs(top)) * 4.0 ** np.arange(26):
            if self.delta(guess - width) > delta >= self.delta(guess + width):
                return guess - width, guess + width
        if self.delta(self.lowest) <= delta:  # an upper bound that never exceeds δ, or a lower one that proves nothing
            return -np.inf, self.lowest
        return (self.lowest, np.inf) if self.sign > 0 else (-np.inf, np.inf)

    def _correction(self, epsilon: float) -> float:
        """What lies outside the window, and the chance of a larger drift: at most e^{K(θ) − θ·(ε − shift)} of each."""
        at = -self.tilt * (epsilon - self.shift - self.slack)
        log_correction = np.logaddexp(self.log_spill + at, self.log_total + self.log_drift + at)
        return float(np.exp(min(log_correction, 0.0)))

    def _window(self, window: Window) -> tuple[int, int, float]:
        """First index, number of points, ln of what lies outside: e^OUTSIDE of the tilted mass beyond either end."""
        smallest = sum(n * int(one.index[0]) for one, n in self.rounds)
        largest = sum(n * int(one.index[-1]) for one, n in self.rounds)
        high = (_log_moment(self.rounds, self.tilt + window.up) - self.log_total - OUTSIDE) / window.up
        low = -(_log_moment(self.rounds, self.tilt - window.down) - self.log_total - OUTSIDE) / window.down
        first = max(int(np.floor((low - self.offset) / self.step)) - 1, smallest)
        last = min(int(np.ceil((high - self.offset) / self.step)) + 1, largest)
        if max(abs(first), abs(last)) >= 1 << 62:
            raise TooLarge("the composed losses lie beyond whole numbers of 64 bits")
        size = max(last - first + 1, 2)
        if size > 4 * LARGEST:
            raise TooLarge(f"this composition needs {size:.3g} lattice points, more than {4 * LARGEST}")
        spill = self.log_total + OUTSIDE + np.log(2.0) if largest - smallest + 1 > size else -np.inf
        return first, int(next_fast_len(size, real=True)), float(spill)

    def _composed(self) -> tuple[tuple[Vector, Vector, Vector], float]:
        """The hockey stick of the composition.

        A transform known up to `off` everywhere has a power known up to (s + off)^n − s^n, s its size.
        """
        n = self.size
        product, log_most, share = np.ones(n // 2 + 1, dtype=complex), np.zeros(n // 2 + 1), np.zeros(n // 2 + 1)
        transform = 2 * ROUNDING * np.log2(n)  # relative error of a transform in the Euclidean norm, with room
        self.rounding, powers = 64 * ROUNDING, 0.0
        for one, count in self.rounds:
            mass = self._tilted(one, count)
            values = rfft(mass)
            most = np.abs(values) + transform * np.sqrt(n) * _norm(mass)
            product *= _power(values, count)
            log_most += count * np.log(most)
            share += count * np.log1p(np.abs(values) / most - 1 + 1e-16)
            powers += 8 * ROUNDING * (count + 4)
        error = -np.exp(np.minimum(log_most, 700.0)) * np.expm1(share) + powers * np.abs(product)
        first = sum(c * int(one.index[0]) for one, c in self.rounds)
        mass = np.roll(irfft(product, n), -((self.first - first) % n))
        return self._untilted(mass, 2 * float(error.mean()) + transform * _norm(mass))

    def _tilted(self, one: Lattice, count: int) -> Vector:
        """One round's masses, tilted to sum to 1, wrapped round the window; their rounding is counted."""
        log_mass = self.tilt * one.loss + one.log_mass - log_moment(one.loss, one.log_mass, self.tilt)
        large = np.where(log_mass > UNSEEN, np.abs(self.tilt * one.loss) + np.abs(one.log_mass), 0.0)
        self.rounding += count * (2 * one.error + 2 * ROUNDING * (1 + float(large.max(initial=0.0))))
        wrapped = np.bincount((one.index - one.index[0]) % self.size, np.exp(log_mass), minlength=self.size)
        return np.asarray(wrapped, dtype=float)

    def _untilted(self, mass: Vector, error: float) -> tuple[tuple[Vector, Vector, Vector], float]:
        """Masses widened by the transform's error, weighed back by e^−θ·loss; those far below ε left out."""
        loss = self.offset + (self.first + np.arange(mass.size)) * self.step
        centre = float((mass * loss).sum())
        bounded = np.maximum(mass, 0.0) + error if self.sign > 0 else mass - error
        kept = (bounded > 0) & (self.tilt * (centre - loss) < DEEP) & (self.log_total - self.tilt * loss > -740)
        self.complete = self.log_spill == -np.inf and bool(kept.all())
        loss, bounded = loss[kept][::-1], bounded[kept][::-1]
        self.rounding += 8 * ROUNDING * (abs(self.log_total) + self.tilt * abs(centre))
        log_q = np.log(bounded) + self.log_total - self.tilt * loss + self.sign * self.rounding
        impossible = any_of([(one.impossible + (one.unseen if self.sign > 0 else 0.0), n) for one, n in self.rounds])
        impossible *= 1 + self.sign * self.rounding
        loss = loss + self.shift
        self.lowest = float(loss[-1]) if loss.size else np.inf
        return hockey.corners(loss, log_q - loss, impossible), impossible


def reach(rounds: Rounds, tilt: float) -> float:
    """How far the tilted bulk reaches, less what a lower bound takes off: of two lattices the larger is the better."""
    shift, _ = drift(rounds, tilt, -1)
    return _log_moment(rounds, tilt) + tilt * shift


def drift(rounds: Rounds, tilt: float, sign: int) -> tuple[float, float]:
    """How much the sum of all residuals may move the loss, and ln of the chance (after tilting) that it is more.

    Upper: the largest residual, every time. Lower: the residuals' tilted mean, every time, less a Chernoff bound on
    the rest, from Σ over rounds of ln E[e^{θ·loss − λ(r − mean)}].
    """
    slack = _slack(rounds)
    if sign > 0:
        return sum(n * one.widest for one, n in rounds) + slack, -np.inf
    rest, variance, shift = [], 0.0, -slack
    for one, n in rounds:
        if not one.residual.any():
            continue
        log_weight = tilt * one.loss + one.log_mass - log_moment(one.loss, one.log_mass, tilt)
        weight = np.exp(log_weight)
        mean = float((weight * one.residual).sum())
        rest.append((one.residual - mean, log_weight, n))
        shift, variance = shift + n * mean, variance + n * float((weight * (one.residual - mean) ** 2).sum())
    worst = sum(n * float(-r.min(initial=0.0)) for r, _, n in rest)
    if worst <= 1e-13 * (1 + abs(shift)):
        return shift - worst, -np.inf
    margins = [worst]
    for rate in np.sqrt(-2 * DRIFT / max(variance, 1e-300)) * np.array([0.25, 0.5, 1.0, 2.0]):
        grown = sum(n * log_moment(r, log_weight, -rate) for r, log_weight, n in rest)
        margins.append(float(max(grown - DRIFT, 0.0) / rate))
    return shift - min(margins), DRIFT


def _slack(rounds: Rounds) -> float:
    return sum(2 * n * one.error for one, n in rounds)


def _log_moment(rounds: Rounds, tilt: float) -> float:
    return sum(n * log_moment(one.loss, one.log_mass, tilt) for one, n in rounds)


def any_of(chances: Sequence[tuple[float, int]]) -> float:
    """1 − Π (1 − p)^n.

    >>> any_of([(0.5, 2), (0.0, 9)])
    0.75
    """
    if any(p >= 1 and n for p, n in chances):
        return 1.0
    return float(-np.expm1(sum(n * np.log1p(-p) for p, n in chances)))


def _norm(values: Vector) -> float:
    """The Euclidean norm by plain sums: BLAS would wake a second thread for it."""
    return float(np.sqrt(np.square(values).sum()))


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """values^count in polar form; its relative error grows as count times that of one angle."""
    with np.errstate(divide="ignore"):
        log_size = count * np.log(np.abs(values))
    return np.asarray(np.exp(log_size) * np.exp(1j * count * np.angle(values)))
