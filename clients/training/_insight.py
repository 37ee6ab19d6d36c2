"""What attackers can know in a round: worked out from everybody's data when first asked for, and kept for the round.

It is a function of the study, the round and the weights, made in chunks of clients in their order; so it is the same
bits in whichever cohort an attacker is. That is what only a simulation can do: it holds all data and all seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clients.training.prepared import Prepared
from clients.training.root import root_update
from fedpriv._base.arrays import Numbers, Rows, Symbols, Vector
from fedpriv.bounds import Bounded
from fedpriv.channel import Channel
from fedpriv.channel.encoding import Seeded
from fedpriv.errors import FedprivError
from fedpriv.packed.symbols import packing_of
from fedpriv.packed.tally import Tally
from fedpriv.studies import directions

Train = Callable[[Rows, int, Numbers, Rows], Collection[int]]  # weights, round, clients, out: the rows that failed


class Trained(NamedTuple):
    """Clients whose updates are finite, and what they computed."""

    clients: Numbers
    updates: Bounded  # held to the study's bound


@dataclass(frozen=True, eq=False)
class Own:
    """What an attacker sees of itself."""

    channel: Channel
    update: Rows  # (1, d)

    @cached_property
    def known(self) -> Vector:
        """An attacker's own update, clipped, (1, d): all the updates that a knowledge of its own shows it."""
        return self.channel.bounded(self.update).applied


class Insight:
    """Everything that can be known in one round; a view hands out what a study allows."""

    def __init__(self, prepared: Prepared, weights: Rows, round: int, byzantine: Numbers, train: Train) -> None:
        self.weights, self.round, self.memory = weights, round, dict[str, Any]()
        self._prepared, self._study, self._net = prepared, prepared.study, prepared.net
        self._plan, self._channel, self._mechanism = prepared.plan, prepared.plan.channel, prepared.plan.mechanism
        self._attackers, self._train = byzantine, train

    @cached_property
    def asked(self) -> Numbers:
        """All clients asked in this round at first, also where fewer are asked again: attackers count with all."""
        return self._plan.participation.asked(self._study.clients.count, self._study.run.seed, self.round)

    @cached_property
    def byzantine(self) -> Numbers:
        """The attackers among the clients asked in this round: those who act on what is known here."""
        return np.intersect1d(self.asked, self._attackers)

    @cached_property
    def honest(self) -> Numbers:
        """The honest among the clients asked in this round: those whose updates and messages are foreseen here."""
        return np.setdiff1d(self.asked, self._attackers)

    @cached_property
    def progress(self) -> Vector:
        """How far the weights have come since the run began, (d,): what attackers see of the model."""
        return self.weights - self._net.initial()

    @cached_property
    def known(self) -> Vector:
        """What attackers see of others: clipped updates of all honest clients asked, or of all attackers, as rows."""
        clients = self.honest if self._study.knowledge == "everything" else self.byzantine
        rows = np.empty((len(clients), self._net.dimension), np.float32)
        count = 0
        for own, updates in self._trained(clients):
            rows[count : count + len(own)] = updates.applied
            count += len(own)
        return rows[:count]

    @property
    def messages(self) -> Symbols:
        """The symbols that honest clients send in this round, a row each: what attackers see who know everything."""
        return packing_of(self._mechanism).unpack(self._sent[1], self._net.dimension)

    def moved(self, row: Vector) -> Vector:
        """The server's direction if every attacker sent that update: the foresight of those who know everything."""
        updates = np.tile(np.asarray(row, np.float32), (len(self.byzantine), 1))
        payload = self._channel.messages(updates, self._noise(self.byzantine))
        if directions.reading_of(self._study).needs_rows:
            matrix, own, reference = self._matrix
            matrix[own] = self._decoded(payload)
            return np.array(directions.reading_of(self._study).of_rows(self.round, matrix, reference))
        total, count = self._honest_total + self._total(payload), len(self._sent[0]) + len(payload)
        return np.array(directions.reading_of(self._study).of_sum(self.round, total, count))

    @cached_property
    def _sent(self) -> tuple[Numbers, NDArray[np.uint8]]:
        """Which honest clients send a message in this round, and the messages, packed, drawn as they draw them."""
        clients, payloads = [], []
        for own, updates in self._trained(self.honest):
            clients.append(own)
            payloads.append(self._channel.messages(updates, self._noise(own)))
        if not clients:
            raise FedprivError("no honest client is asked in this round")
        return np.concatenate(clients), np.concatenate(payloads)

    @cached_property
    def _honest_total(self) -> Numbers:
        """The sum of the honest clients' messages, to foresee the server's direction from."""
        return self._total(self._sent[1])

    def _total(self, payload: NDArray[np.uint8]) -> Numbers:
        """The sum of packed messages as whole numbers, as the server would take it."""
        tally = Tally(self._mechanism, self._net.dimension)
        tally.add(payload)
        return tally.total()

    @cached_property
    def _matrix(self) -> tuple[Rows, Numbers, Vector | None]:
        """What the server's rule will see, sorted by client; which rows are the attackers'; its own update."""
        clients = np.concatenate([self._sent[0], self.byzantine])
        matrix = np.empty((len(clients), self._net.dimension), np.float32)
        places = np.argsort(np.argsort(clients))
        honest, own = places[: len(self._sent[0])], places[len(self._sent[0]) :]
        matrix[honest] = self._decoded(self._sent[1])
        return matrix, own, root_update(self._prepared, self.weights)

    def _decoded(self, payload: NDArray[np.uint8]) -> Vector:
        """Packed messages as rows of numbers, as the server's rule would see them."""
        return directions.reading_of(self._study).rows_seen(
            packing_of(self._mechanism).unpack(payload, self._net.dimension)
        )

    def _trained(self, clients: Numbers) -> Iterator[Trained]:
        """Clients' honest updates, clipped, chunk by chunk, for what attackers know; whoever fails is left out."""
        for start in range(0, len(clients), self._net.chunk):
            chunk = clients[start : start + self._net.chunk]
            updates = np.empty((len(chunk), self._net.dimension), np.float32)
            failed = list(self._train(self.weights, self.round, chunk, updates))
            bounded = self._channel.bounded(updates)
            good = bounded.finite
            good[failed] = False
            yield Trained(chunk[good], bounded.only(good))

    def _noise(self, clients: Numbers) -> Seeded:
        """The seeded noise that these clients' messages of the round are drawn from, the same as they draw."""
        return Seeded(self._study.run.seed, self.round, clients)
