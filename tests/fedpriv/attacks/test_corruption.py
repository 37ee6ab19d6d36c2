"""Corrupted records: how many, always the same ones, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.training.cohort import Cohort
from clients.training.corrupting import Corrupting
from clients.training.prepared import prepared_study
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.plan import Plan
from server import rounds
from server.rounds import planned
from simulations.runs.direct import Here

STUDY = """
data.kind = "Digits"
clients = { count = 12, records = 60 }
run.rounds = 2
"""
RELEASE = "privacy.release={kind='DpSgd', clip=0.5, noise=1.2, sampling=0.2}"
ON_DATA = ["kind='LabelFlip'", "kind='RandomLabel'", "kind='TargetedFlip', source=1, target=7",
           "kind='FeatureNoise', deviation=10.0"]  # fmt: skip
ON_GRADIENTS = ["kind='RandomNoise', deviation=10.0", "kind='SignFlip'", "kind='BitFlip', bits=[32]"]


def study(corruption: str, *overrides: str) -> Any:
    return study_file.parsed_study(STUDY, overrides=[f"corruption={{{corruption}}}", *overrides])


def clean(cohort: Cohort, numbers: Any) -> tuple[Any, Any]:
    x, y = cohort.pool.batch(numbers[None])
    return x[0], y[0]


def test_a_share_of_the_records_is_struck_whoever_holds_them() -> None:
    def corrupting(corruption: str, *overrides: str) -> Corrupting:
        return Corrupting(Plan.of(calibrated_study(study(corruption, *overrides), 650), 650), 10)

    own = corrupting("kind='LabelFlip', share=0.2")
    numbers = np.arange(100_000)
    assert own.struck(numbers).mean() == pytest.approx(0.2, abs=4 * (0.16 / 100_000) ** 0.5)
    shuffled = np.random.default_rng(1).permutation(100_000).reshape(100, -1)
    assert (own.struck(shuffled) == own.struck(numbers)[shuffled]).all()
    assert not corrupting("kind='LabelFlip', share=0").struck(numbers).any()
    assert corrupting("kind='LabelFlip', share=1").struck(numbers).all()
    others = corrupting("kind='LabelFlip', share=0.2", "run.seed=2").struck(numbers)
    assert (others != own.struck(numbers)).any()


@pytest.mark.parametrize("kind", ON_DATA)
def test_struck_data_are_changed_in_the_same_way_every_time_and_nothing_else_is(kind: str) -> None:
    cohort = Cohort(prepared_study(study(f"{kind}, share=0.3")))
    numbers = np.arange(1000)
    x, y = clean(cohort, numbers)
    hit = cohort.corrupting.struck(numbers)
    found = cohort.corrupting.data(x, y, numbers)
    again = cohort.corrupting.data(x[::-1], y[::-1], numbers[::-1])
    changed = (found[0] != x).reshape(1000, -1).any(axis=1) | (found[1] != y)
    assert not changed[~hit].any()
    assert changed[hit].all() or "Targeted" in kind
    assert all((one == other[::-1]).all() for one, other in zip(found, again, strict=True))
    assert (clean(cohort, numbers)[1] == y).all()


def test_labels_and_features_become_what_the_paper_says() -> None:
    numbers = np.arange(1000)

    def of(kind: str) -> tuple[Any, Any, Any, Any]:
        cohort = Cohort(prepared_study(study(f"{kind}, share=1")))
        own = clean(cohort, numbers)
        return *own, *cohort.corrupting.data(*own, numbers)

    x, y, _, flipped = of("kind='LabelFlip'")
    assert (flipped == 9 - y).all()
    _, _, _, other = of("kind='RandomLabel'")
    assert (other != y).all()
    assert np.bincount((other - y) % 10, minlength=10)[1:].min() > 70  # of 111 in the mean
    _, _, noisy, same = of("kind='FeatureNoise', deviation=10.0")
    assert (same == y).all()
    assert (noisy - x).std() == pytest.approx(10, rel=0.02)


def test_gradients_become_what_the_paper_says() -> None:
    numbers, rows = np.arange(50), np.random.default_rng(1).normal(size=(50, 650)).astype(np.float32)

    def of(kind: str) -> Any:
        cohort, out = Cohort(prepared_study(study(f"{kind}, share=1", RELEASE))), rows.copy()
        cohort.corrupting.gradients(out, numbers, 1, 0, cohort.net, cohort.net.initial())
        return out

    assert (of("kind='SignFlip'") == -rows).all()
    assert (of("kind='BitFlip', bits=[32]") == -rows).all()
    assert (of("kind='RandomNoise', deviation=10.0") - rows).std() == pytest.approx(10, rel=0.02)
    assert np.isnan(of("kind='NonFinite'")).all()


@pytest.mark.parametrize("kind", ON_GRADIENTS)
def test_what_becomes_of_a_gradient_depends_on_no_other_record(kind: str) -> None:
    """Else a record less would move the others' noise too, and the sum by more than its own gradient."""
    rows = np.random.default_rng(1).normal(size=(50, 650)).astype(np.float32)
    cohort, few = Cohort(prepared_study(study(f"{kind}, share=0.6", RELEASE))), np.r_[:20, 21:50]
    all_of_them, fewer = rows.copy(), rows[few].copy()
    for own, numbers in ((all_of_them, np.arange(50)), (fewer, few)):
        cohort.corrupting.gradients(own, numbers, 1, 0, cohort.net, cohort.net.initial())
    assert np.array_equal(all_of_them[few], fewer, equal_nan=True)


