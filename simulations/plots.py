"""Pictures of guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq

from fedpriv.accounting import Account
from fedpriv.arrays import Vector
from fedpriv.errors import FedprivError
from fedpriv.tradeoff import Tradeoff

COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8b5fbf", "#b8860b")
POINTS = 48  # values of ε at which δ is asked for


def plot_tradeoff(accounts: Sequence[tuple[str, Account]], path: str) -> None:
    """Each certified tradeoff curve, its gap to the lower bound shaded, and the Gaussian curve beside it."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise FedprivError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    figure, axes = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
    alpha = np.unique(np.concatenate((np.linspace(0, 1, 501), np.geomspace(1e-6, 0.05, 200))))
    axes.plot(alpha, 1 - alpha, color="0.75", lw=1, label="nothing given away")
    for (name, account), colour in zip(accounts, COLOURS * len(accounts), strict=False):
        below, above = tradeoff_bounds(account, alpha)
        axes.fill_between(alpha, below, above, color=colour, alpha=0.2, lw=0)
        axes.plot(alpha, below, color=colour, lw=2, label=f"{name}: certified")
        mu = _matching_gaussian(below, alpha)
        axes.plot(
            alpha,
            Tradeoff.gaussian(mu)(alpha),
            color=colour,
            lw=1.2,
            ls="--",
            label=f"Gaussian, μ = {mu:.4g}, equal where α = β",
        )
    axes.set(xlabel="type I error α", ylabel="type II error β", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(fontsize=8, loc="upper right")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise FedprivError(f"--plot {path}: {error.strerror or error}") from None
    finally:
        plt.close(figure)


def tradeoff_bounds(account: Account, alpha: Vector) -> tuple[Vector, Vector]:
    """The certified curve and the one that explicit data reach, as envelopes of their (ε, δ) lines. [F] Lemma 1."""
    top = account.epsilon(1e-9).bounds.upper
    epsilons = np.concatenate(([0.0], np.geomspace(1e-3, 1, POINTS - 1) * min(max(top, 1e-3), 600.0)))
    bounds = [account.delta(float(epsilon)).bounds for epsilon in epsilons]
    return _envelope(epsilons, [b.upper for b in bounds], alpha), _envelope(epsilons, [b.lower for b in bounds], alpha)


def _envelope(epsilons: Vector, deltas: Sequence[float], alpha: Vector) -> Vector:
    beta = np.zeros_like(alpha)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        lines = 1 - delta - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - delta - alpha)
        beta = np.maximum(beta, np.maximum(*lines))
    return beta


def _matching_gaussian(beta: Vector, alpha: Vector) -> float:
    """The μ whose curve crosses the diagonal where the certified curve does."""
    crossing = float(np.interp(0.0, alpha - beta, alpha))
    if crossing >= 0.5:
        return 0.0
    return (
        float(brentq(lambda mu: Tradeoff.gaussian(mu)(crossing) - crossing, 1e-9, 70.0)) if crossing > 1e-300 else 70.0
    )
