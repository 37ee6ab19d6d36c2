"""One record replaced by another in a sum with noise, on a Poisson sample: a record that is not drawn adds nothing.

The pair is ((1 − q)·N₀ + q·N₋c, (1 − q)·N₀ + q·N_c), N_a the noise moved by a: the records −c and c, which are real
data, so the curve is attained; and no two records within c are told apart better, whatever the dimension
(docs/proofs/replacing.md). Only for noise on a sum: a message of one's own is sent where the record is not drawn, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, expm1, inf, log, log1p

import numpy as np
from scipy.special import ndtr

from fedpriv._base.arrays import Vector
from fedpriv.curves._densities import CELLS, Density, Function, gaussian_stick, laplace_below
from fedpriv.curves.atoms import log_mixture

TAIL = np.linspace(10, 37, 2048)[1:]  # edges of cells, in deviations from the farther record
LARGE = 18.0  # ln of a number whose inverse hyperbolic sine is ln of twice it


def gaussian(shift: float, rate: float) -> Density:
    """Densities for `Tradeoff.gaussian_replaced`: a Poisson-sampled sum with N(0, 1) noise, its odd record ±shift."""
    edges = np.concatenate((-shift - TAIL[::-1], np.linspace(-shift - 10, shift + 10, CELLS), shift + TAIL))
    return _mirrored(ndtr, _Gaussian(shift, rate), edges, 2 * shift)


def laplace(shift: float, rate: float) -> Density:
    """Densities for `Tradeoff.laplace_replaced`: a Poisson-sampled sum with Lap(0, 1) noise, its odd record ±shift."""
    own = _Laplace(shift, rate)
    edges = np.linspace(-shift, shift, CELLS // 2 + 1)
    return _mirrored(laplace_below, own, edges, None, (-own.largest, own.largest))


def _mirrored(
    below: Function, own: _Gaussian | _Laplace, edges: Vector, mu: float | None, heavy: tuple[float, ...] = ()
) -> Density:
    """The densities of a sampled sum with the odd record ±shift, from a symmetric noise's distribution `below`."""

    def mixed(x: Vector, moved: float) -> Vector:
        """The distribution function, at each x, of a sampled noisy sum that the odd record moves by `moved`."""
        return (1 - own.rate) * below(x) + own.rate * below(x - moved)

    def both_ways(epsilon: float) -> float:
        """δ(ε) of the replaced record's pair, in either direction alike; of a negative ε by reflection."""
        return own.stick(epsilon) if epsilon >= 0 else -expm1(epsilon) + exp(epsilon) * own.stick(-epsilon)

    shift = own.shift
    return Density(
        lambda x: mixed(x, -shift), lambda x: mixed(-x, shift), lambda x: mixed(x, shift), lambda x: mixed(-x, -shift),
        lambda x: np.copysign(own.loss(np.abs(x)), x), lambda at: np.copysign(own.place(np.abs(at)), at), lambda: edges,
        both_ways, both_ways, None, mu, True, heavy,
    )  # fmt: skip


def _odds(rate: float) -> float:
    """ln((1 − q)/q), the odds that a Poisson sample leaves the record out: for the places of losses."""
    return log1p(-rate) - log(rate)


@dataclass(frozen=True)
class _Gaussian:
    """Loss, place of a loss and hockey stick under Gaussian noise, for arguments of at least 0."""

    shift: float  # c
    rate: float  # q

    def loss(self, x: Vector) -> Vector:
        """The loss at each x ≥ 0 of a sampled sum with Gaussian noise, one record replaced.

        ln((1 − q + q·e^{cx − c²/2})/(1 − q + q·e^{−cx − c²/2})): where both nearly agree, by their difference.
        """
        at, half = self.shift * x, self.shift * self.shift / 2
        lower = log_mixture(-at - half, self.rate)
        near = np.minimum(at, 1.0)
        return np.where(
            at < 1,
            np.log1p(2 * self.rate * np.exp(-half - log_mixture(-near - half, self.rate)) * np.sinh(near)),
            log_mixture(at - half, self.rate) - lower,
        )

    def place(self, loss: Vector) -> Vector:
        """The x of each loss, `loss` inverted, for cutting cells: cx = l/2 + arsinh(sinh(l/2)·e^{c²/2}·(1 − q)/q)."""
        with np.errstate(divide="ignore"):
            log_sinh = loss / 2 + np.log(-np.expm1(-loss)) - log(2)
        height = log_sinh + _odds(self.rate) + self.shift * self.shift / 2
        arsinh = np.where(height > LARGE, height + log(2), np.arcsinh(np.exp(np.minimum(height, LARGE + 1))))
        return np.asarray((loss / 2 + arsinh) / self.shift)

    def stick(self, epsilon: float) -> float:
        """δ(ε) of a sampled sum with Gaussian noise, one record replaced, for ε ≥ 0.

        q·D(cx − c²/2) + q·e^{ε − cx − c²/2}·D(cx + c²/2), D of N(0, 1) against N(c, 1), x where the loss is ε.
        """
        at, half = self.shift * float(self.place(np.array(epsilon))), self.shift * self.shift / 2
        if at == inf:
            return 0.0
        above = exp(min(epsilon - at - half, 700.0)) * gaussian_stick(self.shift, at + half)
        return self.rate * (gaussian_stick(self.shift, at - half) + above)


@dataclass(frozen=True)
class _Laplace:
    """Loss, place of a loss and hockey stick under Laplace noise, for arguments of at least 0."""

    shift: float  # c
    rate: float  # q

    def loss(self, x: Vector) -> Vector:
        """The loss at each x ≥ 0 of a sampled sum with Laplace noise, one record replaced.

        ln((1 − q + q·e^{2x − c})/(1 − q + q·e^−c)) up to x = c, flat from there on.
        """
        inner = np.minimum(x, self.shift)
        near = np.minimum(inner, 0.5)
        lower = log_mixture(np.array(-self.shift), self.rate)
        return np.where(
            inner < 0.5,
            np.log1p(self.rate * np.exp(-self.shift - lower) * np.expm1(2 * near)),
            log_mixture(2 * inner - self.shift, self.rate) - lower,
        )

    @cached_property
    def largest(self) -> float:
        """The largest loss, and so the pure ε, of a sampled sum with Laplace noise: that at x = c, and beyond."""
        return float(self.loss(np.array(self.shift)))

    def place(self, loss: Vector) -> Vector:
        """The x ≥ 0 of each loss, `loss` inverted, for cutting cells; ∞ for losses past the largest."""
        inner = np.minimum(self._inner(np.minimum(loss, self.largest)), self.shift)
        return np.where(loss >= self.largest, np.where(loss > self.largest, np.inf, self.shift), inner)

    def stick(self, epsilon: float) -> float:
        """δ(ε ≥ 0) of a sampled sum with Laplace noise, one record replaced: q·(1 − e^{x−c}), x where the loss is ε."""
        if epsilon >= self.largest:
            return 0.0
        return -self.rate * expm1(min(float(self._inner(np.array(epsilon))) - self.shift, 0.0))

    def _inner(self, loss: Vector) -> Vector:
        """The x below c of each loss under Laplace noise: e^{2x} = 1 + (e^l − 1)·(1 + e^c·(1 − q)/q)."""
        with np.errstate(divide="ignore"):
            log_rise = loss + np.log(-np.expm1(-loss))
        return np.asarray(np.logaddexp(0.0, log_rise + np.logaddexp(0.0, _odds(self.rate) + self.shift)) / 2)
