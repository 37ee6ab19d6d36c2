"""The attackers among a cohort's clients: called one after the other, so that who fails, fails alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import NamedTuple, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from clients.data.pool import Pool
from clients.training._gathering import Gathered
from clients.training._insight import Insight, Own
from clients.training.corrupting import ActsOnData, check_labels
from fedpriv import wire
from fedpriv._base.arrays import Numbers, Rows
from fedpriv.aggregation import ClientVote, rule_alone
from fedpriv.attacks import Acts, Silent, View, places_of
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.packed.symbols import packing_of
from fedpriv.population.participation import byzantine_clients
from fedpriv.randomness.streams import stream
from fedpriv.studies.plan import Plan
from fedpriv.studies.study import Study
from fedpriv.wire.replies import ABSENT, BROKEN

Failures = dict[int, str]
Batches = Iterator[tuple[Rows, Numbers]]


class Sent(NamedTuple):
    """The messages of some clients."""

    clients: Numbers
    updates: Rows  # what they computed, clipped
    payload: NDArray[np.uint8]  # a row each, packed

    def without(self, rows: Collection[int]) -> Sent:
        """A cohort chunk's messages but for those rows: attackers that failed, or have sent something else."""
        if not rows:
            return self
        kept = np.setdiff1d(np.arange(len(self.clients)), list(rows))
        return Sent(self.clients[kept], self.updates[kept], self.payload[kept])


class Byzantine:
    """Who attacks in a study, and what each of them does at every step of a round."""

    def __init__(self, plan: Plan, pool: Pool) -> None:
        self._plan, self._study, self._attack = plan, plan.study, informed_attack(plan.study, pool)
        self._places = places_of(self._attack)
        own = self._study.clients
        self.clients = byzantine_clients(own.count, own.attackers, self._study.run.seed)
        self._mechanism, self._one_vote = plan.mechanism, isinstance(rule_alone(plan.rule), ClientVote)

    def among(self, clients: Numbers, method: str) -> list[int]:
        """Rows of the Byzantine among these clients, where the study's attack has that method, such as on_data."""
        if method not in self._places:
            return []
        found: list[int] = np.flatnonzero(np.isin(clients, self.clients)).tolist()
        return found

    def poisoned(
        self, batches: Batches, round: int, clients: Numbers, counts: Numbers | None, classes: int, failures: Failures
    ) -> Batches:
        """Clients' batches, the attackers' own records changed: in a copy, for they may be the pool's.

        `counts` (steps, clients) says how many of a row are a client's own, none that all are.
        """
        rows = self.among(clients, "on_data")
        generators = {row: self._generator(round, clients[row]) for row in rows}

        def act(row: int, x: Rows, y: Numbers, step: int) -> None:
            """Have one attacker change its own records and labels of a batch, in place."""
            own = slice(row, row + 1), slice(None if counts is None else int(counts[step, row]))
            if counts is None or counts[step, row]:
                x[own], y[own] = cast(ActsOnData, self._attack).on_data(x[own], y[own], classes, [generators[row]])

        for step, (x, y) in enumerate(batches):
            x, y = (x.copy(), y.copy()) if rows else (x, y)
            failures.update(_each(rows, partial(act, x=x, y=y, step=step)))
            yield x, y

    def change(self, updates: Rows, clients: Numbers, insight: Insight) -> Failures:
        """Put each attacker's update in the place of its honest one, before clipping; which rows failed, and why."""

        def act(row: int) -> None:
            """Put what one attacker makes of its update, by what it knows, into its row."""
            own = updates[row : row + 1]
            own[:] = self._attack.on_updates(own, self._view(insight, clients[row], own))

        with np.errstate(over="ignore"):
            return _each(self.among(clients, "on_updates"), act)

    def speak(self, sent: Sent, insight: Insight, gathered: Gathered) -> tuple[Sent, Failures]:
        """Attackers' messages in the place of honest ones, less those that failed or are sent otherwise; failures."""

        def message(row: int) -> None:
            """Put one attacker's symbols, packed, in the place of its honest message."""
            sent.payload[row : row + 1] = packing_of(self._mechanism).pack(self._attack.on_messages(*seen(row)))

        def residue(row: int) -> None:
            """Hand one attacker's whole numbers, which no packing holds, to the cohort's sum."""
            gathered.add_residue(sent.clients[row : row + 1], *self._attack.on_residues(*seen(row)))

        def forged(row: int) -> None:
            """Hand one attacker's own bytes, made of its honest frame, to the cohort's reply."""
            who, payload = sent.clients[row : row + 1], sent.payload[row : row + 1]
            dimension = sent.updates.shape[1]
            honest = wire.messages_frame(self._study.id, insight.round, who, payload, dimension, self._mechanism)
            gathered.add_forged(bytes(self._attack.on_bytes(honest)))

        def seen(row: int) -> tuple[Rows, View]:
            """What one attacker's message is made from: its clipped update, and its view of the round."""
            own = sent.updates[row : row + 1]
            return own, self._view(insight, sent.clients[row], own)

        failures = _each(self.among(sent.clients, "on_messages"), message)
        apart = [(self.among(sent.clients, "on_residues"), residue), (self.among(sent.clients, "on_bytes"), forged)]
        for rows, act in apart:
            failures |= _each(rows, act)
        return sent.without([*failures, *(row for rows, _ in apart for row in rows)]), failures

    def _view(self, insight: Insight, client: int, update: Rows) -> View:
        """What one attacker sees in this round, as far as the study's knowledge allows."""
        knowledge = self._study.knowledge
        return View(
            knowledge=knowledge,
            seen=Own(self._plan.channel, update.copy()) if knowledge == "own" else insight,
            foresight=insight if knowledge == "everything" else None,
            generators=lambda: [self._generator(insight.round, client)],
            shared=lambda: stream(self._study.run.seed, "attack together"),
            mechanism=self._mechanism, one_vote=self._one_vote,
            asked=len(insight.asked), byzantine=len(insight.byzantine),
            progress=insight.progress, step=relative_step(self._study, insight.round),
            memory={} if knowledge == "own" else insight.memory,
        )  # fmt: skip

    def _generator(self, round: int, client: int) -> Generator:
        """One attacker's own random stream in a round, from the study's seed."""
        return stream(self._study.run.seed, "attack", round, int(client))


