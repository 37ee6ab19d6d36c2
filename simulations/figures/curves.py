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
from fedpriv._base.spelling import rounded_up, short_number
from fedpriv.accounting.account import Account
from fedpriv.curves.compose import ROUGH
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.trust import sums_only, word_of

NEAR = 0.03  # a curve that meets α = β before is hardly told from the axes
HIDDEN = 0.97  # type II errors at which next to nobody is found
FAR = 2.0  # times the μ that meets the curve: one that bounds it from further off is no picture of it
COLOURS = ("#0b3de0", "#d5650e", "#33a08b", "#bb6bdd", "#623b14")  # told apart by colour-blind eyes too


def plot_tradeoff(accounts: Sequence[tuple[str, Account]], path: str) -> None:
    """Draw accounts' certified tradeoff curves to a file, for `fedpriv account --plot`, and a CSV beside it.

    Where the curves lie on the axes the lower axis is logarithmic, from where an attacker must all but always miss.
    """
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise FedprivError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    alpha = np.unique(np.concatenate((np.linspace(0, 1, 501), np.geomspace(1e-6, 0.05, 200))))
    tables = [(name, *account.tradeoff(alpha, ROUGH)) for name, account in accounts]
    meets = [float(alpha[below <= alpha][0]) for _, below, _ in tables]
    least = _least_rate([account for _, account in accounts]) if min(meets) < NEAR else 0.0
    several = len({event.adjacency for _, account in accounts for event in account.events}) > 1
    shown = np.geomspace(least, 1, 700) if least else alpha
    figure, axes = plt.subplots(figsize=(5.6, 5.9 + 0.35 * len(accounts)), layout="constrained")
    axes.plot(shown, 1 - shown, color="0.75", lw=1, label="nothing given away")
    axes.fill_between([], [], color="0.8", lw=0, label="shaded: up to what explicit data reach")
    for (name, account), (_, beta, _), met, colour in zip(
        accounts, tables, meets, COLOURS * len(accounts), strict=False
    ):
        below, above = account.tradeoff(shown, ROUGH)
        axes.fill_between(shown, below, above, color=colour, alpha=0.2, lw=0)
        whose = f"{name}, {account.events[0].adjacency}" if several else name
        axes.plot(shown, below, color=colour, lw=2, label=f"{whose}: certified")
        mu, proven = gaussian_beside(account, beta, alpha)
        if proven or met > alpha[1]:  # else where they would meet is not known
            words = "below it by proof" if proven else "that meets it where α = β: no bound"
            label = f"Gaussian, μ = {rounded_up(mu) if proven else short_number(mu, 4)}, {words}"
            axes.plot(shown, Tradeoff.gaussian(mu)(shown), color=colour, lw=1.2, ls="--", label=label)
    axes.set(xlabel="type I error α", ylabel="type II error β", xlim=(least, 1), ylim=(0, 1))
    axes.set(xscale="log") if least else axes.set(aspect="equal")
    figure.legend(fontsize=8, loc="outside lower left", frameon=False)
    try:
        figure.savefig(path, dpi=150)
        with Path(path).with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["alpha", *(f"{name}, {side}" for name, _, _ in tables for side in ("lower", "upper"))])
            rows.writerows(zip(alpha.tolist(), *(own.tolist() for _, *both in tables for own in both), strict=True))
    except OSError as error:
        raise FedprivError(f"--plot {path}: {error.strerror or error}") from None
    finally:
        plt.close(figure)


def _least_rate(accounts: Sequence[Account]) -> float:
    """Where a logarithmic axis of type I errors begins: what lets an attacker find next to nobody, in every account."""
    rates = np.geomspace(1e-300, 1e-3, 600)
    hides = np.all([account.tradeoff(rates, ROUGH).lower > HIDDEN for account in accounts], axis=0)
    return float(rates[hides][-1]) if hides.any() else float(rates[0])


def gaussian_beside(account: Account, beta: Vector, alpha: Vector) -> tuple[float, bool]:
    """μ of the Gaussian curve drawn beside an account's, and whether that bounds it (else it only meets it)."""
    summed = any(sums_only(word_of(event.trust)) for event in account.events)  # μ holds for messages seen
    crossing = float(np.interp(0.0, alpha - beta, alpha))
    meeting = -2 * float(ndtri(min(max(crossing, 1e-300), 0.5)))
    if account.mu is not None and not summed and account.mu <= FAR * meeting:
        return account.mu, True
    return meeting, False
