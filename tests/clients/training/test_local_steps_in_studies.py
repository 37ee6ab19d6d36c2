"""Studies whose clients step with momentum, Adam or FedProx' proximal term: same files, same promise, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from clients.data.splits import records_of
from clients.training.cohort import Cohort
from fedpriv._base.arrays import Vector
from fedpriv.aggregation.optimisers import Memory
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.plan import Plan
from fedpriv.studies.study import Study
from server.rounds import planned, run_rounds
from simulations.runs.direct import Here

STUDY = """
data = { kind = "Synthetic", records = 300, features = 8 }
clients = { count = 30, records = 10, split = { kind = "PowerSizes", exponent = 1.0 } }
training = { batch = 4, local_steps = 3, learning_rate = 0.2 }
privacy = { mechanism = { kind = "Binomial", clip = 1.0, peak = 0.5, scale = 1.0, trials = 4 } }
run = { rounds = 4 }
"""
MOMENTUM = "training.optimiser={kind='Sgd', momentum=0.9}"
WAYS = [MOMENTUM, "training.optimiser={kind='Adam'}", "training.proximal=0.5"]
SAMPLED = ["training.batch=0", "training.sampling=0.2", "privacy.unit=record"]


class Forgetful:
    """Remembers the last client's gradient in the next one's, in its class."""

    last: ClassVar[Vector] = np.zeros(1)

    def start(self, dimension: int) -> Memory:
        return Memory(np.zeros(0), np.zeros(0), 0)

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        if memory.steps < 2:
            return memory._replace(steps=memory.steps + 1), direction
        before, type(self).last = self.last, direction
        return memory, direction + (before if before.shape == direction.shape else 0)


class Late:
    """Momentum from the third step on, kept in the object."""

    def __init__(self) -> None:
        self.slow: Vector | None = None

    def start(self, dimension: int) -> Memory:
        return Memory(np.zeros(dimension), np.zeros(0), 0)

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        if memory.steps >= 2:
            self.slow = direction if self.slow is None else 0.9 * self.slow + direction
        return memory._replace(steps=memory.steps + 1), direction if self.slow is None else self.slow


class Balanced:
    """Weighs a record by how rare its class has been so far, kept in the object."""

    labels = "classes"

    def __init__(self) -> None:
        self.seen = torch.ones(10)

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        self.seen = self.seen + torch.bincount(labels, minlength=10)
        return cross_entropy(outputs, labels, reduction="none") / self.seen[labels]


class Counted(Balanced):
    """The same, kept in the class."""

    ever: ClassVar[Tensor] = torch.ones(10)

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        type(self).ever = self.ever + torch.bincount(labels, minlength=10)
        return cross_entropy(outputs, labels, reduction="none") / self.ever[labels]


def study(*overrides: str) -> Study:
    return study_file.parsed_study(STUDY, overrides=overrides)


@pytest.mark.parametrize("unit", [[], SAMPLED], ids=["client", "record in messages"])
@pytest.mark.parametrize("own", ["optimiser={kind='HERE:Late'}", "loss={kind='HERE:Balanced'}"])
def test_what_a_loss_or_an_optimiser_keeps_of_one_client_reaches_no_other(own: str, unit: list[str]) -> None:
    prepared = planned(study("training." + own.replace("HERE", "test_local_steps_in_studies"), *unit))
    y, found = prepared.pool.y.copy(), []
    y[records_of(prepared.division, 0)] = 0
    for labels in (prepared.pool.y, y):
        cohort = Cohort(replace(prepared, pool=replace(prepared.pool, y=labels)))
        rows = np.empty((30, prepared.net.dimension), np.float32)
        cohort._train(prepared.net.initial(), 1, np.arange(30), rows)
        found.append(rows)
    assert not np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1:], found[1][1:])


@pytest.mark.parametrize("unit", [[], SAMPLED], ids=["client", "record in messages"])
@pytest.mark.parametrize("way", WAYS)
def test_records_are_the_same_file_for_any_division_into_cohorts(tmp_path: Path, way: str, unit: list[str]) -> None:
    files = []
    for cohorts in (1, 7):
        run_rounds(study(way, *unit), tmp_path / str(cohorts), Here(cohorts), quiet=True)
        files.append((tmp_path / str(cohorts) / "records.jsonl").read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize("unit", [[], SAMPLED], ids=["client", "record in messages"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_promised_does_not_depend_on_how_clients_step(way: str, unit: list[str]) -> None:
    promised = []
    for overrides in ([], [way]):
        own = calibrated_study(study(*unit, *overrides), 36)
        promised.append(tuple(Plan.of(own, 36).epsilon(own.run.rounds)))
    assert promised[0] == promised[1]


@pytest.mark.parametrize("way", WAYS)
def test_a_record_that_no_step_has_drawn_has_no_part_in_a_message(way: str) -> None:
    prepared = planned(study(*SAMPLED, way))
    weights = np.random.default_rng(1).normal(0, 0.3, 36).astype(np.float32)
    before = Cohort(prepared).reply(weights, 1, np.arange(30))
    from clients.data.splits import records_of
    from clients.training.chance import drawn_by_chance

    drawn = drawn_by_chance(prepared.study, prepared.division, "seeded", 1, np.arange(30))
    absent = [
        number
        for client in range(30)
        for place, number in enumerate(records_of(prepared.division, client).tolist())
        if not drawn.drew(place)[client]
    ]
    assert absent
    pool = prepared.pool
    x, y = np.array(pool.x), np.array(pool.y)
    x[absent], y[absent] = 1e3, (y[absent] + 1) % 4
    object.__setattr__(pool, "x", x)
    object.__setattr__(pool, "y", y)
    try:
        assert Cohort(prepared).reply(weights, 1, np.arange(30)) == before
    finally:
        from clients.data import reading

        reading.synthetic_blobs.cache_clear()


def test_defaults_written_out_change_no_id() -> None:
    plain = study()
    assert study("training.optimiser={kind='Sgd', momentum=0.0}", "training.proximal=0.0").id == plain.id
    assert len({study(way).id for way in WAYS} | {plain.id}) == 4


REFUSED: list[tuple[list[str], str]] = [
    ([MOMENTUM, "training.local_steps=1"], "optimiser = Sgd is of several local steps, and local_steps = 1 is one gra"),
    (["training.proximal=0.5", "training.local_steps=1"], "proximal = 0.5 is of several local steps"),
    (["training.proximal=-1"], "proximal must be"),
    (["training.proximal=nan"], "proximal must be"),
    (["training.optimiser={kind='Sgd', momentum=1.0}"], "momentum must be below 1"),
    (["training.optimiser={kind='Adm'}"], "unknown optimiser 'Adm'.*did you mean 'Adam'"),
    (
        [MOMENTUM, "training.batch=0", "privacy={release={kind='DpSgd', clip=1.0, noise=2.0, sampling=0.3}}"],
        "training.optimiser: the local steps of a DpSgd add up what it releases, as it is",
    ),
    (
        ["training.optimiser={kind='test_local_steps_in_studies:Forgetful'}"],
        "depends on the clients before it: no ε would hold",
    ),
    (
        ["training.loss={kind='test_local_steps_in_studies:Counted'}"],
        "depends on the clients before it: no ε would hol",
    ),
]


@pytest.mark.parametrize(("overrides", "message"), REFUSED)
def test_what_does_not_go_together_is_refused_in_one_line(overrides: list[str], message: str) -> None:
    with pytest.raises(FedprivError, match=message) as error:
        planned(study(*overrides))
    assert "\n" not in str(error.value)
