"""A deployed client's answer: its policy looked at, its ledger charged, and only then its data, and a message drawn.

What follows from the request, the policy and the ledger is refused in words, before anything is charged. All that comes
of the data comes after the charge: an answer, or one sentence that is the same whatever is the matter with them, and
that is kept in the ledger's directory like an answer. What it was stands in the node's own log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.data.pool import Pool
from clients.data.splits import Division
from clients.models import MODELS
from clients.node.own_key import DEALING, KEPT, key_in
from clients.node.own_records import (
    dealt_records,
    in_order,
    of_data,
    own_shares,
    pool_of_policy,
    study_shares,
    what_is_wrong,
    write_log,
)
from clients.node.policy import Policy, Refused, read_policy
from clients.training.stobatch_checks import also_depends_on, check_attacks, checked_records
from clients.training.stobatch_noise import Secret, secret_source
from fedpriv._base.arrays import Numbers, Rows
from fedpriv.errors import FAULTS, FedprivError, whole
from fedpriv.node import own_ledger
from fedpriv.node.asks import Ask
from fedpriv.node.own_ledger import Charge
from fedpriv.node.shares import Shares
from fedpriv.releases import release_at
from fedpriv.releases.kept import Kept, filled_kept, mechanism_of
from fedpriv.studies.evaluating import Question, asking_study
from fedpriv.studies.identity import identity_text
from fedpriv.studies.study import Study

Settings = NDArray[np.float64]
QUESTIONS: Mapping[Question | None, str] = {None: "", "right": "\nevaluation", "labels": "\nevaluation of labels"}
UNUSABLE = "this node's data allow no answer; its own log says why"
NOTHING = b"\0"  # what is kept in the place of an answer where that was said


@dataclass(frozen=True)
class Unheld:
    """What stands in the place of noise that is kept, where the data allow none."""

    name: str  # what the ledger calls it
    why: str  # what the matter is with the data, for the node's own log


@dataclass(frozen=True, kw_only=True)
class Node:
    """What whoever started the node has told it, and nobody else can."""

    policy_file: Path
    policy: Policy
    place: tuple[int, int]  # partition p of P

    @staticmethod
    def of(config: Mapping[str, Any]) -> Node:
        """The guard of a deployed node by its --node-config, with the policy read; `Refused` where it names none."""
        file = config.get("policy")
        if not isinstance(file, str) or not Path(file).is_absolute():
            raise Refused('this node has no policy: its --node-config needs policy="/full/path/of/policy.toml"')
        place = int(config["partition-id"]), int(config["num-partitions"])
        if not 0 <= place[0] < place[1]:
            raise Refused(f"--node-config: partition-id = {place[0]} of num-partitions = {place[1]}: from 0, below it")
        return Node(policy_file=Path(file), policy=read_policy(Path(file)), place=place)

    @property
    def folder(self) -> Path:
        """The directory of a node's ledger, its keys and the answers it keeps."""
        return self.policy_file.parent / self.policy.ledger

    def answer(
        self, text: str, weights: Rows, round: int, clients: Numbers, settings: Settings | None = None,
        *, run: str = "", masked: bool = False, context: bytes = b"", asks: Question | None = None,
        sealed: Callable[[bytes], bytes] = lambda reply: reply,
    ) -> bytes:  # fmt: skip
        """A node's reply to a server's round, charged first, or `Refused`. The same request gets the same bytes again.

        `run` tells runs of one study apart, where the policy answers another anew. `masked` says that a protocol hides
        the message, which `sealed` makes of the reply and `context` identifies. `asks`: what an evaluation does.
        """
        try:
            study = self.policy.read_study(text)
            self._check(study, weights, round, clients, settings)
            told = study if not asks else asking_study(study, asks) if asks in QUESTIONS else None
            if told is None:
                raise Refused("the study has no [evaluation] that asks this: nobody answers about its model")
            with own_ledger.opened_ledger(self.folder, self.place) as ledger:
                parts = [weights.tobytes(), b"" if settings is None else settings.tobytes(), context]
                anew = self.policy.reruns or study.privacy.kept is not None  # which costs nothing more
                name = identity_text(study) + QUESTIONS[asks]
                ask = Ask.of(name, round, clients, *parts, run=run if anew else "")
                if (stored := ledger.stored(ask)) is not None:
                    return _given(stored)
                events = self.policy.events(told, 1 if asks else weights.size, round, masked=masked)
                release = study.privacy.kept
                if self.policy.data is None:
                    shares = study_shares(study)
                else:
                    key = key_in(self.folder, DEALING)
                    shares = own_shares(key, *self._held(study), kept=study.privacy.in_places)
                noise = None if release is None else self._noise(study, release, shares)
                kept = None if noise is None else noise.name
                charge = Charge(ask=ask, events=events, shares=shares, kept=kept)
                new = () if ledger.has(kept) else events
                self.policy.afford(ledger.events(charge, self.policy.unit), new, alike=ledger.alike(charge))
                ledger.charge(charge)
                drawn = self._drawn(study, noise, weights, round, clients, settings, asks)
                reply = drawn if drawn == NOTHING else sealed(drawn)
                ledger.store(ask, reply)
                return _given(reply)
        except FedprivError as error:
            raise Refused(str(error)) from None

    def _check(self, study: Study, weights: Rows, round: int, clients: Numbers, settings: Settings | None) -> None:
        """Refuse a round outside a node's policy, or that no honest server asks: all of it can be said of any data."""
        most = self.policy.largest_model
        self.policy.check(study)
        whole(round=round)
        if not round < 2**32:
            raise Refused(f"round {round}: a frame holds rounds below 2^32")
        if weights.ndim != 1 or weights.dtype != np.float32 or not weights.size <= most:
            raise Refused(f"a model is one row of at most {most:,} float32, got {weights.dtype} {weights.shape}")
        if not np.isfinite(weights).all():
            raise Refused("the model holds numbers that are not finite")
        if study.training.device != "cpu":  # or what is not here would be found out after the charge
            from clients.models.devices import device_named

            device_named(study.training.device)
        model = MODELS.made(study.training.model.kind, study.training.model.settings)
        if not all(wide * high <= most for wide, high in pairwise((1, *getattr(model, "widths", ())))):
            raise Refused(f"the study's model has more than {most:,} coordinates")
        first, last = self._held(study)
        if self.policy.data is not None and self.policy.unit == "client" and last - first > self.policy.clients:
            raise Refused(
                f"the study divides this node's data among {last - first:,} clients, whose budget is of "
                f"{self.policy.clients:,} at most: clients in this client's policy"
            )
        if self.policy.data is None and self.policy.unit == "record" and study.clients.split == "pool":
            raise Refused("a record may be at several clients, and this client's budget is of records: another split")
        known = clients.ndim == 1 and clients.dtype == np.int64 and clients.size and (np.diff(clients) > 0).all()
        if not (known and first <= clients[0] and clients[-1] < last):
            raise Refused(f"this node holds clients {first} to {last - 1}, and is asked for others")
        self._check_release(study, settings, len(clients))

    def _check_release(self, study: Study, settings: Settings | None, clients: int) -> None:
        """Refuse a round's settings that no release here begins with, and a kept release that no data would do for."""
        if settings is not None:
            private = study.privacy.private_sum
            if private is None or settings.shape != (clients, len(private.adapts)) or settings.dtype != np.float64:
                raise Refused(f"settings are a row for each client, got {settings.dtype} {settings.shape}")
            for row in settings.tolist():
                clip = release_at(private, row).clip
                if self.policy.clip is not None and not clip <= self.policy.clip:
                    raise Refused(f"clip = {clip:g}, at most {self.policy.clip:g}")
        if (kept := study.privacy.kept) is not None:
            check_attacks(kept)
            mechanism_of(kept)
            assert kept.sizes is not None  # or there were no mechanism
            filled_kept(kept, study.clients.records, kept.sizes)

    def _held(self, study: Study) -> tuple[int, int]:
        """The first of a study's clients that this node hosts, and the one after the last."""
        count, (own, all_) = study.clients.count, self.place
        return own * count // all_, (own + 1) * count // all_

    def _drawn(
        self, study: Study, noise: Secret | Unheld | None, weights: Rows, round: int, clients: Numbers,
        settings: Settings | None, asks: Question | None,
    ) -> bytes:  # fmt: skip
        """The reply of this node's clients, drawn after the charge; no bytes where its data allow none."""
        if isinstance(noise, Unheld):
            write_log(of_data(noise.why))
            return NOTHING
        try:
            from clients.training.cohort import Cohort  # torch, once there is something to answer
            from clients.training.prepared import prepared_study
            from clients.training.releasing import check_release

            kept = noise if self.policy.noise == "cryptographic" else None
            cohort = Cohort(prepared_study(study, self._data(study)), self.policy.noise, kept, answers=True)
            here = cohort.net.dimension
            if here != weights.size:
                raise FedprivError(f"a model of {weights.size} coordinates, where the study's has {here} here")
            check_release(study, cohort.net, cohort.division)
            if self.policy.unit == "record" and not cohort.division.disjoint:
                raise FedprivError("a record may be at several clients, and this client's budget is of records")
            return (
                cohort.answers(weights, round, clients, asks)
                if asks
                else cohort.reply(weights, round, clients, settings)
            )
        except FAULTS as error:
            write_log(of_data(what_is_wrong(error)))
            return NOTHING

    def _noise(self, study: Study, kept: Kept, shares: Shares) -> Secret | Unheld:
        """Where a node's kept noise comes from, drawn once: from its key, and all that the release depends on.

        Its name is what the ledger charges, once. Data that allow none have a name too, and are charged like others.
        """
        key, own = key_in(self.folder, KEPT), mechanism_of(kept)
        others = also_depends_on(study, self.policy.noise)
        try:
            if (own_data := self._data(study)) is None:
                from clients.training.prepared import division_of, pool_of

                pool = pool_of(study)
                division = division_of(study, pool)
            else:
                pool, division = own_data
            return secret_source(key, own, pool, checked_records(kept, pool, division, *self._held(study)), others)
        except FAULTS as error:
            words = repr(("no data", own, shares.name, others)).encode()
            return Unheld(blake2b(words, key=key, digest_size=16).hexdigest(), what_is_wrong(error))

    def _data(self, study: Study) -> tuple[Pool, Division] | None:
        """The node's own records by its policy, and which client holds them; None: those that the study names."""
        if (pool := pool_of_policy(self.policy)) is None:
            return None
        held = self._held(study)
        if study.privacy.in_places:
            return pool, in_order(pool, study.clients.count, *held)
        return pool, dealt_records(pool, key_in(self.folder, DEALING), study.clients.count, *held)


def _given(answer: bytes) -> bytes:
    """A node's kept or new answer to send; where nothing stands in its place, the one sentence that it has for that."""
    if answer == NOTHING:
        raise Refused(UNUSABLE)
    return answer
