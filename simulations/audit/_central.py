"""Canary rows in what a curator gives out: a client of each call for each coordinate, through the rule it runs.

Each canary's update lies along a coordinate of its own, far longer than the bound, or points the other way, or is not
there. Noise is independent in every coordinate, so the canaries of a call are independent trials. A trial is the same
canary in all rounds: drawn in each by the study's own coin, or asked when it is its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv.accounting.event import Event
from fedpriv.auditing.pairs import LONGER, keys_of
from fedpriv.errors import FedprivError
from fedpriv.estimation.curators import Curator
from fedpriv.estimation.dp_fedavg import DpFedAvg
from fedpriv.estimation.dp_ftrl import DpFtrl
from fedpriv.estimation.private_mean import PrivateMean
from fedpriv.mechanisms.banded import PLACES, band_numerators
from fedpriv.studies import directions
from fedpriv.studies.study import Study
from fedpriv.trust import units_touched
from simulations.audit.trials import Scored

DIMENSION = 16  # coordinates: a curator clips rows by their norm and draws each coordinate's noise alone


@dataclass(frozen=True)
class Means:
    """All that a curator gives out of one client's updates."""

    study: Study
    rounds: int  # that are charged to it

    holds = most = None

    @property
    def curator(self) -> Curator:
        """The rule by which the server aggregates: the noise that is audited."""
        assert self.study.curator is not None  # or there were nothing to audit here
        return self.study.curator

    @property
    def in_a_tail(self) -> bool:
        """Whether few trials tell who is there: where clients are drawn by chance."""
        return self.event.sampling < 1

    @property
    def ranked(self) -> bool:
        """Whether the verdict goes by ranks of scores: where every canary is in the sums that it may be in."""
        return not self.in_a_tail

    @property
    def checked(self) -> Means:
        """This trial source as it is; refused where the rule's noise is not that of a single mean."""
        found = self.curator
        if isinstance(found, PrivateMean) and found.method != "dp-mean":
            raise FedprivError(
                f"PrivateMean with method = {found.method!r} looks at all rows more than once and chooses by what it "
                "saw: no audit of it is built (dp-mean is audited)"
            )
        return self

    @property
    def event(self) -> Event:
        """The event whose certificate the trials test: all rounds, as they are charged to one client."""
        return self.curator.event(DIMENSION, self.rounds)

    @property
    def words(self) -> str:
        """What one trial is, in a sentence for audit.json and its readers."""
        pair = "or against it" if units_touched(self.event.adjacency) == 2 else "or none"
        drawn = f", drawn at {self.event.sampling:g}" if self.event.sampling < 1 else ""
        return (
            f"one client's update along a coordinate {pair}{drawn}, in {self.rounds:,} rounds of "
            f"{type(self.curator).__name__} with {self.clients:,} clients"
        )

    @property
    def clients(self) -> int:
        """The most clients that a round asks, canaries among them."""
        return max(self.study.clients.most_asked, 1)

    @property
    def _rows(self) -> int:
        """How many rows a call of the rule has: a mean is of all clients, to sums those that are no canary add 0."""
        return self.clients if isinstance(self.curator, PrivateMean) else min(self.clients, DIMENSION)

    @property
    def weight(self) -> int:
        """How many coordinates a trial draws: it decides how many trials are one block on disk."""
        return max(self._rows, DIMENSION) * self.rounds

    def checks_repeats(self, trials: int) -> bool:
        """True: what is given out are reals, so two that are the same in an audit come from the same noise."""
        return True

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """Run the trials of canaries by these numbers: what is given out says of each, and keys of all of it."""
        each, scores, keys = min(self.clients, DIMENSION), np.zeros(len(held)), []
        for start in range(0, len(held), each):
            own = slice(start, min(start + each, len(held)))
            told, clips = self._told(held[own], int(numbers[start]))
            scores[own] = said_of_canaries(self.curator, told[:, : own.stop - start], clips)
            keys.append(keys_of(np.ascontiguousarray(told).view(np.uint8)))
        return Scored(scores, np.concatenate(keys))

    def _told(self, held: NDArray[np.bool_], number: int) -> tuple[Rows, Vector]:
        """What all rounds of one block of canaries give out, a row each, and the clip norm of each round."""
        absent = 1.0 - units_touched(self.event.adjacency)  # −1: the opposite in its place; 0: nothing
        sign = np.where(held, 1.0, absent) * LONGER * (self.curator.bound or 1.0)
        reading = replace(directions.reading_of(self.study), seed=(self.study.run.seed << 64) + number)
        settings, told, clips = self.curator.first_settings, [], []
        for round in range(1, self.rounds + 1):
            asked = np.arange(len(held))
            if isinstance(self.curator, DpFtrl):  # all, when it is their turn
                asked = asked[: 0 if (round - 1) % self.curator.mechanism.apart else None]
            elif self.event.sampling < 1:  # those whose coin says so
                asked = np.intersect1d(asked, self.study.clients.schedule.asked(len(held), reading.seed, round))
            rows = np.zeros((self._rows, DIMENSION))
            rows[asked, asked] = sign[asked]
            clips.append((*settings, self.curator.bound or 1.0)[0])
            found = reading.curated(round, rows, settings)
            told.append(found.total)
            settings = found.settings
        return np.array(told), np.array(clips)


def said_of_canaries(curator: Curator, told: Rows, clips: Vector) -> Vector:
    """What a curator's rounds, a row each with its clip norm, say of each canary, a column: the more, the likelier x.

    Of clipped sums it is ln of the likelihood ratio; of rounds that share noise, W = C·Y against what x adds to it.
    """
    if isinstance(curator, DpFedAvg):
        seen, noise = told * (curator.expected / clips)[:, None], curator.private_sum.noise
        q, x = curator.sampling or 1.0, np.array([1.0, 1.0 - units_touched(curator.adjacency)])[:, None, None]
        with np.errstate(divide="ignore"):
            likely = np.logaddexp(np.log1p(-q), np.log(q) + (x * seen - x * x / 2) / noise**2)
        return np.asarray((likely[0] - likely[1]).sum(axis=0))
    if not isinstance(curator, DpFtrl):
        return np.asarray(told.sum(axis=0))
    factors = np.array(band_numerators(curator.mechanism.bands)) / 2**PLACES
    turns = np.where(np.arange(len(told)) % curator.mechanism.apart == 0, 1.0, 0.0)[:, None]
    mixed, added = (np.array([np.convolve(own, factors)[: len(told)] for own in each.T]).T for each in (told, turns))
    return np.asarray((added * mixed).sum(axis=0))
