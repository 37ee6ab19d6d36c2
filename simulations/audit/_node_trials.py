"""Trials of a node: it holds its own data or its neighbour's, by a coin, and is asked all rounds of a study.

Every trial begins with an empty ledger. The model that is sent is the study's first in every round, so that what the
node has to say depends on the coin alone, and trials are independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.node.guard import Node
from clients.training.prepared import division_of, pool_of
from fedpriv import wire
from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.auditing.pairs import keys_of, told_apart
from fedpriv.mechanisms import Mechanism
from fedpriv.packed.symbols import packing
from fedpriv.randomness.streams import stream
from fedpriv.releases import PrivateSum
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Kind, Study
from fedpriv.trust import Sums
from simulations.audit._node_asks import Ask, Heard, heard
from simulations.audit._node_home import Copy
from simulations.audit._node_messages import others_of, release_of, sent_by
from simulations.audit._node_neighbours import Change, Held
from simulations.audit._node_ratio import Score, of_messages, of_releases, of_sums
from simulations.audit.trials import Scored

Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]


@dataclass(frozen=True)
class World:
    """What a node holds: the data a policy names, or a study's own, all of them or with a change."""

    name: str
    data: Kind | None = None
    change: Change | None = None

    @contextmanager
    def at(self, copy: Copy, budget: float | None = None) -> Iterator[None]:
        """The copy holds it meanwhile. Where the data are the study's, it is the node's own door that says so."""
        copy.lay(self.data, budget)
        if self.change is None:
            yield
            return
        known: dict[bytes, Held] = {}
        real, change = Node._data, self.change

        def held(_: Node, study: Study) -> Held:
            if study.id not in known:
                pool = pool_of(study)
                known[study.id] = change.of_study(pool, division_of(study, pool))
            return known[study.id]

        setattr(Node, "_data", held)  # noqa: B010 – mypy takes no method's place
        try:
            yield
        finally:
            setattr(Node, "_data", real)  # noqa: B010


def held_by(copy: Copy, world: World, study: Study) -> Held:
    """A world's records and whose they are, as the node itself has them."""
    with world.at(copy):
        found = Node.of(copy.config)._data(study)
    if found is None:
        pool = pool_of(study)
        return pool, division_of(study, pool)
    return found


@dataclass(frozen=True)
class Asked:
    """What is asked in all rounds: of whom, of which study, and at which model."""

    study: Study
    rounds: int
    clients: Numbers  # whose data differ

    @cached_property
    def text(self) -> str:
        """The study as a server sends it."""
        return study_file.text(self.study)

    def ask(self, round: int, weights: Rows, settings: NDArray[np.float64] | None = None) -> Ask:
        """One round."""
        return Ask(f"round {round}", self.study, self.text, round, self.clients, weights, settings=settings)

    @property
    def first(self) -> NDArray[np.float64] | None:
        """The settings that releases begin with, a row a client; none where nothing adapts."""
        own = self.study.first_settings
        return np.tile(np.array(own, np.float64), (len(self.clients), 1)) if own else None


def session(copy: Copy, asked: Asked, weights: Rows, *, adapts: bool = True) -> Iterator[tuple[Ask, Heard]]:
    """All rounds one after another: what adapts goes on as the node itself has said, or begins anew in each."""
    settings = asked.first
    for round in range(1, asked.rounds + 1):
        ask = asked.ask(round, weights, settings)
        found = heard(copy, ask)
        if adapts:
            settings = next((each.settings for each in found.frames if isinstance(each, wire.Adapted)), settings)
        yield ask, found


