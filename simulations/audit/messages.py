"""Canaries that send messages: clients beside a study's own, through its own channel, noise and packing.

Of a record that is promised something, each client draws its batches as the study's do. One that has drawn the canary
record sends x; one that has not, or does not hold it, sends −x: the other records' gradients point the other way.

Under secure aggregation a trial is the sum of one canary's message and of the others', who are drawn anew each time:
the mask is off, and the release function is all that is audited. A few others send messages of their own; of more the
law of their sum is drawn, so that a fault of their noise does not show.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from clients.training.chance import drawn_by_chance
from clients.training.cohort import noise_of
from fedpriv._base.arrays import Numbers, Vector
from fedpriv.accounting.event import Event
from fedpriv.auditing.laws import Ratio, log_ratio, of_sums
from fedpriv.auditing.pairs import LONGER, Canaries, Pair, keys_of, most_told, pair_of, told_apart
from fedpriv.auditing.statistic import mu_of_share
from fedpriv.bounds import Bounded
from fedpriv.bounds.clipping import Matrix
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Gaussian, Laplace, Ternary
from fedpriv.packed.symbols import packing_of
from fedpriv.randomness.streams import stream
from fedpriv.studies.study import Study
from fedpriv.studies.tables import Noise
from fedpriv.trust import MOST, Central, Local, Sums
from simulations.audit._crowds import Seen, crowd_of, with_crowd
from simulations.audit.trials import Scored

FEW = 3  # others whose messages are drawn by the channel too; more are drawn from the law of their sum
APART = 2**40  # between the numbers of a canary and of those beside it
SYMBOLS = 50  # of a trial, from which on its scores are ranked


@dataclass(frozen=True)
class _Alike:
    """How records are divided in an audit: every client, whatever its number, has as many, its canary the last."""

    records_each: int
    disjoint = True
    clients = MOST

    def of(self, clients: Numbers) -> Numbers:
        """The record numbers of these clients, (clients, records_each)."""
        return np.tile(np.arange(self.records_each), (len(clients), 1))


def said_by_chance(said: Vector, met: float) -> Vector:
    """What audited messages say of a record that is drawn with the chance `met`, from what they say of x against −x.

    The law of a message is met·P + (1 − met)·Q where the record is held, and Q where it is not.

    >>> said_by_chance(np.array([0.0, 2.0, -50.0]), 0.5).round(4)
    array([ 0.    ,  1.4338, -0.6931])
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log1p(-met), np.log(met) + said))


