"""A pair of distributions on the line whose loss ln(Q/P) rises with x, and the finite pairs that enclose it.

Cutting the line into cells gives two finite pairs at once. *Merging* each cell into one outcome is post-processing:
the merged pair gives away less. *Spreading* a cell with losses in [a, b] to its two ends, so that both masses are kept,
gives away more (Doroshenko et al. 2022, connect the dots). Both are O(h²) from the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import exp, expm1, log, pi, sqrt

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from fedpriv._base.arrays import Vector
from fedpriv.curves.atoms import ROUNDING, Atoms, log_mixture, log_unmixed

CELLS = 1 << 16  # that the bulk of Gaussian noise is cut into
ROOT = sqrt(pi / 2)
ROOT_2 = sqrt(2)
LOG_ROOT = log(2 * pi) / 2  # −ln φ(0)
FAR = 800.0  # beyond the edges, no float tells a tail from nothing
Function = Callable[[Vector], Vector]
Stick = Callable[[float], float]


@dataclass(frozen=True, eq=False)
class Density:
    """Distribution functions of P and Q from below and from above, and the loss, all as functions of x."""

    p_below: Function
    p_above: Function
    q_below: Function
    q_above: Function
    loss: Function
    place: Function  # the x of a loss; ±∞ beyond the losses there are
    cut: Callable[[], Vector]  # gives `edges`, which not every question needs
    hockey_stick: Stick  # D(ε) = Σ max(Q − e^ε P, 0), in closed form
    swapped_stick: Stick  # Σ max(P − e^ε Q, 0), in closed form
    gaussian: float | None = None  # μ where the curve is exactly G_μ
    mu: float | None = None  # a μ for which G_μ lies below the curve
    symmetric: bool = False  # whether exchanging P and Q gives the same curve
    heavy: tuple[float, ...] = ()  # losses that carry mass of their own

    @cached_property
    def edges(self) -> Vector:
        """Where the line is cut into cells for the finite pairs around this density; all of note lies within."""
        return self.cut()

    @cached_property
    def swapped(self) -> Density:
        """This pair of densities with P and Q exchanged, the line turned round so that the loss rises again."""

        def turn(function: Function) -> Function:
            """A distribution function of the exchanged pair: the given one, read from the other end of the line."""
            return lambda x: function(-x)

        return Density(
            turn(self.q_above), turn(self.q_below), turn(self.p_above), turn(self.p_below),
            lambda x: -self.loss(-x), lambda loss: -self.place(-loss), lambda: -self.edges[::-1], self.swapped_stick,
            self.hockey_stick, self.gaussian, self.mu, self.symmetric, tuple(-loss for loss in self.heavy),
        )  # fmt: skip

    def mixed(self, rate: float) -> Density:
        """(P, (1 − rate)·P + rate·Q): this pair Poisson sampled, for `Tradeoff.subsampled`; its μ still holds."""

        def mix(p: Function, q: Function) -> Function:
            """A distribution function of the sampled Q: those of P and Q, in shares of 1 − rate and rate."""
            return lambda x: (1 - rate) * p(x) + rate * q(x)

        sticks = _Mixed(self, rate)
        return Density(
            self.p_below, self.p_above, mix(self.p_below, self.q_below), mix(self.p_above, self.q_above),
            lambda x: log_mixture(self.loss(x), rate), lambda loss: self.place(log_unmixed(loss, rate)),
            lambda: self.edges, sticks.hockey_stick, sticks.swapped_stick,
            None, self.mu, False, tuple(float(log_mixture(np.array(loss), rate)) for loss in self.heavy),
        )  # fmt: skip

    def where(self, function: Function, target: Vector) -> Vector:
        """The x at which a rising function passes each target, by bisection: where a test of a given α cuts."""
        low, high = np.full_like(target, self.edges[0] - FAR), np.full_like(target, self.edges[-1] + FAR)
        for _ in range(100):
            middle = (low + high) / 2
            rises = function(middle) <= target
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        return low

    @cached_property
    def reach(self) -> tuple[float, float]:
        """The least and the largest loss a lattice must hold: beyond, Q has at most 1e−120, and P 1e−52."""
        some = self.edges[:: max(self.edges.size // 4096, 1)]
        below = (self.q_below(some) > 1e-120) | (self.p_below(some) > 1e-52)
        seen = some[below & ((self.q_above(some) > 1e-120) | (self.p_above(some) > 1e-52))]
        ends = self.loss(np.array([seen[0], seen[-1]]) if seen.size else some[[0, -1]])
        return min(float(ends[0]), *self.heavy, np.inf), max(float(ends[1]), *self.heavy, -np.inf)

    @property
    def largest_loss(self) -> float:
        """The pure ε of this pair of densities (Q against P): what the loss rises to, or ∞."""
        with np.errstate(invalid="ignore"):
            return float(self.loss(np.array([np.inf]))[0])

    @cached_property
    def outline(self) -> Atoms:
        """A few thousand merged cells of this density as a finite pair: tilts and windows are chosen by it."""
        return merge(*self._masses(self.edges[:: max(self.edges.size // 4096, 1)]))

    def _masses(self, edges: Vector) -> tuple[Vector, Vector, float]:
        """Masses of P and Q in the cells between edges, with both tails, and their largest relative error."""
        p, p_tail = masses(self.p_below, self.p_above, edges)
        q, q_tail = masses(self.q_below, self.q_above, edges)
        solid = (p > 1e-250) & (q > 1e-250)  # below, a mass is too small to matter at any δ
        error = [np.max(tail[solid] / mass[solid], initial=1.0) for mass, tail in ((p, p_tail), (q, q_tail))]
        return p, q, float(8 * ROUNDING * max(error))

    @cached_property
    def cells(self) -> tuple[Vector, Vector, float]:
        """Masses of P and Q in all cells and their relative error: what `merged` and `spread` are made from."""
        return self._masses(self.edges)

    @cached_property
    def merged(self) -> Atoms:
        """A finite pair that gives away no more than this pair of densities: for lower bounds of ε and δ."""
        return merge(*self.cells)

    @cached_property
    def spread(self) -> Atoms:
        """A finite pair that gives away no less, for upper bounds: losses only at edges, ±∞ beyond the last ones."""
        p, q, error = self.cells
        loss = self.loss(self.edges)
        lower, upper = loss[:-1], loss[1:]
        width = np.maximum(upper - lower, 0)
        p_in, q_in = p[1:-1], q[1:-1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            up = (q_in - p_in * np.exp(lower) + error * q_in) / -np.expm1(-width)
        up = np.where(width > 0, np.clip(np.nan_to_num(up, nan=np.inf), 0, q_in), q_in)
        at_edge = np.concatenate((q_in - up, [0.0])) + np.concatenate(([0.0], up))
        flat_top = np.isclose(loss[-1], self.loss(self.edges[-1:] + 1e6)[0], rtol=1e-15, atol=0)
        at_edge[0] += q[0]
        at_edge[-1] += q[-1] if flat_top else 0.0
        log_q = np.log(at_edge, out=np.full_like(loss, -np.inf), where=at_edge > 0)
        log_p = log_q - loss
        beyond = 0.0 if flat_top else 1.0
        claimed = np.exp(min(float(log_q[0]) - float(loss[0]), 0.0))
        left_over = max(p[0] - claimed, 0.0) + beyond * p[-1]  # P's mass that no loss claims
        ends_p, ends_q = np.array([0.0, left_over]), np.array([beyond * q[-1], 0.0])
        with np.errstate(divide="ignore"):
            log_p, log_q = np.concatenate((log_p, np.log(ends_p))), np.concatenate((log_q, np.log(ends_q)))
        return Atoms.sorted(log_p, log_q, np.concatenate((loss, [np.inf, -np.inf])), 4 * error)


def merge(p: Vector, q: Vector, error: float) -> Atoms:
    """The finite pair of a density's cells, each made one outcome, for lower bounds; those too small left out."""
    solid = (p > 1e-250) & (q > 1e-250)
    return Atoms.of_masses(np.where(solid, p, 0), np.where(solid, q, 0), error)


