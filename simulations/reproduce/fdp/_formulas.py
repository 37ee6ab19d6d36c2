"""[F]'s tradeoff functions as they are printed, its slips put right: a route that shares nothing with ours."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, gammaln, ndtr, xlog1py, xlogy

from fedpriv._base.arrays import Vector

Whole = NDArray[np.integer[Any]]


def theorem_2(alpha: Vector, trials: int, levels: int) -> Vector:
    """Binomial noise of bias ½, inputs `levels` apart: equation (10)."""
    k = np.arange(trials - levels + 1)
    noise = _binomial(trials, 0.5)
    below, at_least = _below(k, trials, 0.5), _at_least(k + levels, trials, 0.5)
    found = _segments(alpha, below, noise[k + levels] / noise[k], at_least)
    return np.where(alpha >= bdtr(trials - levels, trials, 0.5), 0.0, found)


def theorem_3(alpha: Vector, trials: int, high: float) -> Vector:
    """Binomial mechanism with p between 1 − `high` and `high`: equation (13), which (14) equals."""
    k = np.arange(trials + 1)
    ratio = _binomial(trials, 1 - high) / _binomial(trials, high)
    return _segments(alpha, _below(k, trials, high), ratio, _at_least(k, trials, 1 - high))


def stochastic_sign(alpha: Vector, clip: float, scale: float) -> Vector:
    """Equation (16); its breakpoint is (A − c)/2A, not (A + c)/2A."""
    rise = (scale + clip) / (scale - clip)
    return np.where(alpha <= (scale - clip) / (2 * scale), 1 - rise * alpha, (1 - alpha) / rise)


def ternary(alpha: Vector, clip: float, spread: float, scale: float) -> Vector:
    """Equation (22)."""
    rise = (spread + clip) / (spread - clip)
    last = 1 - (spread + clip) / (2 * scale)
    middle = np.where(alpha <= last, 1 - clip / scale - alpha, (1 - alpha) / rise)
    return np.where(alpha <= (spread - clip) / (2 * scale), 1 - rise * alpha, middle)


def noisy_sign(alpha: Vector, ratio: float) -> Vector:
    """Equation (25), with Φ(`ratio`) for Φ(c/σ)."""
    rise = ndtr(ratio) / ndtr(-ratio)
    return np.asarray(np.where(alpha <= ndtr(-ratio), 1 - rise * alpha, (1 - alpha) / rise))


def approximate(alpha: Vector, epsilon: float, delta: float) -> Vector:
    """The curve of (ε, δ)-DP: Lemma 1."""
    return np.asarray(
        np.maximum(0, np.maximum(1 - delta - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - delta - alpha)))
    )


def gaussian_epsilon_delta(mu: float) -> tuple[float, float]:
    """Figure 4's ε = ln(Φ(1/μ)/Φ(−1/μ)), and the Gaussian δ there: c = 1."""
    epsilon = log(ndtr(1 / mu) / ndtr(-1 / mu))
    delta = ndtr(-epsilon / mu + mu / 2) - np.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)
    return float(epsilon), float(delta)


def _segments(alpha: Vector, below: Vector, ratio: Vector, at_least: Vector) -> Vector:
    """P(Y ≥ k) + P(Y = k)/P(X = k)·(P(X < k) − α) on the segment of each α: α from P(X < k) to P(X ≤ k)."""
    k = np.clip(np.searchsorted(below, alpha, side="right") - 1, 0, len(below) - 1)
    return np.asarray(at_least[k] + ratio[k] * (below[k] - alpha))


def _binomial(trials: int, p: float) -> Vector:
    k = np.arange(trials + 1)
    ways = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    return np.asarray(np.exp(ways + xlogy(k, p) + xlog1py(trials - k, -p)))


def _below(k: Whole, trials: int, p: float) -> Vector:
    return np.where(k == 0, 0.0, bdtr(np.maximum(k - 1, 0), trials, p))


def _at_least(k: Whole, trials: int, p: float) -> Vector:
    return np.where(k == 0, 1.0, bdtrc(np.maximum(k - 1, 0), trials, p))
