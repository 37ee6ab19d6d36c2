"""Clients that make hidden steps: what a step is, how far floats move it, which records count, whole runs, a node."""

from __future__ import annotations

from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from clients.node.guard import Node
from clients.node.policy import Refused
from clients.training.cohort import Cohort, cohort_reply
from clients.training.hidden import Places, hidden_update
from clients.training.prepared import prepared_study
from fedpriv import records
from fedpriv.releases.hidden import HiddenState, Walk
from fedpriv.studies import file as study_file
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.study import Study
from simulations.audit.audited import audit
from simulations.runs.running import run

STUDY = """
name = "hidden"
data = { kind = "Synthetic", records = 60, features = 5, classes = 3, held_out = 20 }
clients = { count = 6, records = 10 }
training = { local_steps = 6, learning_rate = 1.0 }
privacy.release = { kind = "HiddenState", radius = 1.0, penalty = 0.2, noise = 3.0 }
run = { rounds = 2 }
"""
MODEL = np.zeros(18, np.float32)


def study(*overrides: str) -> Study:
    return calibrated_study(study_file.parsed_study(STUDY, overrides=overrides), 18)


def walk(rows: int = 4, columns: int = 3, **settings: float) -> Walk:
    release = HiddenState(**{"radius": 1.0, "penalty": 0.2, "noise": 1.0} | settings)  # type: ignore[arg-type]
    return Walk(release=release, records=rows, rate=1.0, steps=1, dimension=2 * columns)


def exact_step(own: Walk, start: NDArray[np.float64], batch: Places) -> NDArray[np.float64]:
    """One step without noise in 60 digits, of the model held within the ball: what the theorem speaks of."""
    with mpmath.workdps(60):
        w = [[mpmath.mpf(float(x)) for x in row] for row in start]
        length = mpmath.sqrt(sum(x * x for row in w for x in row))
        factor = min(mpmath.mpf(1), mpmath.mpf(own.ball) / length) if length else mpmath.mpf(1)
        w = [[x * factor for x in row] for row in w]
        moved = [[mpmath.mpf(own.release.penalty) * x for x in row] for row in w]
        for record, label in zip(batch.records, batch.labels, strict=True):
            a = [mpmath.mpf(float(x)) for x in record]
            powers = [mpmath.exp(sum(x * y for x, y in zip(row, a, strict=True))) for row in w]
            for place, row in enumerate(moved):
                error = powers[place] / sum(powers) - (place == label)
                for column, x in enumerate(a):
                    row[column] += error * x / own.batch
        rate = mpmath.mpf(own.rate)
        return np.array([[w[i][j] - rate * moved[i][j] for j in range(len(w[0]))] for i in range(len(w))], object)


@given(
    seed=st.integers(0, 2**32), size=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e4]),
    noise=st.sampled_from([1e-6, 1e-3, 10.0]), radius=st.sampled_from([0.1, 1.0, 1.5]),
)  # fmt: skip
def test_no_step_in_floats_ends_farther_from_the_exact_one_than_is_charged(
    seed: int, size: float, noise: float, radius: float
) -> None:
    own, rng = walk(noise=noise, radius=radius), np.random.default_rng(seed)
    batch = Places.of(rng.normal(size=(4, 2)).astype(np.float32) * 3, rng.integers(0, 2, 4), radius, 2)
    start = (rng.normal(size=(2, 3)) * size).astype(np.float32)
    flat = np.concatenate([start[:, :2].ravel(), start[:, 2]])
    found = hidden_update(own, flat, [batch], np.random.default_rng(5))
    drawn = own.grid.law(own.deviation, 2).draw((2, 3), np.random.default_rng(5)) * own.grid.step
    exact = exact_step(own, start.astype(np.float64), batch)
    ended = flat.astype(np.float64) - found  # η = 1; float64 rounds it once more, as what leaves may be
    ended = np.column_stack([ended[:4].reshape(2, 2), ended[4:]])
    with mpmath.workdps(60):
        off = mpmath.sqrt(sum((mpmath.mpf(float(a)) - b - c) ** 2 for a, b, c in
                              zip(ended.ravel(), exact.ravel(), drawn.ravel().tolist(), strict=True)))  # fmt: skip
    assert off <= own.error + 2.0**-51 * max(float(np.abs(flat).max()), own.ball + 20 * own.deviation)


@given(x=st.lists(st.floats(-(2.0**90), 2.0**90, width=32), min_size=3, max_size=3), radius=st.floats(0.01, 100))
def test_a_record_is_within_the_radius_for_certain(x: list[float], radius: float) -> None:
    [own] = Places.of(np.array([x], np.float32), np.array([0]), radius, 2).records
    assert sum(mpmath.mpf(float(a)) ** 2 for a in own) <= mpmath.mpf(radius) ** 2
    assert own[-1] > 0 or max(map(abs, x)) > 1e20  # the bias shrinks with the record, so no prediction changes


def test_what_is_no_record_counts_as_an_empty_place() -> None:
    x = np.array([[1, 2], [np.nan, 0], [np.inf, 1], [3, 1], [0, 1]], np.float32)
    some = Places.of(x, np.array([0, 1, 0, 7, -1]), 1.0, 2)
    alone, model = Places.of(x[:1], np.array([0]), 1.0, 2), np.arange(6.0).reshape(2, 3)
    assert np.array_equal(some.mean_gradient(model, 5), alone.mean_gradient(model, 5))
    nothing = Places.of(x[:0], np.zeros(0, np.int64), 1.0, 2)
    assert not nothing.mean_gradient(model, 5).any()


