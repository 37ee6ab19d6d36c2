"""A cohort: the clients one node hosts. Their updates, attacked or not, clipped, encoded and packed, as one reply.

Clients are worked on in chunks that stay in cache, each with randomness of its own, so that a reply's content does not
depend on who else is in the cohort. Nothing but messages leaves: a loss on a client's own data would be a release too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from clients.data import make_data
from clients.gradients import Net, reason
from clients.models import make_model
from clients.noise import cryptographic_generator
from clients.pool import Pool
from clients.splits import Division, division, drawn
from fedpriv import study_file, wire
from fedpriv.encoding import Fresh, Noise, Seeded, clip_factors, encoded_packed
from fedpriv.errors import FedprivError
from fedpriv.packing import REAL, packing
from fedpriv.participation import attackers
from fedpriv.random_streams import stream
from fedpriv.study import Study
from fedpriv.tally import Tally

Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]


def answer(study_text: str, weights: Rows, round: int, clients: Numbers) -> bytes:
    """The reply of the node that hosts these clients."""
    return _cohort(study_text).reply(weights, round, clients)


@lru_cache(maxsize=2)
def _cohort(study_text: str) -> Cohort:
    return Cohort(study_file.parsed(study_text))


def pool_of(study: Study) -> Pool:
    """The records of a study."""
    try:
        return make_data(study.data.kind, study.data.settings).load()
    except FedprivError as error:
        raise FedprivError(f"data: {error}") from None


def net_of(study: Study, pool: Pool) -> Net:
    """The model of a study, for records of that shape."""
    model = study.training.model
    try:
        return make_model(model.kind, model.settings).build(pool.shape, pool.classes, study.run.seed)
    except FedprivError as error:
        raise FedprivError(f"training.model: {error}") from None


def division_of(study: Study, pool: Pool) -> Division:
    """Which client holds which records."""
    clients = study.clients
    try:
        return division(clients.split, pool.y, clients.count, clients.records, study.run.seed)
    except FedprivError as error:
        raise FedprivError(f"clients: {error}") from None


class Cohort:
    """What the clients of a study have in common; its scratch memory serves one thread."""

    def __init__(self, study: Study) -> None:
        self.study, self.mechanism, self.attack = study, study.privacy.chosen, study.attacker
        self.pool = pool_of(study)
        self.net = net_of(study, self.pool)
        clients = study.clients
        self.division = division_of(study, self.pool)
        self.byzantine = attackers(clients.count, clients.attackers, study.run.seed)
        self.packing = packing(self.mechanism)
        batch = study.training.batch
        self.batch = clients.records if batch == 0 or batch > clients.records else batch
        self._x = np.empty((self.net.chunk, self.batch, *self.pool.shape), np.float32)
        self._updates = np.empty((self.net.chunk, self.net.dimension), np.float32)

    def reply(self, weights: Rows, round: int, clients: Numbers) -> bytes:
        """One frame for all, a stack of messages or their sum; attackers that forge bytes have frames of their own."""
        failed: dict[int, str] = {}
        forged: list[bytes] = []
        gathered = Gathered(self, len(clients), round)
        for start in range(0, len(clients), self.net.chunk):
            chunk = clients[start : start + self.net.chunk]
            chunk, payload = self.messages(weights, round, chunk, failed)
            if hasattr(self.attack, "on_bytes"):
                honest = ~np.isin(chunk, self.byzantine)
                for i in np.flatnonzero(~honest):
                    try:
                        forged.append(self._forged(round, chunk[i : i + 1], payload[i : i + 1]))
                    except Exception as error:
                        failed[int(chunk[i])] = f"attack: {reason(error)}"
                chunk, payload = chunk[honest], payload[honest]
            gathered.add(chunk, payload)
        return wire.reply([*gathered.frames(), *forged], failed)

    def messages(
        self, weights: Rows, round: int, clients: Numbers, failed: dict[int, str]
    ) -> tuple[Numbers, NDArray[np.uint8]]:
        """The packed messages of a chunk of clients; who has none is left out, and why is put in `failed`."""
        updates = self._updates[: len(clients)]
        self._train(weights, round, clients, updates)
        rows = np.flatnonzero(np.isin(clients, self.byzantine))
        failures = dict(self.net.failures)
        if rows.size and hasattr(self.attack, "on_updates"):
            failures |= self._attack_updates(updates, round, clients, rows)
        factors = clip_factors(updates, self.mechanism.clip, self.study.privacy.norm)
        if np.isnan(factors).any():
            failures |= {int(i): "not finite" for i in np.flatnonzero(np.isnan(factors)) if i not in failures}
        if failures:
            failed |= {int(clients[row]): why for row, why in failures.items()}
            kept = np.setdiff1d(np.arange(len(clients)), list(failures))
            rows = np.flatnonzero(np.isin(kept, rows))
            clients, updates, factors = clients[kept], updates[kept], factors[kept]
        payload = encoded_packed(self.mechanism, updates, factors, self._noise(round, clients))
        if rows.size and hasattr(self.attack, "on_messages"):
            lost = self._attack_messages(updates, payload, rows)
            failed |= {int(clients[row]): why for row, why in lost.items()}
            kept = np.setdiff1d(np.arange(len(clients)), list(lost))
            clients, payload = clients[kept], payload[kept]
        return clients, payload

    def _attack_updates(self, updates: Rows, round: int, clients: Numbers, rows: Numbers) -> dict[int, str]:
        """Each attacker's update in its place, one by one: who fails, fails alone, whoever else is in the cohort."""
        attack, failures = cast(Any, self.attack), {}
        for row in rows.tolist():
            own = stream(self.study.run.seed, "attack", round, int(clients[row]))
            try:
                updates[row : row + 1] = attack.on_updates(updates[row : row + 1], [own])
            except Exception as error:
                failures[row] = f"attack: {reason(error)}"
        return failures

    def _attack_messages(self, updates: Rows, payload: NDArray[np.uint8], rows: Numbers) -> dict[int, str]:
        """Each attacker's symbols in the place of its message."""
        attack, failures = cast(Any, self.attack), {}
        for row in rows.tolist():
            shared = stream(self.study.run.seed, "attack together")
            try:
                symbols = attack.on_messages(updates[row : row + 1], self.mechanism, shared)
                payload[row : row + 1] = self.packing.pack(symbols)
            except Exception as error:
                failures[row] = f"attack: {reason(error)}"
        return failures

    def _train(self, weights: Rows, round: int, clients: Numbers, out: Rows) -> None:
        training = self.study.training
        keys = _key_of_models(self.study.run.seed, round) + clients
        if training.local_steps == 1:
            x, y = next(self._batches(round, clients, 1))
            self.net.gradients(weights, x, y, out, keys)
        else:
            batches = self._batches(round, clients, training.local_steps)
            self.net.updates(weights, batches, training.learning_rate, out, keys)

    def _batches(self, round: int, clients: Numbers, steps: int) -> Iterator[tuple[Rows, Numbers]]:
        own = self.division.of(clients)
        for step in range(steps):
            chosen = own
            if self.batch < own.shape[1]:
                places = drawn(own.shape[1], self.batch, self.study.run.seed, round, clients, step)
                chosen = np.take_along_axis(own, places, axis=1)
            yield self.pool.batch(chosen, self._x[: len(clients)])

    def _noise(self, round: int, clients: Numbers) -> Noise:
        if self.study.privacy.noise == "cryptographic":
            return Fresh(cryptographic_generator(), len(clients))
        return Seeded(self.study.run.seed, round, clients)

    def _forged(self, round: int, client: Numbers, payload: NDArray[np.uint8]) -> bytes:
        """What a Byzantine client sends in the place of its own honest message."""
        attack: Any = self.attack
        honest = wire.messages(self.study.id, round, client, payload, self.net.dimension, self.mechanism)
        return bytes(attack.on_bytes(honest))


