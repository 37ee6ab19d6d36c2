"""The worst pairs of propose-test-release (docs/ptr.md), integrated: a route that shares nothing with ours."""

from __future__ import annotations

from math import exp, log, log1p

import numpy as np
from scipy.special import log_ndtr, ndtr

from fedpriv._base.arrays import Vector
from fedpriv.mechanisms import Ptr

NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)  # of an integral over [−1, 1]
STEP = 0.05  # of the normal grid: its sums are exact to double precision
END = 14.0  # of the normal grid, in deviations: what lies past it is below e^-98
Points = tuple[Vector, Vector]  # losses ln(Q/P), and the logarithms of their chances under P


def delta(ptr: Ptr, epsilon: float) -> float:
    """δ(ε) of one propose-test-release, the larger of both worst pairs', integrated: checks figure 1's certificate."""
    assert ptr.test_noise is not None  # [P]'s test
    loss, chance = _laplace(ptr.test_noise)
    passes = float(np.sum(np.exp(chance + loss) * _normal_delta(1 / ptr.noise, epsilon - loss)))
    fails = [float(_normal_delta(1 / noise, np.array([epsilon]))[0]) for noise in (ptr.noise, ptr.noise * ptr.bound)]
    return max(passes, (1 - ptr.failure) * fails[0] + ptr.failure * fails[1])


def divergence(ptr: Ptr, rate: float, alpha: float) -> float:
    """D_α of a release sampled at rate q, the largest of both worst pairs and both ways: the exact line of figure 2.

    D_α(M‖P) and D_α(P‖M) for M = (1 − q)P + qQ are ln E_P[(1 − q + q·e^loss)^power]/(α − 1), power α and 1 − α. A
    sample is of either kind, and these moments are jointly convex: no neighbours have more than the larger.
    """
    assert ptr.test_noise is not None  # [P]'s test
    log_moments = []
    for power in (alpha, 1 - alpha):
        test, summed = _laplace(ptr.test_noise), _normal(1 / ptr.noise, power)
        passes = np.add.outer(test[0], summed[0]).ravel(), np.add.outer(test[1], summed[1]).ravel()
        wrong = _normal(1 / (ptr.noise * ptr.bound), power)
        chances = summed[1] + log1p(-ptr.failure), wrong[1] + log(ptr.failure)
        fails = np.concatenate((summed[0], wrong[0])), np.concatenate(chances)
        for loss, chance in (passes, fails):
            mixed = np.logaddexp(log1p(-rate), log(rate) + loss)
            log_moments.append(float(np.logaddexp.reduce(chance + power * mixed)))
    return max(log_moments) / (alpha - 1)


def _laplace(scale: float) -> Points:
    """The test's noise, Lap(0, b) against Lap(1, b), as losses and log chances: ±1/b, and a slope between them."""
    between = (NODES + 1) / 2
    loss = np.concatenate(([-1 / scale, 1 / scale], (2 * between - 1) / scale))
    chance = np.concatenate(([0.5, exp(-1 / scale) / 2], WEIGHTS / 2 * np.exp(-between / scale) / (2 * scale)))
    return loss, np.log(chance)


def _normal(mu: float, power: float) -> Points:
    """The sum's noise, N(0, 1) against N(μ, 1), as losses and log chances, as far out as e^(power·loss) reaches."""
    far = END + abs(power) * mu
    z = np.linspace(-far, far, 2 * int(far / STEP) + 1)
    return mu * z - mu * mu / 2, -z * z / 2 + log((z[1] - z[0]) / np.sqrt(2 * np.pi))


def _normal_delta(mu: float, epsilon: Vector) -> Vector:
    """δ(ε) of N(0, 1) against N(μ, 1), the noise of a released sum against a neighbour's, in closed form."""
    found = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return np.asarray(np.maximum(found, 0.0))
