"""A cohort's messages on their way into a reply: stacked, or added up where only a sum is needed and is smaller."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedpriv import wire
from fedpriv._base.arrays import Numbers
from fedpriv.packed.symbols import REAL, packing_of
from fedpriv.packed.tally import Tally
from fedpriv.studies.plan import Plan
from fedpriv.trust import sums_only


class Gathered:
    """One frame for all; attackers that forge bytes have frames of their own."""

    def __init__(self, plan: Plan, clients: int, round: int) -> None:
        self._study, self._mechanism, self._dimension, self._round = plan.study, plan.mechanism, plan.dimension, round
        self._clients: list[Numbers] = []
        self._payloads: list[NDArray[np.uint8]] = []
        self._forged: list[bytes] = []
        self._residues = np.zeros(1, np.int64)  # of those whose messages no packing holds
        self._alone = 0  # bytes that messages would have taken by themselves
        self._tally = Tally(self._mechanism, plan.dimension) if summed(plan, clients) else None

    def add(self, clients: Numbers, payload: NDArray[np.uint8]) -> None:
        """Take in the packed messages of some clients, for the cohort's reply."""
        self._clients.append(clients)
        if self._tally is None:
            self._payloads.append(payload)
        else:
            self._tally.add(payload)
            if self._study.masked is None:
                self._alone += wire.alone(self._mechanism, self._dimension, payload) or 0

    def add_residue(self, client: Numbers, row: Numbers) -> None:
        """Take in an attacker's message that no packing holds into the cohort's sum, modulo 2ʷ as masks would."""
        if self._study.masked is None or row.shape != (self._dimension,) or row.dtype.kind not in "iu":
            raise ValueError(f"residues are {self._dimension} whole numbers under secure aggregation, got {row!r}")
        self._residues = self._residues + wire.wrapped_sum(row, 1, self._mechanism, self._study.masked)
        self._clients.append(client)

    def add_forged(self, frame: bytes) -> None:
        """Take in the bytes that an attacker sends in the place of its frame in the cohort's reply."""
        self._forged.append(frame)

    def frames(self) -> Iterator[bytes]:
        """The frames of a cohort's reply: one of all messages, if anybody has sent any, and those that are forged."""
        clients = np.concatenate(self._clients) if self._clients else np.empty(0, np.int64)
        if clients.size and self._tally is None:
            payload = np.concatenate(self._payloads)
            yield wire.messages_frame(self._study.id, self._round, clients, payload, self._dimension, self._mechanism)
        elif clients.size and self._tally is not None:
            total = self._tally.total()
            if self._residues.any():
                assert self._study.masked is not None  # or there would be none
                total = wire.wrapped_sum(total + self._residues, len(clients), self._mechanism, self._study.masked)
            yield wire.sum_frame(self._study.id, self._round, clients, total, self._alone or None)
        yield from self._forged


def summed(plan: Plan, clients: int) -> bool:
    """Whether a cohort of so many clients replies with its sum: where nobody may see more, else where it is smaller."""
    if sums_only(plan.study.privacy.trust):
        return True
    form = packing_of(plan.mechanism)
    if plan.rule.needs_rows or form == REAL:  # sums of floats depend on their order
        return False
    return form.size(plan.dimension) * clients > 4 * plan.dimension
