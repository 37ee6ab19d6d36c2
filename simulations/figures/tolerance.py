"""Attackers survived, as pictures: by the number of honest clients, and by the setting that pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Binomial, Cldp, NoisySign, StochasticSign, Ternarize, Ternary
from fedpriv.tolerance import Vote
from simulations.figures.curves import COLOURS
from simulations.figures.panels import DASHED, DOTTED, SOLID, Line, Panel

LEGEND = {
    SOLID: "Solid: counted, every honest client at the mean.",
    DOTTED: "Dotted: certified for any honest data of that mean.",
    DASHED: "Dashed: [F]'s theorem.",
}
Survived = Sequence[tuple[str, Sequence[Vote], str]]  # what is said of it, the votes, their colour
SETTINGS = {  # the setting that pays for attackers survived, by the kind of mechanism
    "Binomial": "trials", "Ternary": "spread", "StochasticSign": "scale", "Ternarize": "scale", "Cldp": "epsilon",
    "NoisySign": "noise",
}  # fmt: skip


def panels_of(votes: Sequence[Vote]) -> list[Panel]:
    """What `fedpriv tolerance --plot` draws of votes: K/N by the number of honest clients, and of each by a setting."""
    kinds = [type(vote.mechanism).__name__ for vote in votes]
    names = [
        kind if kinds.count(kind) == 1 else f"{kind} {name}={getattr(vote.mechanism, name):g}"
        for kind, vote in zip(kinds, votes, strict=True)
        for name in [SETTINGS.get(kind, "clip")]
    ]
    by_number = [
        _panel_by_number(vote, name, colour) for vote, name, colour in zip(votes, names, cycle(COLOURS), strict=False)
    ]
    if len(votes) > 1:  # a line is named by its mechanism, not by what it is
        named = [
            replace(line, name=f"{name}, {line.name}", at_end=name if line.dashes == SOLID else "")
            for name, panel in zip(names, by_number, strict=True)
            for line in panel.lines
        ]
        first = replace(
            by_number[0], title=f"x̄ = {votes[0].mean:g}", lines=named, top=max(panel.top for panel in by_number)
        )
    else:
        first = by_number[0]
    by_setting = (_panel_by_setting(vote, colour) for vote, colour in zip(votes, cycle(COLOURS), strict=False))
    return [first, *filter(None, by_setting)]


def _panel_by_number(vote: Vote, name: str, colour: str) -> Panel:
    """How many attackers a vote survives, K/N, by the number of honest clients."""
    clients = np.unique(np.geomspace(10, max(10_000, 2 * vote.honest), 60).astype(int)).tolist()
    found = _possible(vote, [{"honest": n} for n in clients])
    honest = [each.honest for each in found]
    return resilience_lines(f"{name}, x̄ = {vote.mean:g}", "honest clients, N", honest, [("", found, colour)], 10)


def _panel_by_setting(vote: Vote, colour: str) -> Panel | None:
    """How many attackers a vote survives, K/N, by the setting that pays for it; None where there is no such setting."""
    kind, own = type(vote.mechanism).__name__, vote.mechanism
    if (setting := SETTINGS.get(kind)) is None:
        return None
    at: Vector  # values on either side of its own
    match own:
        case Binomial():
            at = np.unique(np.geomspace(1, max(64, 4 * own.trials), 40).astype(int))
        case Ternary():
            at = np.linspace(own.peak, own.scale, 42)[1:-1]
        case Cldp():
            at = np.geomspace(min(0.1, own.epsilon), max(8.0, own.epsilon), 40)
        case NoisySign():
            at = np.geomspace(own.noise / 4, own.noise * 8, 40)
        case StochasticSign() | Ternarize():
            at = np.geomspace(1.02 * own.peak, 4 * max(own.scale, 5 * own.peak), 40)
    changed = [replace(own, **{setting: value}) for value in at.tolist()]  # type: ignore[type-var]
    by_setting = _possible(vote, [{"mechanism": each} for each in changed])
    values = [getattr(each.mechanism, setting) for each in by_setting]
    base = None if setting == "spread" else 2
    by_settings = resilience_lines(f"{kind}, N = {vote.honest:,}", setting, values, [("", by_setting, colour)], base)
    return replace(by_settings, top=min(by_settings.top, 3 * max(vote.exact, 1) / vote.honest))


def line_kinds(panels: Sequence[Panel]) -> str:
    """A legend in words of the kinds of line (counted, certified, theorem) that figures of tolerance have."""
    there = {line.dashes for panel in panels for line in panel.lines if np.isfinite(line.y).any()}
    return " ".join(words for dashes, words in LEGEND.items() if dashes in there)


def resilience_lines(title: str, x: str, at: ArrayLike, survived: Survived, log: int | None = None) -> Panel:
    """A panel of attackers survived, K/N, along an axis x: exact, certified and the theorem's, a vote a place."""
    lines, places = [], np.asarray(at, dtype=float)
    for name, votes, colour in survived:
        exact, certified, published = survived_shares(votes)
        before, ends = (f"{name}, ", (name, "", "")) if name else ("", ("[F]'s theorem", "certified", "counted"))
        lines += [
            Line(f"{before}published", places, published, colour, DASHED, at_end=ends[0]),
            Line(f"{before}certified", places, certified, colour, DOTTED, at_end=ends[1]),
            Line(f"{before}counted", places, exact, colour, at_end=ends[2]),
        ]
    highest = max(float(np.nan_to_num(line.y).max()) for line in lines)
    top = 1.02 if 0.5 < highest <= 1 else 1.05 * highest or 1.0
    return Panel(title=title, x=x, y="attackers survived, K/N", lines=lines, top=top, log=log)


def survived_shares(votes: Sequence[Vote]) -> tuple[Vector, Vector, Vector]:
    """K/N of each: exact, certified and published; nan where there is nothing, or not even none is survived."""
    found = [(vote.exact if vote.exact >= 0 else None, vote.certified, vote.published[1]) for vote in votes]
    honest = np.array([vote.honest for vote in votes])
    exact, certified, published = np.array(found, dtype=float).T / honest
    return exact, certified, published


def _possible(vote: Vote, changes: Sequence[dict[str, Any]]) -> list[Vote]:
    """The vote with each change whose attackers can be counted: the points of a curve of tolerance."""
    found = []
    for each in changes:
        try:
            changed = replace(vote, **each)
            _ = changed.exact
        except FedprivError:
            continue
        found.append(changed)
    return found
