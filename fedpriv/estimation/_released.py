"""One tested release: its plan by an (ε, δ), and its value under exact noise on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, frexp, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from fedpriv._base.arrays import Vector
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.event import Event
from fedpriv.estimation import _budget as budget
from fedpriv.estimation._estimate import Estimate, Tested
from fedpriv.mechanisms import GeneralPtr
from fedpriv.mechanisms.general_ptr import MOST_MARGIN
from fedpriv.randomness.grid import FineGrid
from fedpriv.trust import Adjacency

FARTHEST = 2.0**62  # steps of a grid: values are held to as many, so that whole numbers of 64 bits add noise to them
FINENESS = (
    16  # a step is 2⁻¹⁶ of τ, or less: bringing values to the grid costs so little noise, and leaves a wide range
)
LARGEST = 1e300
_WIDEST = 45  # of noise, in powers of two of steps: what can be drawn
_LEAST = -900  # of a step, in powers of two: where one over it would pass what floats hold
_FAILING = 0.5  # of δ, for tests that pass wrongly
_MOST_FAILING = 0.1  # the largest δ₀, whatever δ is: a coin's ends must lie apart


Otherwise = Literal["nothing", "fallback"]


class Answer(NamedTuple):
    """What one test released: the value, or None; the deviation of the noise on it; whether the test passed."""

    value: Vector | None
    error: float | None
    passed: bool


@lru_cache(maxsize=64)
def planned_test(
    epsilon: float, delta: float, *, times: int = 1, exact: bool = False, otherwise: Otherwise = "nothing",
    reach: float | None = None, test_noise: float | None = None, adjacency: Adjacency = "replace",
) -> GeneralPtr:  # fmt: skip
    """The tested release of which `times` cost (ε, δ): half of μ² for its test, half for its noise.

    With `exact`, for an f₂ that is released as it is, all is the test's.

    >>> planned_test(1.0, 1e-6, exact=True).margin
    42
    """
    failure = min(_FAILING * delta / times, _MOST_FAILING)
    settings: dict[str, Any] = {"failure": failure, "otherwise": otherwise, "reach": reach, "test_noise": test_noise}
    if test_noise is not None:  # the noisy margin that passes, and as much again: there it passes but for δ₀
        settings["margin"] = 2 * GeneralPtr(failure=failure, margin=MOST_MARGIN, test_noise=test_noise).enough
    elif not exact:
        shares = budget.split(
            [budget.Access("test", times, 0.5), budget.Access("noise", times, 0.5)], range_share=0, dimension=1,
            epsilon=epsilon, delta=delta - times * failure, composition="certified",
        )  # fmt: skip
        span = -2 * float(ndtri(failure))  # of a coin, from one end to the other
        settings["margin"] = ceil(max(span / shares.mus["test"], span))
    found, _ = calibrate(
        "GeneralPtr", {name: own for name, own in settings.items() if own is not None},
        lambda own: budget.release(own, rounds=times, adjacency=adjacency),
        epsilon=epsilon, delta=delta, free="margin" if exact else "noise",
    )  # fmt: skip
    assert isinstance(found, GeneralPtr)
    return found


def held_numbers(column: Vector) -> Vector:
    """Numbers of records as finite ones, each by itself and none dropped: a nan becomes 0, an infinity 1e300."""
    return np.clip(np.nan_to_num(column, nan=0.0), -LARGEST, LARGEST)


def whole_steps(column: Vector, fine: FineGrid, reach: float = FARTHEST) -> Vector:
    """Numbers of records, or of a value, in steps of a grid toward zero, none farther out than `reach` steps."""
    with np.errstate(over="ignore"):  # a warning would tell of them
        return np.clip(fine.whole(held_numbers(column)), -reach, reach)


def grid_for(own: GeneralPtr, moved: float, dimension: int = 1) -> FineGrid:
    """The grid on which a value of a tested release is, that moves by at most `moved`, and its noise."""
    assert own.noise is not None
    near, far = frexp(moved / sqrt(dimension))[1] - 1 - FINENESS, frexp(own.noise * moved)[1] - _WIDEST
    return FineGrid(2.0 ** max(near, far, _LEAST))


def released_value(own: GeneralPtr, value: Vector, moved: float, rng: Generator) -> tuple[Vector, float]:
    """A value that moves by at most `moved` in ℓ2, under noise on a grid; and the deviation of that noise.

    Coordinates are brought to the grid toward zero, which may take each a step farther from a neighbour's.
    """
    assert own.noise is not None
    fine = grid_for(own, moved, value.size)
    noise = own.noise * (moved + 2 * fine.step * sqrt(value.size))
    return fine.noisy(whole_steps(value, fine), noise, 2, rng), noise


def estimate_of_tests(
    answers: Sequence[Answer], own: GeneralPtr, events: tuple[Event, ...], delta: float, *,
    proposed: float, statistic: str, fallback: str | None = None,
) -> Estimate:  # fmt: skip
    """The estimate that tested releases come to, of a coordinate each or of all; none where one released nothing."""
    passed = tuple(own.passed for own in answers)
    tested = Tested(proposed, own.margin, own.failure, passed, tuple(own.error for own in answers))
    values = [own.value for own in answers if own.value is not None]
    failure, notes = None, tuple(branch_notes(answers, statistic, fallback))
    if len(values) < len(answers):
        failed = ", ".join(str(place) for place, own in enumerate(answers) if own.value is None)
        where = f" in coordinate {failed}" * (len(answers) > 1)
        failure = (
            f"test: too few records to spare{where} for a local sensitivity of {proposed:.4g}; a larger one may pass"
        )
    mean = np.concatenate(values) if failure is None else None
    found = budget.costed(mean, events, delta, ("tested release",) * len(answers), failure, notes)
    return Estimate(
        mean=found.mean, failure=failure, ledger=found.ledger, made=found.made, epsilon=found.epsilon, delta=delta,
        notes=notes, statistic=statistic, tested=tested,
    )  # fmt: skip


def branch_notes(answers: Sequence[Answer], statistic: str, fallback: str | None) -> list[str]:
    """What a reader of a tested estimate must know: which branch each test took, and the noise on it."""
    found = []
    for passed, what in ((True, f"the {statistic}"), (False, f"the {fallback}" if fallback else "nothing")):
        own = [each for each in answers if each.passed == passed]
        if not own:
            continue
        errors = [each.error for each in own if each.error is not None]
        error = max(errors, default=0.0)
        noise = f" under noise of standard deviation {error:.4g}" if error else ", without noise" * passed
        found.append(f"{'passed' if passed else 'failed'} {len(own)} of {len(answers)} tests: {what}{noise}")
    return found
