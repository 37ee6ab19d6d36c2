"""DPFILTER: private filtering in one direction after the other. [M] Algorithms 1 and 6 (interactive), 7 and 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv.accounting.event import Event
from fedpriv.errors import positive, whole
from fedpriv.estimation._budget import Access
from fedpriv.estimation._course import asked, ended, enough_left, excess_allowed, recentred, tail, too_few
from fedpriv.estimation._curator import Curator
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.estimation._filters import Filter
from fedpriv.estimation._settings import Composed, Corrupted, Delta, Deviation, Epsilon, Held, Interactive, Recentrings
from fedpriv.estimation.plan import Outcome, Plan, carried_out, gaussian_extent, planned_estimate
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class DpFilter:
    """The mean of records with covariance scale²·I, filtered along the first eigenvector time and again. [M] Theorem 5.

    The cut is a random share of the largest score that a record of the ball can have, whatever the data: one access a
    step is enough, and many steps are needed. `Prime` needs few.

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> data = rng.normal(7, 1, (20_000, 3))
    >>> data[:1000] += 5
    >>> found = DpFilter(epsilon=5, delta=1e-5, corruption=0.05).estimate(data, rng)
    >>> bool(np.abs(found.mean - 7).max() < 0.1), found.epsilon.upper <= 5
    (True, True)
    """

    epsilon: Epsilon
    delta: Delta
    corruption: Corrupted
    scale: Deviation = 1.0
    bound: Held = None
    composition: Composed = "certified"
    interactive: Interactive = False
    constant: Annotated[float, positive, "C: filtering ends at an excess variance of C·α·ln(1/α)"] = 0.5
    steps: Annotated[int, whole, "T, filterings at most"] = 40
    recentrings: Recentrings = 2

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def plan(self, n: int, d: int) -> Plan:
        """All that DPFILTER knows before looking at n records of d numbers: region, noise and releases."""
        return planned_estimate(
            self, [Access("moments", 1 + self.steps + self.recentrings, 1.0)], gaussian_extent, n, d
        )

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """Every access of DPFILTER to n records of d numbers, as charged; raises where n is too small."""
        return self.plan(n, d).events

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """DPFILTER's private and robust mean of the records, n × d, or the check that failed; and its cost."""
        records = records_of(data)
        plan = self.plan(*records.shape)
        return carried_out(self, plan, records, rng, lambda curator: self._course(curator, plan))

    def _course(self, curator: Curator, plan: Plan) -> Outcome:
        """DPFILTER's course: records filtered along the first eigenvector until none stands out. [M] Algorithm 8."""
        level = excess_allowed(self.constant, plan, self.corruption)
        state = asked(curator, (), 1.0)
        while enough_left(state, plan, self.corruption):
            if state.largest <= level or len(state.filters) == self.steps:
                for _ in range(self.recentrings):
                    state = recentred(curator, state, plan, self.corruption, level, 1.0)
                return ended(state, level)
            middle = state.moments.mean
            most = (curator.radius + float(np.linalg.norm(middle))) ** 2
            direction = np.linalg.eigh(state.moments.covariance)[1][:, -1]
            cut = most * float(curator.rng.random())
            found = Filter(shape=direction, centre=middle, cut=cut, most=tail(plan, self.corruption))
            state = asked(curator, (*state.filters, found), 1.0)
        return too_few(state, plan)
