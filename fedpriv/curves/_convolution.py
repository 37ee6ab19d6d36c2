"""One bound of one direction of a composition: powers of transforms multiplied, read off or transformed back, untilted.

Everything that is not exact goes to the safe side: the residuals of the lattice, the tilted mass outside the window
(Chernoff), the rounding of masses and of the transform. Proofs: docs/proofs/composition.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft

from fedpriv._base.arrays import Vector
from fedpriv.curves import atoms as hockey
from fedpriv.curves._error_rates import Tails
from fedpriv.curves._spectrum import Spectrum
from fedpriv.curves._transforms import OUTSIDE, Counts, TooLarge, Transforms, norm
from fedpriv.curves.atoms import ROUNDING

DEEP = 400.0  # nats of tilting below the bulk at which masses have no say in δ(ε)
FAINT = -60.0  # ln of a coefficient that is taken for 0, and counted as an error
WAVES = 512  # coefficients up to which δ(ε) is read off them
SPARSE = 16  # points for each of these coefficients, at least
TIGHT = 2e-11  # of ε, within which an answer need not be narrowed further
CORNERS = 160  # of a tradeoff curve, at most, that μ is read off


@dataclass(frozen=True, eq=False)
class Masses:
    """The hockey stick of masses that were transformed back."""

    profile: tuple[Vector, Vector, Vector]  # what `atoms.corners` gives
    impossible: float  # mass of Q where P has none
    sign: int  # +1 for an upper bound, −1 for a lower one
    whole: bool  # whether no mass was left out

    @property
    def lowest(self) -> float:
        """The smallest loss whose mass was kept in a composition: below it an upper bound on δ knows nothing."""
        return float(self.profile[0][-1]) if self.profile[0].size else np.inf

    @property
    def top(self) -> float:
        """The largest loss whose mass was kept in a composition: the search for an ε starts no higher."""
        return float(self.profile[0][0]) if self.profile[0].size else -np.inf

    def delta(self, epsilon: float) -> float:
        """The bound on δ(ε) of the composed masses, for `Convolution`, with room for the sums of `corners`."""
        value = float(hockey.hockey_stick(self.profile, self.impossible, epsilon))
        return value * (1 + self.sign * ROUNDING * (64 + self.profile[0].size))

    def tails_near(self, alpha: Vector, close: bool) -> Tails:
        """What lies from the corners on either side of each type I error on, which is next to it, `close` or not."""
        with np.errstate(divide="ignore"):
            at = np.searchsorted(self.profile[2], np.log(alpha))
        return self._tails(np.concatenate((at - 1, at)))

    def tails_apart(self, count: int) -> Tails:
        """What lies from so many corners on, from the first to the last; all, where there are no more."""
        return self._tails(np.linspace(0, self.profile[0].size - 1, count).astype(np.int64))

    def _tails(self, places: NDArray[np.int64]) -> Tails:
        """Rounded to the safe side of the bound; Q's mass is the hockey stick and e^loss times P's."""
        kept = np.unique(places[(places >= 0) & (places < self.profile[0].size)])
        loss, at_loss, log_above = (each[kept] for each in self.profile)
        doubt = self.sign * ROUNDING * (64 + self.profile[0].size + np.abs(loss))
        beyond = at_loss + np.exp(np.minimum(loss + log_above, 1.0))
        return Tails(loss, np.exp(log_above) * (1 - doubt), beyond * (1 + 2 * doubt))

    def guess(self, delta: float, correction: Callable[[float], float]) -> float:
        """The masses' own ε for a δ, where `Convolution.epsilon` starts; the small `correction` is left out here."""
        found = hockey.smallest_epsilon(self.profile, self.impossible, delta)
        return self.top if np.isnan(found) else min(max(found, self.lowest), self.top)


