"""An audit as a picture: what the trials show, between what no attacker can do and what is certified."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from fedpriv.accounting import Account
from fedpriv.audit.statistic import Trials
from fedpriv.event import Event
from fedpriv.tradeoff import Tradeoff
from simulations.plots import COLOURS, tradeoff_bounds


def picture(trials: Trials, event: Event, found: dict[str, Any]) -> bytes:
    """A PNG of errors of both kinds: certified, by the trials, and the Gaussian curve that the count proves."""
    figure, axes = plt.subplots(figsize=(5.6, 6.2), layout="constrained")
    alpha = np.unique(np.concatenate((np.linspace(0, 1, 301), np.geomspace(1e-6, 0.05, 100))))
    below, above = tradeoff_bounds(Account((event,)), alpha, points=14)
    axes.plot(alpha, 1 - alpha, color="0.75", lw=1)
    axes.fill_between(alpha, 0, below, color=COLOURS[0], alpha=0.12, lw=0)
    axes.plot(alpha, below, color=COLOURS[0], lw=1.6, label="certified: no attacker gets below")
    axes.plot(alpha, above, color=COLOURS[0], lw=1, ls=":", label="explicit data get here")
    axes.plot(*_errors(trials), color=COLOURS[1], lw=1.6, label=f"{len(trials):,} canaries, as they came")
    shown = Tradeoff.gaussian(found["mu"]["audited"])(alpha) if found["mu"]["audited"] > 0 else 1 - alpha
    words = f"G_μ, μ = {found['mu']['audited']:.4g}: proved at {found['confidence']:g} to be no lower bound"
    axes.plot(alpha, shown, color=COLOURS[1], lw=1, ls="--", label=words)
    axes.set(xlabel="type I error α", ylabel="type II error β", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_title(f"{found['name']}, {found['kind']}", fontsize=10)
    figure.legend(fontsize=8, loc="outside lower left", frameon=False)
    content = io.BytesIO()
    try:
        figure.savefig(content, dpi=150, format="png", metadata={"Software": None})
    finally:
        plt.close(figure)
    return content.getvalue()


def _errors(trials: Trials) -> tuple[Any, Any]:
    thresholds = np.concatenate(
        [[np.inf], np.unique(np.quantile(trials.scores, np.linspace(0, 1, 400)))[::-1], [-np.inf]]
    )
    hits, alarms, yes, no = trials.rates(thresholds)
    return alarms / max(no, 1), 1 - hits / max(yes, 1)
