"""The polynomials of the functional mechanism as [S] writes them: what gradients and errors are checked against."""

from __future__ import annotations

from math import factorial

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector


def reconstruction_coefficients(x: ArrayLike, h: ArrayLike) -> tuple[Vector, Vector]:
    """½h and x: [S] equation 5 in the order of equation 6, Σ_j ½θ_j·h − x_j·(θ_j·h).

    The constant d·log 2 has no coefficient. Over an example they change by d(β + 2) in ℓ1 at most (Lemma 2).
    """
    return np.asarray(h, dtype=float) / 2, np.asarray(x, dtype=float)


def reconstruction(theta: ArrayLike, half_h: ArrayLike, x: ArrayLike, h: ArrayLike) -> float:
    """Σ_j log 2 + θ_j·(½h̄) − x̄_j·(θ_j·h): equation 6 of one example, from coefficients noised or not."""
    rows, kept = np.asarray(theta, dtype=float), np.asarray(x, dtype=float)
    return float(len(rows) * np.log(2) + (rows @ np.asarray(half_h)).sum() - kept @ (rows @ np.asarray(h)))


def label_loss(scores: ArrayLike, label: ArrayLike) -> float:
    """Σ_k log 2 + z_k/2 + z_k²/8 − z_k·y_k: the polynomial of equation 9, z = h_π·W, linear in the (noised) label.

    [S] prints z − ½|z| for z/2, which is right for z ≥ 0 only: the series is of max(z, 0) − ½|z|.
    """
    z, y = np.asarray(scores, dtype=float), np.asarray(label, dtype=float)
    return float((np.log(2) + z / 2 + z * z / 8 - z * y).sum())


def by_quadrature(z: float, order: int, nodes: int = 64) -> float:
    """What a polynomial leaves out at z by Taylor's integral, ∫₀^z F⁽ⁿ⁺¹⁾(t)·(z − t)ⁿ/n! dt: Gauss and Legendre."""
    places, weights = leggauss(nodes)
    t = z / 2 * (places + 1)
    s = 1 / (1 + np.exp(-t))
    derivative = s * (1 - s) if order == 1 else s * (1 - s) * (1 - 2 * s)
    return float(z / 2 * (weights * derivative * (z - t) ** order).sum() / factorial(order))
