"""What one client has given away, messages, answers and labels, and what that comes to: ε, μ and β, of the worst."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedpriv._base.arrays import Numbers
from fedpriv.accounting.course import LEVELS
from fedpriv.curves.compose import Band, Mu
from fedpriv.population.participation import rounds_of_each
from fedpriv.studies.evaluating import LABELS
from fedpriv.studies.study import Study


class Given(NamedTuple):
    """What one client has given away in a run: how many messages, answers about the model, and labels."""

    messages: int
    answers: int = 0
    labels: int = 0


def given_row(about: str) -> int:
    """Which of what a client gives, in the order of `Given`, a question is for: by what it is about, "" of messages.

    >>> Given._fields[given_row("")], Given._fields[given_row("ca08ea5bca49cc18")], Given._fields[given_row(LABELS)]
    ('messages', 'answers', 'labels')
    """
    return 0 if not about else 2 if about == LABELS else 1


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


def most_given(messages: Numbers, *others: Numbers) -> tuple[Given, ...]:
    """Of what clients have given, numbers of messages, answers and labels each, all that no other's has as much of all.

    >>> [tuple(each) for each in most_given(np.array([3, 2, 2, 1]), np.array([0, 1, 1, 1]))]
    [(3, 0, 0), (2, 1, 0)]
    """
    if not any(each.any() for each in others):
        return (Given(int(messages.max(initial=0))),)
    found: list[Given] = []
    for own in sorted(set(zip(*(each.tolist() for each in (messages, *others)), strict=True)), reverse=True):
        if not any(all(more >= each for more, each in zip(most, own, strict=False)) for most in found):
            found.append(Given(*own))
    return tuple(found)


def charged_clients(study: Study, round: int) -> Numbers:
    """The clients that a round of a study is charged to: those that it asks, or all where a curator says so."""
    own = study.clients
    if study.curator is not None and study.curator.charges_all:
        return np.arange(own.count)
    return own.schedule.asked(own.count, study.run.seed, round)


def given_in_round(study: Study, round: int) -> Given:
    """What a client that a round of a study asks gives: a message, and what its evaluation, if any, asks for."""
    own, rounds = study.evaluation, study.run.rounds
    return Given(1) if own is None else Given(1, int(own.due(round, rounds)), int(own.tells(round, rounds)))


def given_by_each(study: Study) -> tuple[Numbers, Numbers, Numbers]:
    """How many messages, answers and labels each client of a study will have given at its end, by its schedule."""
    own, rounds = study.clients, study.run.rounds
    if study.curator is not None and study.curator.charges_all:
        messages = np.full(own.count, rounds)
        return messages, np.zeros_like(messages), np.zeros_like(messages)
    messages = rounds_of_each(own.schedule, own.count, study.run.seed, rounds)
    answers, labels = np.zeros_like(messages), np.zeros_like(messages)
    for round in range(1, rounds + 1):
        _, answer, label = given_in_round(study, round)
        if answer:
            asked = own.schedule.asked(own.count, study.run.seed, round)
            answers[asked] += answer
            labels[asked] += label
    return messages, answers, labels


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
