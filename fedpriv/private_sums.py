"""What a client can release of its own records in a step: a private sum of their gradients, on a Poisson batch.

The kinds of `[privacy.release]`. Each record takes part with probability `sampling`, its gradient is brought within the
norm `clip`, and what is released is the noisy sum divided by the batch *expected*: the size drawn is not private.
Neighbours differ by one record that is there or not. What a release costs is what its `mechanism` costs on that sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv.arrays import Vector
from fedpriv.clipping import clip_factors
from fedpriv.compiled import compiled
from fedpriv.errors import FedprivError, one_of, positive, probability, real, whole
from fedpriv.kinds import made
from fedpriv.mechanisms import Gaussian, Mechanism, Ptr, kind_of
from fedpriv.ptr import kept

Bound = Literal["clip", "normalise"]
Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]


class PrivateSum(Protocol):
    """What every release of a sum has; all of it is public."""

    kind_of_cost: ClassVar[str]  # the mechanism it costs as much as, whose settings have the same names

    @property
    def clip(self) -> float:
        """R, the ℓ2 norm of one record's gradient."""

    @property
    def norm(self) -> Bound:
        """How a gradient is brought within it."""

    @property
    def sampling(self) -> float:
        """q, the probability of each record to take part in a step."""

    @property
    def mechanism(self) -> Mechanism | Ptr:
        """What the sum costs, in units of the clip norm."""

    def check(self, expected: float) -> None:
        """Refuse what cannot work on batches of so many records expected."""

    def total(self, batch: Batch, rng: Generator) -> Vector:
        """The noisy sum."""


@dataclass(frozen=True, kw_only=True)
class DpSgd:
    """Σ + σR·N(0, I): the sum of all gradients of the batch, each of norm at most R. Abadi et al. 2016; [L]."""

    clip: float  # R, the ℓ2 norm of one record's gradient
    noise: float  # σ, a multiple of clip
    sampling: float  # q
    norm: Bound = "clip"

    kind_of_cost: ClassVar = "Gaussian"

    def __post_init__(self) -> None:
        _check(self)

    @property
    def mechanism(self) -> Gaussian:
        """The Gaussian mechanism at sensitivity 1: the clip norm only scales."""
        return Gaussian(clip=1.0, noise=self.noise)

    def check(self, expected: float) -> None:
        """Any batch will do, the empty one too."""

    def total(self, batch: Batch, rng: Generator) -> Vector:
        """The noisy sum of all usable records.

        >>> release = DpSgd(clip=1, noise=1e-9, sampling=1)
        >>> batch = Batch.of(release, np.array([[3, 4], [0, 0.5]], np.float32), np.arange(2), expected=2)
        >>> release.total(batch, np.random.default_rng(1)).round(4)
        array([0.6, 1.3])
        """
        return noisy(batch.summed(batch.usable), self.noise * self.clip, rng)


@dataclass(frozen=True, kw_only=True)
class TrimmedGaussian:
    """TSUM_F + σR·N(0, I): the sum without the F longest gradients. The baseline of [P], TSGD + Gaussian.

    One record more moves it by that record, or by the one it lets in: by R at most, whatever orders the records, if it
    is a property of each alone. They are ordered by their length before clipping, so that among all those that clipping
    makes of norm R the longest go first; equal ones by their number.
    """

    clip: float  # R
    noise: float  # σ, a multiple of clip
    sampling: float  # q
    trimmed: int | float  # F, a number of records or a share of the batch expected
    norm: Bound = "clip"

    kind_of_cost: ClassVar = "Gaussian"

    def __post_init__(self) -> None:
        _check(self)
        _check_trimmed(self.trimmed)

    @property
    def mechanism(self) -> Gaussian:
        """The Gaussian mechanism at sensitivity 1."""
        return Gaussian(clip=1.0, noise=self.noise)

    def check(self, expected: float) -> None:
        """Refuse to trim whole batches."""
        if not trimmed_of(self.trimmed, expected) < expected:
            raise FedprivError(f"trimmed must be less than the expected batch of {expected:.6g}, got {self.trimmed}")

    def total(self, batch: Batch, rng: Generator) -> Vector:
        """The noisy sum of the shortest records; of none, where no more than F were drawn."""
        shortest = batch.shortest(trimmed_of(self.trimmed, batch.expected))
        return noisy(batch.summed(shortest), self.noise * self.clip, rng)


