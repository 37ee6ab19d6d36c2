"""Updates worked out from the mean and spread of those that are known: the same row from every attacker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import ndtri

from fedpriv._base.arrays import Vector
from fedpriv.attacks._view import ALL, SOME, View
from fedpriv.errors import positive
from fedpriv.settings import check_fields

_COARSE = 2.0 ** np.arange(-4, 7)  # the factors that are tried first


@dataclass(frozen=True, kw_only=True)
class Ipm:
    """−factor·μ: inner product manipulation, small enough to look honest. Xie et al. 2020 (Fall of Empires)."""

    factor: Annotated[float, positive, "τ, the paper's ε; it also has 0.5, 1, 10 and 100"] = 0.1

    knowledge: ClassVar = SOME

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a factor that is not positive."""
        check_fields(self)

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The update of every attacker alike, −factor·μ of the updates it knows, in the place of its own."""
        return np.broadcast_to(-self.factor * view.mean, updates.shape)


@dataclass(frozen=True, kw_only=True)
class Alie:
    """μ − z·s: a little is enough. Baruch et al. 2019, Algorithm 3; s has n − 1 below the root: it does not say.

    z = Φ⁻¹((n − f − m)/(n − f)) with m = ⌊n/2⌋ + 1 − f, the honest clients whose support makes a majority: by that much
    m of them, if normal, are farther from μ. Where f is a majority the fraction is held below 1. The formula gives a
    z below 0 for few attackers, which is published so. A `z` that is given takes its place, as in experiments with one
    of 0.3, 1 or 1.5; `factor` multiplies either.
    """

    z: Annotated[float | None, positive, "by how many deviations; the paper's formula if not given"] = None
    factor: Annotated[float, positive, "what z is multiplied by"] = 1.0

    knowledge: ClassVar = SOME

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a z or a factor that is not positive."""
        check_fields(self)

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The update of every attacker alike, μ − factor·z·s of the updates it knows, in the place of its own."""
        z = self.factor * (self.z or deviations(view.asked, view.byzantine))
        return np.broadcast_to(view.mean - z * view.deviation, updates.shape)


@dataclass(frozen=True, kw_only=True)
class OptIpm:
    """−τμ with the τ from 1/16 to 64 that moves the study's whole chain farthest. [Xie 2020, Shejwalkar 2021]

    Farthest from where it goes if every attacker sends μ. Eleven powers of two, then eight factors around the best:
    clip, mechanism with its noise, rules before the rule, rule and decoder are the server's own.
    """

    knowledge: ClassVar = ALL

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The update of every attacker alike, −τμ with the τ found by search, in the place of its own."""
        return np.broadcast_to(view.once("row", lambda: farthest(view, lambda t: -t * view.mean)), updates.shape)


@dataclass(frozen=True, kw_only=True)
class OptAlie:
    """μ − τs with the τ from 1/16 to 64 that moves the study's whole chain farthest; the search is that of OptIpm."""

    knowledge: ClassVar = ALL

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The update of every attacker alike, μ − τs with the τ found by search, in the place of its own."""
        row = view.once("row", lambda: farthest(view, lambda t: view.mean - t * view.deviation))
        return np.broadcast_to(row, updates.shape)


def deviations(asked: int, byzantine: int) -> float:
    """ALIE's z, by how many deviations attackers leave the mean, for n clients asked, f of them Byzantine.

    >>> round(deviations(50, 12), 6), round(deviations(10, 1), 6), deviations(5, 3) > 0
    (0.336038, -0.13971, True)
    """
    honest = max(1, asked - byzantine)
    support = asked // 2 + 1 - byzantine
    return float(ndtri(np.clip((honest - support) / honest, 1 / (honest + 1), honest / (honest + 1))))


def farthest(view: View, row: Callable[[float], Vector]) -> Vector:
    """The attackers' update, `row` of a factor, that moves the server's direction farthest; of equals the smallest's.

    Farthest from where it goes if all send the mean.
    """
    start = view.moved(view.mean)

    def best(factors: Vector) -> tuple[float, float]:
        """Of some factors the one that moves the server's direction farthest: that squared distance, and the factor."""
        distances = [float(((view.moved(row(t)) - start) ** 2).sum()) for t in factors.tolist()]
        place = int(np.argmax(distances))
        return distances[place], float(factors[place])

    distance, factor = best(_COARSE)
    finer = factor * 2.0 ** np.array([-0.8, -0.6, -0.4, -0.2, 0.2, 0.4, 0.6, 0.8])
    better, found = best(finer)
    return row(found if better > distance else factor)
