"""Canary rows in a curator's mean: a client of each call for each coordinate, through the rule that the server runs.

Each canary's update lies along a coordinate of its own, far longer than the bound, or points the other way. The mean's
noise is independent in every coordinate, so the canaries of a call are independent trials. A trial is the same canary
in the means of all rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers
from fedpriv.accounting.event import Event
from fedpriv.auditing.pairs import LONGER, keys_of
from fedpriv.errors import FedprivError
from fedpriv.estimation.private_mean import PrivateMean
from fedpriv.studies import directions
from fedpriv.studies.study import Study
from simulations.audit.trials import Scored

DIMENSION = 16  # coordinates: the mean clips rows by their norm and draws each coordinate's noise alone


@dataclass(frozen=True)
class Means:
    """All of a curator's means of one client's updates."""

    study: Study
    rounds: int  # each of one mean

    in_a_tail = False
    ranked = True
    holds = most = None

    @property
    def rule(self) -> PrivateMean:
        """The curator's rule `PrivateMean`, by which the server aggregates: the noise that is audited."""
        return cast(PrivateMean, self.study.rule)  # or the study were refused

    @property
    def checked(self) -> Means:
        """This trial source as it is; refused where the rule's noise is not that of a single mean."""
        found = self.rule
        if found.method != "dp-mean":
            raise FedprivError(
                f"PrivateMean with method = {found.method!r} looks at all rows more than once and chooses by what it "
                "saw: no audit of it is built (dp-mean is audited)"
            )
        return self

    @property
    def event(self) -> Event:
        """The event whose certificate the trials test: all rounds' private means of one client's update."""
        return self.rule.event(DIMENSION, self.rounds)

    @property
    def words(self) -> str:
        """What one trial is, in a sentence for audit.json and its readers."""
        return (
            f"one client's update along a coordinate or against it, in {self.rounds:,} private means of "
            f"{self.clients:,} clients"
        )

    @property
    def clients(self) -> int:
        """How many rows the mean of a trial has, canaries among them: the most clients a round asks."""
        return max(self.study.clients.most_asked, 1)

    @property
    def weight(self) -> int:
        """How many coordinates a trial draws: it decides how many trials are one block on disk."""
        return max(self.clients, DIMENSION) * self.rounds

    def checks_repeats(self, trials: int) -> bool:
        """True: means are reals, so two that are the same in an audit come from the same noise."""
        return True

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """Run the trials of canaries by these numbers: what the curator's means say of each, and keys of the means."""
        each, scores, keys = min(self.clients, DIMENSION), np.zeros(len(held)), []
        for start in range(0, len(held), each):
            own = slice(start, min(start + each, len(held)))
            rows = np.zeros((self.clients, DIMENSION))
            place = np.arange(own.stop - start)
            rows[place, place] = LONGER * self.rule.mechanism.clip * np.where(held[own], 1.0, -1.0)
            for round in range(1, self.rounds + 1):
                mean = directions.reading_of(self.study).of_rows(int(numbers[start]) * self.rounds + round, rows)
                scores[own] += mean[place]
                keys.append(keys_of(mean[None].view(np.uint8)))
        return Scored(scores, np.concatenate(keys))
