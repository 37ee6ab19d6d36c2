"""Canary records of hidden local steps: one record, or its mirror image in its place, through the client's own steps.

A trial is one client over all rounds, whose other places are empty. The server sends a model at the edge of the ball
that clients hold it to, so wrong about both records that their gradients stay long and point in opposite ways.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import cast

import numpy as np
from numpy.typing import NDArray

from clients.data.pool import Pool
from clients.data.splits import Division
from clients.models.gradients import Net
from clients.training.byzantine import Byzantine
from clients.training.corrupting import Corrupting
from clients.training.hidden import Hiding
from fedpriv._base.arrays import Numbers
from fedpriv.accounting.event import Event
from fedpriv.auditing.pairs import keys_of
from fedpriv.releases.hidden import Walk
from fedpriv.studies.plan import Plan
from fedpriv.studies.promise import walk_of
from fedpriv.studies.study import Study
from simulations.audit.trials import Scored

DIMENSION = 4  # one input and a bias, for each of two classes
LONGER = 3.0  # how much longer the input of a canary is than its 1 for the bias


@dataclass(frozen=True)
class Walks:
    """All rounds of hidden steps of one client: with the canary record, or with the other one, or with none."""

    study: Study
    rounds: int  # in which a client answers

    ranked = False
    holds = most = None

    @property
    def walk(self) -> Walk:
        """The hidden steps that these trials make, in the numbers of the study's own."""
        assert self.study.privacy.hidden is not None  # or its audit were of something else
        return walk_of(self.study, self.study.privacy.hidden, DIMENSION)

    @property
    def replaced(self) -> bool:
        """Whether a trial without the canary has another record in its place; else the place is empty."""
        return self.study.privacy.adjacency != "add-remove"

    @property
    def in_a_tail(self) -> bool:
        """Whether the verdict must find a threshold of its own: two records that mirror each other have 0."""
        return not self.replaced

    @property
    def event(self) -> Event:
        """The event whose certificate the trials test: all rounds of hidden steps of one client."""
        return self.walk.event(self.study.privacy.adjacency or "replace", self.rounds)

    @property
    def weight(self) -> int:
        """What a trial of hidden steps takes, in coordinates drawn: it decides how many are one block on disk."""
        return DIMENSION * self.rounds * self.walk.steps * 64  # a step takes far longer than its noise

    @property
    def words(self) -> str:
        """What one trial is, in a sentence for audit.json and its readers: which records, and through which steps."""
        beside = "its mirror image in its place" if self.replaced else "an empty place"
        return f"one record or {beside}, {self.rounds:,} rounds of {self.walk.steps:,} hidden steps, the last one seen"

    def checks_repeats(self, trials: int) -> bool:
        """True: where steps end are reals, so two that are the same in an audit come from the same noise."""
        return True

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """Run the trials of canary clients through the clients' own hidden steps: how far each moved, and keys."""
        study = replace(self.study, clients=replace(self.study.clients, byzantine=0), attack=None, corruption=None)
        plan, walk = Plan.of(study, DIMENSION), self.walk
        long = LONGER * max(1.0, walk.release.radius)
        rows, labels = np.array([[long], [-long]], np.float32), np.zeros(2, np.int64)
        pool = Pool(rows, labels, rows[:0], labels[:0], classes=2, divide=1.0, subtract=0.0)
        hands = _Hands(dict(zip(numbers.tolist(), held.tolist(), strict=True)), self.replaced)
        hiding = Hiding(
            study, walk, pool, cast(Net, _Linear()), cast(Division, hands), Byzantine(plan, pool),
            Corrupting(plan, pool.classes), study.privacy.noise,
        )  # fmt: skip
        wrong = (np.array([0, 0, -1, 1]) * walk.ball / sqrt(2)).astype(np.float32)  # about class 0, by the bias
        scores, keys, out = np.zeros(len(numbers)), [], np.empty((len(numbers), DIMENSION), np.float32)
        for round in range(1, self.rounds + 1):
            failures = hiding.updates(wrong, round, numbers, out)
            assert not failures  # nobody attacks
            keys.append(keys_of(out.view(np.uint8).reshape(len(out), -1)))
            scores += out[:, 1].astype(float) - out[:, 0]  # towards class 0 the longer the input
        return Scored(scores, np.concatenate(keys))


@dataclass(frozen=True)
class _Hands:
    """Every client of an audit has one record, the canary or the other one; or none, where that is the neighbour."""

    held: dict[int, bool]  # whether a client holds the canary, by its number
    replaced: bool
    disjoint = True

    def of(self, clients: Numbers) -> Numbers:
        """The number of the record of a trial's client, as its hidden steps ask for it."""
        held = self.held[int(clients[0])]
        return np.array([[0 if held else 1]] if held or self.replaced else np.zeros((1, 0)), np.int64)


class _Linear:
    """A linear model of two classes, as far as hidden steps ask for it."""

    dimension, classes, shape = DIMENSION, 2, (1,)
