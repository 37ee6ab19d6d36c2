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
        """What the server aggregates by."""
        return cast(PrivateMean, self.study.rule)  # or the study were refused

    @property
    def checked(self) -> Means:
        """These means, refused where the noise is not that of a single mean."""
        found = self.rule
        if found.method != "dp-mean":
            raise FedprivError(
                f"PrivateMean with method = {found.method!r} looks at all rows more than once and chooses by what it "
                "saw: no audit of it is built (dp-mean is audited)"
            )
        return self

    @property
    def event(self) -> Event:
        """What the certificate is of."""
        return self.rule.event(DIMENSION, self.rounds)

    @property
    def words(self) -> str:
        """The trial, for people."""
        return (
            f"one client's update along a coordinate or against it, in {self.rounds:,} private means of "
            f"{self.clients:,} clients"
        )

    @property
    def clients(self) -> int:
        """Rows of a mean, canaries among them."""
        return max(self.study.clients.most_asked, 1)

    @property
    def weight(self) -> int:
        """Coordinates a trial draws."""
        return max(self.clients, DIMENSION) * self.rounds

    def checks_repeats(self, trials: int) -> bool:
        """Reals are never the same twice."""
        return True

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """What the means say of each canary, and a key for each mean."""
        each, scores, keys = min(self.clients, DIMENSION), np.zeros(len(held)), []
        for start in range(0, len(held), each):
            own = slice(start, min(start + each, len(held)))
            rows = np.zeros((self.clients, DIMENSION))
            place = np.arange(own.stop - start)
            rows[place, place] = LONGER * self.rule.mechanism.clip * np.where(held[own], 1.0, -1.0)
            for round in range(1, self.rounds + 1):
                mean = directions.of_rows(self.study, int(numbers[start]) * self.rounds + round, rows)
                scores[own] += mean[place]
                keys.append(keys_of(mean[None].view(np.uint8)))
        return Scored(scores, np.concatenate(keys))
