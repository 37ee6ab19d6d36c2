"""δ(ε) of a composition read off the few coefficients of its transform that are not 0: no transform back.

After some rounds all but the lowest frequencies have died out. Masses on the lattice are then a short sum of waves, and
δ(ε), a sum of masses times e^{−θ·loss} and e^{−(1+θ)·loss} from ε on, is a short sum of geometric series.
docs/proofs/composition.md, section 14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp, floor, log, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedpriv._base.arrays import Vector
from fedpriv.curves._error_rates import Tails
from fedpriv.curves.atoms import ROUNDING

Index = NDArray[np.int64]
Number = TypeVar("Number", float, Vector)
STEPS = 100  # of Newton's method, at most: about five are needed
COARSE = 21  # points at which a tradeoff curve is looked at first


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Tilted masses m_k = Σ wave_j·e^{2πi·jk/size}/size on points start + k·step, each known up to `error`."""

    frequency: NDArray[np.int64]  # j, from 0 to size/2; the others mirror these
    wave: NDArray[np.complex128]  # the coefficient of each
    size: int  # points
    start: float  # the loss of the first point, before `shift`
    step: float
    shift: float  # what all losses are raised by
    centre: float  # their tilted mean
    tilt: float
    log_total: float  # K(θ), what masses were divided by when they were tilted
    error: float  # absolute, of each tilted mass
    rounding: float  # relative error of masses, once untilted
    sign: int  # +1 for an upper bound, −1 for a lower one
    impossible: float  # mass of Q where P has none

    @property
    def whole(self) -> bool:
        """Whether no mass of the composition was left out, as `Convolution` asks: so for all spectra."""
        return True

    @property
    def lowest(self) -> float:
        """The smallest loss in a composition's window: below it an upper bound on δ knows nothing."""
        return self.start + self.shift

    @property
    def top(self) -> float:
        """The largest loss in a composition's window, past which no ε is looked for."""
        return self.lowest + (self.size - 1) * self.step

    def delta(self, epsilon: float) -> float:
        """The bound on δ(ε) of a composition: Σ m_k·e^{K − θ·point}·(1 − e^{ε − loss}) over the losses above ε."""
        return self._both(epsilon)[0]

    def guess(self, delta: float, correction: Callable[[float], float]) -> float:
        """About which ε has this δ, where `Convolution.epsilon` starts: by Newton's method on √−ln δ, or halves."""
        low, high, found, goal = self.lowest, self.top, self.centre, delta - self.impossible
        depth = sqrt(-log(goal)) if 0 < goal < 1 else 0.0
        for _ in range(STEPS if depth else 0):
            value, falls = self._both(found)
            value += correction(found) - self.impossible
            low, high = (found, high) if value > goal else (low, found)
            reached = sqrt(-log(value)) if 0 < value < 1 else 0.0
            aim = found + 2 * value * reached * (depth - reached) / falls if reached and falls > 0 else high
            aim, before = aim if low < aim < high else (low + high) / 2, found
            found = aim
            if abs(found - before) <= 1e-7 * (1e-3 + abs(found)):  # its square is far below what answers need
                break
        return found

    def _both(self, epsilon: float) -> tuple[float, float]:
        """The bound on a composition's δ at ε, and how fast it falls there: for `delta` and for Newton's steps."""
        first = max(floor((epsilon - self.lowest) / self.step) + 1, 0)
        if first >= self.size:
            return self.impossible, 0.0
        loss, left = self.start + first * self.step, self.size - first
        at_first = np.exp(self._turn * (self.frequency * first % self.size))  # exact in whole numbers
        turned = (self._waves * at_first).real.sum(axis=1)
        (ours, moduli), (theirs, others) = self._ours.tail(turned[0], left), self._theirs.tail(turned[1], left)
        share = exp(min(epsilon - self.shift - loss, 0.0))
        flat = self._ours.series(left)
        off = flat - share * self._theirs.series(left)  # what an error of 1 in each mass adds
        doubt = self.error * (off + 64 * ROUNDING * flat)
        doubt += (64 + self.wave.size) * ROUNDING * (moduli + share * others)
        rounding = self.rounding + 8 * ROUNDING * (abs(self.log_total) + self.tilt * abs(loss))
        scale = exp(min(self.log_total - self.tilt * loss + self.sign * rounding, 700.0))
        return max(ours - share * theirs + self.sign * doubt, 0.0) * scale + self.impossible, share * theirs * scale

    def tails_near(self, alpha: Vector, close: bool) -> Tails:
        """What lies from points near each type I error on, or next to it; Φ⁻¹ of P's mass is nearly straight."""
        wanted, found = ndtri(alpha), self._tails(self._spread_out(COARSE))
        for near in (max(self.size // 256, 1), 1)[: 1 + close]:
            order = np.argsort(found[0])[::-1]
            height = ndtri(np.clip(found[2][order], 1e-300, 1 - 1e-16))
            middle = np.rint(np.interp(wanted, height, found[0][order])).astype(np.int64)
            places = np.concatenate((middle - near, middle, middle + near))
            more = self._tails(np.unique(places[(places >= 0) & (places < self.size)]))
            found = np.concatenate((found, more), axis=1)
        return self._safe(found)

    def tails_apart(self, count: int) -> Tails:
        """What lies from so many points on, from the first to the last."""
        return self._safe(self._tails(self._spread_out(count)))

    def _spread_out(self, count: int) -> Index:
        """So many places spread over a composition's points, where β's tests are looked for first."""
        return np.unique(np.linspace(0, self.size - 1, count).astype(np.int64))

    def _safe(self, found: Vector) -> Tails:
        """Rounded to the safe side of the bound."""
        _, loss, p, q, doubt_p, doubt_q = found
        return Tails(loss, np.maximum(p - self.sign * doubt_p, 0.0), q + self.sign * doubt_q + self.impossible)

    def _tails(self, places: Index) -> Vector:
        """In columns: the points, their losses, the masses of P and of Q from there on, and the errors of these."""
        loss, left = self.start + places * self.step, (self.size - places).astype(float)
        at_first = np.exp(self._turn * (places[:, None] * self.frequency % self.size))
        rounding = self.rounding + 8 * ROUNDING * (abs(self.log_total) + (1 + self.tilt) * np.abs(loss))
        masses, doubts = [], []
        for own, moved in ((self._theirs, self.shift), (self._ours, 0.0)):
            value, moduli = own.tail((own.wave * at_first).real.sum(axis=1), left)
            doubt = self.error * own.series(left) * (1 + 64 * ROUNDING) + (64 + self.wave.size) * ROUNDING * moduli
            scale = np.exp(np.minimum(self.log_total - own.rate / self.step * loss - moved, 700.0))
            masses.append(value * scale)
            doubts.append((doubt + 2 * rounding * (np.abs(value) + doubt)) * scale)
        return np.array([places, loss + self.shift, *masses, *doubts])

    @cached_property
    def _ours(self) -> Series:
        """The series of Q's masses (tilted ones times e^{−θ·loss}), the first of two whose difference is δ(ε)."""
        return Series.of(self, self.tilt * self.step)

    @cached_property
    def _theirs(self) -> Series:
        """The series of P's masses (tilted ones times e^{−(1+θ)·loss}), the second of two that make δ(ε)."""
        return Series.of(self, (1 + self.tilt) * self.step)

    @cached_property
    def _waves(self) -> NDArray[np.complex128]:
        """Coefficients of Q's series and of P's as two rows, so that `_both` turns them to a point at once."""
        return np.stack([self._ours.wave, self._theirs.wave])

    @cached_property
    def _turn(self) -> complex:
        """2πi over the number of points: by what a wave of frequency 1 turns from one lattice point to the next."""
        return complex(2j * np.pi / self.size)


@dataclass(frozen=True, eq=False)
class Series:
    """Σ m_k·e^{−rate·(k − first)} over the points from the first one on, wave by wave a geometric series."""

    rate: float  # a point
    wave: NDArray[np.complex128]  # each over 1 − e^{−rate + i·angle}
    still: float  # their sum
    moduli: float  # the sum of their absolute values
    flat: float  # the wave of frequency 0 where the rate is 0 too

    @staticmethod
    def of(spectrum: Spectrum, rate: float) -> Series:
        """The geometric series of a composition's coefficients, damped by e^−rate a point: Q's masses, or P's."""
        mirrored = (spectrum.frequency > 0) & (2 * spectrum.frequency < spectrum.size)
        wave = spectrum.wave * np.where(mirrored, 2.0, 1.0) / spectrum.size
        flat = float(wave[spectrum.frequency == 0].real.sum()) if rate == 0 else 0.0
        ratio = -np.expm1(-rate + 2j * np.pi / spectrum.size * spectrum.frequency)
        found = np.divide(wave, ratio, out=np.zeros_like(wave), where=ratio != 0)
        return Series(rate, found, float(found.real.sum()), float(np.abs(found).sum()), flat)

    def tail(self, turned: Number, left: Number) -> tuple[Number, Number]:
        """A composition's mass, P's or Q's, on its last `left` points, for δ(ε); and Σ |terms|, for its rounding."""
        rest = np.exp(-self.rate * left)
        return turned - rest * self.still + self.flat * left, (1 + rest) * self.moduli + abs(self.flat) * left

    def series(self, left: Number) -> Number:
        """What `tail` is where all masses are 1: how much an error in every mass adds to a composition's δ(ε)."""
        return left if self.rate == 0 else np.expm1(-self.rate * left) / np.expm1(-self.rate)
