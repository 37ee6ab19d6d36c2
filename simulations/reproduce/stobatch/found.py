"""What the trainings of a figure of [S] came to: means over seeds, beside what the paper has, each claim checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Any

import numpy as np

from simulations.figures.checks import Check
from simulations.reproduce.stobatch._cells import Cell, Scale, called, cells, full
from simulations.reproduce.stobatch.published import (
    ADLM,
    DPSGD,
    EACH,
    FIGURES,
    PIXELDP,
    PRINTED,
    STOBATCH,
    PaperFigure,
)

ATTACKS = ("FGSM", "I-FGSM", "MIM", "PGD")
CLOSE = 0.05  # of accuracy: what a number of the paper may be off by on other data
CLEAR = 0.02  # of accuracy: a lead that is one
LEARNT = 0.2  # of accuracy: a network that says the same of everything has half of it, attacked or not

Value = Callable[[dict[str, Any]], float]


def accuracy_under(size: float, attack: str = "") -> Value:
    """Reads off a training its accuracy under attacks of a size: under one, or the mean of four as in [S]."""
    if attack:
        return lambda found: float(found["under"][str(size)][attack])
    return lambda found: fmean(found["under"][str(size)][name] for name in ATTACKS)


def certified_at(radius: float, which: str = "certified") -> Value:
    """Reads off a training its certified accuracy at an ℓ∞ radius: proved, or `as_published` as [S] prints it."""
    return lambda found: float(found[which][str(radius)])


@dataclass(frozen=True, eq=False)
class Found:
    """A figure, however far it has come."""

    name: str  # of FIGURES
    scale: Scale
    results: Sequence[dict[str, Any]]  # of `measured`: a training with one seed each

    @property
    def figure(self) -> PaperFigure:
        """What [S] has of this figure, as printed: its values of ε, sizes of attacks, numbers."""
        return FIGURES[self.name]

    @property
    def cells(self) -> list[Cell]:
        """The trainings of the figure that are done with at least one seed, in the figure's order."""
        return [cell for cell in cells(self.name, 1) if self.of(cell)]

    @property
    def seeds(self) -> int:
        """How many seeds the training of this figure with the most of them has, for its page."""
        return max((len(self.of(cell)) for cell in self.cells), default=0)

    def of(self, cell: Cell) -> list[dict[str, Any]]:
        """What a training of the figure came to, a result for each seed that is done."""
        own = (cell.method, cell.epsilon, cell.draw)
        return [
            one for one in self.results if (one["cell"]["method"], one["cell"]["epsilon"], one["cell"]["draw"]) == own
        ]

    def mean(self, cell: Cell, value: Value) -> float | None:
        """A number read off a training, a mean over its seeds; None where no seed is done or nothing certified."""
        try:
            found = [value(one) for one in self.of(cell)]
        except KeyError:
            return None
        return fmean(found) if found else None

    def withstood(self, cell: Cell, size: float) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        """For each image, the share of attacks of a size that a training withstands, a mean over seeds."""
        every = [one["under"][str(size)]["withstood"] for one in self.of(cell)]
        return np.mean(every, axis=0) if every else None

    @property
    def smaller(self) -> str:
        """In what the trainings are smaller or other than [S]'s, in words for a check that fails."""
        scale, whole = self.scale, full(dict(self.scale.data), self.scale.data["kind"] == "Digits")
        steps = f"{scale.steps} steps" + (f" of {whole.steps}" if scale.steps < whole.steps else "")
        return f"{called(scale)}, {steps}"

    def checks(self) -> list[Check]:
        """The checks of a figure of [S]: its numbers and claims beside ours, and that certified ≤ under attack."""
        pairs = [
            (one["certified"][size], own["not_surely_wrong"])
            for one in self.results
            if "certified" in one
            for size, own in one["under"].items()
        ]
        broken = sum(share > left for share, left in pairs)
        sound = Check(
            claim="certified accuracy is at most accuracy under attack", published="a theorem",
            ours=f"in {len(pairs) - broken} of {len(pairs)} trainings and sizes", agrees=not broken, right=not broken,
        )  # fmt: skip
        numbers = [check for spot in self.figure.published for check in _number(self, *spot)]
        draws = () if self.figure.certified else (PRINTED, EACH)
        return [sound, *numbers, *(check for draw in draws for check in _ahead(self, draw))]