def test_batches_take_turns_and_a_step_is_that_of_the_loss_with_its_penalty() -> None:
    release = HiddenState(radius=1.0, penalty=0.2, noise=1e-7, batch=1)
    own = Walk(release=release, records=2, rate=0.5, steps=4, dimension=6)
    rng = np.random.default_rng(3)
    batches = [Places.of(rng.normal(size=(1, 2)).astype(np.float32), np.array([k]), 1.0, 2) for k in (0, 1)]
    model = np.zeros((2, 3))
    for step in range(4):
        a, y = batches[step % 2].records[0], batches[step % 2].labels[0]
        chances = np.exp(model @ a) / np.exp(model @ a).sum()
        model = model - 0.5 * (np.outer(chances - np.eye(2)[y], a) + 0.2 * model)
    found = hidden_update(own, np.zeros(6, np.float32), batches, rng)
    assert np.allclose(-0.5 * found, np.concatenate([model[:, :2].ravel(), model[:, 2]]), atol=1e-5)


def test_a_message_of_hidden_steps_is_the_same_whoever_else_is_asked() -> None:
    cohort = Cohort(prepared_study(study()))
    together, alone = np.empty((6, 18), np.float32), np.empty((1, 18), np.float32)
    assert cohort.hiding is not None
    assert cohort.hiding.updates(MODEL, 1, np.arange(6), together) == {}
    cohort.hiding.updates(MODEL, 1, np.array([4]), alone)
    assert np.array_equal(alone[0], together[4])
    assert len(np.unique(together, axis=0)) == 6


def test_clients_with_fewer_records_have_empty_places_and_with_more_only_the_first_count() -> None:
    uneven = "clients.split={kind='PowerSizes', exponent=1.0}"
    cohort = Cohort(prepared_study(study(uneven, "clients.records=9", "privacy.release.batch=3")))
    out = np.empty((6, 18), np.float32)
    assert cohort.hiding is not None
    cohort.hiding.updates(MODEL, 1, np.arange(6), out)
    assert np.isfinite(out).all()


def test_a_run_of_hidden_steps_learns_at_the_epsilon_it_promised(tmp_path: Path) -> None:
    own = study_file.parsed_study(STUDY.replace("noise = 3.0", "noise = 0.05"))
    found = run(own, tmp_path / "run", quiet=True)
    lines = records.read_records(tmp_path / "run" / "records.jsonl").rounds
    assert found.accuracy is not None
    assert found.accuracy > 0.5
    assert lines[-1]["epsilon"]["upper"] > lines[0]["epsilon"]["upper"] > 0
    assert {line["epsilon"]["lower"] for line in lines} == {0.0}


TERMS = """
studies = "any"
mechanisms = "any"
budget = { epsilon = 30.0, delta = 1e-5 }
"""


def node(folder: Path, terms: str) -> Node:
    (folder / "policy.toml").write_text(terms)
    return Node.of({"policy": str(folder / "policy.toml"), "partition-id": 0, "num-partitions": 2})


def test_a_node_charges_hidden_steps_once_a_round_and_answers_what_a_simulation_would(tmp_path: Path) -> None:
    text, held = study_file.study_text(study()), np.arange(3)
    own = node(tmp_path, TERMS + 'noise = "seeded"\nunit = "record"')
    assert own.answer(text, MODEL, 1, held) == cohort_reply(text, MODEL, 1, held)
    own.answer(text, MODEL, 2, held)
    ledger = (tmp_path / "ledger" / "ledger.jsonl").read_text()
    assert ledger.count('"HiddenState"') == 2
    assert '"steps":6' in ledger.replace(" ", "")


def test_a_node_does_not_let_a_server_choose_what_its_own_data_cannot_keep(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", rng.normal(size=(45, 5)).astype(np.float32))
    np.save(tmp_path / "y.npy", np.arange(45) % 3)
    data = f'data = {{ kind = "Arrays", path = "{tmp_path}", held_out = 5 }}'
    terms = f'unit = "record"\nclasses = 3\nclients = 3\n{data}\n{TERMS}'
    own = node(tmp_path, terms)
    with pytest.raises(Refused, match="adjacency 'replace'"):
        own.answer(study_file.study_text(study("privacy.adjacency=add-remove")), MODEL, 1, np.arange(3))
    text = study_file.study_text(study()).replace("learning_rate = 1.0", "learning_rate = 3.9")
    with pytest.raises(Refused, match="do not contract"):
        own.answer(text, MODEL, 1, np.arange(3))
    answer = own.answer(study_file.study_text(study()), MODEL, 1, np.arange(3))
    assert len(answer) > 3 * 18 * 4


def test_an_audit_of_hidden_steps_finds_much_and_never_more_than_is_certified(tmp_path: Path) -> None:
    many = audit(
        study_file.study_text(study("clients.count=1", "clients.records=60", "privacy.release.noise=2.0")), tmp_path,
        canaries=1500, quiet=True,
    )  # fmt: skip
    assert many["stands"]
    assert 0.3 * many["mu"]["certified"] < many["mu"]["audited"] <= many["mu"]["certified"]


def test_an_audit_of_a_record_there_or_not_stands_too(tmp_path: Path) -> None:
    own = study("clients.count=1", "clients.records=60", "privacy.release.noise=2.0", "privacy.adjacency=add-remove")
    found = audit(study_file.study_text(own), tmp_path, canaries=600, quiet=True)
    assert found["stands"]
    assert 0 < found["mu"]["audited"] <= found["mu"]["certified"]
    assert "an empty place" in found["trial"]
