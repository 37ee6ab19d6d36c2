"""Propose-test-release of somebody's own functions: [P] Algorithm 1 for any f₁, f₂ and local sensitivity at distance.

What is certified rests on the sensitivities that are given. A probe looks for data on which they are wrong, and never
at the records: a refusal that came from those would tell of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.errors import FAULTS, FedprivError, positive, reason, whole
from fedpriv.estimation import _budget as budget
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.estimation._released import Answer, estimate_of_tests, held_numbers, planned_test, released_value
from fedpriv.estimation._settings import Delta, Epsilon
from fedpriv.estimation.margins import margin_by_sensitivity
from fedpriv.mechanisms import GeneralPtr
from fedpriv.randomness.streams import stream
from fedpriv.releases.ptr import passes_test
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

EXTREMES = (0.0, 1e300, -1e300)  # what a probe puts in the place of records, or adds
PROBED = 32  # records of each data set that a probe makes where the number of records is private
CHANGES = 12  # records that a probe changes in each of its data sets, one after another, before those
MANY = 20_000  # records past which it changes one
SLACK = 1 + 1e-9  # what rounding may add to a distance, and take off a sensitivity
SAMPLES = (0.01, 1.0, 100.0)  # deviations of the normal records that are probed where no samples are given

Function = Callable[[Vector], ArrayLike]
AtDistance = Callable[[int], float]  # the sensitivity of one data set after so many changes


@dataclass(frozen=True, kw_only=True, eq=False)
class ProposeTestRelease:
    """f₂ of all records under noise for a proposed τ where a test lets it, else f₁, or nothing: (ε, δ) for one record.

    The margin is how many records must change before one more could move f₂ by more than τ (ℓ2): given as a function of
    the records, or by f₂'s local sensitivity after r changes, `sensitivity(records, r)`. Its word is its author's.
    """

    epsilon: Epsilon
    delta: Delta
    function: Function  # f₂
    proposed: Annotated[float, positive, "τ, the local sensitivity proposed for f₂: public"]
    margin: Callable[[Vector], int] | None = None
    sensitivity: Callable[[Vector, int], float] | None = None  # LS⁽ʳ⁾, the largest within r changes
    fallback: Function | None = None  # f₁, which may be f₂; nothing is released where there is none
    global_sensitivity: Annotated[float | None, positive, "how far f₁ can move, at most (ℓ2)"] = None
    reach: Annotated[float | None, positive, "how far f₂ can move, at most (ℓ2); any distance if not given"] = None
    dimension: Annotated[int, whole, "numbers in what f₁ and f₂ give"] = 1
    adjacency: Adjacency = "replace"
    test_noise: Annotated[float | None, positive, "b of a Laplace test; if not given the test is a coin"] = None
    samples: Sequence[ArrayLike] = field(default=())  # public data sets to probe with, such as synthetic ones

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.margin is None) == (self.sensitivity is None):
            raise FedprivError("give margin, or sensitivity: one of them says how many records there are to spare")
        if (self.fallback is None) != (self.global_sensitivity is None):
            raise FedprivError("fallback and global_sensitivity go together: f₁, and how far it can move")
        for name in ("function", "margin", "sensitivity", "fallback"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise FedprivError(f"{name} must be a function of the records, got {getattr(self, name)!r}")
        if self.reach is not None and self.reach < self.proposed:
            raise FedprivError(f"reach must be at least proposed = {self.proposed:g}, got {self.reach:g}")
        if not isinstance(self.samples, Sequence):
            raise FedprivError(f"samples must be a list of data sets, got {type(self.samples).__name__}")
        for sample in self.samples:
            records_of(sample)

    @property
    def test(self) -> GeneralPtr:
        """The test and its noise, as the ledger is charged for them."""
        return planned_test(
            self.epsilon, self.delta, test_noise=self.test_noise,
            otherwise="nothing" if self.fallback is None else "fallback",
            reach=None if self.reach is None else self.reach / self.proposed, adjacency=self.adjacency,
        )  # fmt: skip

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """The one tested release of functions of n records as charged, whatever n and d are."""
        return (budget.release(self.test, adjacency=self.adjacency),)

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """What a test lets be released of the records, with its cost; refused before they are looked at where a probe
        of public data says that margin or sensitivities are wrong."""
        rows = _held_records(data, 1 if self.adjacency == "replace" else 0)
        events, own = self.events(*rows.shape), self.test
        self.probe(*rows.shape)
        passed = passes_test(own, _quietly(self._margin, rows, 0), rng)
        given, moved = (self.function, self.proposed) if passed else (self.fallback, self.global_sensitivity)
        answer = Answer(None, None, passed)
        if given is not None and moved is not None:
            value = _quietly(lambda own: self._value(given, own), rows, np.zeros(self.dimension))
            answer = Answer(*released_value(own, value, moved, rng), passed)
        return estimate_of_tests(
            [answer], own, events, self.delta, proposed=self.proposed, statistic="value",
            fallback=None if self.fallback is None else "fallback",
        )  # fmt: skip

    def probe(self, n: int, d: int) -> None:
        """Refuse margin and sensitivities that are wrong of public records, by what is wrong of which of them.

        Those are the `samples`, or normal ones: n of d numbers, as sensitivities may depend on n, which is public where
        records are replaced; where they come and go it is not, and a few will do.
        """
        size = n if self.adjacency == "replace" else PROBED
        for place, sample in enumerate(self.samples or probe_samples(size, d)):
            for before, after, change in probe_changes(held_numbers(records_of(sample)), self.adjacency, place):
                try:
                    self._compare(_held_records(before), _held_records(after, 0), f"sample {place}, {change}")
                except FedprivError:
                    raise
                except FAULTS as error:
                    raise FedprivError(f"a function failed with sample {place}, {change}: {reason(error)}") from None

    def _compare(self, before: Vector, after: Vector, where: str) -> None:
        """Refuse what two public data sets that differ in one record show to be wrong."""
        first, second = (self._margin(own, rising_sensitivity) for own in (before, after))
        if abs(first - second) > 1:
            source = "margin" if self.margin is not None else "sensitivity"
            raise FedprivError(
                f"{source} is not 1-Lipschitz: the margin is {first}, and {second} with {where}; one record may change "
                "it by one at most"
            )
        stable = self.proposed if max(first, second) > 0 else self.reach
        limits = (("function", self.function, stable), ("fallback", self.fallback, self.global_sensitivity))
        for name, given, limit in limits:
            if given is not None and limit is not None:
                moved = float(np.linalg.norm(self._value(given, before) - self._value(given, after)))
                if not moved <= limit * SLACK:
                    raise FedprivError(f"{name} moves by {moved:.6g} with {where}; {limit:.6g} is the most it was to")

    def _margin(self, rows: Vector, checked: Callable[[AtDistance], AtDistance] | None = None) -> int:
        """A data set's margin, counted up to the test's; refused where it is no whole number of at least 0.

        Sensitivities are `checked` by a probe alone: on the records one that is refused would have no margin left.
        """
        most = self.test.margin
        if self.sensitivity is not None:
            own_at = partial(self.sensitivity, rows)
            return margin_by_sensitivity(checked(own_at) if checked else own_at, self.proposed, most=most)
        assert self.margin is not None
        own = np.asarray(self.margin(rows))
        if own.ndim or own.dtype.kind not in "iuf" or not (own >= 0 and own == np.floor(own)):
            raise FedprivError(f"margin must be a whole number of at least 0, got {own.tolist()!r}")
        return int(min(float(own), most))

    def _value(self, given: Function, rows: Vector) -> Vector:
        """What f₁ or f₂ gives for a data set; refused where that are not so many finite numbers."""
        found = np.asarray(given(rows), np.float64).reshape(-1)
        if found.size != self.dimension or not np.isfinite(found).all():
            what = f"{found.size} numbers" if found.size != self.dimension else f"{found.tolist()}"[:60]
            raise FedprivError(f"functions must give dimension = {self.dimension} finite numbers, got {what}")
        return found


def rising_sensitivity(given: AtDistance) -> AtDistance:
    """LS⁽ʳ⁾ of a probed data set, asked for rising r; refused where it is negative, no number, or falls."""
    before = 0.0

    def sensitivity(r: int) -> float:
        """The largest local sensitivity within r changes."""
        nonlocal before
        found = given(r)
        if not found * SLACK >= before:
            wrong = "falls as r grows" if found >= 0 else "must be a number of at least 0"
            raise FedprivError(f"sensitivity {wrong}: got {found} at r = {r}")
        before = max(before, float(found))
        return float(found)

    return sensitivity


def _held_records(data: ArrayLike, least: int = 1) -> Vector:
    """A copy of records that functions can only read, each held to finite numbers by itself."""
    rows = held_numbers(records_of(data, least))
    rows.setflags(write=False)
    return rows


def _quietly(function: Callable[[Vector], Any], rows: Vector, otherwise: Any) -> Any:
    """What a function gives for the private records, or what it is taken to give where it fails: that tells nobody."""
    try:
        with np.errstate(all="ignore"):
            return function(rows)
    except FAULTS:
        return otherwise


def probe_samples(n: int, d: int) -> Iterator[Vector]:
    """Data sets to probe with where nobody gave any: n normal records of d numbers, and n of which many are equal."""
    for place, scale in enumerate(SAMPLES):
        rows = scale * stream(place, "probe of a margin").standard_normal((n, d))
        yield rows
        yield np.round(rows / scale)


def probe_changes(rows: Vector, adjacency: Adjacency, place: int) -> Iterator[tuple[Vector, Vector, str]]:
    """Neighbours on a way from a public data set: records made copies of others or taken away, then 0 and ±1e300.

    Those take the place of others, or are added where records come and go; there the only one is taken away too.
    """
    rng, comes = stream(place, "changes of a probe"), adjacency == "add-remove"
    if comes:
        yield rows[:1], rows[:0], "the only record left out"
    changes = min(CHANGES if len(rows) < MANY else 1, len(rows) - 1)
    for extreme in (*[None] * changes, *EXTREMES):
        gone, other = rng.integers(len(rows), size=2).tolist()
        row, what = (rows[other], f"record {other}") if extreme is None else (extreme, f"{extreme:g}")
        if comes:
            after = np.delete(rows, gone, axis=0) if extreme is None else np.append(rows, 0 * rows[:1] + row, axis=0)
            change = f"record {gone} of {len(rows)} left out" if extreme is None else f"a record of {what} added"
        else:
            after, change = rows.copy(), f"record {gone} of {len(rows)} made {what}"
            after[gone] = row
        yield rows, after, change
        rows = after