class Convolution:
    """So many rounds of each lattice composed at one tilt."""

    def __init__(self, transforms: Transforms, counts: Counts) -> None:
        self._of, self._counts, self.tilt, self.sign = transforms, counts, transforms.tilt, transforms.sign
        self.closed = True  # whether the last answer was found inside the window
        self.log_total = transforms.log_total(counts)
        placed = transforms.window(counts)
        if placed.size > transforms.size:  # K is convex, so a window grows with the counts: this is rounding
            raise TooLarge(f"a window of {placed.size} points, where {transforms.size} were transformed")
        self._first = placed.first
        self.log_spill = self.log_total + OUTSIDE + np.log(2.0) if placed.outside else -np.inf
        self.slack = sum(2 * n * one.error for one, n in zip(transforms.lattices, counts, strict=True))
        self.shift, self.log_drift = transforms.drift.at(counts)
        self.rounding = 64 * ROUNDING + sum(n * one.rounding for one, n in zip(transforms.factors, counts, strict=True))
        # the chance that some round gives what only one side can, and above, what was too small to be kept
        unseen = [(one.impossible + (one.unseen if self.sign > 0 else 0.0)) for one in transforms.lattices]
        self.impossible = any_of(list(zip(unseen, counts, strict=True))) * (1 + self.sign * self.rounding)
        self.stick = self._composed()
        self.complete = self.log_spill == -np.inf and self.stick.whole

    def delta(self, epsilon: float) -> float:
        """One bound on δ(ε) of the composed rounds; below the last loss that was kept an upper one is 1."""
        self.closed = self.complete or epsilon >= self.stick.lowest
        if self.sign > 0 and not self.closed:
            return 1.0
        value = self.stick.delta(epsilon) + self.sign * self._correction(epsilon)
        if np.isnan(value):  # arithmetic that left the range of floats proves nothing
            return 1.0 if self.sign > 0 else 0.0
        return float(min(max(value, 0.0), 1.0))

    def epsilon(self, delta: float) -> float:
        """One bound on ε(δ) of the composed rounds, by bisection, on the safe side; ±∞ where nothing is known."""
        if self.sign < 0 and self.impossible > delta:  # whatever is left of the other outcomes: it may underflow
            return np.inf
        if self.stick.top == -np.inf:
            return self.sign * np.inf
        # an ε with a bound above δ and a larger one without: nearest the stick's own answer, which is nearly it
        lowest = self.stick.lowest
        guess = self.stick.guess(delta, lambda epsilon: self.sign * self._correction(epsilon))
        low, high = (lowest, np.inf) if self.sign > 0 else (-np.inf, np.inf)
        width = TIGHT / 2 * abs(guess) + 1e-15
        while width < 100 * (1 + abs(self.stick.top)):
            if self.delta(guess - width) > delta >= self.delta(guess + width):
                low, high = guess - width, guess + width
                break
            width *= 4
        else:
            if self.delta(lowest) <= delta:  # an upper bound that never exceeds δ, or a lower one that proves nothing
                low, high = -np.inf, lowest
        closed = bool(np.isfinite(low) and np.isfinite(high))
        while closed and high - low > TIGHT * abs(high) + 1e-14:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        self.closed = self.complete or (closed and low >= self.stick.lowest)
        return high if self.sign > 0 else low

    def tails_near(self, alpha: Vector, close: bool = True) -> Tails:
        """What lies from points near each type I error on, the bound's own errors counted with Q; untilted."""
        return self._widened(self.stick.tails_near(alpha, close))

    @cached_property
    def tails(self) -> Tails:
        """What lies from each point on, or from so many of them; untilted."""
        return self._widened(self.stick.tails_apart(CORNERS))

    def _widened(self, found: Tails) -> Tails:
        """With what P never gives, of a lower bound: a test by itself."""
        more = [(np.inf, 0.0, self.impossible)] * (self.sign < 0)
        loss, p, q = (np.append(own, new) for own, new in zip(found, np.reshape(more, (-1, 3)).T, strict=True))
        return Tails(loss, p, q + self.sign * self._correction(0.0))

    def _correction(self, epsilon: float) -> float:
        """Room in δ(ε) for losses outside the window and a larger drift: ≤ e^{K(θ) − θ·(ε − shift)} for each."""
        at = -self.tilt * (epsilon - self.shift - self.slack)
        log_correction = np.logaddexp(self.log_spill + at, self.log_total + self.log_drift + at)
        return float(np.exp(min(log_correction, 0.0)))

    def _composed(self) -> Masses | Spectrum:
        """The composed rounds, as masses or as a few Fourier coefficients: what `delta` and `epsilon` ask.

        A transform known up to `off` everywhere has a power known up to (s + off)^n − s^n, s its size.
        """
        n = self._of.size
        factors = [(one, count) for one, count in zip(self._of.factors, self._counts, strict=True) if count]
        log_most = np.sum([count * one.log_most for one, count in factors], axis=0)
        live = np.flatnonzero(log_most > FAINT)
        log_size = np.sum([count * one.log_size[live] for one, count in factors], axis=0)
        angle = np.sum([count * one.angle[live] for one, count in factors], axis=0)
        share = np.sum([count * one.log_share[live] for one, count in factors], axis=0)
        powers = sum(8 * ROUNDING * (count + 4) for _, count in factors)
        size = np.exp(log_size)
        off = -np.exp(np.minimum(log_most[live], 700.0)) * np.expm1(share) + powers * size
        error = 2 * (float(off.sum()) + (log_most.size - live.size) * np.exp(FAINT + 1)) / log_most.size
        start = self._of.offset(self._counts) + self._first * self._of.step  # the first point of the window
        begun = sum(c * int(one.index[0]) for one, c in zip(self._of.lattices, self._counts, strict=True))
        moved = (self._first - begun) % n  # from the first mass that is transformed to the first of the window
        if live.size <= min(WAVES, n // SPARSE):
            wave = size * np.exp(1j * (angle + 2 * np.pi / n * (live * moved % n)))
            centre = self.shift + sum(count * one.mean for one, count in factors)
            return Spectrum(
                live, wave, n, start, self._of.step, self.shift, centre, self.tilt, self.log_total, error,
                self.rounding, self.sign, self.impossible,
            )  # fmt: skip
        product = np.zeros(log_most.size, dtype=complex)
        product[live] = size * np.exp(1j * angle)
        mass = np.roll(irfft(product, n), -moved)
        # masses widened by the transform's error, weighed back by e^−θ·loss; those far below ε left out
        error += self._of.transform_error * norm(mass)
        loss = start + np.arange(mass.size) * self._of.step
        centre = float((mass * loss).sum())
        bounded = np.maximum(mass, 0.0) + error if self.sign > 0 else mass - error
        kept = (bounded > 0) & (self.tilt * (centre - loss) < DEEP) & (self.log_total - self.tilt * loss > -740)
        rounding = self.rounding + 8 * ROUNDING * (abs(self.log_total) + self.tilt * abs(centre))
        log_q = np.log(bounded[kept][::-1]) + self.log_total - self.tilt * loss[kept][::-1] + self.sign * rounding
        loss = loss[kept][::-1] + self.shift
        return Masses(
            hockey.hockey_stick_corners(loss, log_q - loss, self.impossible),
            self.impossible,
            self.sign,
            bool(kept.all()),
        )


def any_of(chances: Sequence[tuple[float, int]]) -> float:
    """1 − Π (1 − p)^n of pairs (p, n): the chance that some round of a composition gives what only one side can.

    >>> any_of([(0.5, 2), (0.0, 9)])
    0.75
    """
    if any(p >= 1 and n for p, n in chances):
        return 1.0
    return float(-np.expm1(sum(n * np.log1p(-p) for p, n in chances)))