@dataclass(frozen=True)
class NodeTrials:
    """All answers of a node over all rounds, by the data it holds."""

    about: str  # all that the trials depend on
    words: str
    event: Event = field(repr=False)
    copy: Copy = field(repr=False)
    worlds: tuple[World, World] = field(repr=False)
    held: tuple[Held, Held] = field(repr=False)
    asked: Asked = field(repr=False)
    weights: Rows = field(repr=False)

    holds = most = None
    weight = 1 << 22  # coordinates: a trial is many messages, each through policy and ledger

    def checks_repeats(self, trials: int) -> bool:
        """Whether no two honest messages can be the same, nor two sums, in which there is more noise than in one."""
        return told_apart(self.event, trials * self.event.rounds * len(self.asked.clients))

    @property
    def in_a_tail(self) -> bool:
        """Whether what tells worlds apart is rare: of releases, whose batches are drawn."""
        return self.private is not None

    @property
    def ranked(self) -> bool:
        """Whether scores take so many values that their ranks tell more than guesses: not of so few trials."""
        return False

    @property
    def private(self) -> PrivateSum | None:
        """The release, where messages carry one."""
        return self.asked.study.privacy.private_sum

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """The log likelihood ratio of each trial's answers, and a key for each message."""
        scores, keys = np.zeros(len(held)), [np.zeros(0, np.uint64)]
        for side, world in enumerate(self.worlds):
            own = np.flatnonzero(held == (side == 0))
            with world.at(self.copy):
                for row in own.tolist():
                    scores[row], seen = self._trial(int(numbers[row]))
                    keys += seen
        return Scored(scores, np.concatenate(keys))

    def _trial(self, number: int) -> tuple[float, list[NDArray[np.uint64]]]:
        self.copy.begin()
        total, keys = 0.0, []
        for ask, found in session(self.copy, self.asked, self.weights):
            for frame in found.frames:
                match frame:
                    case wire.Messages():
                        keys.append(keys_of(frame.payload))
                    case wire.Sum():
                        keys.append(keys_of(frame.total[None].view(np.uint8)))
                if not isinstance(frame, wire.Adapted):
                    total += self._said(ask.round, frame, number)
        return total, keys

    def _said(self, round: int, frame: wire.Messages | wire.Sum, number: int) -> float:
        """What a frame says for the first world."""
        own = self.asked.study.privacy.chosen
        seen = packing(own).unpack(frame.payload, self.weights.size) if isinstance(frame, wire.Messages) else (
            frame.total[None]
        )  # fmt: skip
        if self.private is not None:
            return self._of_releases(np.asarray(own.decode(seen, 1)))
        if isinstance(self.event.trust, Sums):
            seen = seen.sum(axis=0) + self._others(round, number)
        return self._scores[round - 1](seen)

    @cached_property
    def _scores(self) -> list[Score]:
        """For each round, what messages say: one by one, or the sum of all where that is what is seen."""
        own, clients = self.asked.study.privacy.chosen, self.asked.clients
        updates = [sent_by(self.asked.study, held, clients, self.asked.rounds, self.weights) for held in self.held]
        pairs = list(zip(*updates, strict=True))
        match self.event.trust:
            case Sums(certain):
                return [of_sums(own, x, y, max(certain, len(clients))) for x, y in pairs]
            case _:
                return [_of_either(own, x, y) for x, y in pairs]

    def _others(self, round: int, number: int) -> Vector:
        """Messages of others whose update is 0, drawn anew: as many as the certificate counts."""
        assert isinstance(self.event.trust, Sums)
        study, d = self.asked.study, self.weights.size
        left = max(self.event.trust.certain - len(self.asked.clients), 0)
        return others_of(study.privacy.channel, left, d, stream(study.run.seed, "audit others", round, number))

    def _of_releases(self, out: Any) -> float:
        own, study = self.private, self.asked.study
        assert own is not None
        expected, steps = own.sampling * study.clients.records, study.training.local_steps
        return sum(
            sign * of_releases(row * expected, base, way, spread, own.sampling, steps)
            for row, (sign, base, way, spread) in zip(out, self._releases, strict=True)
        )

    @cached_property
    def _releases(self) -> list[tuple[int, Vector, Vector, float]]:
        return [release_of(self.asked.study, self.held, client, self.weights) for client in self.asked.clients.tolist()]


def _of_either(own: Mechanism, x: Vector, y: Vector) -> Score:
    """Of messages one by one; where a node adds up those of its clients, which is smaller, of their sum."""
    alone, added, many = of_messages(own, x, y), of_sums(own, x, y, len(x)), len(x)
    return lambda seen: alone(seen) if len(seen) == many else added(seen.sum(axis=0))
