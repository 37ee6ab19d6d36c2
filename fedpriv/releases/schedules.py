"""How a step, or a noise, changes over the rounds of a study: a factor of each round that is known before the first."""

from __future__ import annotations

from itertools import pairwise
from math import cos, pi, sqrt
from typing import Literal, assert_never

from fedpriv.errors import FedprivError

Schedule = Literal["constant", "linear", "exponential", "cosine", "inverse-root"]
NoiseSchedule = Literal["constant", "linear", "exponential", "cosine"]
STAIRS = 16  # different noises of a schedule: as many mechanisms are composed after every round


def check_schedule(schedule: Schedule, to: float) -> None:
    """Refuse a study's schedule of steps or of noise without the last factor that it comes to, or with one too many."""
    still = schedule in ("constant", "inverse-root")
    if still and to != 1:
        raise FedprivError(f"to = {to:g} is of schedule 'linear', 'exponential' or 'cosine', not {schedule!r}")
    if not still and to == 1:
        raise FedprivError(f"schedule = {schedule!r} needs to, the last one as a multiple of the first, other than 1")


def scheduled_factor(schedule: Schedule, to: float, round: int, rounds: int) -> float:
    """What a study's step or noise is multiplied by in a round: 1 in the first, `to` in the last, in between a curve.

    `inverse-root` is 1/√round.

    >>> [scheduled_factor("linear", 0.5, round, 3) for round in (1, 2, 3)]
    [1.0, 0.75, 0.5]
    """
    share = (round - 1) / max(rounds - 1, 1)
    match schedule:
        case "constant":
            return 1.0
        case "linear":
            return 1 + (to - 1) * share
        case "exponential":
            return float(to**share)
        case "cosine":
            return to + (1 - to) * (1 + cos(pi * share)) / 2
        case "inverse-root":
            return 1 / sqrt(round)
        case _ as never:
            assert_never(never)


def noise_stairs(rounds: int, of: int) -> list[tuple[int, int]]:
    """The first so many rounds `of` all in at most `STAIRS` stairs, of one noise each: its first round, how many.

    >>> noise_stairs(10, 64), noise_stairs(2, 2)
    ([(1, 4), (5, 4), (9, 2)], [(1, 1), (2, 1)])
    """
    stairs = min(STAIRS, of)
    before = [-(-stair * of // stairs) for stair in range(stairs + 1)]
    return [(first + 1, min(rounds, last) - first) for first, last in pairwise(before) if first < rounds]


def noise_factor(schedule: Schedule, to: float, round: int, rounds: int) -> float:
    """What a release's noise is multiplied by in a round: its schedule's factor, one for each of `noise_stairs`.

    >>> [round(noise_factor("linear", 0.5, number, 64), 3) for number in (1, 4, 5, 64)]
    [1.0, 1.0, 0.967, 0.5]
    """
    return scheduled_factor(schedule, to, len(noise_stairs(round, rounds)), min(STAIRS, rounds))
