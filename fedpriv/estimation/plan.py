"""A run before it begins: region, noise and releases; refused where n is too small, saying which n would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from fedpriv._base.arrays import Vector
from fedpriv._base.spelling import short_number
from fedpriv.accounting.event import Event
from fedpriv.errors import FedprivError, whole
from fedpriv.estimation import _range as ranges
from fedpriv.estimation import _threshold as threshold
from fedpriv.estimation import moments
from fedpriv.estimation._budget import Access, Budget, costed, gaussian, release, split
from fedpriv.estimation._clipping import Region, clipped
from fedpriv.estimation._curator import Curator
from fedpriv.estimation._estimate import Estimate

RANGE_SHARE = 0.1  # of μ², for finding the range (benchmarks/estimation_constants.py)
SCORES_SHARE = 0.1  # for histograms of scores
CLIPPED = 0.01  # of honest records, at most about so many are shortened to fit the ball
DROWNED = 1.0  # noise on the covariance, in variances of the data: with more, a filter sees nothing but noise
CERTAIN = 4.0  # deviations by which the fullest bin must be expected to pass its threshold
MOST_RECORDS = 10**12  # of a plan that would do


class Settings(Protocol):
    """What every private filter is told."""

    @property
    def epsilon(self) -> float:
        """The ε that all accesses of a private filter (DPFILTER, PRIME) together may cost."""

    @property
    def delta(self) -> float:
        """The δ at which the ε of a private filter's accesses holds."""

    @property
    def corruption(self) -> float:
        """α, the share of records that may be anything, which a private filter withstands."""

    @property
    def scale(self) -> float:
        """The standard deviation of honest records, public, as a private filter is told."""

    @property
    def bound(self) -> float | None:
        """An ℓ2 norm that all records keep to, where one is known: no histograms need find their range."""

    @property
    def composition(self) -> Literal["certified", "published"]:
        """How a private filter's accesses are given noise: as is certified, or as the paper has it."""

    @property
    def interactive(self) -> bool:
        """Whether a private filter's curator filters all records anew for every answer."""


class Extent(NamedTuple):
    """What is assumed of the data, in units of `scale`: how far they reach, and how histograms find them."""

    radius: float  # of the ball that records are clipped to
    width: float  # of a bin
    fullest: float  # the least share of the honest records that the fullest bin holds
    groups: int = 1  # random groups whose medians' median is the centre


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Everything that is known before the first access."""

    n: int  # records
    d: int  # numbers in each
    extent: Extent
    budget: Budget
    events: tuple[Event, ...]  # every access, as it is charged
    noise: float  # on the largest eigenvalue of a covariance, about


Extents = Callable[[int, int], Extent]  # by n and d


def planned_estimate(settings: Settings, accesses: Sequence[Access], extents: Extents, n: int, d: int) -> Plan:
    """A private filter's plan for n records of d numbers, or an error that says how many records would do."""
    whole(n=n, d=d)
    plan = _drawn(settings, accesses, extents, n, d)
    if why := _lacking(settings, plan):
        enough = _enough(settings, accesses, extents, n, d)
        raise FedprivError(f"n = {n:,} records are too few for ε = {settings.epsilon:g} and "
                           f"δ = {short_number(settings.delta)} at d = {d}: {why}; {enough}")  # fmt: skip
    return plan


