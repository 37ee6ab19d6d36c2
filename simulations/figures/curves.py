"""Pictures of guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtri

from fedpriv._base.arrays import Vector
from fedpriv.accounting.account import Account
from fedpriv.curves.compose import ROUGH
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.trust import sums_only, word_of

COLOURS = ("#0b3de0", "#d5650e", "#33a08b", "#bb6bdd", "#623b14")  # told apart by colour-blind eyes too
POINTS = 28  # values of ε at which δ is asked for


def plot_tradeoff(accounts: Sequence[tuple[str, Account]], path: str) -> None:
    """Draw accounts' certified tradeoff curves to a file, for `fedpriv account --plot`, with Gaussian ones beside."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise FedprivError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    figure, axes = plt.subplots(figsize=(5.6, 5.6 + 0.35 * len(accounts)), layout="constrained")
    alpha = np.unique(np.concatenate((np.linspace(0, 1, 501), np.geomspace(1e-6, 0.05, 200))))
    axes.plot(alpha, 1 - alpha, color="0.75", lw=1)
    axes.annotate("nothing given away", (0.5, 0.515), rotation=-45, ha="center", va="center", fontsize=8, color="0.5")
    for (name, account), colour in zip(accounts, COLOURS * len(accounts), strict=False):
        below, above = tradeoff_bounds(account, alpha)
        axes.fill_between(alpha, below, above, color=colour, alpha=0.2, lw=0)
        axes.plot(alpha, below, color=colour, lw=2, label=f"{name}: certified, shaded up to what data reach")
        mu, proven = gaussian_beside(account, below, alpha)
        words = f"Gaussian, μ = {mu:.4g}" + (
            ": below it by proof" if proven else ", that meets it where α = β: no bound"
        )
        axes.plot(alpha, Tradeoff.gaussian(mu)(alpha), color=colour, lw=1.2, ls="--", label=words)
    axes.set(xlabel="type I error α", ylabel="type II error β", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    figure.legend(fontsize=8, loc="outside lower left", frameon=False)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise FedprivError(f"--plot {path}: {error.strerror or error}") from None
    finally:
        plt.close(figure)


def tradeoff_bounds(account: Account, alpha: Vector, points: int = POINTS) -> tuple[Vector, Vector]:
    """The type II errors β at `alpha`: the certified curve, and what explicit data reach. [F] Lemma 1.

    Both are envelopes of their (ε, δ) lines.
    """
    top = account.epsilon(1e-4, ROUGH).bounds.upper  # lines that are steeper meet the curve where nobody sees it
    epsilons = min(max(top, 1e-3), 600.0) * np.linspace(0, 1, points) ** 2
    bounds = [account.delta(float(epsilon), ROUGH).bounds for epsilon in epsilons]
    below, above = ([bound[side] for bound in bounds] for side in (1, 0))
    gaussian = Tradeoff.gaussian(account.mu)(alpha) if account.mu is not None else 0.0
    return np.maximum(_envelope(epsilons, below, alpha), gaussian), _envelope(epsilons, above, alpha)


def _envelope(epsilons: Vector, deltas: Sequence[float], alpha: Vector) -> Vector:
    """The least type II error that all these (ε, δ) allow at each type I error, for a drawn curve. [F] Lemma 1."""
    beta = np.zeros_like(alpha)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        lines = 1 - delta - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - delta - alpha)
        beta = np.maximum(beta, np.maximum(*lines))
    return beta


def gaussian_beside(account: Account, beta: Vector, alpha: Vector) -> tuple[float, bool]:
    """μ of the Gaussian curve drawn beside an account's, and whether that bounds it (else it only meets it)."""
    summed = any(sums_only(word_of(event.trust)) for event in account.events)  # μ holds for messages seen
    if account.mu is not None and not summed:
        return account.mu, True
    crossing = float(np.interp(0.0, alpha - beta, alpha))
    return -2 * float(ndtri(min(max(crossing, 1e-300), 0.5))), False
