"""A deployed client's answer: its policy looked at, its ledger charged, and only then a message drawn and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clients import own_ledger
from clients.asks import Ask
from clients.data import make_data
from clients.models import make_model
from clients.own_ledger import Charge
from clients.policy import Policy, Refused, read
from clients.pool import Pool
from clients.splits import Division, Uneven
from clients.stobatch_noise import Secret, key_in, secret
from fedpriv.errors import FedprivError, whole
from fedpriv.kept import Kept, mechanism_of
from fedpriv.study import Study

if TYPE_CHECKING:
    from clients.cohort import Cohort

Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]
Settings = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Node:
    """What whoever started the node has told it, and nobody else can."""

    policy_file: Path
    policy: Policy
    place: tuple[int, int]  # partition p of P

    @staticmethod
    def of(config: Mapping[str, Any]) -> Node:
        """The node of a --node-config."""
        file = config.get("policy")
        if not isinstance(file, str) or not Path(file).is_absolute():
            raise Refused('this node has no policy: its --node-config needs policy="/full/path/of/policy.toml"')
        place = int(config["partition-id"]), int(config["num-partitions"])
        if not 0 <= place[0] < place[1]:
            raise Refused(f"--node-config: partition-id = {place[0]} of num-partitions = {place[1]}: from 0, below it")
        return Node(policy_file=Path(file), policy=read(Path(file)), place=place)

    def answer(
        self, text: str, weights: Rows, round: int, clients: Numbers, settings: Settings | None = None,
        *, run: str = "", masked: bool = False, context: bytes = b"",
        sealed: Callable[[bytes], bytes] = lambda reply: reply,
    ) -> bytes:  # fmt: skip
        """The reply to a round, or `Refused`. The same request gets the same bytes, whenever it comes again.

        `run` tells runs of one study apart, where the policy answers another anew. `masked` says that a protocol hides
        the message, which `sealed` makes of the reply and `context` identifies.
        """
        try:
            study = self.policy.read_study(text)
            self._check(study, weights, round, clients)
            with own_ledger.opened(self.policy_file.parent / self.policy.ledger, self.place) as ledger:
                parts = [weights.tobytes(), b"" if settings is None else settings.tobytes(), context]
                anew = self.policy.reruns or study.privacy.kept is not None  # which costs nothing more
                ask = Ask.of(text, round, clients, *parts, run=run if anew else "")
                if (stored := ledger.stored(ask)) is not None:
                    return stored
                cohort, kept = self._cohort(study, weights)
                events = self.policy.events(study, weights.size, masked=masked)
                charge = Charge(ask=ask, events=events, kept=kept)
                self.policy.afford(ledger.events(charge), () if ledger.has(kept) else events)
                ledger.charge(charge)
                reply = sealed(cohort.reply(weights, round, clients, settings))
                ledger.store(ask, reply)
                return reply
        except FedprivError as error:
            raise Refused(str(error)) from None

    def _check(self, study: Study, weights: Rows, round: int, clients: Numbers) -> None:
        """Refuse what is outside the policy, and what no honest server sends."""
        most = self.policy.largest_model
        self.policy.check(study)
        whole(round=round)
        if not round < 2**32:
            raise Refused(f"round {round}: a frame holds rounds below 2^32")
        if weights.ndim != 1 or weights.dtype != np.float32 or not weights.size <= most:
            raise Refused(f"a model is one row of at most {most:,} float32, got {weights.dtype} {weights.shape}")
        if not np.isfinite(weights).all():
            raise Refused("the model holds numbers that are not finite")
        if not all(wide * high <= most for wide, high in pairwise(_widths(study))):
            raise Refused(f"the study's model has more than {most:,} coordinates")
        first, last = self._held(study)
        if self.policy.data is not None and self.policy.unit == "client" and last - first > self.policy.clients:
            raise Refused(
                f"the study divides this node's data among {last - first:,} clients, whose budget is of "
                f"{self.policy.clients:,} at most: clients in this client's policy"
            )
        known = clients.ndim == 1 and clients.dtype == np.int64 and clients.size and (np.diff(clients) > 0).all()
        if not (known and first <= clients[0] and clients[-1] < last):
            raise Refused(f"this node holds clients {first} to {last - 1}, and is asked for others")

    def _held(self, study: Study) -> tuple[int, int]:
        """The first of this node's clients, and the one after the last."""
        count, (own, all_) = study.clients.count, self.place
        return own * count // all_, (own + 1) * count // all_

    def _cohort(self, study: Study, weights: Rows) -> tuple[Cohort, str | None]:
        """What answers, and what its ledger calls the release it keeps, if it does."""
        from clients.cohort import Cohort, division_of, pool_of  # torch, once there is something to answer
        from clients.releasing import check_release

        own, kept = self._data(study), None
        if study.privacy.kept is not None:
            own = own or (pool := pool_of(study), division_of(study, pool))
            kept = self._kept(study, study.privacy.kept, *own)
        drawn = kept if self.policy.noise == "cryptographic" else None
        cohort = Cohort(study, own, self.policy.noise, drawn, answers=True)
        if cohort.net.dimension != weights.size:
            raise Refused(f"a model of {weights.size} coordinates, where the study's has {cohort.net.dimension} here")
        check_release(study, cohort.net, cohort.division)
        if self.policy.unit == "record" and not cohort.division.disjoint:
            raise Refused("a record may be at several clients, and this client's budget is of records: another split")
        return cohort, None if kept is None else kept.name

    def _kept(self, study: Study, kept: Kept, pool: Pool, division: Division) -> Secret:
        """Where the noise comes from that is drawn once: from this node's key, and all that the release depends on."""
        from clients.stobatch_checks import besides, checked_records

        held = checked_records(kept, pool, division, *self._held(study))
        key = key_in(self.policy_file.parent / self.policy.ledger)
        return secret(key, mechanism_of(kept), pool, held, besides(study, self.policy.noise))

    def _data(self, study: Study) -> tuple[Pool, Division] | None:
        """The node's own records, dealt out evenly to its clients in the order they stand; None: the study's."""
        if self.policy.data is None:
            return None
        pool = make_data(self.policy.data.kind, self.policy.data.settings).load()
        if self.policy.classes is not None:
            pool = replace(pool, classes=max(self.policy.classes, pool.classes))
        first, last = self._held(study)
        inside = np.clip(np.arange(study.clients.count + 1) - first, 0, last - first)
        return pool, Uneven(np.arange(len(pool)), inside * len(pool) // max(last - first, 1))


def _widths(study: Study) -> tuple[int, ...]:
    model = make_model(study.training.model.kind, study.training.model.settings)
    return 1, *getattr(model, "widths", ())
