"""What a study's clients work on, made once in a process: records, network, and who holds which records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from clients.data.aside import pool_kept
from clients.data.featured import data_set_of
from clients.data.pool import Pool
from clients.data.splits import Division, Part, Uneven, divided_records
from clients.data.users import users_left_out
from clients.models import MODELS
from clients.models.devices import device_named
from clients.models.gradients import Net
from clients.models.losses import fitting_loss
from clients.training.stobatch_checks import unused_records
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.studies.plan import Plan
from fedpriv.studies.study import Study

Given = TypeVar("Given")
MOST = 2  # studies that a process keeps prepared
SAYS_WHOSE = {  # what names the user of each record, by kind of data
    "Arrays": "users.npy beside x.npy", "Hub": 'user = "writer_id" or whatever column', "Leaf": "LEAF's own files",
    "fp.run": "clients=ids",
}  # fmt: skip
_PREPARED: dict[str, Prepared] = {}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A plan, with the records and the network that it is about."""

    plan: Plan
    pool: Pool
    net: Net
    division: Division  # which client holds which records

    @property
    def asked_about(self) -> Division:
        """Which records each client answers about in an evaluation: those it keeps out of training, or else all."""
        return self.division.rest if isinstance(self.division, Part) else self.division

    @property
    def study(self) -> Study:
        """The study that these records and this network are of, every setting found."""
        return self.plan.study

    @property
    def left_out(self) -> str | None:
        """Which users, or which records of a study's clients, no client trains on, in words for a run's header."""
        study, kept, owners = self.study, self.plan.kept, self.pool.owners
        parts = [] if kept is None else [unused_records(study, self.pool, kept)]
        if study.clients.by_user and owners is not None:
            parts.append(users_left_out(owners, getattr(study.clients.division, "least", 1), study.clients.count))
        return "; ".join(part for part in parts if part) or None

    def remember(self) -> None:
        """Have a cohort that is handed the study's text in this process find what is prepared, not load it again."""
        while len(_PREPARED) >= MOST:
            del _PREPARED[next(iter(_PREPARED))]
        _PREPARED[self.plan.text] = self


def prepared_study(study: Study, own: tuple[Pool, Division] | None = None) -> Prepared:
    """A cohort's data and model, of a study that lacks no setting; `own` are a node's records, and who holds them."""
    pool = pool_of(study) if own is None else own[0]
    net = net_of(study, pool)
    held = division_of(study, pool) if own is None else own[1]
    return Prepared(Plan.of(study, net.dimension), pool, net, held)


def prepared_before(text: str) -> Prepared | None:
    """What this process has prepared of the study of that text, for its cohort; None where nothing."""
    return _PREPARED.get(text)


def forget_prepared() -> None:
    """Drop all that this process has prepared of studies: a new run's data may be others."""
    _PREPARED.clear()


def pool_of(study: Study) -> Pool:
    """A study's records as a pool, loaded by its [data] table; whatever is wrong with them is one line."""
    pool = _given("data", study.data.kind, lambda: data_set_of(study.data).load(), Pool)
    return _given("data", "", lambda: pool_kept(pool, study.data), Pool)


def net_of(study: Study, pool: Pool) -> Net:
    """A study's model and its loss as a net, built by its [training] table for the pool's records and labels."""
    own, loss = study.training.model, study.training.loss
    device = device_named(study.training.device)
    net = _given(
        "training.model", own.kind, lambda: MODELS.of(own).build(pool.shape, pool.outputs, study.run.seed), Net
    )
    numbers = not pool.classes
    net = _given("training.model", own.kind, lambda: net.on(device), Net)
    return _given("training.loss", loss.kind, lambda: net.learning(fitting_loss(loss, pool.classes), numbers), Net)


def _given(table: str, kind: str, make: Callable[[], Any], wanted: type[Given]) -> Given:
    """What a study's data set or model gives, which must be of that type; whatever somebody's raises is one line."""
    try:
        found = make()
    except FedprivError as error:
        raise FedprivError(f"{table}: {error}") from None
    except FAULTS as error:
        if ":" not in kind:  # one of ours: its fault is for us to see
            raise
        raise FedprivError(f"{table}: {kind}: {reason(error)}") from error
    if not isinstance(found, wanted):
        name = f"{wanted.__module__}.{wanted.__name__}"
        raise FedprivError(f"{table}: {kind} must give a {name}, got {type(found).__name__}")
    return found


def division_of(study: Study, pool: Pool) -> Division:
    """Which of a study's clients holds which of the pool's records, by its [clients] table."""
    clients, apart = study.clients, study.evaluation.held_out if study.evaluation else 0
    if not pool.classes and study.evaluation:
        raise FedprivError("evaluation: clients answer which share of their labels is right, and labels are numbers")
    if study.evaluation and (labels := study.evaluation.labels) and labels.classes != pool.classes:
        raise FedprivError(f"evaluation.labels.classes = {labels.classes}, and the data have {pool.classes} classes")
    if not pool.classes and (clients.split == "by-label" or getattr(clients.division, "by_label", False)):
        kind = clients.split if isinstance(clients.split, str) else clients.split.kind
        raise FedprivError(f"clients.split: {kind} is by classes, and labels here are numbers: iid, PowerSizes, …")
    if pool.owners is None and clients.by_user:
        kinds = {study.data.kind} & set(SAYS_WHOSE) or SAYS_WHOSE
        how = ", ".join(f"{kind} by {SAYS_WHOSE[kind]}" for kind in kinds)
        raise FedprivError(f"clients.split: {study.data.kind} data do not say here whose each record is: {how}")
    try:
        each, own = clients.records + apart, study.run.seed
        found = divided_records(clients.division, pool.y, clients.count, each, own, pool.owners)
        return Part(found, 0, clients.records) if apart and not isinstance(found, Uneven) else found
    except FedprivError as error:
        raise FedprivError(f"clients: {error}") from None
