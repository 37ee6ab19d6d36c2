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
    """[F] (10), the type II errors at `alpha` of binomial noise of bias ½, inputs `levels` apart: to check ours by."""
    k = np.arange(trials - levels + 1)
    noise = _binomial(trials, 0.5)
    below, at_least = _below(k, trials, 0.5), _at_least(k + levels, trials, 0.5)
    found = _segments(alpha, below, noise[k + levels] / noise[k], at_least)
    return np.where(alpha >= bdtr(trials - levels, trials, 0.5), 0.0, found)


def theorem_3(alpha: Vector, trials: int, high: float) -> Vector:
    """[F] (13), which (14) equals: type II errors at `alpha` of the binomial mechanism, p from 1 − `high` to `high`."""
    k = np.arange(trials + 1)
    ratio = _binomial(trials, 1 - high) / _binomial(trials, high)
    return _segments(alpha, _below(k, trials, high), ratio, _at_least(k, trials, 1 - high))


def stochastic_sign(alpha: Vector, clip: float, scale: float) -> Vector:
    """[F] (16), type II errors at `alpha` of the stochastic sign; it breaks at (A − c)/2A, not (A + c)/2A."""
    rise = (scale + clip) / (scale - clip)
    return np.where(alpha <= (scale - clip) / (2 * scale), 1 - rise * alpha, (1 - alpha) / rise)


def ternary(alpha: Vector, clip: float, spread: float, scale: float) -> Vector:
    """[F] (22), the type II errors at `alpha` of the ternary compressor: what figures 3 and 8 check ours by."""
    rise = (spread + clip) / (spread - clip)
    last = 1 - (spread + clip) / (2 * scale)
    middle = np.where(alpha <= last, 1 - clip / scale - alpha, (1 - alpha) / rise)
    return np.where(alpha <= (spread - clip) / (2 * scale), 1 - rise * alpha, middle)


def noisy_sign(alpha: Vector, ratio: float) -> Vector:
    """[F] (25), the type II errors at `alpha` of the sign of noisy data, with Φ(`ratio`) for Φ(c/σ)."""
    rise = ndtr(ratio) / ndtr(-ratio)
    return np.asarray(np.where(alpha <= ndtr(-ratio), 1 - rise * alpha, (1 - alpha) / rise))


def approximate(alpha: Vector, epsilon: float, delta: float) -> Vector:
    """[F] Lemma 1, the type II errors at `alpha` that (ε, δ)-DP allows: the third curve of figure 4."""
    return np.asarray(
        np.maximum(0, np.maximum(1 - delta - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - delta - alpha)))
    )


def gaussian_epsilon_delta(mu: float) -> tuple[float, float]:
    """[F] Figure 4's ε = ln(Φ(1/μ)/Φ(−1/μ)), and the δ that a μ-Gaussian mechanism has there: c = 1."""
    epsilon = log(ndtr(1 / mu) / ndtr(-1 / mu))
    delta = ndtr(-epsilon / mu + mu / 2) - np.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)
    return float(epsilon), float(delta)


def _segments(alpha: Vector, below: Vector, ratio: Vector, at_least: Vector) -> Vector:
    """[F]'s tradeoff curve on its segments, α from P(X < k) on: P(Y ≥ k) + P(Y = k)/P(X = k)·(P(X < k) − α)."""
    k = np.clip(np.searchsorted(below, alpha, side="right") - 1, 0, len(below) - 1)
    return np.asarray(at_least[k] + ratio[k] * (below[k] - alpha))


def _binomial(trials: int, p: float) -> Vector:
    """The chances of k ones in `trials`, k from 0 on: what the ratios of theorems 2 and 3 are of."""
    k = np.arange(trials + 1)
    ways = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    return np.asarray(np.exp(ways + xlogy(k, p) + xlog1py(trials - k, -p)))


def _below(k: Whole, trials: int, p: float) -> Vector:
    """P(Bin(trials, p) < k) for each k: where the segments of theorem 2's or 3's curve begin."""
    return np.where(k == 0, 0.0, bdtr(np.maximum(k - 1, 0), trials, p))


def _at_least(k: Whole, trials: int, p: float) -> Vector:
    """P(Bin(trials, p) ≥ k) for each k: how high the segments of theorem 2's or 3's curve begin."""
    return np.where(k == 0, 1.0, bdtrc(np.maximum(k - 1, 0), trials, p))
