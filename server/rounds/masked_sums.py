"""Rounds whose sums nobody sees the parts of: `fedpriv.masking.session` over whoever carries its phases' messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

import numpy as np

from fedpriv import wire
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError
from fedpriv.masking import vector
from fedpriv.masking.roster import terms_of
from fedpriv.masking.session import Session
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from fedpriv.trust import sums_only
from server.rounds.driver import Answer, Driver, Task

Take = Callable[[int, bytes], None]  # of a node, what it sent; `Rejected` where it does not fit


class Carrier(Driver, Protocol):
    """A driver whose nodes take part in masked sums."""

    def cohorts(self, clients: Numbers) -> dict[int, Numbers]:
        """Which of these clients each node hosts, by the node's number: the members of a masked sum."""

    def exchange(self, task: Task, cohorts: Mapping[int, Numbers], phase: str, bodies: Mapping[int, bytes]) \
            -> Iterator[tuple[int, Answer]]:  # fmt: skip
        """One phase of a masked sum: what each node is told, and its answer, in any order, within the time-out."""

    def one_round(self) -> AbstractContextManager[None]:
        """A context that all phases of a round's masked sum are in, as one round of the driver's."""


def masks_sums(study: Study, deployed: bool) -> bool:
    """Whether a study's sums are masked: where it promises that sums alone are seen and is no plain simulation."""
    rehearsed = study.masking is not None and study.masking.rehearse
    return sums_only(study.privacy.trust) and (deployed or rehearsed)


class MaskedSums:
    """Asks nodes for a masked sum of their clients' messages; of any one of them it learns nothing."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def ask(self, task: Task) -> Iterator[Answer]:
        """A round by a masked sum: one answer for all in the sum, and one for each node that has dropped out."""
        with self._carrier.one_round():
            yield from _Round(self._carrier, task).answers()

    def close(self) -> None:
        """Let go of whatever the carrier of masked sums holds, at a run's end."""
        self._carrier.close()


class _Round:
    """One sum: the session, who has dropped out of it and why."""

    def __init__(self, carrier: Carrier, task: Task) -> None:
        self._carrier = carrier
        self._task = task
        self._study: Study = study_file.parsed_study(task.study)
        self._cohorts = carrier.cohorts(task.clients)
        hosted = {node: len(own) for node, own in self._cohorts.items()}
        terms = terms_of(self._study, task.study, task.round, hosted)
        own, dimension = self._study, len(task.weights)
        self._expected = wire.Expected(own.id, task.round, task.clients, dimension, own.privacy.drawn_by, own.masked)
        self._session = Session(terms, hosted, dimension, vector.width_of(self._expected), task.weights.tobytes())
        self._lost: dict[int, str] = {}  # nodes that have dropped out, and why
        self._rejected: list[wire.Rejected] = []
        self._clients: list[Numbers] = []  # whose messages are in the sum
        self._failed: dict[int, str] = {}  # clients without a message, and why
        self._transport = 0  # bytes, both ways

    def answers(self) -> Iterator[Answer]:
        """What a round without masks would have come to: an answer for the sum, and one for each node lost."""
        try:
            content, why = self._summed(), ""
        except FedprivError as error:
            content, why = None, str(error)
        left = [own for node, own in self._cohorts.items() if node not in self._lost]
        everyone = np.sort(np.concatenate(left)) if left else np.empty(0, np.int64)
        rejected = (*self._rejected, *self._session.rejected)
        yield Answer(everyone, content, why, self._transport, rejected)
        for node, reason in self._lost.items():
            yield Answer(self._cohorts[node], None, reason)

    def _summed(self) -> bytes:
        """All phases of a round's masked sum: a reply that holds the sum of those who stay."""
        session = self._session
        self._phase("keys", dict.fromkeys(self._cohorts, b""), session.take_keys)
        roster = session.roster
        self._phase("shares", dict.fromkeys(roster.entries, roster.content), session.take_shares)
        self._phase("vector", {node: session.letters(node) for node in session.present}, self._take_vector)
        listed, survivors = session.listed(), list(session.survivors)
        if session.roster.signed:
            self._phase("survivors", dict.fromkeys(survivors, listed), session.take_signature)
        self._phase("opening", dict.fromkeys(survivors, session.opening()), session.take_opened)
        steps = session.total()
        for node in set(survivors) & set(self._lost):  # its vector is in the sum, whoever opened it
            del self._lost[node]
        clients = np.sort(np.concatenate(self._clients))
        total = vector.total_of(steps, len(clients), self._study.privacy.drawn_by)
        return wire.reply_bytes([wire.sum_frame(self._study.id, self._task.round, clients, total)], self._failed)

    def _phase(self, phase: str, bodies: Mapping[int, bytes], take: Take) -> None:
        """Tell nodes what one phase has for them, and take their answers; whose answer does not fit has dropped out."""
        asked = {node: self._cohorts[node] for node in bodies}
        for node, answer in self._carrier.exchange(self._task, asked, phase, bodies):
            self._transport += answer.transport
            if answer.content is None:
                self._lost[node] = answer.error or "no answer"
                continue
            try:
                take(node, answer.content)
            except wire.Rejected as error:
                self._rejected.append(error)
                self._lost[node] = str(error)

    def _take_vector(self, node: int, content: bytes) -> None:
        """Take a node's masked vector into the sum, and note which of its clients' messages are in it."""
        sent = vector.read_vector(content, replace(self._expected, clients=self._cohorts[node]))
        self._session.take_masked(node, sent.residues, len(sent.clients))
        self._clients.append(sent.clients)
        self._failed |= sent.failed
