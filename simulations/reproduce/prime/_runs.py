"""Runs of estimators on the mixtures of [M] Figures 1 and 2, as many and as large as a budget of time allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan
from time import perf_counter

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError
from fedpriv.estimation import DpMean, Estimator, Prime
from fedpriv.randomness.streams import stream
from server.progress.live_line import LiveLine
from simulations.reproduce.prime._published import SHIFT, Setting

FULL = 10**6  # records of the paper
SIZES = (FULL, 500_000, 200_000, 100_000, 50_000, 20_000, 5_000)
PILOT = Setting(50_000, 50, 0.05, 100.0)  # timed beforehand, where the budget has time for it
SAFETY = 1.5  # a long run may be slower than a short one
MOST_SEEDS = 5
CENTRE = 3.0  # of every coordinate of the honest mean: not zero, and not said to anybody


@dataclass(frozen=True)
class Errors:
    """ℓ2 errors by setting and method, a column a seed; nan where a run was refused or failed."""

    found: dict[tuple[Setting, str], list[float]]
    shrunk: float  # n as a share of the paper's
    seeds: int  # how many there was time for

    def mean(self, at: Setting, method: str) -> float:
        """A method's error at one of [M]'s settings, a mean over seeds; nan as soon as one seed has no answer."""
        return float(np.mean(self.found[self.of(at), method]))

    def line(self, settings: Sequence[Setting], method: str) -> Vector:
        """A method's mean errors along a sweep of [M]'s settings: the heights of a line of a figure."""
        return np.array([self.mean(at, method) for at in settings])

    def of(self, at: Setting) -> Setting:
        """The setting that was run for one of [M]'s: the same but for n, which the budget may have shrunk."""
        return at._replace(n=max(round(at.n * self.shrunk), 1))


@lru_cache(maxsize=4)
def swept(settings: tuple[Setting, ...], minutes: float) -> Errors:
    """Run PRIME and DP Mean at every setting of a figure of [M], in as many records and seeds as the minutes allow."""
    begun = perf_counter()
    shrunk, line = _share(settings, 60 * minutes), LiveLine(quiet=False)
    found, seed, longest = dict[tuple[Setting, str], list[float]](), 0, 0.0
    while seed < MOST_SEEDS and (not seed or perf_counter() - begun + 1.2 * longest < 60 * minutes):
        started = perf_counter()
        for place, at in enumerate(settings):
            own = at._replace(n=max(round(at.n * shrunk), 1))
            for method, error in errors(own, seed).items():
                found.setdefault((own, method), []).append(error)
            done = f"seed {seed + 1}, run {place + 1:>2}/{len(settings)}"
            line.show(done, (place + 1) / len(settings), [f"n = {own.n:,}, d = {own.d}, ε = {own.epsilon:g}"])
        seed, longest = seed + 1, max(longest, perf_counter() - started)
    line.clear()
    return Errors(found, shrunk, seed)


def _share(settings: Sequence[Setting], seconds: float) -> float:
    """The share of the paper's n at which one seed of a figure takes at most these seconds, from a pilot's time."""
    errors(PILOT._replace(n=2000), 0)  # compiles, loads
    if (small := _timed(PILOT._replace(n=SIZES[-1]))) * len(settings) > seconds:
        return SIZES[-1] / FULL
    unit = max(min(_timed(PILOT) for _ in range(2)) - small, 0.0) / _work(PILOT)  # what does not grow with n left out
    whole = SAFETY * unit * sum(_work(at) for at in settings)
    for size in SIZES:
        if whole * size / FULL <= seconds:
            return size / FULL
    return SIZES[-1] / FULL


def _timed(at: Setting) -> float:
    """The seconds that a run of both methods takes at a setting: the pilot, from which the budget is planned."""
    begun = perf_counter()
    errors(at, 0)
    return perf_counter() - begun


def _work(at: Setting) -> float:
    """What the time of a run of both methods goes as, n·d·(d + 50): to plan a figure's budget by."""
    return at.n * at.d * (at.d + 50.0)


def errors(at: Setting, seed: int) -> dict[str, float]:
    """Run PRIME and DP Mean on one sample of a setting: the ℓ2 error of each, nan where it was refused or failed.

    The sample is of (1 − α)·N(μ, I) + α·N(μ + 1.5, I).
    """
    data = sample(at, seed)
    methods: dict[str, Estimator] = {
        "DP Mean": DpMean(epsilon=at.epsilon, delta=at.delta),
        "PRIME": Prime(epsilon=at.epsilon, delta=at.delta, corruption=at.corruption),
    }
    found = {}
    for name, method in methods.items():
        try:
            mean = method.estimate(data, stream(seed, f"reproduce {name}")).mean
        except FedprivError:  # too few records for the budget
            mean = None
        found[name] = nan if mean is None else float(np.linalg.norm(mean - CENTRE))
    return found


def sample(at: Setting, seed: int) -> Vector:
    """The records of a setting of [M]'s figures, a row each: Gaussian about the centre, αn of them shifted by 1.5.

    >>> sample(Setting(1000, 2, 0.1, 1.0), 0).mean(axis=0).round(1)
    array([3.2, 3.1])
    """
    data = stream(seed, "reproduce sample").standard_normal((at.n, at.d))
    data += CENTRE
    data[: round(at.corruption * at.n)] += SHIFT
    return data
