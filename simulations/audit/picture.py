"""An audit as curves and as a picture: what the trials show, between what no attacker can do and what is certified."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import numpy as np

from fedpriv._base.spelling import rounded_down
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event
from fedpriv.auditing.statistic import Trials
from fedpriv.auditing.verdict import as_level
from fedpriv.curves.compose import ROUGH
from fedpriv.curves.tradeoff import Tradeoff
from simulations.figures.panels import DASHED, DOTTED, Line, figure_bytes, tradeoff_panel
from simulations.figures.style import BLUE, RED

DIGITS = 6  # behind the point, of a curve as it is kept
TITLE = 46  # letters that fit over a panel


def audit_curves(trials: Trials, event: Event, mu: float) -> dict[str, Any]:
    """An audit's error curves, for audit.json: certified, reached by data, G_μ of the audited `mu`, and the trials'."""
    alpha = np.unique(np.concatenate((np.linspace(0, 1, 101), np.geomspace(1e-4, 0.01, 12))))
    below, above = Account((event,)).tradeoff(alpha, ROUGH)
    shown = Tradeoff.gaussian(mu)(alpha) if mu > 0 else 1 - alpha
    thresholds = np.concatenate(
        [[np.inf], np.unique(np.quantile(trials.scores, np.linspace(0, 1, 120)))[::-1], [-np.inf]]
    )
    hits, alarms, yes, no = trials.rates(thresholds)
    found = {"alpha": alpha, "certified": below, "explicit": above, "audited": shown}
    seen = {"alpha": alarms / max(no, 1), "beta": 1 - hits / max(yes, 1)}
    return {name: _short(own) for name, own in found.items()} | {"trials": {k: _short(own) for k, own in seen.items()}}


def _short(values: Any) -> list[float]:
    """A curve's values as audit.json keeps them, rounded: what a picture shows needs no more digits."""
    return [round(float(value), DIGITS) for value in values]


def audit_picture(found: dict[str, Any]) -> bytes:
    """The curves of an audit drawn as a PNG, audit.png, from what audit.json holds."""
    own, trials = found["curves"], found["curves"]["trials"]
    alpha = np.array(own["alpha"])
    lines = (
        Line("certified: no attacker gets below", alpha, np.array(own["certified"]), BLUE),
        Line("explicit data get here", alpha, np.array(own["explicit"]), BLUE, DOTTED),
        Line(f"{found['canaries']:,} canaries, as they came", np.array(trials["alpha"]), np.array(trials["beta"]), RED),
        Line(f"G_μ, μ = {rounded_down(found['mu']['audited'])}", alpha, np.array(own["audited"]), RED, DASHED),
    )
    title = "\n".join(wrap(f"{found['name']}, {found['kind']}", TITLE))
    sure = as_level(found["confidence"])
    return figure_bytes([tradeoff_panel(title, lines)], f"dashed: proved at {sure} to be no lower bound")
