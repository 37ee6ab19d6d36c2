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
CLEAR = 0.02  # a lead that is one
LEARNT = 0.2  # of accuracy: a network that says the same of everything has half of it, attacked or not

Value = Callable[[dict[str, Any]], float]


def under(size: float, attack: str = "") -> Value:
    """Accuracy under attacks of a size; by default their mean, as [S] has it."""
    if attack:
        return lambda found: float(found["under"][str(size)][attack])
    return lambda found: fmean(found["under"][str(size)][name] for name in ATTACKS)


@dataclass(frozen=True, eq=False)
class Found:
    """A figure, however far it has come."""

    name: str
    scale: Scale
    results: Sequence[dict[str, Any]]

    @property
    def figure(self) -> PaperFigure:
        """What the paper has."""
        return FIGURES[self.name]

    @property
    def cells(self) -> list[Cell]:
        """Those that are done with one seed at least, in their order."""
        return [cell for cell in cells(self.name, 1) if self.of(cell)]

    @property
    def seeds(self) -> int:
        """How many seeds the best known cell has."""
        return max((len(self.of(cell)) for cell in self.cells), default=0)

    def of(self, cell: Cell) -> list[dict[str, Any]]:
        """Every seed's."""
        own = (cell.method, cell.epsilon, cell.draw)
        return [
            one for one in self.results if (one["cell"]["method"], one["cell"]["epsilon"], one["cell"]["draw"]) == own
        ]

    def mean(self, cell: Cell, value: Value) -> float | None:
        """Over seeds; None where no seed is done, or nothing is certified."""
        try:
            found = [value(one) for one in self.of(cell)]
        except KeyError:
            return None
        return fmean(found) if found else None

    def withstood(self, cell: Cell, size: float) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        """The share of the attacks that each image withstands, a mean over seeds; None where no seed is done."""
        every = [one["under"][str(size)]["withstood"] for one in self.of(cell)]
        return np.mean(every, axis=0) if every else None

    @property
    def smaller(self) -> str:
        """What is smaller or other than in [S], in words."""
        scale, whole = self.scale, full(dict(self.scale.data), self.scale.data["kind"] == "Digits")
        steps = f"{scale.steps} steps" + (f" of {whole.steps}" if scale.steps < whole.steps else "")
        return f"{called(scale)}, {steps}"

    def checks(self) -> list[Check]:
        """The paper's numbers and claims beside ours."""
        found = [_sound(self)]
        if self.figure.certified:
            return found + [check for spot in self.figure.published for check in _certified(self, *spot)]
        found += [check for spot in self.figure.published for check in _number(self, *spot)]
        return found + [check for draw in (PRINTED, EACH) for check in _ahead(self, draw)]


def _cell(method: str, epsilon: float | None, draw: str = "") -> Cell:
    return Cell(method=method, epsilon=epsilon, draw=draw)


def _sound(found: Found) -> Check:
    """Nothing certified is ever surely broken: the certificates of all trainings, at every size that was attacked."""
    pairs = [
        (one["certified"][size], own["not_surely_wrong"])
        for one in found.results
        if "certified" in one
        for size, own in one["under"].items()
    ]
    broken = sum(certified > left for certified, left in pairs)
    return Check(
        claim="certified accuracy is at most accuracy under attack", published="a theorem",
        ours=f"in {len(pairs) - broken} of {len(pairs)} trainings and sizes", agrees=not broken, right=not broken,
    )  # fmt: skip


def _number(found: Found, method: str, epsilon: float) -> list[Check]:
    """Accuracy under attack against a number of the paper: StoBatch with its noise drawn in both ways."""
    size, published = found.figure.sizes[0], found.figure.published[method, epsilon] / 100
    checks = []
    for draw in (PRINTED, EACH) if method == STOBATCH else ("",):
        cell = _cell(method, epsilon, draw)
        ours = found.mean(cell, under(size))
        if ours is None:
            continue
        agrees = abs(ours - published) <= max(CLOSE, _error(found, ours, published))
        checks.append(
            Check(claim=f"{cell.title}: accuracy under attack", published=f"{published:.1%}", ours=f"{ours:.1%}",
                  agrees=agrees, why="" if agrees else _because(found, draw))
        )  # fmt: skip
    return checks


def _because(found: Found, draw: str) -> str:
    return f"{found.smaller}" + (f"; {EACH}: one vector in all examples protects none" if draw == EACH else "")


def _leads(found: Found, draw: str, other: str) -> list[tuple[str, float, bool]]:
    """By how much StoBatch is above another under attack, at each ε or size that is there, and whether clearly so.

    By more than two standard errors of the mean difference over images, for both are asked about the same ones; and it
    has learnt something.
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


def _ahead(found: Found, draw: str) -> list[Check]:
    """StoBatch above DP-SGD and AdLM under attack."""
    checks = []
    for other in (DPSGD, ADLM):
        leads = _leads(found, draw, other)
        if leads:
            agrees = all(clear for _, _, clear in leads)
            words = ", ".join(f"{100 * lead:+.1f} at {place}" for place, lead, _ in leads).replace("-", "−")
            checks.append(
                Check(claim=f"StoBatch ({draw}) is above {other} under attack", published="everywhere",
                      ours=f"{words} points", agrees=agrees, why="" if agrees else _lost(found, draw, other))
            )  # fmt: skip
    return checks


def _lost(found: Found, draw: str, other: str) -> str:
    """Where a lead that [S] has is not there: with noise as printed, and with noise that protects."""
    own = {place for place, _, clear in _leads(found, draw, other) if clear}
    if draw == PRINTED:
        return found.smaller
    gone = [place for place, _, clear in _leads(found, PRINTED, other) if clear and place not in own]
    why = f"{EACH} removes the gain at {', '.join(gone)}" if gone else f"nor is it with {PRINTED}"
    return f"{why}; {found.smaller}"


def _error(found: Found, *shares: float) -> float:
    """Two standard errors of a difference of shares of so many images."""
    return 2 * sqrt(sum(share * (1 - share) for share in shares) / found.scale.images)


def _certified(found: Found, method: str, radius: float) -> list[Check]:
    """Certified accuracy at a radius: by what the noise proves, and by the radius that the paper prints."""
    epsilon, published = found.figure.epsilons[0], found.figure.published[method, radius] / 100
    checks = []
    for draw in (PRINTED, EACH) if method == STOBATCH else ("",):
        cell = _cell(method, None if method == PIXELDP else epsilon, draw)
        ours = found.mean(cell, lambda one: float(one["certified"][str(radius)]))
        if ours is None:
            continue
        agrees = abs(ours - published) <= CLOSE
        printed = found.mean(cell, lambda one: float(one["as_published"][str(radius)])) or 0.0
        why = (
            f"its noise proves no such radius; by the one that is printed {printed:.1%}" if ours == 0 else found.smaller
        )
        checks.append(
            Check(claim=f"{cell.title}: certified at {radius:g}", published=f"{published:.1%}", ours=f"{ours:.1%}",
                  agrees=agrees, why="" if agrees else why)
        )  # fmt: skip
    return checks
