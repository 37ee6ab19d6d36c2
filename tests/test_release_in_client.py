"""Clients that release private sums of their own records' gradients: the sum, its noise, its price, and whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.cohort import Cohort
from fedpriv import guarantee, records, study_file
from fedpriv.accounting import Account, Release
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Gaussian
from fedpriv.private_sums import KINDS, Batch, make_sum
from fedpriv.study import Study
from server import rounds
from server.rounds import Plan
from simulations.direct import Here, OnRay

STUDY = """
data.kind = "Digits"
clients = { count = 12, records = 60 }
[privacy.release]
kind = "DpSgd"
clip = 0.5
noise = 1.2
sampling = 0.2
[run]
rounds = 3
"""
TRIMMED = "privacy.release={kind='TrimmedGaussian', clip=0.5, noise=1.2, sampling=0.2, trimmed=0.25}"
SETTINGS: dict[str, dict[str, Any]] = {
    "DpSgd": {"clip": 0.5, "noise": 1.2, "sampling": 0.2},
    "TrimmedGaussian": {"clip": 0.5, "noise": 1.2, "sampling": 0.2, "trimmed": 3},
}


def study(*overrides: str) -> Study:
    return study_file.parsed(STUDY, overrides=overrides)


def batch(kind: str, rows: Any, **changed: Any) -> tuple[Any, Batch]:
    release = make_sum(kind, SETTINGS[kind] | changed)
    matrix = np.asarray(rows, np.float32)
    return release, Batch.of(release, matrix, np.arange(len(matrix)), 10.0)


def exact(kind: str, rows: Any, **changed: Any) -> np.ndarray:
    """The sum with next to no noise."""
    release, own = batch(kind, rows, **changed, noise=1e-12)
    return np.asarray(release.total(own, np.random.default_rng(1)))


# The sum


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_has_the_deviation_that_is_costed(kind: str) -> None:
    release, own = batch(kind, np.zeros((5, 100_000)))
    noise = release.total(own, np.random.default_rng(1))
    deviation = release.noise * release.clip
    assert noise.mean() == pytest.approx(0, abs=4 * deviation / 100_000**0.5)
    assert noise.std() == pytest.approx(deviation, rel=4 / (2 * 100_000) ** 0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_is_released_as_noise(kind: str) -> None:
    release, own = batch(kind, np.zeros((0, 100_000)))
    assert release.total(own, np.random.default_rng(2)).std() == pytest.approx(release.noise * release.clip, rel=0.01)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), count=st.integers(0, 12), norm=st.sampled_from(["clip", "normalise"]))
def test_one_record_more_moves_the_sum_by_the_clip_norm_at_most(kind: str, seed: int, count: int, norm: str) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count + 1, 4)) * rng.choice([0, 0.01, 1, 1, 1e20], (count + 1, 1))
    rows[rng.random(count + 1) < 0.1] = np.nan
    rows[rng.random(count + 1) < 0.3] = [3, 0, 0, 0]  # of equal length
    numbers, release = (
        rng.permutation(100)[: count + 1],
        make_sum(kind, SETTINGS[kind] | {"noise": 1e-12, "norm": norm}),
    )
    totals = []
    for chosen in (np.arange(count + 1), rng.permutation(count)):  # whatever the order of the batch
        own = Batch.of(release, rows[chosen].astype(np.float32), numbers[chosen], 10.0)
        totals.append(release.total(own, np.random.default_rng(1)))
    assert np.linalg.norm(totals[0] - totals[1]) <= release.clip * (1 + 1e-12)


def test_records_within_the_norm_are_added_as_they_are_and_longer_ones_shortened() -> None:
    assert exact("DpSgd", [[0.3, 0], [0, 50]]) == pytest.approx([0.3, 0.5], rel=1e-5)
    assert exact("DpSgd", [[0.3, 0], [0, 50], [0, 0]], norm="normalise") == pytest.approx([0.5, 0.5], rel=1e-5)


def test_a_record_that_is_not_finite_counts_for_nothing() -> None:
    bad = [[0.3, 0], [np.nan, 1], [np.inf, 0], [0, 0.2]]
    assert exact("DpSgd", bad) == pytest.approx([0.3, 0.2], rel=1e-5)
    assert exact("TrimmedGaussian", bad, trimmed=1) == pytest.approx([0, 0.2], rel=1e-5)  # nor is it what is trimmed


def test_trimming_takes_the_longest_before_clipping_has_made_them_equal() -> None:
    rows = [[9, 0], [0, 8], [0.1, 0], [7, 0]]
    assert exact("TrimmedGaussian", rows, trimmed=2) == pytest.approx([0.6, 0], rel=1e-5)
    assert exact("TrimmedGaussian", rows, trimmed=0.1) == pytest.approx([0.6, 0.5], rel=1e-5)  # of 10 expected: one
    assert exact("TrimmedGaussian", rows, trimmed=9) == pytest.approx([0, 0], abs=1e-9)


# What it costs


@pytest.mark.parametrize("steps", [1, 3])
def test_a_run_costs_what_the_accountant_says_of_its_releases(steps: int, tmp_path: Path) -> None:
    result = rounds.run(study(f"training.local_steps={steps}"), tmp_path, Here(), quiet=True)
    release = Release(mechanism=Gaussian(clip=1, noise=1.2), sampling=0.2, rounds=3 * steps, dimension=650,
                      geometry="l2", unit="record")  # fmt: skip
    assert result["epsilon"]["upper"] == Account((release,)).epsilon(1e-5).bounds.upper
    assert (result["unit"], result["adjacency"], result["trust"]) == ("record", "add-remove", "local")
    header = records.read(tmp_path / "records.jsonl").header
    assert header["release"]["sampling"] == 0.2
    assert header["private_sum"]["kind"] == "DpSgd"


def test_noise_left_out_is_calibrated_to_the_epsilon_asked_for() -> None:
    found = Plan.of(study("privacy.release={kind='DpSgd', clip=0.5, sampling=0.2}", "privacy.epsilon=2.0")).study
    assert 1.99 < guarantee.epsilon(found, 650, 3).upper <= 2.0
    assert found.privacy.release is not None
    assert found.privacy.release.settings["noise"] > 0.5
    assert study_file.parsed(study_file.text(found)) == found


def test_what_carries_the_release_costs_nothing_more() -> None:
    sign = "privacy.mechanism={kind='StochasticSign', clip=1.0, scale=1.5}"
    plain, carried = Plan.of(study()).study, Plan.of(study(sign, TRIMMED)).study
    assert guarantee.epsilon(plain, 650, 3) == guarantee.epsilon(carried, 650, 3)


def test_a_budget_stops_a_run_of_releases(tmp_path: Path) -> None:
    one, two = (guarantee.epsilon(study(), 650, rounds).upper for rounds in (1, 2))
    result = rounds.run(study(f"privacy.budget={(one + two) / 2}"), tmp_path, Here(), quiet=True)
    assert (result["why"], result["rounds"]) == ("budget", 1)


# Whole runs

RUNS: dict[str, Sequence[str]] = {
    "sums": [],
    "trimmed sums": [TRIMMED],
    "signs of sums": [
        "privacy.mechanism={kind='StochasticSign', clip=1.0, scale=1.5}",
        "aggregation.kind=MajorityVote",
    ],
    "local steps": ["training.local_steps=3", "training.model={kind='Mlp', hidden=[16]}"],
    "uneven clients": ["clients.split={kind='LogNormalSizes', deviation=1.0}", "aggregation.kind=Median"],
    "attackers on data": ["clients.byzantine=3", "attack={kind='FeatureNoise', deviation=2.0}"],
    "attackers who know everything": ["clients.byzantine=3", "attack={kind='Alie', knowledge='everything'}"],
    "hardly any records": ["privacy.release.sampling=0.004"],
}


@pytest.mark.parametrize("name", RUNS)
def test_records_are_the_same_bytes_for_any_division_into_cohorts(name: str, tmp_path: Path) -> None:
    for cohorts in (1, 2, 5):
        result = rounds.run(study(*RUNS[name]), tmp_path / str(cohorts), Here(cohorts), quiet=True)
    first, *others = [(tmp_path / each / "records.jsonl").read_bytes() for each in ("1", "2", "5")]
    assert others == [first, first]
    assert result["failed"] == result["rejected"] == {}
    assert result["skipped"] == 0


def test_records_are_the_same_bytes_in_two_worker_processes_and_after_a_stop(tmp_path: Path) -> None:
    rounds.run(study(), tmp_path / "here", Here(), quiet=True)
    driver = OnRay(2, 3)
    try:
        rounds.run(study(), tmp_path / "ray", driver, quiet=True)
    finally:
        driver.close()
    with pytest.raises(KeyboardInterrupt):
        rounds.run(study(), tmp_path / "cut", Interrupted(2), quiet=True)
    rounds.run(study(), tmp_path / "cut", Here(), resume=True, quiet=True)
    whole = (tmp_path / "here" / "records.jsonl").read_bytes()
    assert (tmp_path / "ray" / "records.jsonl").read_bytes() == whole
    assert (tmp_path / "cut" / "records.jsonl").read_bytes() == whole


class Interrupted(Here):
    """Somebody presses Ctrl-C in a round."""

    def __init__(self, round: int) -> None:
        super().__init__()
        self._round = round

    def ask(self, task: Any) -> Any:
        if task.round == self._round:
            raise KeyboardInterrupt
        return super().ask(task)


def released(cohort: Cohort, rounds: int) -> np.ndarray:
    """Many rounds of client 0 at the initial weights."""
    out = np.empty((rounds, cohort.net.dimension), np.float32)
    for round in range(rounds):
        cohort.releasing.updates(cohort.net.initial(), round + 1, np.array([0]), out[round : round + 1])  # type: ignore[union-attr]
    return out


def test_a_clients_release_is_unbiased_for_the_mean_of_its_clipped_gradients() -> None:
    cohort = Cohort(study("privacy.release.noise=0.05"))
    own = cohort.division.of(np.array([0]))[0]  # type: ignore[call-arg]
    rows = np.empty((60, 650), np.float32)
    cohort.net.each(cohort.net.initial(), *(part[0] for part in cohort.pool.batch(own[None])), rows)
    clipped = rows * np.minimum(1, 0.5 / np.linalg.norm(rows, axis=1))[:, None]
    found = released(cohort, 400)
    error = (found.mean(axis=0) - clipped.mean(axis=0)) / (found.std(axis=0) / 20)
    assert np.abs(error).max() < 5  # of 650 standard errors
    assert error.std() < 1.2


def test_a_clients_batches_are_poisson_samples_of_its_records() -> None:
    cohort, sizes = Cohort(study()), []
    original = cohort.net.each
    cohort.net.each = lambda weights, x, y, out: (sizes.append(len(y)), original(weights, x, y, out))[1]  # type: ignore
    released(cohort, 1000)
    assert np.mean(sizes) == pytest.approx(12, abs=4 * (60 * 0.2 * 0.8 / 1000) ** 0.5)
    assert np.var(sizes) == pytest.approx(60 * 0.2 * 0.8, rel=4 * (2 / 1000) ** 0.5)


def test_cryptographic_batches_and_noise_are_drawn_anew(tmp_path: Path) -> None:
    cohort = Cohort(study("privacy.noise=cryptographic"))
    assert not np.array_equal(released(cohort, 1), released(cohort, 1))
    assert np.array_equal(*[released(Cohort(study()), 1) for _ in range(2)])


def test_records_whose_gradient_cannot_be_had_are_dropped_and_counted_and_charged(tmp_path: Path) -> None:
    x, y = np.random.default_rng(1).normal(size=(120, 4)).astype(np.float32), np.arange(120) % 3
    x[:10] = 1e38  # whose gradients overflow
    for name, part in {"x": x, "y": y, "x_test": x[60:], "y_test": y[60:]}.items():
        np.save(tmp_path / f"{name}.npy", part)
    own = [f'data={{kind="Arrays", path="{tmp_path}"}}', "clients={count=2, records=60}",
           "privacy.release.sampling=1.0", "training.model={kind='Mlp', hidden=[4]}"]  # fmt: skip
    plan = Plan.of(study(*own))
    cohort = Cohort(plan.study)
    out = np.empty((2, plan.net.dimension), np.float32)
    weights = plan.net.initial() * 1e6
    assert cohort.releasing is not None
    assert cohort.releasing.updates(weights, 1, np.arange(2), out) == {}
    assert sum(cohort.releasing.dropped.values()) == 10
    assert np.isfinite(out).all()


# What cannot be


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("privacy.release.sampling=0", "sampling is the share of the records in a step, in (0, 1], got 0"),
        ("privacy.release.sampling=1.5", "sampling must be between 0 and 1, got 1.5"),
        ("privacy.release.sampling=nan", "sampling must be finite, got nan"),
        ("privacy.release.clip=0", "clip must be positive, got 0"),
        ("privacy.release.noise=0", "noise must be positive, got 0"),
        ("privacy.release.norm=coordinates", "norm 'coordinates' is unknown"),
        ("privacy.release.kind=DpSdg", "release 'DpSdg' is unknown (did you mean 'DpSgd'?)"),
        ("privacy.release={kind='DpSgd', clip=1.0, sampling=0.1}", "DpSgd needs noise"),
        ("privacy.release={kind='DpSgd', clip=1.0, noise=1.0, sampling=0.1, trimmed=3}", "no setting 'trimmed'"),
        (TRIMMED.replace("0.25", "12"), "trimmed must be less than the expected batch of 12, got 12"),
        (TRIMMED.replace("0.25", "1.5"), "trimmed must be between 0 and 1, got 1.5"),
        (TRIMMED.replace("0.25", "-1"), "trimmed must be at least 0, got -1"),
        ("privacy.trust=secure-aggregation", "trust 'local', not secure-aggregation"),
        ("privacy.adjacency=replace", "adjacency 'add-remove'"),
        ("training.batch=10", "a release draws its own batch: privacy.release.sampling"),
        ("clients.split=pool", "a record may be at several clients"),
        ("privacy.mechanism={kind='StochasticSign', clip=1.0}", "StochasticSign needs scale"),
    ],
)
def test_what_no_release_can_be_is_refused_in_one_line(override: str, message: str) -> None:
    with pytest.raises(FedprivError) as caught:
        Plan.of(study(override))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
