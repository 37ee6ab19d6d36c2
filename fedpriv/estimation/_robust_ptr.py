"""Median, interquartile range, mode and trimmed mean by propose-test-release: [P] Algorithm 1, footnote 1, Remark 4.1.

What is proposed is public: τ as it is given, or as `scale` and the number of records have it. Records are brought to a
grid, each by itself; there ranks, gaps and margins are whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, pi, sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.errors import FedprivError, limited, positive
from fedpriv.estimation import _budget as budget
from fedpriv.estimation._clipping import Region, clipped
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.estimation._released import (
    FARTHEST,
    Answer,
    estimate_of_tests,
    grid_for,
    held_numbers,
    planned_test,
    released_value,
    whole_steps,
)
from fedpriv.estimation._settings import Delta, Epsilon
from fedpriv.estimation.margins import mode_margin, rank_margin, trimmed_margin
from fedpriv.mechanisms import GeneralPtr
from fedpriv.randomness.grid import FineGrid
from fedpriv.releases.ptr import passes_test
from fedpriv.settings import check_fields

Proposed = Annotated[
    float | None, positive, "τ, the local sensitivity proposed: public; if not given, by scale and number of records"
]
Range = Annotated[float | None, positive, "all numbers are held to [−bound, bound], where such a range is known"]
Scale = Annotated[float, positive, "about the standard deviation of the records, guessed without them: public"]
QUARTILE = 0.6744897501960817  # of a normal law, in deviations
SPARE = 2.0  # deviations of the number of records in a window that a proposal leaves room for
WIDEST = 0.25  # of the records, in a window about the median; half of that about a quartile
Left = tuple[Vector | None, float | None]  # a value and the deviation of the noise on it, or nothing
EXACT = 2.0**52  # steps of a grid: the distance between two values held to as many is a float
UNIT = 2.0**-52  # a computed norm of d numbers may be too short by (d + 8) of it


@dataclass(frozen=True, kw_only=True)
class MedianPtr:
    """Each coordinate's median under noise for a proposed τ, where a test lets it: private without a range, robust.

    Where the test fails nothing is released; or, where a `bound` is given, the mean of the records held to it.
    """

    epsilon: Epsilon
    delta: Delta
    bound: Range = None
    scale: Scale = 1.0
    proposed: Proposed = None

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """The tested releases of n records' medians as charged, one a coordinate; refused where n is too small."""
        own = planned_ranks(self, d)
        return charged_tests("MedianPtr", own, n, d, fewest_records(own, self.proposed, WIDEST))

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The medians of the records' coordinates, or what tests that failed left of them; and their cost."""

        def left(column: Vector, median: Vector, own: GeneralPtr, bound: float) -> Left:
            """What is released of a coordinate whose test fails: the mean of its numbers, held to the bound."""
            return held_mean(column, own, bound, rng)

        return estimate_of_ranks(
            self, data, rng, away=0.0, ranks=lambda n: ((n + 1) // 2,), left=left,
            statistic="median", fallback="mean of the records held to the bound",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class IqrPtr:
    """Each coordinate's interquartile range under noise for a proposed τ, where a test lets it: private, robust.

    Where the test fails nothing is released; or, where a `bound` is given, the same range under noise for that
    (f₁ = f₂, [P] footnote 1).
    """

    epsilon: Epsilon
    delta: Delta
    bound: Range = None
    scale: Scale = 1.0
    proposed: Proposed = None

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """The tested releases of n records' quartiles as charged, one a coordinate; refused where n is too small."""
        own = planned_ranks(self, d)
        return charged_tests("IqrPtr", own, n, d, fewest_records(own, self.proposed, WIDEST / 2))

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The interquartile ranges of the records' coordinates, or what tests that failed left of them; their cost."""

        def left(column: Vector, between: Vector, own: GeneralPtr, bound: float) -> Left:
            """What is released of a coordinate whose test fails: the same under noise for twice the bound."""
            return released_value(own, between, 2 * bound, rng)

        return estimate_of_ranks(
            self, data, rng, away=QUARTILE, ranks=lambda n: (ceil(n / 4), n + 1 - ceil(n / 4)), left=left,
            statistic="interquartile range", fallback="same, as far as the bound lets it move",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModePtr:
    """Each coordinate's most frequent value, without noise, where a test says that no record decides it; else nothing.

    Values are those of a grid: numbers count as the multiple of `width` that they are nearest to, a nan as 0.
    """

    epsilon: Epsilon
    delta: Delta
    width: Annotated[float, positive, "numbers count as the nearest multiple of it"] = 1.0

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """The tested releases of n records' modes as charged, one a coordinate; refused where n is too small."""
        own = planned_test(self.epsilon, self.delta, times=d, exact=True)
        return charged_tests("ModePtr", own, n, d, 2 * own.margin + 1)

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The modes of the records' coordinates, or which of them a test kept back; and their cost."""
        rows = records_of(data)
        events, own = self.events(*rows.shape), planned_test(self.epsilon, self.delta, times=rows.shape[1], exact=True)
        answers = [mode_answer(column, self.width, own, rng) for column in rows.T]
        return estimate_of_tests(answers, own, events, self.delta, proposed=0.0, statistic="mode")


@dataclass(frozen=True, kw_only=True)
class TrimmedSumPtr:
    """The mean of the records held to a norm R, or without the longest and with less noise, where a test lets it.

    [P] Algorithm 3 on records: the sum under noise for R, or the trimmed sum under noise for τ where fewer records than
    are trimmed are longer than τ.
    """

    epsilon: Epsilon
    delta: Delta
    bound: Annotated[float, positive, "R, the ℓ2 norm that records are held to: public"]
    proposed: Annotated[float | None, positive, "τ below R, the norm proposed for records kept; if not given, R/2"] = (
        None
    )
    trimmed: Annotated[
        float, positive, limited("must be a share below 1/2", below=0.5), "the share of the records that is trimmed"
    ] = 0.1

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)
        if not self._limit < self.bound:
            raise FedprivError(f"proposed must be below bound = {self.bound:g}, got {self.proposed}")

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """The tested release of n records' sum as charged, whatever d is; refused where n is too small."""
        own = self._test()
        return charged_tests("TrimmedSumPtr", own, n, 1, ceil(own.margin / self.trimmed))

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The records' trimmed mean, or where the test fails their mean, with its cost: neighbours' sums lie 2τ, 2R
        apart."""
        rows = records_of(data)
        n, d = rows.shape
        events, own = self.events(n, d), self._test()
        held = clipped(rows, Region(centre=np.zeros(d), radius=self.bound, scale=1.0))
        lengths, trimmed = np.sqrt(np.vecdot(held, held)) * (1 + (d + 8) * UNIT), ceil(self.trimmed * n)
        passed = passes_test(own, trimmed_margin(lengths, self._limit, trimmed), rng)
        kept, limit = np.arange(n), self.bound
        if passed:
            kept, limit = np.sort(np.argsort(lengths, kind="stable")[: n - trimmed]), self._limit
        assert own.noise is not None
        fine, noise = FineGrid.of(self.bound, own.noise * 2 * self._limit, n), own.noise * 2 * limit
        mean = fine.noisy(fine.whole(held[kept]).sum(axis=0), noise, 2, rng) / kept.size
        return estimate_of_tests(
            [Answer(mean, noise / kept.size, passed)], own, events, self.delta, proposed=self._limit,
            statistic="trimmed mean", fallback="mean",
        )  # fmt: skip

    @property
    def _limit(self) -> float:
        """τ, the norm that records kept in a trimmed sum are to have."""
        return self.bound / 2 if self.proposed is None else self.proposed

    def _test(self) -> GeneralPtr:
        """The tested release of the sum: where the margin is 0 it moves by R, not τ, as if nothing were trimmed."""
        return planned_test(self.epsilon, self.delta, otherwise="fallback", reach=self.bound / self._limit)


def charged_tests(name: str, own: GeneralPtr, n: int, times: int, least: int) -> tuple[Event, ...]:
    """A tested estimator's events; refused where n records cannot have the margin that its test asks for."""
    if n < least:
        raise FedprivError(
            f"{name}: n = {n:,} is too few: the test asks for {own.margin:,} records to spare; {least:,} would do"
        )
    return (budget.release(own, rounds=times),)


def fewest_records(own: GeneralPtr, proposed: float | None, widest: float) -> int:
    """The records that a ranked estimator needs: of a proposal of its own, for a window that is not too wide."""
    return ceil(2 * own.margin if proposed else (own.margin + SPARE * sqrt(own.margin)) / widest)


def window_of(own: GeneralPtr, n: int, scale: float, place: float) -> float:
    """The τ that a ranked estimator proposes: as long as a window is, of normal records, that holds F of n, and some.

    Its density is that at `place` deviations from the median.
    """
    density = exp(-place * place / 2) / sqrt(2 * pi)
    return (own.margin + SPARE * sqrt(own.margin)) / n / density * scale


def planned_ranks(own: MedianPtr | IqrPtr, d: int) -> GeneralPtr:
    """The tested release of one of d coordinates' medians, or interquartile ranges."""
    return planned_test(own.epsilon, own.delta, times=d, otherwise="nothing" if own.bound is None else "fallback")


def estimate_of_ranks(
    own: MedianPtr | IqrPtr, data: ArrayLike, rng: Generator, *,
    away: float,  # from the mean of a normal law to a value of the ranks, in deviations: for the τ proposed
    ranks: Callable[[int], tuple[int, ...]],  # of so many records: one, or two whose distance is asked for
    left: Callable[[Vector, Vector, GeneralPtr, float], Left],  # with a bound, of a column, its value, the test
    statistic: str, fallback: str,
) -> Estimate:  # fmt: skip
    """What tests let through of the records' coordinates, by ranks, or what those that failed left; and their cost."""
    rows = records_of(data)
    n, d = rows.shape
    events, test, bound = own.events(n, d), planned_ranks(own, d), own.bound
    moved = own.proposed or window_of(test, n, own.scale, away)

    def kept(column: Vector, value: Vector) -> Left:
        """What is released of a coordinate whose test fails: nothing without a bound."""
        return (None, None) if bound is None else left(column, value, test, bound)

    answers = [ranked_answer(column, test, moved, bound, ranks(n), kept, rng) for column in rows.T]
    return estimate_of_tests(
        answers, test, events, own.delta, proposed=moved, statistic=statistic, fallback=fallback if bound else None
    )


def ranked_answer(
    column: Vector, own: GeneralPtr, moved: float, bound: float | None, ranks: tuple[int, ...],
    left: Callable[[Vector, Vector], Left], rng: Generator,
) -> Answer:  # fmt: skip
    """One coordinate's value of a rank, or the distance between those of two, where its test passes; else what is left.

    `left` has it of the column and the value.
    """
    fine, reach = grid_for(own, moved), FARTHEST if len(ranks) == 1 else EXACT
    reach = reach if bound is None else min(float(fine.whole(bound)), reach)
    steps, room = np.sort(whole_steps(column, fine, reach)), float(fine.whole(moved))
    margin = min(rank_margin(steps, rank, room, most=own.margin, low=-reach, high=reach) for rank in ranks)
    value = (steps[[ranks[-1] - 1]] - (steps[ranks[0] - 1] if len(ranks) > 1 else 0.0)) * fine.step
    passed = passes_test(own, margin, rng)
    given: Left = released_value(own, value, moved, rng) if passed else left(column, value)
    return Answer(*given, passed)


def mode_answer(column: Vector, width: float, own: GeneralPtr, rng: Generator) -> Answer:
    """One coordinate's most frequent multiple of `width`, of several the smallest, where its test passes."""
    with np.errstate(over="ignore"):
        steps = np.clip(np.rint(held_numbers(column) / width), -FARTHEST, FARTHEST) + 0.0  # −0 and 0 are one value
    values, counts = np.unique(steps, return_counts=True)
    passed = passes_test(own, mode_margin(steps), rng)
    return Answer(values[[np.argmax(counts)]] * width, 0.0, True) if passed else Answer(None, None, False)


def held_mean(column: Vector, own: GeneralPtr, bound: float, rng: Generator) -> tuple[Vector, float]:
    """The mean of one coordinate's numbers held to the bound, under noise, and its deviation: where a test failed."""
    assert own.noise is not None
    fine, noise = FineGrid.of(bound, own.noise * 2 * bound, column.size), own.noise * 2 * bound
    total = fine.whole(np.clip(held_numbers(column), -bound, bound)).sum(keepdims=True)
    return fine.noisy(total, noise, 2, rng) / column.size, noise / column.size