def masses(below: Function, above: Function, edges: Vector) -> tuple[Vector, Vector]:
    """Masses of a density's cells, tails too, from its functions `below` and `above`; and the values they come from."""
    low, high = below(edges), above(edges)
    inner = np.where(low[1:] < 0.5, low[1:] - low[:-1], high[:-1] - high[1:])
    used = np.where(low[1:] < 0.5, low[1:], high[:-1])
    ends = (low[:1], high[-1:])
    return np.maximum(np.concatenate((ends[0], inner, ends[1])), 0), np.concatenate((ends[0], used, ends[1]))


def gaussian(mu: float) -> Density:
    """The densities N(0, 1) against N(μ, 1), for `Tradeoff.gaussian`: loss μ·x − μ²/2."""

    def edges() -> Vector:
        """Where the line is cut for Gaussian noise: finely about the bulk, then out to 37 deviations."""
        tail = np.linspace(10, 37, 2048)[1:]
        return np.concatenate((-tail[::-1], np.linspace(-10, mu + 10, CELLS), mu + tail))

    return Density(
        ndtr, lambda x: ndtr(-x), lambda x: ndtr(x - mu), lambda x: ndtr(mu - x),
        lambda x: mu * x - mu * mu / 2, lambda loss: loss / mu + mu / 2, edges,
        partial(gaussian_stick, mu), partial(gaussian_stick, mu), mu, mu, True,
    )  # fmt: skip


