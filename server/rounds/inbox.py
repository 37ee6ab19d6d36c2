"""One round's answers: what each is worth is checked before it touches anything, rejected with a reason otherwise."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedpriv import wire
from fedpriv._base.arrays import Numbers, Vector
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import NoisySign
from fedpriv.packed.symbols import packing_of, symbol_counts
from fedpriv.packed.tally import Tally
from fedpriv.population.participation import byzantine_clients
from fedpriv.releases import release_at
from fedpriv.studies import directions
from fedpriv.studies.judged import judged_attackers
from fedpriv.studies.study import Study
from fedpriv.tolerance import covered_share
from fedpriv.trust import curated
from fedpriv.wire.replies import ABSENT, BROKEN, NOT_FINITE
from server.rounds.driver import Answer


class Inbox:
    """Takes answers in any order and gives the direction they agree on, the same whatever the order was."""

    def __init__(self, study: Study, dimension: int, round: int, clients: Numbers) -> None:
        self.rejected: Counter[str] = Counter()
        self.transport = 0
        self.settings: dict[int, Vector] = {}  # of releases that adapt, by client
        self._study = study
        self._round = round
        self._clients = clients
        self._private = study.privacy.private_sum
        self._mechanism = study.privacy.drawn_by
        self._dimension = dimension
        self._answered = np.zeros(len(clients), bool)
        self._failures: dict[int, str] = {}  # why a client has not answered
        self._reasons: list[str] = []  # of rejections
        self._tally = Tally(self._mechanism, dimension)  # of messages that came alone
        self._total = np.zeros(dimension, np.int64)  # of messages that came added up
        self._summed = 0  # how many these are
        self._vary = 0  # clients whose messages differ in length
        self._alone = 0  # bytes of theirs
        self._rows: list[tuple[Numbers, NDArray[np.uint8]]] = []  # clients, and their packed messages
        self._reading = directions.reading_of(study)
        self._keeps_rows = self._reading.needs_rows

    @property
    def answered(self) -> int:
        """How many clients' messages were taken in, in this round."""
        return int(self._answered.sum())

    @property
    def who(self) -> Numbers:
        """The clients whose messages were taken in."""
        return self._clients[self._answered]

    @property
    def missing(self) -> Numbers:
        """The clients that have not answered in this round, whom it may ask again."""
        return self._clients[~self._answered]

    @property
    def failed(self) -> Counter[str]:
        """How many clients have not answered the round, by reason (its first word or two), for its record line."""
        return Counter(why.split(":")[0][:40] for why in self._why_missing().values())

    @property
    def note(self) -> str | None:
        """One of the round's failures or rejections in full, for whoever looks at the records; None without any."""
        reasons = [f"client {client}: {why}" for client, why in self._why_missing().items()]
        return next(iter([*reasons, *self._reasons]), None)

    def _why_missing(self) -> dict[int, str]:
        """Why each client that has not answered the round has not, where that is known."""
        return {client: self._failures[client] for client in self.missing.tolist() if client in self._failures}

    @property
    def broken(self) -> dict[str, Any] | None:
        """How many of a round's attacks were carried out, and why one was not, for its record line; None if all were.

        Nobody who did not answer for another reason attacked; who meant to send nothing, or what is refused, did.
        """
        why = self._why_missing()
        faults = [each for each in why.values() if each.startswith(f"{BROKEN}:")]
        if not faults:
            return None
        own = self._study.clients
        byzantine = np.intersect1d(self._clients, byzantine_clients(own.count, own.attackers, self._study.run.seed))
        acted = sum(why.get(client, ABSENT).split(":")[0] in (ABSENT, NOT_FINITE) for client in byzantine.tolist())
        return {"acted": acted, "why": faults[0].partition(": ")[2]}

    def take(self, answer: Answer) -> None:
        """Open one node's answer in a round; nothing in its reply can do more than be rejected."""
        self.transport += answer.transport
        for error in answer.rejected:
            self._reject(error)
        if answer.content is None:
            why = dict.fromkeys(answer.asked.tolist(), answer.error or "no answer")
            silent = (answer.error or "").startswith("silent")  # it was late: in this round, that is what tells more
            self._failures = why | self._failures if silent else self._failures | why
            return
        try:
            frames, failed = wire.frames_of(answer.content, len(answer.asked))
        except wire.Rejected as error:
            self._reject(error)
            return
        asked = set(answer.asked.tolist())
        self._failures |= {client: why for client, why in failed.items() if client in asked}
        own, dimension = self._study, self._dimension
        expected = wire.Expected(
            own.id, self._round, answer.asked, dimension, self._mechanism, own.masked, self._adapting
        )
        for frame in frames:
            try:
                found = wire.opened_frame(frame, expected)
                if isinstance(found, wire.Adapted):
                    self._adapt(found)
                else:
                    self._take(found)
            except wire.Rejected as error:
                self._reject(error)

    @property
    def _adapting(self) -> int:
        """How many settings of the study's release adapt, and so come with each client's message."""
        return 0 if self._private is None else len(self._private.adapts)

    def _adapt(self, found: wire.Adapted) -> None:
        """Take in settings that clients' releases came to; those that no release could have are rejected."""
        assert self._private is not None  # or the wire had refused them
        for client, own in zip(found.clients.tolist(), found.settings, strict=True):
            try:
                release_at(self._private, own.tolist())
            except FedprivError as error:
                self._reject(wire.Rejected("alphabet", f"client {client}: {error}"))
                continue
            self.settings[client] = own

    def _reject(self, error: wire.Rejected, times: int = 1) -> None:
        """Count a rejected message by its reason for the round's record line, and keep the reason."""
        self.rejected[error.reason] += times
        self._reasons.append(str(error))

    def _take(self, found: wire.Messages | wire.Sum) -> None:
        """Take messages, or a sum of them, into the round's sum or rows; rejected if a client has answered already."""
        places = np.searchsorted(self._clients, found.clients)
        if self._answered[places].any():
            raise wire.Rejected("duplicate", f"client {found.clients[self._answered[places]][0]} has answered already")
        if isinstance(found, wire.Sum):
            if self._keeps_rows:
                raise wire.Rejected("shape", "a sum, where each client's message is needed")
            self._total += found.total
            self._summed += len(found.clients)
            alone = found.alone
        else:
            masked = self._study.masked is not None
            alone = None if masked else wire.alone(self._mechanism, self._dimension, found.payload)
            if found.refused.size:
                why = f"client {found.refused[0]} sent what its mechanism cannot send"
                self._reject(wire.Rejected("alphabet", why), len(found.refused))
            if self._keeps_rows:
                self._rows.append((found.clients, np.array(found.payload)))
            else:
                self._tally.add(found.payload)
        if alone is not None:
            self._alone += alone
            self._vary += len(found.clients)
        self._answered[places] = True

    def sent(self, each: int) -> int:
        """Bytes that those who answered a round would have sent, each alone; `each` is what one sends in any case."""
        alone = self._alone + self._vary * wire.settings_bytes(self._adapting)
        return alone + (self.answered - self._vary) * each

    def direction(self, reference: Vector | None = None, before: Vector | None = None) -> Vector:
        """The direction a round's messages agree on: the mean of updates as the rule sees it, or its sign under a vote.

        `reference` is the server's own update, where the rule asks for one, `before` a curator's settings that adapt. A
        rule of rows sees them sorted by client.
        """
        if not self._keeps_rows:
            return self._reading.of_sum(self._round, *self._sum())
        # Where a private mean hides clients, who has sent none counts as one that sends 0: else whether a client's data
        # let it answer would show in the number of rows, and so in the noise.
        clients = self._clients if curated(self._study.privacy.trust) else self._clients[self._answered]
        packed = packing_of(self._mechanism)
        matrix = np.zeros((len(clients), self._dimension), np.float32)
        for own, payload in self._rows:
            rows = packed.unpack(payload, self._dimension)
            matrix[np.searchsorted(clients, own)] = self._reading.rows_seen(rows)
        if not curated(self._study.privacy.trust):
            return self._reading.of_rows(self._round, matrix, reference)
        settings = () if before is None else tuple(before.tolist())
        found = self._reading.curated(self._round, matrix, settings)
        if found.settings:
            self.settings = dict.fromkeys(range(self._study.clients.count), np.array(found.settings))
        return found.total

    def symbols_told(self) -> Numbers:
        """How many of a round's messages of one coordinate, each kept, are each symbol of the mechanism from 0 on."""
        return symbol_counts(self._mechanism, np.concatenate([payload for _, payload in self._rows]))

    def tolerance(self) -> float:
        """An estimate: how many coordinates' votes survive the study's attackers, or the worst where they are no votes.

        The decoded mean stands for the honest clients', which nobody knows. Of those asked, as large a share is taken
        to be Byzantine as of all clients, and to have answered.
        """
        total, count = self._sum()
        own, clients = self._study, self._study.clients
        byzantine = ceil(clients.attackers * len(self._clients) / clients.count)
        if byzantine >= count:
            return 0.0
        if isinstance(self._mechanism, NoisySign):  # here the share of votes for plus is the probability of one
            peak = self._mechanism.peak
            means: Vector = np.asarray(np.clip(self._mechanism.noise * ndtri((1 + total / count) / 2), -peak, peak))
        else:
            means = self._mechanism.decode(total, count)
        return covered_share(self._mechanism, count - byzantine, byzantine, means, *judged_attackers(own))

    def _sum(self) -> tuple[NDArray[np.int64], int]:
        """The sum of all messages of the round, and how many these are, for a rule that needs no rows."""
        total, count = self._total + self._tally.total(), self._summed + self._tally.count
        if self._study.masked is not None:
            total = wire.wrapped_sum(total, count, self._mechanism, self._study.masked)
        return total, count
