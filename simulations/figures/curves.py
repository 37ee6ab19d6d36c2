"""Pictures of guarantees."""

from __future__ import annotations

import csv
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

FAR = 2.0  # times the μ that meets the curve: one that bounds it from further off is no picture of it
COLOURS = ("#0b3de0", "#d5650e", "#33a08b", "#bb6bdd", "#623b14")  # told apart by colour-blind eyes too


def plot_tradeoff(accounts: Sequence[tuple[str, Account]], path: str) -> None:
    """Draw accounts' certified tradeoff curves to a file, for `fedpriv account --plot`, and a CSV beside it."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise FedprivError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    figure, axes = plt.subplots(figsize=(5.6, 5.6 + 0.35 * len(accounts)), layout="constrained")
    alpha = np.unique(np.concatenate((np.linspace(0, 1, 501), np.geomspace(1e-6, 0.05, 200))))
    tables: list[tuple[str, Vector, Vector]] = []
    axes.plot(alpha, 1 - alpha, color="0.75", lw=1)
    axes.annotate("nothing given away", (0.5, 0.515), rotation=-45, ha="center", va="center", fontsize=8, color="0.5")
    for (name, account), colour in zip(accounts, COLOURS * len(accounts), strict=False):
        below, above = account.tradeoff(alpha, ROUGH)
        tables.append((name, below, above))
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
        _write_curves(Path(path).with_suffix(".csv"), alpha, tables)
    except OSError as error:
        raise FedprivError(f"--plot {path}: {error.strerror or error}") from None
    finally:
        plt.close(figure)


def _write_curves(path: Path, alpha: Vector, tables: Sequence[tuple[str, Vector, Vector]]) -> None:
    """The same numbers beside the picture: a row for each α, of each mechanism the certified β and the one reached."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["alpha", *(f"{name}, {side}" for name, _, _ in tables for side in ("lower", "upper"))])
        rows.writerows(zip(alpha.tolist(), *(own.tolist() for _, *both in tables for own in both), strict=True))


def gaussian_beside(account: Account, beta: Vector, alpha: Vector) -> tuple[float, bool]:
    """μ of the Gaussian curve drawn beside an account's, and whether that bounds it (else it only meets it)."""
    summed = any(sums_only(word_of(event.trust)) for event in account.events)  # μ holds for messages seen
    crossing = float(np.interp(0.0, alpha - beta, alpha))
    meeting = -2 * float(ndtri(min(max(crossing, 1e-300), 0.5)))
    if account.mu is not None and not summed and account.mu <= FAR * meeting:
        return account.mu, True
    return meeting, False