def laplace(shift: float) -> Density:
    """Densities Lap(0, 1) against Lap(shift, 1), for `Tradeoff.laplace`: |x| − |x − shift|, flat outside [0, shift]."""
    return Density(
        laplace_below, lambda x: laplace_below(-x),
        lambda x: laplace_below(x - shift), lambda x: laplace_below(shift - x),
        lambda x: np.clip(2 * x - shift, -shift, shift),
        lambda loss: np.where(  # half-way between the shifts for losses between them, beyond the line's ends outside
            loss < -shift, -np.inf,
            np.where(loss >= shift, np.where(loss > shift, np.inf, shift), (np.clip(loss, -shift, shift) + shift) / 2),
        ),
        lambda: np.linspace(0, shift, CELLS // 4), partial(_laplace_stick, shift), partial(_laplace_stick, shift),
        symmetric=True, heavy=(-shift, shift),
    )  # fmt: skip


def laplace_below(x: Vector) -> Vector:
    """The distribution function of Laplace noise of scale 1, for the densities of Laplace releases."""
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)


def gaussian_stick(mu: float, epsilon: float) -> float:
    """δ(ε) of N(0, 1) against N(μ, 1) in closed form: Φ(μ/2 − z) − e^ε Φ(−μ/2 − z) with z = ε/μ.

    Where that cancels, as φ(z − μ/2)·(R(z − μ/2) − R(z + μ/2)), R(x) = Φ(−x)/φ(x).

    R is smooth and never underflows; where its two values nearly agree, their difference is −μR′ − μ³R‴/24.
    """
    z, half = epsilon / mu, mu / 2
    if mu * max(1.0, abs(z)) >= 1e-3 and z < half + 1:  # nothing cancels there
        return float(ndtr(half - z)) * -expm1(min(epsilon + float(log_ndtr(-half - z) - log_ndtr(half - z)), 0.0))
    density = exp(-((z - half) ** 2) / 2 - LOG_ROOT)
    if mu * max(1.0, abs(z)) < 1e-3:
        value = _mills(z)
        first = z * value - 1
        third = 2 * first + z * (value + z * first)
        return density * -mu * (first + mu * mu * third / 24)
    return density * (_mills(z - half) - _mills(z + half))


def _mills(x: float) -> float:
    """Mills' ratio R(x) = Φ(−x)/φ(x), with which `gaussian_stick` keeps the digits of a small δ(ε)."""
    return ROOT * float(erfcx(x / ROOT_2))


def _laplace_stick(shift: float, epsilon: float) -> float:
    """δ(ε) of Laplace noise moved by `shift`: 1 − e^{(ε − shift)/2} from −shift to shift, 1 − e^ε below, 0 above."""
    if epsilon >= shift:
        return 0.0
    return float(-np.expm1((epsilon - shift) / 2 if epsilon > -shift else epsilon))


@dataclass(frozen=True, eq=False)
class _Mixed:
    """The hockey sticks of a pair of which Q holds the extra record with a probability `rate`."""

    whole: Density  # the pair at rate 1
    rate: float

    def hockey_stick(self, epsilon: float) -> float:
        """δ(ε) of a Poisson-sampled pair of densities: rate·D at the loss before mixing; 1 − e^ε below all losses."""
        before = float(log_unmixed(np.array(epsilon), self.rate))
        return self.rate * self.whole.hockey_stick(before) if before > -np.inf else float(-np.expm1(epsilon))

    def swapped_stick(self, epsilon: float) -> float:
        """δ(ε) of a Poisson-sampled pair of densities with P and Q exchanged.

        c·D(ln(rate·e^ε/c)) with c = 1 − (1 − rate)·e^ε, the share of P that no mixture hides; 0 where c < 0.
        """
        rest = float(-np.expm1(epsilon + np.log1p(-self.rate))) if epsilon < 700 else -1.0
        if not rest > 0:
            return 0.0
        return rest * self.whole.swapped_stick(epsilon + float(np.log(self.rate)) - float(np.log(rest)))
