"""What `fedpriv estimate` found, as plain data and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import event_as_data
from fedpriv.estimation import Estimate
from server.progress.words import duration_words

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SHOWN = 8  # coordinates of the mean
CRYPTOGRAPHIC = "ChaCha20, keyed by the operating system"
REPLAYABLE = "the noise can be drawn again from the seed, and taken off: not for data that are to be protected"


def report(
    estimator: DataclassInstance,
    found: Estimate,
    shape: tuple[int, ...],  # of the data: records, numbers a record
    seed: int | None,  # of the noise; None where the operating system has keyed it
) -> dict[str, Any]:
    """What `fedpriv estimate --json` prints: the mean, its ε from both sides, and each release with its cost alone."""
    releases = []  # each with what it would cost alone
    for event in found.ledger.events:
        told, alone = event_as_data(event), Account((event,)).epsilon(found.delta).bounds
        own = {name: told[name] for name in ("kind", "settings", "rounds", "dimension")}
        releases.append(own | {"epsilon": alone._asdict()})
    return {
        "method": type(estimator).__name__, "settings": asdict(estimator), "records": shape[0],
        "dimension": shape[1], "statistic": found.statistic,
        "mean": None if found.mean is None else np.asarray(found.mean).tolist(),
        "failure": found.failure, "epsilon": found.epsilon._asdict(), "delta": found.delta,
        "unit": "record", "adjacency": "replace", "trust": "central", "releases": releases,
        "made": list(found.made), "notes": list(found.notes),
        "tested": None if found.tested is None else found.tested._asdict(),
        "generator": f"seed {seed}" if seed is not None else CRYPTOGRAPHIC, "seed": seed,
        "private": found.epsilon.upper < inf,
    }  # fmt: skip


def table(result: Mapping[str, Any]) -> str:
    """What `fedpriv estimate` prints for people: the mean or the check that failed, the guarantee, the releases."""
    rows = [("data", f"{result['records']:,} records of {result['dimension']:,}")]
    rows.append(("method", " ".join([result["method"], *_settings(result["settings"])])))
    if result["failure"] is not None:
        rows.append((f"no {result['statistic']}", result["failure"]))
    else:
        mean, many = result["mean"], f"  … ({len(result['mean']):,} in all; --out or --json gives them)"
        rows.append(
            (result["statistic"], "  ".join(f"{value:.6g}" for value in mean[:SHOWN]) + many * (len(mean) > SHOWN))
        )
    if result["out"] is not None and result["mean"] is not None:
        rows.append(("", f"in {result['out']}"))
    rows += _guarantee(result) if result["private"] else [("privacy", "none")]
    if (tested := result["tested"]) is not None:
        asked = (
            f"tests ask for {tested['margin']} records to spare, and pass wrongly once in {1 / tested['failure']:.3g}"
        )
        rows.append(("proposed", f"local sensitivity {tested['proposed']:.4g}; {asked}"))
    rows += [("note", note) for note in result["notes"]]
    rows.append(("time", duration_words(result["seconds"])))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _charged(own: Mapping[str, Any]) -> tuple[str, str]:
    """A private release on the way to the mean, in words as it was charged, and the ε it would cost alone."""
    times = f" × {own['rounds']}" if own["rounds"] > 1 else ""
    on = f"on {own['dimension']:,} coordinates" if own["dimension"] > 1 else "once"
    what = " ".join([own["kind"] + times, *_settings(own["settings"]), on])
    return what, f"alone ε ≤ {rounded_up(own['epsilon']['upper'])}"


def _guarantee(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows on the mean's privacy: what is proved of the whole, what was charged for it, where noise comes from."""
    cost, charged = result["epsilon"], [_charged(own) for own in result["releases"]]
    width = max((len(what) for what, _ in charged), default=0)
    made = Counter(result["made"])
    bracket = f"ε at most {rounded_up(cost['upper'])}, at least {rounded_down(cost['lower'])}"
    return [
        ("privacy", f"{bracket}, at δ = {short_number(result['delta'])}"),
        ("", "replacing one record; for whoever sees the mean and every noisy number on the way"),
        *(("" if place else "charged", f"{what:<{width}}  {alone}") for place, (what, alone) in enumerate(charged)),
        ("made", ", ".join(f"{name} × {count}" if count > 1 else name for name, count in made.items())),
        ("generator", result["generator"]),
        *([("", REPLAYABLE)] if result["seed"] is not None else []),
    ]


def _settings(settings: Mapping[str, Any]) -> list[str]:
    """An estimator's or a release's settings as `name=value` words, numbers cut to six digits."""
    return [
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings.items()
    ]