def _drawn(settings: Settings, accesses: Sequence[Access], extents: Extents, n: int, d: int) -> Plan:
    """A private filter's plan for n records of d numbers, whether it can work or not."""
    extent, range_share = extents(n, d), RANGE_SHARE
    if settings.bound is not None:
        extent, range_share = extent._replace(radius=settings.bound / settings.scale), 0.0
    budget = split(
        accesses, range_share=range_share, dimension=d,
        epsilon=settings.epsilon, delta=settings.delta, composition=settings.composition,
    )  # fmt: skip
    found = [release(budget.histogram, dimension=d)] if budget.histogram else []
    for name, count, _ in accesses:
        reach, size = (
            (moments.moment_sensitivity(extent.radius, n), (d + 1) * (d + 2) // 2)
            if name == "moments"
            else (threshold.SENSITIVITY, threshold.edges(4 * extent.radius**2).size)
        )
        found.append(release(gaussian(reach, budget.mus[name]), rounds=count, dimension=size))
    noise = moments.spectral_noise(extent.radius, d, n, budget.mus["moments"])
    return Plan(n=n, d=d, extent=extent, budget=budget, events=tuple(found), noise=noise)


def _lacking(settings: Settings, plan: Plan) -> str | None:
    """Why a private filter's plan cannot work with its n records, or None if it can."""
    if plan.budget.histogram is not None:
        held = plan.extent.fullest * (1 - settings.corruption) * plan.n / plan.extent.groups
        needed = plan.budget.histogram.threshold + CERTAIN * plan.budget.histogram.noise
        if not held >= needed:
            return f"the fullest bin would hold about {held:,.0f} of a needed {needed:,.0f}"
    if not plan.noise <= DROWNED:
        return f"noise on the covariance would be {plan.noise:.3g} times the data's variance, and may be {DROWNED:g}"
    return None


def _enough(settings: Settings, accesses: Sequence[Access], extents: Extents, n: int, d: int) -> str:
    """The least n at which a private filter's plan would do, to two digits, in words for the error."""
    low, high = n, 2 * n
    while _lacking(settings, _drawn(settings, accesses, extents, high, d)):
        low, high = high, 2 * high
        if high > MOST_RECORDS:
            return "no n would do: a larger epsilon"
    while high - low > max(high // 100, 1):
        middle = (low + high) // 2
        short = _lacking(settings, _drawn(settings, accesses, extents, middle, d))
        low, high = (middle, high) if short else (low, middle)
    return f"n = {high:,} would do"


class Outcome(NamedTuple):
    """How a run ended: a mean in the ball's coordinates, or which check failed."""

    mean: Vector | None
    failure: str | None
    notes: tuple[str, ...] = ()  # what to know of the run, a line each


def carried_out(
    settings: Settings, plan: Plan, records: Vector, rng: Generator, course: Callable[[Curator], Outcome]
) -> Estimate:
    """A private filter run: the range found, records clipped, the course run; the whole plan charged either way."""
    made: list[str] = []
    middle: Vector | None = np.zeros(plan.d)
    if plan.budget.histogram is not None:
        made.append("range")
        width = plan.extent.width * settings.scale
        middle = ranges.centre(records, plan.budget.histogram, width, plan.extent.groups, rng)
    if middle is None:
        outcome = Outcome(None, "range: in some coordinate no bin passed the threshold")
    else:
        region = Region(centre=middle, radius=plan.extent.radius, scale=settings.scale)
        outcome = course(Curator(
            points=clipped(records, region), radius=plan.extent.radius, mus=plan.budget.mus, rng=rng,
            interactive=settings.interactive, made=made,
        ))  # fmt: skip
    claim = f"the published split claims ε = {settings.epsilon:g} for this noise; the certified ε is what it costs"
    notes = (*outcome.notes, claim) if settings.composition == "published" else outcome.notes
    mean = None if outcome.mean is None or middle is None else middle + settings.scale * outcome.mean
    return costed(mean, plan.events, settings.delta, tuple(made), outcome.failure, notes)


def gaussian_extent(n: int, d: int) -> Extent:
    """How far sub-Gaussian records reach, for a plan's ball and histograms: all but a hundredth of them.

    The ball is about the median of bins one unit wide.

    That is held to be within a quarter of the mean in every coordinate, and with b = d/16 a record is farther than
    √(d + b + 2√((d + 2b)·t) + 2t) with a chance of at most e^−t (Hsu, Kakade, Zhang 2012; Birgé 2001). The paper's
    √d + √(2 ln n) keeps every honest record whole, and its noise is the square of that.
    """
    b, t = d / 16, log(1 / CLIPPED)
    return Extent(radius=sqrt(d + b + 2 * sqrt((d + 2 * b) * t) + 2 * t), width=1.0, fullest=0.3)
