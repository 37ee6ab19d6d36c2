"""What a study's clients work on, made once in a process: records, network, and who holds which records."""

from __future__ import annotations

from dataclasses import dataclass

from clients.data import DATA_SETS
from clients.data.pool import Pool
from clients.data.splits import Division, divided_records
from clients.models import MODELS
from clients.models.gradients import Net
from fedpriv.errors import FedprivError
from fedpriv.studies.plan import Plan
from fedpriv.studies.study import Study

MOST = 2  # studies that a process keeps prepared
_PREPARED: dict[str, Prepared] = {}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A plan, with the records and the network that it is about."""

    plan: Plan
    pool: Pool
    net: Net
    division: Division  # which client holds which records

    @property
    def study(self) -> Study:
        """The study that the plan is of, in full."""
        return self.plan.study

    def remember(self) -> None:
        """Have whoever is handed the study's text in this process find what is prepared."""
        while len(_PREPARED) >= MOST:
            del _PREPARED[next(iter(_PREPARED))]
        _PREPARED[self.plan.text] = self


def prepared_study(study: Study, own: tuple[Pool, Division] | None = None) -> Prepared:
    """The data and the model of a study that lacks no setting; `own` are a node's records, and who of it holds them."""
    pool = pool_of(study) if own is None else own[0]
    net = net_of(study, pool)
    held = division_of(study, pool) if own is None else own[1]
    return Prepared(Plan.of(study, net.dimension), pool, net, held)


def prepared_before(text: str) -> Prepared | None:
    """What this process has prepared of the study of that text."""
    return _PREPARED.get(text)


def forget_prepared() -> None:
    """Drop it all."""
    _PREPARED.clear()


def pool_of(study: Study) -> Pool:
    """The records of a study."""
    try:
        return DATA_SETS.of(study.data).load()
    except FedprivError as error:
        raise FedprivError(f"data: {error}") from None


def net_of(study: Study, pool: Pool) -> Net:
    """The model of a study, for records of that shape."""
    try:
        return MODELS.of(study.training.model).build(pool.shape, pool.classes, study.run.seed)
    except FedprivError as error:
        raise FedprivError(f"training.model: {error}") from None


def division_of(study: Study, pool: Pool) -> Division:
    """Which client holds which records."""
    clients = study.clients
    try:
        return divided_records(clients.division, pool.y, clients.count, clients.records, study.run.seed)
    except FedprivError as error:
        raise FedprivError(f"clients: {error}") from None
