"""What one client has given away, how many messages and answers, and what that comes to: ε, μ and β, of the worst."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedpriv._base.arrays import Numbers
from fedpriv.accounting.course import LEVELS
from fedpriv.curves.compose import Band, Mu
from fedpriv.population.participation import rounds_of_each
from fedpriv.studies.study import Study


class Given(NamedTuple):
    """What one client has given away in a run: how many messages, and how many answers about the model."""

    messages: int
    answers: int = 0


class Epsilon(NamedTuple):
    """ε at the study's δ: certified from both sides, and the central limit's estimate, which certifies nothing."""

    lower: float  # reached by explicit data
    upper: float
    clt: float | None  # None where there is no estimate


NOTHING = Epsilon(0.0, 0.0, 0.0)
LEFT = 1 - np.array(LEVELS)  # of errors, where nothing is given away


class Tracked(NamedTuple):
    """What so many messages of one client come to in the words of f-DP: μ, and β at each of `LEVELS`."""

    mu: Mu
    beta: Band

    def lines(self) -> dict[str, Any]:
        """As plain data, for a line of a run's records."""
        bounds = zip(LEVELS, *(own.tolist() for own in self.beta), strict=True)
        return {
            "mu": self.mu._asdict(),
            "beta": {f"{level:g}": {"lower": low, "upper": high} for level, low, high in bounds},
        }


UNTOUCHED = Tracked(Mu(0.0, 0.0, 0.0), Band(LEFT, LEFT))


def most_given(messages: Numbers, answers: Numbers) -> tuple[Given, ...]:
    """Of what clients have given, a number of messages and of answers each, all that no other's has more of in both.

    >>> most_given(np.array([3, 2, 2, 1]), np.array([0, 1, 1, 1]))
    (Given(messages=3, answers=0), Given(messages=2, answers=1))
    """
    if not answers.any():
        return (Given(int(messages.max(initial=0))),)
    pairs = sorted(set(zip(messages.tolist(), answers.tolist(), strict=True)), reverse=True)
    found: list[Given] = []
    for pair in pairs:
        if not found or pair[1] > found[-1].answers:
            found.append(Given(*pair))
    return tuple(found)


def given_by_each(study: Study) -> tuple[Numbers, Numbers]:
    """How many messages, and answers, each client of a study will have given at its end: the schedule is public."""
    own, rounds = study.clients, study.run.rounds
    messages = rounds_of_each(own.schedule, own.count, study.run.seed, rounds)
    answers = np.zeros_like(messages)
    if (evaluation := study.evaluation) is not None:
        for round in (each for each in range(1, rounds + 1) if evaluation.due(each, rounds)):
            answers[own.schedule.asked(own.count, study.run.seed, round)] += 1
    return messages, answers


def given_in_all(study: Study) -> tuple[Given, ...]:
    """What the clients of a study who give most will have given at its end, for what it promises."""
    return most_given(*given_by_each(study))


def worst_epsilon(found: Iterable[Epsilon]) -> Epsilon:
    """The ε of whichever client has most, of clients' who have given so much: each bound is that of the worst."""
    lower, upper, clt = zip(*found, strict=True)
    return Epsilon(max(lower), max(upper), None if None in clt else max(clt))


def worst_tracked(found: Sequence[Tracked]) -> Tracked:
    """The μ and β of whichever client is worst off, of clients' who have given so much: each bound by itself."""
    up_to = max(each.mu.up_to for each in found)  # an upper bound up to less holds up to more; a lower one need not
    lower = max(each.mu.lower for each in found if each.mu.up_to == up_to)
    mu = Mu(lower, max(each.mu.upper for each in found), up_to)
    return Tracked(mu, Band(*(np.min([each.beta[side] for each in found], axis=0) for side in (0, 1))))