@dataclass(frozen=True)
class Messages:
    """All messages of one client over all rounds, as they leave: the trial of local trust, and of sums."""

    event: Event  # what the certificate is of: all rounds of one client
    channel: Channel  # which bounds, encodes and packs
    source: Noise  # where the noise comes from
    seed: int  # the study's
    study: Study | None = None  # whose clients draw their batches by chance, where canaries are records

    @property
    def in_a_tail(self) -> bool:
        """Whether few trials tell x from x′: those of a record that is seldom drawn."""
        return self.study is not None

    @cached_property
    def pair(self) -> Pair:
        """The inputs x and x′ that the canaries send: the explicit pair of the event that is told apart best."""
        return pair_of(self.event)

    @property
    def words(self) -> str:
        """What one trial is, in a sentence for audit.json and its readers: which inputs, seen in which sum."""
        pair, rounds = self.pair, self.event.rounds
        on = f"{pair.coordinates:,} of {self.event.dimension:,} coordinates"
        inputs = f"x = {pair.level:.6g} on {on} or −x, {rounds:,} messages"
        if self.study is not None:
            rate = f"{self.study.training.sampling:g}, {self.study.training.local_steps} step(s) a message"
            inputs = f"one record that makes −x of {on} into x where it is drawn (at {rate}), {rounds:,} messages"
        match self.event.trust:
            case Local():
                return f"{inputs} through the study's own channel"
            case Sums(certain):
                return f"{inputs}, each in a sum with {certain - 1:,} others drawn anew, masks off"
            case Central():
                raise FedprivError("a curator's noise is not a client's")
            case _ as never:
                assert_never(never)

    @property
    def ranked(self) -> bool:
        """Whether a trial sums so many symbols that scores hardly coincide: the verdict then goes by their ranks."""
        return self.study is None and self.pair.coordinates * self.event.rounds >= SYMBOLS

    @property
    def holds(self) -> float | None:
        """μ of the canaries' own inputs, for the report beside the audited one; None of sums, not worked out."""
        alone = isinstance(self.event.trust, Local) and self.study is None
        return mu_of_share((1 + self.pair.advantage) / 2) if alone else None

    @property
    def most(self) -> float | None:
        """The largest share of coins an attacker can tell from canaries' inputs: more is a fault; None of sums."""
        alone = isinstance(self.event.trust, Local) and self.study is None
        return most_told(self.event, self.pair) if alone else None

    @property
    def weight(self) -> int:
        """How many coordinates a trial draws: it decides how many trials are one block on disk."""
        return self.event.dimension * self.event.rounds

    def checks_repeats(self, trials: int) -> bool:
        """Whether honest messages of so many trials never coincide, so that repeats refute the certificate."""
        return told_apart(self.event, trials * self.event.rounds)

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """Send canaries' messages through the study's own channel: log likelihood ratios, and keys of messages."""
        canaries = Canaries(self.pair, self.event.dimension)
        own, others = self.channel.mechanism, np.zeros((len(held), self.event.dimension), np.float32)
        if not (isinstance(own, Ternary | Gaussian) or hasattr(own, "aggregated")):
            others[:, : self.pair.coordinates] = -LONGER * self.pair.level  # votes hide least beside those that hold x′
        scores, keys = np.zeros(len(held)), []
        seen, ratio = self._seen
        for round in range(1, self.event.rounds + 1):
            if self.study is not None:  # the canary record, the last of each client's, is where a step has drawn it
                records = self.study.clients.records
                chance = drawn_by_chance(self.study, _Alike(records), self.source, round, numbers)
                updates = canaries.updates(held & chance.drew(records - 1))
            else:
                updates = canaries.updates(held)
            payload = self._messages(self.channel.bounded(updates), round, numbers)
            symbols = self._symbols(payload)
            for place in range(1, self._few + 1):
                symbols = symbols + self._symbols(self._messages(others, round, numbers + place * APART))
            said = ratio(seen(symbols, stream(self.seed, "audit others", round, int(numbers[0])))).sum(axis=1)
            scores += said if self.study is None else said_by_chance(said, self.event.sampling)
            keys.append(keys_of(payload))
        return Scored(scores, np.concatenate(keys))

    def _messages(self, updates: Matrix | Bounded, round: int, numbers: Numbers) -> NDArray[np.uint8]:
        """The packed messages that the study's channel draws from updates, for clients of these numbers."""
        return self.channel.messages(updates, noise_of(self.source, self.seed, round, numbers))

    def _symbols(self, payload: NDArray[np.uint8]) -> NDArray[Any]:
        """The symbols of packed messages where a canary's x and x′ differ, wide enough to be added up."""
        own = packing_of(self.channel.mechanism).unpack(payload, self.event.dimension)[:, : self.pair.coordinates]
        return own.astype(np.int64) if own.dtype.kind in "iu" else own

    @property
    def _certain(self) -> int:
        """How many clients' noise is in what the attacker sees, the canary's among it: 1 where messages are seen."""
        match self.event.trust:
            case Local():
                return 1
            case Sums(certain):
                return certain
            case Central():
                raise FedprivError("a curator's noise is not a client's")
            case _ as never:
                assert_never(never)

    @property
    def _few(self) -> int:
        """How many others of a trial's sum send messages of their own: 0 where the law of their sum is drawn."""
        return self._certain - 1 if self._certain - 1 <= FEW else 0

    @cached_property
    def _seen(self) -> tuple[Seen, Ratio]:
        """How trials see symbols, alone or in a sum with others drawn, and the log likelihood ratio of what they see.

        Noise that adds up is drawn as one; of votes it is their number.
        """
        own, level, certain = self.channel.mechanism, self.pair.level, self._certain
        known = 0  # what the symbols of a few others come to without their noise
        drawn: Seen
        match own:
            case _ if certain == 1:
                drawn, ratio = (lambda symbols, _: symbols), log_ratio(own, level, -level)
            case Gaussian(noise=noise):
                fine, alone = own.fine, log_ratio(own, level, -level)
                beside = noise * sqrt(certain - 1)  # the others' noise together
                drawn, ratio = (
                    lambda symbols, rng: fine.noisy(fine.whole(symbols), beside, 2, rng),
                    lambda seen: alone(seen) / certain,  # the variance is so many times as large
                )
            case Laplace():
                raise FedprivError("Laplace has no certificate under secure aggregation")
            case _ if hasattr(own, "aggregated") and hasattr(own, "grid"):
                k, mass = own.aggregated(certain - 1).law
                drawn, ratio = with_crowd(int(k[0]), np.exp(mass)), log_ratio(own.aggregated(certain), level, -level)
                known = self._few * int(own.grid.index([0.0])[0])
            case _:
                crowd = crowd_of(own, level, certain - 1)
                drawn, ratio = with_crowd(*crowd), of_sums(own, level, -level, crowd)
        return (lambda symbols, _: symbols - known) if self._few else drawn, ratio
