"""One record replaced by another in a sum with noise, on a Poisson sample: a record that is not drawn adds nothing.

The pair is ((1 − q)·N₀ + q·N₋c, (1 − q)·N₀ + q·N_c), N_a the noise moved by a: the records −c and c, which are real
data, so the curve is attained; and no two records within c are told apart better, whatever the dimension
(docs/proofs/replacing.md). Only for noise on a sum: a message of one's own is sent where the record is not drawn, too.
"""

from __future__ import annotations

from functools import partial
from math import exp, expm1, inf, log, log1p

import numpy as np
from scipy.special import ndtr

from fedpriv._base.arrays import Vector
from fedpriv.curves._densities import CELLS, Density, Function, Stick, gaussian_stick, laplace_below
from fedpriv.curves.atoms import log_mixture

TAIL = np.linspace(10, 37, 2048)[1:]  # edges of cells, in deviations from the farther record
LARGE = 18.0  # ln of a number whose inverse hyperbolic sine is ln of twice it


def gaussian(shift: float, rate: float) -> Density:
    """Gaussian noise of deviation 1, records of −shift and shift, drawn with a probability `rate` in (0, 1)."""
    edges = np.concatenate((-shift - TAIL[::-1], np.linspace(-shift - 10, shift + 10, CELLS), shift + TAIL))
    loss, place = partial(_gaussian_loss, shift, rate), partial(_gaussian_place, shift, rate)
    return _mirrored(ndtr, shift, rate, loss, place, edges, partial(_gaussian_stick, shift, rate), 2 * shift)


def laplace(shift: float, rate: float) -> Density:
    """Laplace noise of scale 1, records of −shift and shift, drawn with a probability `rate` in (0, 1)."""
    largest = float(_laplace_loss(shift, rate, np.array(shift)))
    edges = np.linspace(-shift, shift, CELLS // 2 + 1)
    loss, place = partial(_laplace_loss, shift, rate), partial(_laplace_place, shift, rate)
    stick = partial(_laplace_stick, shift, rate, largest)
    return _mirrored(laplace_below, shift, rate, loss, place, edges, stick, None, (-largest, largest))


def _mirrored(
    below: Function,
    shift: float,
    rate: float,
    loss: Function,
    place: Function,
    edges: Vector,
    stick: Stick,
    mu: float | None,
    heavy: tuple[float, ...] = (),
) -> Density:
    """Both mixtures of a symmetric noise; `loss`, `place` and `stick` are for arguments of at least 0."""

    def mixed(x: Vector, moved: float) -> Vector:
        return (1 - rate) * below(x) + rate * below(x - moved)

    def both_ways(epsilon: float) -> float:
        return stick(epsilon) if epsilon >= 0 else -expm1(epsilon) + exp(epsilon) * stick(-epsilon)

    return Density(
        lambda x: mixed(x, -shift), lambda x: mixed(-x, shift), lambda x: mixed(x, shift), lambda x: mixed(-x, -shift),
        lambda x: np.copysign(loss(np.abs(x)), x), lambda at: np.copysign(place(np.abs(at)), at), lambda: edges,
        both_ways, both_ways, None, mu, True, heavy,
    )  # fmt: skip


def _odds(rate: float) -> float:
    """ln((1 − q)/q)."""
    return log1p(-rate) - log(rate)


def _gaussian_loss(shift: float, rate: float, x: Vector) -> Vector:
    """ln((1 − q + q·e^{cx − c²/2})/(1 − q + q·e^{−cx − c²/2})): where both nearly agree, by their difference."""
    at, half = shift * x, shift * shift / 2
    lower = log_mixture(-at - half, rate)
    near = np.minimum(at, 1.0)
    return np.where(
        at < 1,
        np.log1p(2 * rate * np.exp(-half - log_mixture(-near - half, rate)) * np.sinh(near)),
        log_mixture(at - half, rate) - lower,
    )


def _gaussian_place(shift: float, rate: float, loss: Vector) -> Vector:
    """cx = l/2 + arsinh(sinh(l/2)·e^{c²/2}·(1 − q)/q)."""
    with np.errstate(divide="ignore"):
        log_sinh = loss / 2 + np.log(-np.expm1(-loss)) - log(2)
    height = log_sinh + _odds(rate) + shift * shift / 2
    arsinh = np.where(height > LARGE, height + log(2), np.arcsinh(np.exp(np.minimum(height, LARGE + 1))))
    return np.asarray((loss / 2 + arsinh) / shift)


def _gaussian_stick(shift: float, rate: float, epsilon: float) -> float:
    """q·D(cx − c²/2) + q·e^{ε − cx − c²/2}·D(cx + c²/2), D of N(0, 1) against N(c, 1), x where the loss is ε."""
    at, half = shift * float(_gaussian_place(shift, rate, np.array(epsilon))), shift * shift / 2
    if at == inf:
        return 0.0
    return rate * (
        gaussian_stick(shift, at - half) + exp(min(epsilon - at - half, 700.0)) * gaussian_stick(shift, at + half)
    )


def _laplace_loss(shift: float, rate: float, x: Vector) -> Vector:
    """ln((1 − q + q·e^{2x − c})/(1 − q + q·e^−c)) up to x = c, flat from there on."""
    inner = np.minimum(x, shift)
    near = np.minimum(inner, 0.5)
    lower = log_mixture(np.array(-shift), rate)
    return np.where(
        inner < 0.5,
        np.log1p(rate * np.exp(-shift - lower) * np.expm1(2 * near)),
        log_mixture(2 * inner - shift, rate) - lower,
    )


def _laplace_inner(shift: float, rate: float, loss: Vector) -> Vector:
    """e^{2x} = 1 + (e^l − 1)·(1 + e^c·(1 − q)/q)."""
    with np.errstate(divide="ignore"):
        log_rise = loss + np.log(-np.expm1(-loss))
    return np.asarray(np.logaddexp(0.0, log_rise + np.logaddexp(0.0, _odds(rate) + shift)) / 2)


def _laplace_place(shift: float, rate: float, loss: Vector) -> Vector:
    """The point between the shifts, or beyond the line's end for losses that there are none of."""
    largest = _laplace_loss(shift, rate, np.array(shift))
    inner = np.minimum(_laplace_inner(shift, rate, np.minimum(loss, largest)), shift)
    return np.where(loss >= largest, np.where(loss > largest, np.inf, shift), inner)


def _laplace_stick(shift: float, rate: float, largest: float, epsilon: float) -> float:
    """q·(1 − e^{x − c}), x where the loss is ε."""
    if epsilon >= largest:
        return 0.0
    return -rate * expm1(min(float(_laplace_inner(shift, rate, np.array(epsilon))) - shift, 0.0))