def _each(rows: Iterable[int], act: Callable[[int], None]) -> Failures:
    """Have something done for every attacker's row; which rows failed, or are silent by intent, and why."""
    failures: Failures = {}
    for row in rows:
        try:
            act(row)
        except Silent as error:
            failures[row] = f"{ABSENT}: {error}"
        except FAULTS as error:
            failures[row] = f"{BROKEN}: {reason(error)}"
    return failures


def relative_step(study: Study, round: int) -> float:
    """How far a study's server goes for an update in a round, counted in what its client went; 1 of one gradient."""
    own, server = study.training, study.server
    return 1.0 if own.local_steps == 1 else server.step_in(round, study.run.rounds) / own.learning_rate


def informed_attack(study: Study, pool: Pool) -> Acts:
    """The attack of a study as its attackers have it, told all training records of its source class if it has one."""
    attack = cast(Acts, study.attacker)
    if getattr(attack, "source", None) is None or not hasattr(attack, "informed"):
        return attack
    numbers = np.flatnonzero(pool.y == attack.source)  # type: ignore[attr-defined]
    return attack.informed(pool.batch(numbers[None])[0][0])


def tried_records(study: Study, pool: Pool) -> tuple[Rows, Numbers] | None:
    """The held-out records that a study's backdoor is tried on, stamped, and the label it wants; None without any."""
    attack = informed_attack(study, pool)
    if not hasattr(attack, "on_test") or not len(pool.y_test):
        return None
    x = attack.on_test(pool.x_test, pool.y_test)
    if not len(x):
        raise FedprivError("no held-out record has what the backdoor's trigger asks for, to try it on: data.held_out")
    return x, np.full(len(x), attack.target)  # type: ignore[attr-defined]


def check_records(study: Study, pool: Pool) -> None:
    """Refuse a study whose attack on data is for other classes or records than the pool's: it is tried on no records.

    A backdoor must have records to train on and, where any are held out, some to try it on.
    """
    attack = cast(ActsOnData, study.attacker)
    if "on_data" in places_of(attack):
        try:
            check_labels(attack, pool)
            attack.on_data(np.zeros((0, 1, *pool.shape), np.float32), np.zeros((0, 1), np.int64), pool.classes, [])
            tried_records(study, pool)
        except FedprivError as error:
            raise FedprivError(f"attack: {error}") from None
        except FAULTS:
            pass  # somebody's own, which does not like to work on nothing
