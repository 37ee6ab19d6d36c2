"""Candidates and directions that do not depend on the data, for estimators that look at every one of them."""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.random import Generator

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError
from fedpriv.randomness.exact import bernoulli

MOST_COORDINATES = 3
MOST_POINTS = 200_000  # of a grid
LEAST_CHANCE = 2.0**-1000  # of a candidate beside the best: below it floats lose digits
ROUNDED = 4e-12  # what rounding can add to ε: eˣ and x are off by a few 2⁻⁵³ of 700, in four places
AT_ONCE = 256  # candidates proposed


def grid(bound: float, spacing: float, dimension: int) -> Vector:
    """Candidate means, a row each: a grid through 0 in the cube [−bound, bound]^d, refused where there are too many.

    >>> grid(1.0, 1.0, 2).tolist()[:4]
    [[-1.0, -1.0], [-1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]]
    """
    check_dimension(dimension)
    steps = int(bound / spacing)
    if (count := (2 * steps + 1) ** dimension) > MOST_POINTS:
        widest = 2 * bound / (MOST_POINTS ** (1 / dimension) - 1)
        raise FedprivError(
            f"spacing = {spacing:g} gives {count:,} candidates in [-{bound:g}, {bound:g}]^{dimension}, and "
            f"{MOST_POINTS:,} can be looked at: a spacing of {widest:.3g}, or another method"
        )
    line = spacing * np.arange(-steps, steps + 1)
    return np.stack(np.meshgrid(*[line] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)


def directions(dimension: int, count: int) -> Vector:
    """Unit vectors over a half sphere, a row each, for depths and trimmed means; each stands for its opposite too.

    On a line there is one; in the plane `count` equal angles; in space a spiral of `count` (Saff and Kuijlaars 1997).

    >>> directions(2, 2).round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_dimension(dimension)
    if dimension == 1:
        return np.ones((1, 1))
    places = np.arange(count)
    if dimension == 2:
        return np.stack([np.cos(pi * places / count), np.sin(pi * places / count)], axis=1)
    height = (places + 0.5) / count
    turn, width = pi * (1 + 5**0.5) * places, np.sqrt(1 - height**2)
    return np.stack([width * np.cos(turn), width * np.sin(turn), height], axis=1)


def check_dimension(dimension: int) -> None:
    """Refuse estimators that look at every candidate for more than three coordinates: covers grow exponentially."""
    if dimension > MOST_COORDINATES:
        raise FedprivError(
            f"a cover of {dimension} coordinates is too large to look at: this method is for at most "
            f"{MOST_COORDINATES}, Prime or DpMean for more"
        )


def exponential(epsilon: float, moved: float, scores: Vector, rng: Generator) -> int:
    """The place of a candidate mean, drawn in proportion to e^{ε·score/2Δ}; Δ = `moved`.

    Δ is how far a neighbour's scores may be off.

    Candidates are proposed evenly and taken with chances that are exactly those floats, so none is ever impossible; the
    few bits that these are off, and the least chance of all, stay within ε. [M] Algorithm 2; McSherry, Talwar 2007.

    >>> exponential(1.0, 1.0, np.array([0.0, 1600.0, 0.0]), np.random.default_rng(1))
    1
    """
    rate = max(epsilon - ROUNDED, 0.0) / (2 * moved)
    chances = np.maximum(np.exp(rate * (scores - scores.max())), LEAST_CHANCE)
    while True:
        places = rng.integers(len(chances), size=AT_ONCE)
        taken = np.flatnonzero(bernoulli(chances[places], rng))
        if taken.size:
            return int(places[taken[0]])
