"""Trials of a node: it holds its own data or its neighbour's, by a coin, and is asked all rounds of a study.

Every trial begins with an empty ledger. The model that is sent is the study's first in every round, so that what the
node has to say depends on the coin alone, and trials are independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clients.node.guard import Node
from clients.training.prepared import division_of, pool_of
from fedpriv import wire
from fedpriv._base.arrays import Numbers, Rows
from fedpriv.accounting.event import Event
from fedpriv.auditing.pairs import keys_of, told_apart
from fedpriv.packed.symbols import packing_of
from fedpriv.randomness.streams import stream
from fedpriv.releases import PrivateSum
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Kind, Study
from fedpriv.trust import Sums
from simulations.audit._node_asks import Ask, Heard, heard, masked
from simulations.audit._node_home import Copy
from simulations.audit._node_messages import of_releases_by, others_of, sent_by
from simulations.audit._node_neighbours import Change, Held
from simulations.audit._node_ratio import Score, of_answers, of_sums
from simulations.audit.trials import Scored


@dataclass(frozen=True)
class World:
    """What a node holds: the data a policy names, or a study's own, all of them or with a change."""

    name: str  # for people
    data: Kind | None = None  # of the policy; None where they are the study's
    change: Change | None = None  # to the study's

    @contextmanager
    def at(self, copy: Copy, budget: float | None = None) -> Iterator[None]:
        """While it lasts, the copied node holds this world's data, and has so much ε where that is given."""
        copy.lay(self.data, budget)
        if self.change is None:
            yield
            return
        known: dict[bytes, Held] = {}
        real, change = Node._data, self.change

        def held(_: Node, study: Study) -> Held:
            """A study's records and division with the change, in the place of what the copied node would hold."""
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
    """A world's records and whose they are, as the copied node itself deals them for a study."""
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
    rounds: int  # from 1 on
    clients: Numbers  # whose data differ

    @cached_property
    def text(self) -> str:
        """The study as the TOML text that a server sends to a node."""
        return study_file.study_text(self.study)

    def ask(self, round: int, weights: Rows, settings: NDArray[np.float64] | None = None) -> Ask:
        """The question of one round, at this model and with these adaptive settings, to be put to the copied node."""
        return Ask(f"round {round}", self.study, self.text, round, self.clients, weights, settings=settings)

    @property
    def first(self) -> NDArray[np.float64] | None:
        """The adaptive settings before the first round, a row for each client asked; None where nothing adapts."""
        own = self.study.first_settings
        return np.tile(np.array(own, np.float64), (len(self.clients), 1)) if own else None


def session(copy: Copy, asked: Asked, weights: Rows, *, adapts: bool = True) -> Iterator[tuple[Ask, Heard]]:
    """Ask the copied node all rounds in turn: each question with its answer; what adapts goes on as the node said.

    Without `adapts` it begins anew in each round, so that no question depends on noise.
    """
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
    beside: str  # the neighbour, for people
    event: Event = field(repr=False)  # what the certificate is of
    copy: Copy = field(repr=False)  # which is asked
    worlds: tuple[World, World] = field(repr=False)  # the node and its neighbour
    held: tuple[Held, Held] = field(repr=False)  # their records, and whose they are
    asked: Asked = field(repr=False)
    weights: Rows = field(repr=False)  # the model that is sent in every round

    holds = most = None
    weight = 1 << 22  # coordinates: a trial is many messages, each through policy and ledger

    @property
    def words(self) -> str:
        """What one trial is, in a sentence for audit.json and its readers: who is asked what, seen in which sum."""
        rounds, clients = self.asked.rounds, len(self.asked.clients)
        who = f"client {self.asked.clients[0]}" if clients == 1 else f"{clients:,} clients"
        seen = f"{rounds:,} rounds of {who} asked of the node or of {self.beside}, through the client's app"
        if not isinstance(self.event.trust, Sums):
            return seen
        others = f"each in a sum with {max(self.event.trust.certain - clients, 0):,} others drawn anew"
        if masked(self.copy, self.asked.study):
            return f"{seen}; masks off, {others}"
        return (
            f"{seen}, {others}, as its policy believes: simulated, no mask hides them, so a server sees each message, "
            "and nothing here is of that"
        )

    def checks_repeats(self, trials: int) -> bool:
        """Whether honest messages or sums of so many trials never coincide: repeats then refute the certificate."""
        return told_apart(self.event, trials * self.event.rounds * len(self.asked.clients))

    @property
    def in_a_tail(self) -> bool:
        """Whether few trials tell the worlds apart, as with releases on drawn batches: the verdict then tries tails."""
        return self.private is not None

    @property
    def ranked(self) -> bool:
        """False: of a node there are too few trials for the verdict to go by the ranks of their scores."""
        return False

    @property
    def private(self) -> PrivateSum | None:
        """The study's release of records where the node's messages carry one; None where a channel draws them."""
        return self.asked.study.privacy.private_sum

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """Ask the copied node through these trials, as itself or as its neighbour: likelihood ratios, and keys."""
        scores, keys = np.zeros(len(held)), [np.zeros(0, np.uint64)]
        for side, world in enumerate(self.worlds):
            with world.at(self.copy):
                for row in np.flatnonzero(held == (side == 0)).tolist():
                    scores[row] = self._trial(int(numbers[row]), keys)
        return Scored(scores, np.concatenate(keys))

    def _trial(self, number: int, keys: list[NDArray[np.uint64]]) -> float:
        """Ask the copied node one session, ledger empty: its log likelihood ratio; keys of messages go into `keys`."""
        study, clients, d, trust = self.asked.study, self.asked.clients, self.weights.size, self.event.trust
        unpack, total = packing_of(study.privacy.drawn_by).unpack, 0.0
        self.copy.begin()
        for ask, found in session(self.copy, self.asked, self.weights):
            for frame in found.frames:
                match frame:
                    case wire.Messages():
                        keys.append(keys_of(frame.payload))
                        seen = unpack(frame.payload, d)
                    case wire.Sum():
                        keys.append(keys_of(frame.total[None].view(np.uint8)))
                        seen = frame.total[None]
                    case wire.Adapted():
                        continue
                if isinstance(trust, Sums) and self.private is None:
                    # Messages of others whose update is 0, drawn anew: as many as the certificate counts.
                    rng = stream(study.run.seed, "audit others", ask.round, number)
                    left = max(trust.certain - len(clients), 0)
                    seen = seen.sum(axis=0) + others_of(study.privacy.channel, left, d, rng)
                total += self._scores[ask.round - 1](seen)
        return total

    @cached_property
    def _scores(self) -> list[Score]:
        """For each round, the function by which a trial scores the symbols seen: alone, or in their sum."""
        study, clients, trust = self.asked.study, self.asked.clients, self.event.trust
        if self.private is not None:
            return [of_releases_by(study, self.held, clients, self.weights)] * self.asked.rounds
        own = study.privacy.drawn_by
        updates = [sent_by(study, held, clients, self.asked.rounds, self.weights) for held in self.held]
        pairs = list(zip(*updates, strict=True))
        if isinstance(trust, Sums):
            return [of_sums(own, x, y, max(trust.certain, len(clients))) for x, y in pairs]
        return [of_answers(own, x, y) for x, y in pairs]