@pytest.mark.parametrize("kind", [*ON_DATA, *ON_GRADIENTS])
def test_records_are_the_same_bytes_for_any_division_into_cohorts(kind: str, tmp_path: Path) -> None:
    chosen = study(f"{kind}, share=0.3", RELEASE, "training.local_steps=2")
    for cohorts in (1, 5):
        rounds.run_rounds(chosen, tmp_path / str(cohorts), Here(cohorts), quiet=True)
    written = [(tmp_path / each / "records.jsonl").read_bytes() for each in ("1", "5")]
    assert written[0] == written[1]
    clean = study_file.parsed_study(STUDY, overrides=[RELEASE, "training.local_steps=2"])
    rounds.run_rounds(clean, tmp_path / "clean", Here(), quiet=True)
    weights = [np.load(tmp_path / each / "checkpoint.npz")["weights"] for each in ("1", "clean")]
    assert (weights[0] != weights[1]).any()


def test_labels_are_corrupted_without_any_privacy_too(tmp_path: Path) -> None:
    right = rounds.run_rounds(study("kind='RandomLabel', share=0"), tmp_path / "right", Here(), quiet=True)
    wrong = rounds.run_rounds(study("kind='RandomLabel', share=1"), tmp_path / "wrong", Here(), quiet=True)
    assert right["accuracy"] > 0.7
    assert wrong["accuracy"] < 0.1


def test_corrupted_records_cost_as_much_as_others(tmp_path: Path) -> None:
    results = [
        rounds.run_rounds(study(f"kind='NonFinite', share={share}", RELEASE), tmp_path / str(share), Here(), quiet=True)
        for share in (0.0, 1.0)
    ]
    assert results[0]["epsilon"] == results[1]["epsilon"]
    assert [result["failed"] for result in results] == [{}, {}]


@pytest.mark.parametrize(
    ("corruption", "message"),
    [
        ("kind='LabelFlp', share=0.1", "corruption: unknown corruption 'LabelFlp' (did you mean 'LabelFlip'?)"),
        ("kind='Alie', share=0.1", "unknown corruption 'Alie'"),
        ("kind='LabelFlip'", "LabelFlip needs share"),
        ("kind='LabelFlip', share=1.1", "share must be between 0 and 1, got 1.1"),
        ("kind='LabelFlip', share=nan", "share must be between 0 and 1, got nan"),
        ("kind='FeatureNoise', share=0.1, deviation=-1.0", "FeatureNoise: deviation must be positive, got -1.0"),
        (
            "kind='SignFlip', share=0.1",
            "SignFlip acts on a record's own gradient, which only a privacy.release of gradients has",
        ),
        ("kind='TargetedFlip', source=1, target=12, share=0.1", "source and target must be below 10"),
    ],
)
def test_what_no_corruption_can_be_is_refused_in_one_line(corruption: str, message: str) -> None:
    with pytest.raises(FedprivError) as caught:
        planned(study(corruption))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
