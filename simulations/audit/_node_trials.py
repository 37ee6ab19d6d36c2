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
from numpy.random import Generator
from numpy.typing import NDArray

from clients import own_ledger
from clients.cohort import Cohort, division_of, net_of, pool_of
from clients.gradients import Net
from clients.guard import Node
from clients.per_record import together
from clients.pool import Pool
from clients.splits import records_of
from fedpriv import study_file, wire
from fedpriv.arrays import Vector
from fedpriv.audit.pairs import keys_of, told_apart
from fedpriv.channel import Channel
from fedpriv.clipping import clip_factors
from fedpriv.encoding import Fresh
from fedpriv.event import Event
from fedpriv.mechanisms import Binomial, Cldp, Mechanism
from fedpriv.packing import packing
from fedpriv.private_sums import PrivateSum
from fedpriv.random_streams import stream
from fedpriv.study import Kind, Study
from fedpriv.trust import Sums
from simulations.audit.node_asks import Ask, Heard, heard
from simulations.audit.node_home import Copy
from simulations.audit.node_neighbours import Change, Held
from simulations.audit.node_ratio import Score, of_messages, of_releases, of_sums
from simulations.audit.trials import Scored

AT_ONCE = 1 << 22  # symbols of others drawn at a time
Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]


@dataclass(frozen=True)
class World:
    """What a node holds: the data a policy names, or a study's own, all of them or with a change."""

    name: str
    data: Kind | None = None
    change: Change | None = None

    @contextmanager
    def at(self, copy: Copy) -> Iterator[None]:
        """The copy holds it meanwhile. Where the data are the study's, it is the node's own door that says so."""
        copy.lay(self.data)
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

    holds = None
    weight = 1 << 22  # coordinates: a trial is many messages, each through policy and ledger

    def checks_repeats(self, trials: int) -> bool:
        """Whether no two honest messages can be the same: of sums and releases none is looked at."""
        if self.private is not None or isinstance(self.event.trust, Sums):
            return False
        return told_apart(self.event, trials * self.event.rounds)

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
                if isinstance(frame, wire.Messages):
                    keys.append(keys_of(frame.payload))
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


def others_of(channel: Channel, count: int, d: int, rng: Generator) -> Vector:
    """The sum of so many messages whose update is 0: of votes by the law of their number, else one by one."""
    if not isinstance(channel.mechanism, Cldp) and hasattr(channel.mechanism, "chance"):
        own: Any = channel.mechanism
        trials = count * getattr(own, "trials", 1)
        votes = rng.binomial(trials, own.chance(np.zeros(d)))
        return np.asarray(votes if isinstance(own, Binomial) else 2 * votes - trials, float)
    total = np.zeros(d)
    for start in range(0, count, most := max(1, AT_ONCE // d)):
        some = min(most, count - start)
        payload = channel.messages(np.zeros((some, d), np.float32), Fresh(rng, some))
        total += packing(channel.mechanism).unpack(payload, d).sum(axis=0, dtype=np.float64)
    return total


def sent_by(study: Study, held: Held, clients: Numbers, rounds: int, weights: Rows) -> list[Vector]:
    """What these clients' messages are drawn from, round by round: updates as the cohort makes and bounds them."""
    cohort = Cohort(study, held, "seeded", answers=True)
    found: list[Vector] = []
    peak = getattr(study.privacy.chosen, "peak", np.inf)
    for round in range(1, rounds + 1):
        out = np.empty((len(clients), weights.size), np.float32)
        for start in range(0, len(clients), cohort.net.chunk):
            some = slice(start, start + cohort.net.chunk)
            failed = cohort._train(weights, round, clients[some], out[some])
            out[some][list(failed)] = 0
        out[~cohort.channel.bounded(out).finite] = 0
        found.append(np.clip(cohort.channel.bounded(out).applied.astype(np.float64), -peak, peak))
    return found


def release_of(study: Study, held: tuple[Held, Held], client: int, weights: Rows) -> tuple[int, Vector, Vector, float]:
    """Of one client: which world has more, what is expected without that, how much more, and all other variance."""
    own = study.privacy.private_sum
    assert own is not None
    sides = [(pool, records_of(division, client)) for pool, division in held]
    net, sign = net_of(study, sides[0][0]), 1
    if len(sides[1][1]) > len(sides[0][1]):
        sides, sign = sides[::-1], -1
    more, base = (_summed(net, own, *side, weights)[0] for side in sides)
    way = more - base
    steps, length = study.training.local_steps, float(np.linalg.norm(way))
    beside = _summed(net, own, *sides[1], weights, way / length)[1] if length else 0.0
    noise = float(getattr(own, "noise", 1.0)) * own.clip
    spread = steps * (noise**2 + own.sampling * (1 - own.sampling) * beside)
    return sign, steps * own.sampling * base, way, spread


def _summed(
    net: Net, own: PrivateSum, pool: Pool, records: Numbers, weights: Rows, along: Vector | None = None
) -> tuple[Vector, float]:
    """The sum of the clipped gradients of some records, and of their squares along a direction."""
    total, squares = np.zeros(net.dimension), 0.0
    for start in range(0, len(records), size := together(net.dimension)):
        some = records[start : start + size]
        x, y = pool.batch(some[None])
        rows = np.empty((len(some), net.dimension), np.float32)
        net.each(weights, x[0], y[0], rows)
        factors = clip_factors(rows, own.clip, own.norm)
        usable = np.isfinite(factors)
        clipped = rows[usable].astype(np.float64) * factors[usable, None]
        total += clipped.sum(axis=0)
        squares += 0.0 if along is None else float(((clipped @ along) ** 2).sum())
    return total, squares


def event_of(copy: Copy) -> tuple[Event, ...]:
    """What the copy's ledger has come to, for one unit of its policy."""
    with own_ledger.opened(copy.ledger, copy.home.place) as ledger:
        return ledger.events(unit=copy.home.policy.unit)
