"""What `fedpriv estimate` found, as plain data and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from math import inf
from typing import Any

import numpy as np

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event, described
from fedpriv.estimation import Estimate
from server.progress.words import down, duration, small, up

SHOWN = 8  # coordinates of the mean
CRYPTOGRAPHIC = "ChaCha20, keyed by the operating system"
REPLAYABLE = "the noise can be drawn again from the seed, and taken off: not for data that are to be protected"


def report(estimator: Any, found: Estimate, shape: tuple[int, ...], seed: int | None) -> dict[str, Any]:
    """An estimate as plain data."""
    private = found.epsilon.upper < inf
    return {
        "method": type(estimator).__name__, "settings": asdict(estimator),
        "records": shape[0], "dimension": shape[1],
        "mean": None if found.mean is None else np.asarray(found.mean).tolist(), "failure": found.failure,
        "epsilon": {"lower": found.epsilon.lower, "upper": found.epsilon.upper}, "delta": found.delta,
        "unit": "record", "adjacency": "replace", "trust": "central",
        "releases": [_costed(event, found.delta) for event in found.ledger.events],
        "made": list(found.made), "notes": list(found.notes),
        "generator": f"seed {seed}" if seed is not None else CRYPTOGRAPHIC,
        "seed": seed, "private": private,
    }  # fmt: skip


def _costed(event: Event, delta: float) -> dict[str, Any]:
    """An event and what it would cost alone."""
    cost = Account((event,)).epsilon(delta)
    names = ("kind", "settings", "rounds", "dimension")
    return {name: described(event)[name] for name in names} | {"epsilon": cost.bounds._asdict()}


def table(result: Mapping[str, Any]) -> str:
    """The mean or the check that failed, the guarantee, and what was released for it."""
    rows = [("data", f"{result['records']:,} records of {result['dimension']:,}")]
    rows.append(("method", " ".join([result["method"], *_settings(result["settings"])])))
    rows.append(("mean", _mean(result["mean"])) if result["failure"] is None else ("no mean", result["failure"]))
    if result["out"] is not None and result["mean"] is not None:
        rows.append(("", f"in {result['out']}"))
    if result["private"]:
        cost = result["epsilon"]
        rows.append(("privacy", f"ε at most {up(cost['upper'])}, at least {down(cost['lower'])}, at δ = "
                     f"{small(result['delta'])}"))  # fmt: skip
        rows.append(("", "replacing one record; for whoever sees the mean and every noisy number on the way"))
        rows += _releases(result["releases"], result["delta"])
        made = Counter(result["made"])
        rows.append(("made", ", ".join(f"{name} × {count}" if count > 1 else name for name, count in made.items())))
        rows.append(("generator", result["generator"]))
        if result["seed"] is not None:
            rows.append(("", REPLAYABLE))
    else:
        rows.append(("privacy", "none"))
    rows += [("note", note) for note in result["notes"]]
    rows.append(("time", duration(result["seconds"])))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _mean(mean: list[float]) -> str:
    shown = "  ".join(f"{value:.6g}" for value in mean[:SHOWN])
    return shown if len(mean) <= SHOWN else f"{shown}  … ({len(mean):,} in all; --out or --json gives them)"


def _releases(releases: list[dict[str, Any]], delta: float) -> list[tuple[str, str]]:
    """What was charged, and what each would cost alone."""
    rows = []
    for own in releases:
        times = f" × {own['rounds']}" if own["rounds"] > 1 else ""
        what = " ".join([own["kind"] + times, *_settings(own["settings"]), _on(own["dimension"])])
        rows.append((f"{what}", f"alone ε ≤ {up(own['epsilon']['upper'])}"))
    width = max((len(what) for what, _ in rows), default=0)
    return [("charged" if not place else "", f"{what:<{width}}  {cost}") for place, (what, cost) in enumerate(rows)]


def _settings(settings: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings.items()
    ]


def _on(dimension: int) -> str:
    return f"on {dimension:,} coordinates" if dimension > 1 else "once"
