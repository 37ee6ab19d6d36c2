"""Sums of a fixed clip norm with Gaussian noise: of all gradients, or of the shortest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, positive
from fedpriv.mechanisms import Gaussian
from fedpriv.randomness.grid import FineGrid
from fedpriv.releases._batch import Batch, Blocks, Released
from fedpriv.releases._settings import How, Part, Sampling, Scale, check_size, number_of
from fedpriv.releases.schedules import NoiseSchedule, check_schedule
from fedpriv.settings import check_fields

Shape = Literal["ball", "ellipsoid"]
FLOOR = 0.5  # of the mean square that weights have moved, added to each


def ellipsoid_axes(moved: Vector) -> Vector:
    """The axes of the ellipsoid that a private sum holds gradients to, from how far training has moved each weight.

    For sums of one expected length, clipping in axes c_j keeps E Σ(g_j/c_j)² and adds noise c_j: Σ c_j is least where
    c_j³ goes as E g_j². The distance moved stands for E g_j, as noise averages out of it, `FLOOR` of the mean square
    added, so that no weight is left behind. The mean square of the axes is 1.

    >>> ellipsoid_axes(np.array([0.0, 3.0])).round(3), ellipsoid_axes(np.zeros(2))
    (array([0.714, 1.221]), array([1., 1.]))
    """
    largest = float(np.abs(moved).max(initial=0.0))
    if not 0 < largest < np.inf:
        return np.ones(moved.size)
    squares = (moved / largest) ** 2
    axes = np.cbrt(squares / squares.mean() + FLOOR)
    return np.asarray(axes / np.sqrt((axes**2).mean()))


@dataclass(frozen=True, kw_only=True)
class DpSgd:
    """Σ + σR·N(0, I): the sum of all gradients of the batch, each of norm at most R. Abadi et al. 2016; [L].

    In an ellipsoid, each coordinate is first divided by its axis, which is longer the farther training has moved that
    weight, and the noisy sum multiplied by it: noise goes where there is most to learn. After Asi, Duchi, Fallah,
    Javidbakht, Talwar 2021; the axes are known before the step, so they cost nothing (docs/proofs/composition.md, 16).

    By a schedule σ is `noise` in the first round and `to` times as much in the last, in at most 8 stairs: a record is
    charged for what each round drew.
    """

    clip: Annotated[float, positive, "R, the ℓ2 norm that a record's gradient is held to"]
    noise: Scale
    sampling: Sampling
    norm: How = "clip"
    shape: Annotated[Shape, "what a gradient is held to: a ball, or an ellipsoid by how far each weight has moved"] = (
        "ball"
    )
    schedule: Annotated[NoiseSchedule, "how the noise goes from round to round"] = "constant"
    to: Annotated[float, positive, "the last round's noise, as a multiple of the first's"] = 1.0

    kind_of_cost: ClassVar = "Gaussian"
    adapts: ClassVar[tuple[str, ...]] = ()
    unit: ClassVar = 1.0
    orders: ClassVar = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_schedule(self.schedule, self.to)
        check_size(self.clip, self.noise * max(self.to, 1.0))
        if not self.noise * self.to > 0:
            raise FedprivError(f"the last round's noise, {self.to:g} times {self.noise:g}, is none")

    @property
    def fine(self) -> FineGrid:
        """The grid on which clipped gradients are added up and noised, so that what leaves is exact."""
        return FineGrid.of(self.clip, self.noise * self.clip)

    @property
    def mechanism(self) -> Gaussian:
        """The Gaussian mechanism that this sum costs, for the ledger, at sensitivity 1: the clip norm only scales."""
        return Gaussian(clip=1.0, noise=self.noise)

    def check(self, expected: float) -> None:
        """Refuse a study of so many records that no exact sum of them is there; any other batch will do, even empty."""
        least = self.noise * min(self.to, 1.0)
        FineGrid.of(self.clip, least * self.clip).check(expected / self.sampling, self.clip)

    def released(self, batch: Batch | Blocks, rng: Generator) -> Released:
        """What a client releases of a batch: the noisy sum of all its finite gradients, each of norm at most R.

        >>> import numpy as np
        >>> release = DpSgd(clip=1, noise=1e-9, sampling=1)
        >>> batch = Batch.of(release, np.array([[3, 4], [0, 0.5]], np.float32), np.arange(2), expected=2)
        >>> release.released(batch, np.random.default_rng(1)).total.round(4)
        array([0.6, 1.3])
        """
        return Released(self.fine.noisy(batch.summed(batch.usable, self), self.noise * self.clip, 2, rng))


@dataclass(frozen=True, kw_only=True)
class TrimmedGaussian:
    """TSUM_F + σR·N(0, I): the sum without the F longest gradients. The baseline of [P], TSGD + Gaussian.

    One record more moves it by that record, or by the one it lets in: by R at most, whatever orders the records, if it
    is a property of each alone. They are ordered by their length before clipping, so that among all those that clipping
    makes of norm R the longest go first; equal ones by their number.
    """

    clip: Annotated[float, positive, "R, the ℓ2 norm that a record's gradient is held to"]
    noise: Scale
    sampling: Sampling
    trimmed: Annotated[Part, "F, so many of the longest are left out: records, or a share of the batch expected"]
    norm: How = "clip"

    kind_of_cost: ClassVar = "Gaussian"
    adapts: ClassVar[tuple[str, ...]] = ()
    unit: ClassVar = 1.0
    orders: ClassVar = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_size(self.clip, self.noise)

    @property
    def fine(self) -> FineGrid:
        """The grid on which clipped gradients are added up and noised, so that what leaves is exact."""
        return FineGrid.of(self.clip, self.noise * self.clip)

    @property
    def mechanism(self) -> Gaussian:
        """The Gaussian mechanism that this trimmed sum costs, for the ledger, at sensitivity 1."""
        return Gaussian(clip=1.0, noise=self.noise)

    def check(self, expected: float) -> None:
        """Refuse a study that trims whole batches, or has more records than are added up exactly."""
        self.fine.check(expected / self.sampling, self.clip)
        if not number_of(self.trimmed, expected) < expected:
            raise FedprivError(f"trimmed must be less than the expected batch of {expected:.6g}, got {self.trimmed}")

    def released(self, batch: Batch, rng: Generator) -> Released:
        """What a client releases of a batch: the noisy sum of all gradients but the F longest; of none up to F."""
        shortest = batch.shortest(number_of(self.trimmed, batch.expected))
        return Released(self.fine.noisy(batch.summed(shortest, self), self.noise * self.clip, 2, rng))
