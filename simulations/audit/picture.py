"""An audit as curves and as a picture: what the trials show, between what no attacker can do and what is certified."""

from __future__ import annotations

import io
from textwrap import wrap
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event
from fedpriv.auditing.statistic import Trials
from fedpriv.auditing.verdict import as_level
from fedpriv.curves.tradeoff import Tradeoff
from simulations.figures.curves import COLOURS, tradeoff_bounds

DIGITS = 6  # behind the point, of a curve as it is kept


def audit_curves(trials: Trials, event: Event, mu: float) -> dict[str, Any]:
    """Errors of both kinds: certified, reached by data, G_μ of the audited `mu`; and the trials' own, as they came."""
    alpha = np.unique(np.concatenate((np.linspace(0, 1, 101), np.geomspace(1e-4, 0.01, 12))))
    below, above = tradeoff_bounds(Account((event,)), alpha, points=14)
    shown = Tradeoff.gaussian(mu)(alpha) if mu > 0 else 1 - alpha
    thresholds = np.concatenate(
        [[np.inf], np.unique(np.quantile(trials.scores, np.linspace(0, 1, 120)))[::-1], [-np.inf]]
    )
    hits, alarms, yes, no = trials.rates(thresholds)
    found = {"alpha": alpha, "certified": below, "explicit": above, "audited": shown}
    seen = {"alpha": alarms / max(no, 1), "beta": 1 - hits / max(yes, 1)}
    return {name: _short(own) for name, own in found.items()} | {"trials": {k: _short(own) for k, own in seen.items()}}


def _short(values: Any) -> list[float]:
    """Values as they are kept: what a picture shows needs no more digits."""
    return [round(float(value), DIGITS) for value in values]


def audit_picture(found: dict[str, Any]) -> bytes:
    """A PNG of the curves of an audit, given as audit.json holds what was found."""
    figure, axes = plt.subplots(figsize=(5.6, 6.2), layout="constrained")
    own, alpha = found["curves"], found["curves"]["alpha"]
    axes.plot(alpha, 1 - np.array(alpha), color="0.75", lw=1)
    axes.fill_between(alpha, 0, own["certified"], color=COLOURS[0], alpha=0.12, lw=0)
    axes.plot(alpha, own["certified"], color=COLOURS[0], lw=1.6, label="certified: no attacker gets below")
    axes.plot(alpha, own["explicit"], color=COLOURS[0], lw=1, ls=":", label="explicit data get here")
    axes.plot(own["trials"]["alpha"], own["trials"]["beta"], color=COLOURS[1], lw=1.6,
              label=f"{found['canaries']:,} canaries, as they came")  # fmt: skip
    words = f"G_μ, μ = {found['mu']['audited']:.4g}: proved at {as_level(found['confidence'])} to be no lower bound"
    axes.plot(alpha, own["audited"], color=COLOURS[1], lw=1, ls="--", label=words)
    axes.set(xlabel="type I error α", ylabel="type II error β", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    figure.suptitle("\n".join(wrap(f"{found['name']}, {found['kind']}", 70)), fontsize=10)
    figure.legend(fontsize=8, loc="outside lower left", frameon=False)
    content = io.BytesIO()
    try:
        figure.savefig(content, dpi=150, format="png", metadata={"Software": None})
    finally:
        plt.close(figure)
    return content.getvalue()
