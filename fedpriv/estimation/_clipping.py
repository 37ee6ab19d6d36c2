"""Records brought into the cube and the ball about a public centre: after it, every record has a bounded say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.bounds.clipping import clip_factors

BLOCK = 1 << 13  # rows at a time: what a block takes stays in cache, and a sum within it has a bounded rounding error
UNIT = 2.0**-53  # u, the largest relative error of one rounded operation


@dataclass(frozen=True, kw_only=True, eq=False)
class Region:
    """Where records are held: the ball of `radius` about `centre`, in units of `scale`; all of it public."""

    centre: Vector  # in the data's units
    radius: float  # in units of scale
    scale: float  # the data's units that make one of the radius's


def rounding(n: int) -> float:
    """How far a computed sum of n clipped numbers of size 1 may be off: sensitivities of private means allow for it.

    γ·n, summed in blocks, in any order (Higham 2002, section 3.1).

    >>> rounding(10**6) < 1e-6
    True
    """
    return (BLOCK + n / BLOCK + 8) * UNIT * 1.01 * n


def blocks(n: int) -> Iterator[slice]:
    """The rows of n records a block at a time, always the same ones: so sums of an estimator keep their bits."""
    return (slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK))


def clipped(records: Vector, region: Region) -> Vector:
    """Records as (x − centre)/scale, held to the cube [−r, r]^d and to the ball of radius r, before any access.

    Each row depends on its record alone, and none is dropped: a nan goes to the centre of its coordinate, an infinity
    to the side of the cube. The ball lies within the cube, so the cube matters for these only, and for overflows.

    >>> clipped(np.array([[3.0, 4.0], [np.inf, 0.0], [np.nan, 0.5]]),
    ...         Region(centre=np.zeros(2), radius=1.0, scale=1.0)).round(3).tolist()
    [[0.707, 0.707], [1.0, 0.0], [0.0, 0.5]]
    """
    held = np.empty(records.shape)
    for rows in blocks(len(records)):
        with np.errstate(invalid="ignore", over="ignore"):
            block = np.subtract(records[rows], region.centre, out=held[rows])
            block /= region.scale
        np.clip(block, -region.radius, region.radius, out=block)
        block[np.isnan(block)] = 0.0
        block *= clip_factors(block, region.radius, "clip")[:, None]
    return held
