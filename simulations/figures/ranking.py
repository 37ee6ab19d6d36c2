"""Things put in order by means over seeds, and which of them cannot be told from the first or the last.

Each is compared with the first seed by seed, and the intervals of all k − 1 differences hold together at 95%
(Bonferroni, Student's t). The truly best is left out of `first` only where another is above it by more than the half
width although in truth it is not above: a chance of at most 2.5% over all k − 1 others together, whichever the numbers
put first. So the truly best is named with 97.5%, as is the truly worst by `last`, and both with 95%.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Generic, TypeVar

from simulations.figures.intervals import FEWEST, Interval, paired_interval

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Ranking(Generic[Name]):
    """Values by name and seed, put in order where seeds suffice for that."""

    values: Mapping[Name, Mapping[int, float]]  # each with the same seeds

    @property
    def seeds(self) -> int:
        """How many seeds everything in a report's ranking has."""
        return min((len(own) for own in self.values.values()), default=0)

    @property
    def ranked(self) -> bool:
        """Whether there is anything to rank, and seeds enough to: with fewer a report shows the order of its grid."""
        return len(self.values) > 1 and self.seeds >= FEWEST

    @cached_property
    def order(self) -> list[Name]:
        """The names in a report's ranking, the highest mean first; as they came where they are not ranked."""
        if not self.ranked:
            return list(self.values)
        return sorted(self.values, key=lambda name: -fmean(self.values[name].values()))

    def difference(self, one: Name, other: Name) -> Interval | None:
        """How much higher one of a report's ranking is than another, seed by seed, as one of k − 1 comparisons."""
        return paired_interval(self.values[one], self.values[other], len(self.values) - 1)

    def level(self, with_: Name) -> list[Name]:
        """Those of a report's ranking that cannot be told from one of them, itself the first, in order."""
        found = {name: self.difference(with_, name) for name in self.order if name != with_}
        return [with_, *(name for name, apart in found.items() if apart is None or not apart.side)]

    @cached_property
    def first(self) -> list[Name]:
        """The highest of a report's ranking, and all that cannot be told from it; empty where nothing is ranked."""
        return self.level(self.order[0]) if self.ranked else []

    @cached_property
    def last(self) -> list[Name]:
        """The lowest of a report's ranking, and all that cannot be told from it; empty where nothing is ranked."""
        return self.level(self.order[-1]) if self.ranked else []


def ranking_of(values: Mapping[Name, Mapping[int, float]]) -> Ranking[Name]:
    """Things ranked for a report by their values, one a seed: over the seeds that all of them have.

    >>> luck = {1: 0.0, 2: 0.1, 3: 0.2}
    >>> found = ranking_of({name: {seed: more + own for seed, own in luck.items()} for name, more in
    ...                     {"a": 0.5, "b": 0.6}.items()})
    >>> found.order, found.first, ranking_of({"a": {1: 0.5}, "b": {1: 0.6}}).order
    (['b', 'a'], ['b'], ['a', 'b'])
    """
    common = set.intersection(*map(set, values.values())) if values else set()
    return Ranking({name: {seed: own[seed] for seed in sorted(common)} for name, own in values.items()})


def mean_by_seed(values: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The mean over several things in a report, such as conditions, by the seeds that all of them have.

    >>> mean_by_seed([{1: 0.25, 2: 0.5}, {1: 0.75}]), mean_by_seed([])
    ({1: 0.5}, {})
    """
    seeds = set.intersection(*map(set, values)) if values else set()
    return {seed: fmean(own[seed] for own in values) for seed in sorted(seeds)}