class Batch(NamedTuple):
    """The gradients of a Poisson batch as they came, and what brings each within the clip norm; nan: it is not finite.

    >>> rows = np.array([[3, 4], [np.nan, 0]], np.float32)
    >>> Batch.of(DpSgd(clip=1, noise=1, sampling=1), rows, np.arange(2), expected=2).usable
    array([ True, False])
    """

    rows: Rows
    factors: Vector
    numbers: Numbers  # of the records among all there are
    expected: float  # how many there are on average, which is public

    @staticmethod
    def of(release: PrivateSum, rows: Rows, numbers: Numbers, expected: float) -> Batch:
        """With the factors that the release asks for."""
        return Batch(rows, clip_factors(rows, release.clip, release.norm), numbers, expected)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which of them are finite: the others are left out, as if they were not there."""
        return np.isfinite(self.factors)

    @property
    def lengths(self) -> Vector:
        """Norms before clipping, at most 8e-6 above what they are, never below; nan where a record is not finite."""
        shares = clip_factors(self.rows, 1.0, "normalise")
        return np.divide(1 + 2.0**-40, shares, out=np.where(np.isnan(shares), np.nan, 0.0), where=shares > 0)

    def shortest(self, trimmed: int) -> NDArray[np.bool_]:
        """All usable records but so many of the longest."""
        chosen, usable = self.usable, self.usable
        chosen[usable] = kept(self.lengths[usable], trimmed, self.numbers[usable])
        return chosen

    def summed(self, kept: NDArray[np.bool_]) -> Vector:
        """The sum of some clipped gradients, in double precision and in their order."""
        total = np.zeros(self.rows.shape[1])
        _add(self.rows, np.where(kept, self.factors, 0.0), kept, total)
        return total


def noisy(total: Vector, deviation: float, rng: Generator) -> Vector:
    """A sum with Gaussian noise. Numpy's, in double precision: not an exact draw, as that of `Gaussian` is not."""
    return total + rng.normal(0.0, deviation, total.shape)


@compiled
def _add(rows: Rows, factors: Vector, kept: NDArray[np.bool_], total: Vector) -> None:
    """total += factors @ rows without those not kept, row by row: one pass over memory, the same bits anywhere."""
    for row in range(len(rows)):
        if kept[row]:
            factor = factors[row]
            for place in range(len(total)):
                total[place] += factor * rows[row, place]


KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (DpSgd, TrimmedGaussian)}


def make_sum(kind: str, settings: Mapping[str, Any]) -> PrivateSum:
    """The release of that kind with those settings, or one line that says which of them is wrong.

    >>> make_sum("DpSgd", {"clip": 1, "noise": 1, "samplin": 0.1})
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: DpSgd has no setting 'samplin' (did you mean 'sampling'?); settings: clip, noise, ...
    """
    found: PrivateSum = made("release", KINDS, kind, settings)
    return found


def costed(kind: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The mechanism that a release costs as much as, by name, and which of its settings are given; its clip is 1.

    >>> costed("DpSgd", {"clip": 0.5, "sampling": 0.1})
    ('Gaussian', {'clip': 1.0})
    """
    mechanism = KINDS[kind].kind_of_cost
    known = {each.name for each in fields(kind_of(mechanism))}
    return mechanism, {name: value for name, value in settings.items() if name in known} | {"clip": 1.0}


def free_setting(kind: str, settings: Mapping[str, Any]) -> str:
    """The one setting that is left out, to be calibrated; refused where it is not one that can be, or others are wrong.

    >>> free_setting("DpSgd", {"clip": 0.5, "sampling": 0.1})
    'noise'
    """
    cls = KINDS[kind]
    missing = [each.name for each in fields(cls) if each.default is MISSING and each.name not in settings]
    can = [name for name in missing if name in kind_of(cls.kind_of_cost).effects and name != "clip"]
    make_sum(kind, {**settings, **({can[0]: 1.0} if can else {})})
    if not can:
        raise FedprivError(f"all settings of {kind} are given: leave out the one to calibrate, such as noise")
    return can[0]


def trimmed_of(trimmed: int | float, expected: float) -> int:
    """F: the number that is given, or the share of the batch expected, rounded down.

    >>> trimmed_of(64, 256), trimmed_of(0.25, 256)
    (64, 64)
    """
    return trimmed if isinstance(trimmed, int) else int(trimmed * expected * (1 + 1e-12))


def _check_trimmed(trimmed: int | float) -> None:
    if isinstance(trimmed, int):
        whole(at_least=0, trimmed=trimmed)
    else:
        probability(trimmed=trimmed)


def _check(release: PrivateSum) -> None:
    """Refuse what no release can have."""
    positive(clip=release.clip, noise=release.noise)  # type: ignore[attr-defined]
    one_of(get_args(Bound), norm=release.norm)
    real(sampling=release.sampling)
    probability(sampling=release.sampling)
    if not release.sampling > 0:
        raise FedprivError(f"sampling is the share of the records in a step, in (0, 1], got {release.sampling}")
