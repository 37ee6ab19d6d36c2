"""What all private filters do between accesses: ask, check, filter, and look again from the better centre."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from fedpriv.estimation._curator import Curator
from fedpriv.estimation._filters import Filter
from fedpriv.estimation.moments import Moments
from fedpriv.estimation.plan import Outcome, Plan

LEAST = 0.75  # of what one filtering leaves at the least, must be left. [M] Algorithms 8 and 10: of all records


class State(NamedTuple):
    """Filters so far, and what was released of the records that they leave."""

    filters: tuple[Filter, ...]
    moments: Moments  # of what the filters leave
    largest: float  # λ: the largest eigenvalue of the covariance, less what honest records have


def asked(curator: Curator, filters: tuple[Filter, ...], honest: float) -> State:
    """The state of a private filter's course: its filters, and noisy moments of the records that they leave.

    `honest` is the variance of honest records that filters know of: 1, or 0.
    """
    found = curator.moments(filters)
    return State(filters, found, float(np.linalg.eigvalsh(found.covariance)[-1]) - honest)


def enough_left(state: State, plan: Plan, corruption: float) -> bool:
    """Whether filters have left three quarters of (1 − 2α)n records, as noisily counted, so the course goes on.

    The paper's ¾n is what one filtering may rightly leave at α = ⅛.
    """
    return state.moments.size >= LEAST * (1 - 2 * corruption) * plan.n


def too_few(state: State, plan: Plan) -> Outcome:
    """How a private filter's course ends where not enough records are left: no mean, and why."""
    share = state.moments.size / plan.n
    return Outcome(
        None, f"size: after {len(state.filters)} filterings about {share:.0%} of the records are left; "
        "scale may be too small for these data, or corruption too low",
    )  # fmt: skip


def tail(plan: Plan, corruption: float) -> int:
    """⌈2αn⌉, the most records that one filtering of a private mean takes away."""
    return int(np.ceil(2 * corruption * plan.n))


def excess_allowed(constant: float, plan: Plan, corruption: float) -> float:
    """The excess variance at which filtering ends: C·α·ln(1/α), and what sampling and noise add."""
    return constant * corruption * log(1 / corruption) + eigenvalue_of_chance(plan)


def eigenvalue_of_chance(plan: Plan) -> float:
    """What sampling and noise alone add to honest records' largest eigenvalue: 2√(d/n) + d/n, and the noise's."""
    return 2 * sqrt(plan.d / plan.n) + plan.d / plan.n + plan.noise


def recentred(curator: Curator, state: State, plan: Plan, corruption: float, level: float, honest: float) -> State:
    """The course's state after all its filters are applied to all records anew, about the mean they led to.

    The first filters looked from a centre that corruption had moved, and took more of one tail than of the other. The
    new set counts only where it passes the checks that the old one passed.
    """
    if not state.filters:
        return state
    again = tuple(replace(each, centre=state.moments.mean) for each in state.filters)
    found = asked(curator, again, honest)
    better = enough_left(found, plan, corruption) and found.largest <= max(level, state.largest)
    return found if better else state


def ended(state: State, level: float) -> Outcome:
    """How a private filter's course ends well: the released mean, and notes on filterings and largest eigenvalue."""
    note = f"{len(state.filters)} filterings; largest eigenvalue {state.largest:.3g} above what is honest"
    over = () if state.largest <= level else (f"no filtering was left to bring it down to {level:.3g}",)
    return Outcome(state.moments.mean, None, (note, *over))