@lru_cache(maxsize=4)
def _key_of_models(seed: int, round: int) -> int:
    """Where the numbers begin that seed the models' own randomness, one for each client."""
    return int(stream(seed, "model", round).integers(2**62))


class Gathered:
    """A cohort's messages on their way into a reply: stacked, or added up where only a sum is needed and is smaller."""

    def __init__(self, cohort: Cohort, clients: int, round: int) -> None:
        self._cohort, self._round = cohort, round
        self._clients: list[Numbers] = []
        self._payloads: list[NDArray[np.uint8]] = []
        dimension = cohort.net.dimension
        self._tally = Tally(cohort.mechanism, dimension) if summed(cohort.study, dimension, clients) else None

    def add(self, clients: Numbers, payload: NDArray[np.uint8]) -> None:
        """Take in the messages of some clients."""
        self._clients.append(clients)
        if self._tally is None:
            self._payloads.append(payload)
        else:
            self._tally.add(payload)

    def frames(self) -> Iterator[bytes]:
        """The frame of them all, or none."""
        study, dimension = self._cohort.study, self._cohort.net.dimension
        clients = np.concatenate(self._clients) if self._clients else np.empty(0, np.int64)
        if not clients.size:
            return
        if self._tally is not None:
            yield wire.summed(study.id, self._round, clients, self._tally.total())
        else:
            payload = np.concatenate(self._payloads)
            yield wire.messages(study.id, self._round, clients, payload, dimension, self._cohort.mechanism)


def summed(study: Study, dimension: int, clients: int) -> bool:
    """Whether a cohort of so many clients answers with its sum: where nobody may see more, else where it is smaller."""
    mechanism = study.privacy.chosen
    if study.privacy.trust == "secure-aggregation":
        return True
    form = packing(mechanism)
    if study.rule.needs_rows or form == REAL:  # sums of floats depend on their order
        return False
    return form.size(dimension) * clients > 4 * dimension
