"""The gradients of a Poisson batch: brought within the clip norm, measured, put in order, added up.

All at once, or a block after the other, of which nothing is kept but sums: then nobody can put them in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv._base.compiled import compiled
from fedpriv.bounds.clipping import clip_factors
from fedpriv.randomness.grid import FineGrid
from fedpriv.releases.ptr import kept_rows

Bound = Literal["clip", "normalise"]
NORMS: tuple[Bound, ...] = get_args(Bound)


class Clipped(Protocol):
    """What says how a gradient is brought within a norm."""

    adapts: ClassVar[tuple[str, ...]]  # who adapts asks for lengths

    @property
    def clip(self) -> float:
        """The ℓ2 norm that a release holds each gradient of a batch to."""

    @property
    def norm(self) -> Bound:
        """How a release holds gradients to its norm: longer ones shortened, or shorter ones brought to it too."""

    @property
    def fine(self) -> FineGrid:
        """The grid on which a release adds up clipped gradients."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The gradients of a Poisson batch as they came, and what brings each within the clip norm; nan: it is not finite.

    >>> Batch(np.array([[3, 4], [9, 9]], np.float32), np.array([0.2, np.nan]), np.arange(2), 2.0).usable
    array([ True, False])
    """

    rows: Rows  # a gradient each
    factors: Vector  # what brings each within the clip norm
    numbers: Numbers  # of the records among all there are
    expected: float  # how many there are on average, which is public

    @staticmethod
    def of(release: Clipped, rows: Rows, numbers: Numbers, expected: float) -> Batch:
        """A batch of gradients with the factors that bring each within the release's clip norm."""
        return Batch(rows, clip_factors(rows, release.clip, release.norm), numbers, expected)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which gradients of the batch are finite: releases leave the others out, as if they were not there."""
        return np.isfinite(self.factors)

    @cached_property
    def lengths(self) -> Vector:
        """Gradients' norms before clipping, for trimming: up to 8e-6 too large, never too small; nan if not finite."""
        shares = clip_factors(self.rows, 1.0, "normalise")
        return np.divide(1 + 2.0**-40, shares, out=np.where(np.isnan(shares), np.nan, 0.0), where=shares > 0)

    def shortest(self, trimmed: int) -> NDArray[np.bool_]:
        """Which gradients a trimmed sum adds up: all usable ones but so many of the longest."""
        chosen, usable = self.usable, self.usable
        chosen[usable] = kept_rows(self.lengths[usable], trimmed, self.numbers[usable])
        return chosen

    def summed(self, kept: NDArray[np.bool_], release: Clipped) -> Vector:
        """The sum of some clipped gradients before its noise, in steps of the release's grid: exact, in any order."""
        total, fine = np.zeros(self.rows.shape[1]), release.fine
        fine.check(int(kept.sum()), release.clip)
        self.add_to(total, kept, fine)
        return total

    def add_to(self, total: Vector, kept: NDArray[np.bool_], fine: FineGrid) -> None:
        """Add some of the batch's clipped gradients to a total, each toward zero in steps of a grid."""
        add_toward_zero(self.rows, np.where(kept, self.factors, 0.0) / fine.step, kept, total)


class Blocks:
    """A batch whose gradients come in blocks and go: the same bits as `Batch` for whoever adds up all of them.

    >>> from fedpriv.releases import DpSgd
    >>> release = DpSgd(clip=5, noise=1, sampling=1)
    >>> blocks = Blocks(release, 2, 3.0)
    >>> blocks.add(np.array([[3, 4]], np.float32))
    >>> blocks.add(np.array([[6, 8], [0, np.nan]], np.float32))
    >>> (release.fine.step * blocks.summed(blocks.usable, release)).round(3)
    array([6., 8.])
    """

    def __init__(self, release: Clipped, dimension: int, expected: float) -> None:
        """A batch without gradients yet, for a release; as many records are `expected` on average."""
        self.expected = expected
        self._release = release
        self._total = np.zeros(dimension)
        self._usable: list[NDArray[np.bool_]] = []
        self._lengths: list[Vector] = []

    def add(self, rows: Rows) -> None:
        """Add the gradients of some records of the batch to the release's sum, and forget them."""
        batch = Batch.of(self._release, rows, np.arange(len(rows)), self.expected)
        batch.add_to(self._total, batch.usable, self._release.fine)
        self._usable.append(batch.usable)
        if self._release.adapts:  # nobody else asks, and it is one more pass over memory
            self._lengths.append(batch.lengths)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which gradients of the batch so far were finite: those that the sum has."""
        return np.concatenate([np.zeros(0, bool), *self._usable])

    @property
    def lengths(self) -> Vector:
        """Norms of all the batch's gradients before clipping, for releases that adapt."""
        return np.concatenate([np.zeros(0), *self._lengths])

    def summed(self, kept: NDArray[np.bool_], release: Clipped) -> Vector:
        """The batch's sum before its noise, of all usable gradients: a release can ask for no others."""
        assert (kept == self.usable).all()
        assert release.fine == self._release.fine
        release.fine.check(kept.size, release.clip)
        return self._total


class Released(NamedTuple):
    """A noisy sum; and what becomes of the settings that adapt, a function of what was released alone."""

    total: Vector  # the noisy sum
    settings: tuple[float, ...] = ()  # of the next step, those that adapt


@compiled
def add_toward_zero(rows: Rows, factors: Vector, kept: NDArray[np.bool_], total: Vector) -> None:
    """Add factors · rows, toward zero, to a batch's total, without those not kept: one pass over memory.

    Whole numbers, as floats: there is an instruction that rounds four of them toward zero, and none that converts them.
    """
    for row in range(len(rows)):
        if kept[row]:
            factor = factors[row]
            for place in range(len(total)):
                total[place] += np.trunc(factor * rows[row, place])