def _cell(method: str, epsilon: float | None, draw: str = "") -> Cell:
    """The training of a method at an ε with a way to draw noise, seed aside, to look its results up by."""
    return Cell(method=method, epsilon=epsilon, draw=draw)


def _number(found: Found, method: str, at: float) -> list[Check]:
    """The checks of one number of [S]'s figure, at an ε or a radius; of StoBatch by either way to draw noise."""
    figure, checks = found.figure, []
    published = figure.published[method, at] / 100
    what, value, epsilon = "accuracy under attack", accuracy_under(figure.sizes[0]), at
    if figure.certified:
        what, value, epsilon = f"certified at {at:g}", certified_at(at), figure.epsilons[0]
    for draw in (PRINTED, EACH) if method == STOBATCH else ("",):
        cell = _cell(method, None if method == PIXELDP else epsilon, draw)
        ours = found.mean(cell, value)
        if ours is None:
            continue
        near, why = CLOSE, ""
        if not figure.certified:  # two standard errors of a difference of shares of so many images
            near = max(near, 2 * sqrt(sum(share * (1 - share) for share in (ours, published)) / found.scale.images))
        agrees = abs(ours - published) <= near
        if not agrees and figure.certified and ours == 0:
            printed = found.mean(cell, certified_at(at, "as_published")) or 0.0
            why = f"its noise proves no such radius; by the one that is printed {printed:.1%}"
        elif not agrees:
            protects = f"; {EACH}: one vector in all examples protects none"
            why = found.smaller + (protects if draw == EACH and not figure.certified else "")
        checks.append(
            Check(claim=f"{cell.title}: {what}", published=f"{published:.1%}", ours=f"{ours:.1%}", agrees=agrees,
                  why=why)
        )  # fmt: skip
    return checks


def _leads(found: Found, draw: str, other: str) -> list[tuple[str, float, bool]]:
    """By how much StoBatch beats another method under attack at each ε or size known, and whether clearly.

    A lead is clear if it is more than two standard errors of the mean difference over images, as both are asked about
    the same ones, and if StoBatch has learnt something.
    """
    leads, many = [], len(found.figure.epsilons) > 1
    for epsilon in sorted(found.figure.epsilons):
        for size in found.figure.sizes:
            ours = found.withstood(_cell(STOBATCH, epsilon, draw), size)
            theirs = found.withstood(_cell(other, epsilon, draw if other == ADLM else ""), size)
            if ours is not None and theirs is not None:
                place, each = f"ε = {epsilon:g}" if many else f"μ = {size:g}", ours - theirs
                error = 2 * float(each.std(ddof=1)) / sqrt(len(each)) if len(each) > 1 else 1.0
                clear = float(each.mean()) > max(CLEAR, error) and float(ours.mean()) > LEARNT
                leads.append((place, float(each.mean()), clear))
    return leads


def _lost(found: Found, draw: str, other: str, leads: list[tuple[str, float, bool]]) -> str:
    """The words of a failed check: where StoBatch's gain over another is gone once its noise protects examples."""
    if draw == PRINTED:
        return ""
    own = {place for place, _, clear in leads if clear}
    gone = [place for place, _, clear in _leads(found, PRINTED, other) if clear and place not in own]
    return f"{EACH} removes the gain at {', '.join(gone)}; " if gone else f"nor is it with {PRINTED}; "


def _ahead(found: Found, draw: str) -> list[Check]:
    """The checks of [S]'s claim that StoBatch beats DP-SGD and AdLM under attack, by one way to draw noise."""
    checks = []
    for other in (DPSGD, ADLM):
        leads = _leads(found, draw, other)
        if not leads:
            continue
        agrees = all(clear for _, _, clear in leads)
        why = "" if agrees else _lost(found, draw, other, leads) + found.smaller
        words = ", ".join(f"{100 * lead:+.1f} at {place}" for place, lead, _ in leads).replace("-", "−")
        checks.append(
            Check(claim=f"StoBatch ({draw}) is above {other} under attack", published="everywhere",
                  ours=f"{words} points", agrees=agrees, why=why)
        )  # fmt: skip
    return checks
