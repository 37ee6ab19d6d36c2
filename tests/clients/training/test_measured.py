"""What a simulation measures of its votes: by another route, against what is expected, and the descent they prove."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pytest import approx

from clients.data.splits import Uneven
from clients.training.measured import Measuring, wrong_share
from fedpriv import records
from fedpriv.errors import FedprivError
from fedpriv.population.participation import byzantine_clients
from fedpriv.studies import file as study_file
from fedpriv.studies.judged import judged_attackers
from server.app import run_met
from server.rounds import planned, run_rounds
from simulations.command_line import main
from simulations.report.run._votes import descent_of, votes_rows
from simulations.report.run.figures import run_pictures
from simulations.report.run.runs import read_run
from simulations.runs.direct import Here

VOTE = ["aggregation.kind=MajorityVote", "server.step=0.01", "server.momentum=0.0", "run.measure_votes=true"]
FEW = ["clients.count=60", "clients.byzantine=6", "privacy.epsilon=200.0"]


def ran(directory: Path, *overrides: str) -> list[dict[str, Any]]:
    study = study_file.read_study("digits", [*VOTE, *FEW, *overrides])
    run_rounds(study, directory, Here(1), quiet=True)
    return records.read_records(directory / "records.jsonl").rounds


def test_what_is_measured_is_what_gradients_by_hand_say(tmp_path: Path) -> None:
    line = ran(tmp_path, "run.rounds=1", "clients.records=10")[0]["votes"]
    prepared = planned(study_file.parsed_study((tmp_path / "study.toml").read_text()))
    study, net = prepared.study, prepared.net
    honest = np.setdiff1d(np.arange(60), byzantine_clients(60, 6, study.run.seed))
    x, y = prepared.pool.batch(prepared.division.of(honest))
    rows = np.empty((len(honest), net.dimension), np.float32)
    start = net.initial()
    net.gradients(start, x, y, rows)
    mean = prepared.plan.channel.bounded(rows.copy()).applied.mean(axis=0, dtype=float)
    together = np.empty((1, net.dimension), np.float32)  # all their records as one client's: all have as many
    loss = net.gradients(start, x.reshape(1, -1, *x.shape[2:]), y.reshape(1, -1), together)[0]
    gradient = rows.mean(axis=0, dtype=float)
    assert gradient == approx(together[0], abs=1e-6)
    with np.load(tmp_path / "checkpoint.npz") as file:
        vote = np.rint(file["weights"] / -study.server.step)
    wrong = vote != np.sign(gradient)
    assert line["against_mean"] == np.mean(vote != np.sign(mean))
    assert line["against_gradient"] == np.mean(wrong)
    assert line["mean_against_gradient"] == np.mean(np.sign(mean) != np.sign(gradient))
    assert line["gradient"] == approx(np.abs(gradient).sum())
    assert line["progress"] == approx(np.sum(np.abs(gradient) * (1 - 2 * wrong)))
    assert line["loss"] == approx(loss)


def test_votes_come_out_wrong_as_often_as_their_count_expects(tmp_path: Path) -> None:
    lines = [line["votes"] for line in ran(tmp_path, "run.rounds=12")]
    measured, expected = (np.array([line[name] for line in lines]) for name in ("against_mean", "expected"))
    assert 0.1 < expected.mean() < 0.5
    error = float(np.sqrt((expected * (1 - expected)).mean() / (650 * 12)))
    assert measured.mean() == approx(expected.mean(), abs=0.02 + 4 * error)  # clients are near their mean, not at it


ATTACKED = [
    ["clients.byzantine=0"],
    ["attack={kind='OutputPoisoning'}", "clients.byzantine=20"],
    ["attack={kind='OmniscientVote'}", "clients.byzantine=25", "privacy.trust=local", "privacy.epsilon=2000.0"],
    ["clients.participation={kind='Fixed', number=7}", "clients.byzantine=2", "server.step=0.2"],
    ["clients.split={kind='Dirichlet', alpha=1.0}", "clients.records=12"],
]


@pytest.mark.parametrize("changes", ATTACKED, ids=str)
def test_the_descent_of_any_run_is_within_its_bound(changes: list[str], tmp_path: Path) -> None:
    lines = ran(tmp_path, "run.rounds=6", *changes)
    run = read_run(tmp_path)
    found = descent_of(run)
    assert found is not None
    own = [line["votes"] for line in lines]
    step, smoothness = run.header["votes"]["step"], run.header["votes"]["smoothness"]
    for now, after in pairwise(own):  # each round by itself: the descent lemma
        assert after["loss"] <= now["loss"] - step * now["progress"] + smoothness * step**2 * 650 / 2 + 1e-6
    assert found.progress == approx(np.mean([line["progress"] for line in own[:-1]]))
    assert found.progress <= found.most
    assert [name for name, _ in votes_rows(run)] == ["votes wrong", "descent"]


def test_the_curvature_bounds_every_change_of_the_gradient(tmp_path: Path) -> None:
    study = study_file.read_study("digits", [*VOTE, *FEW, "clients.records=10", "clients.byzantine=0"])
    prepared = planned(study)
    measuring, rng = Measuring(prepared), np.random.default_rng(5)
    x = prepared.pool.batch(prepared.division.of(np.arange(60)))[0].reshape(600, -1).astype(float)
    with_ones = np.hstack([x, np.ones((600, 1))])
    found = measuring.facts["smoothness"]
    assert found == approx(np.linalg.norm(with_ones, 2) ** 2 / 600 / 2, rel=1e-6)
    for _ in range(20):
        here, way = rng.normal(0, 0.1, 650), rng.normal(0, 0.01, 650)
        one, other = (measuring._full_gradient(at.astype(np.float32))[0] for at in (here, here + way))
        assert np.linalg.norm(other - one) <= found * np.linalg.norm(way) * (1 + 1e-3)


def test_uneven_clients_weigh_the_same() -> None:
    split = ["clients.split={kind='Dirichlet', alpha=1.0}", "clients.records=12", "clients.byzantine=0"]
    prepared = planned(study_file.read_study("digits", [*VOTE, *FEW, *split]))
    assert isinstance(prepared.division, Uneven)
    start, total = prepared.net.initial() + np.float32(0.01), np.zeros(650)
    for client in range(60):
        size = int(prepared.division.sizes(np.array([client]))[0])
        x, y = prepared.pool.batch(prepared.division.of(np.array([client]), np.arange(size)[None]))
        out = np.empty((1, 650), np.float32)
        prepared.net.gradients(start, x, y, out)
        total += out[0]
    assert Measuring(prepared)._full_gradient(start)[0] == approx(total / 60, abs=1e-6)


def test_rounds_that_are_not_evaluated_are_not_measured_and_records_hold_numbers(tmp_path: Path) -> None:
    lines = ran(tmp_path, "run.rounds=3", "run.evaluate_every=2")
    assert [line["votes"] is None for line in lines] == [True, False, False]
    assert descent_of(read_run(tmp_path)) is None
    path = tmp_path / "records.jsonl"
    path.write_text(path.read_text().replace('"against_mean":0', '"against_mean":"most","then":0'))
    with pytest.raises(FedprivError, match="votes cannot be"):
        records.read_records(path)


ABSENT = ["privacy.trust=local", "privacy.epsilon=2000.0", "clients.participation={kind='Poisson', rate=1e-9}"]


def test_a_round_that_is_skipped_counts_as_all_wrong(tmp_path: Path) -> None:
    line = ran(tmp_path, "run.rounds=1", *ABSENT)[0]
    assert line["skipped"]
    assert line["votes"]["against_mean"] is None
    assert line["votes"]["progress"] == -line["votes"]["gradient"]


JUDGED = [
    ("attack={kind='SignFlip'}", "blind"),
    ("attack={kind='VoteAgainst', probability=0.8}", "wrong with probability 0.8"),
    ("attack={kind='VoteAgainst', probability=0.4}", "omniscient"),
    ("attack={kind='OutputPoisoning'}", "omniscient"),
]


@pytest.mark.parametrize(("attack", "words"), JUDGED)
def test_a_study_is_judged_by_its_own_attackers_where_these_vote(attack: str, words: str) -> None:
    mechanism = "privacy.mechanism={kind='Binomial', clip=1.0, scale=2.0, trials=1}"
    text = study_file.study_text(study_file.read_study("digits")).replace("epsilon = 4.0\n", "")
    assert judged_attackers(study_file.parsed_study(text, overrides=[mechanism, attack])).words == words


WRONG = [
    (["aggregation.kind=Mean"], "run.measure_votes is of directions that are votes"),
    (["run.measure_votes=1"], "run.measure_votes must be true or false"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=str)
def test_a_study_without_votes_measures_none(changes: list[str], message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        study_file.read_study("digits", [*VOTE, *changes])


def test_a_deployment_is_refused_what_only_a_simulation_can_measure(
    tmp_path: Path,
) -> None:
    deployed: Any = SimpleNamespace(meet=lambda patience: None, deployed=True)
    study = study_file.read_study("digits", [*VOTE, *FEW])
    with pytest.raises(FedprivError, match=r"run\.measure_votes is for simulations"):
        run_met(study, tmp_path, deployed, resume=False, quiet=True, on_round=None)


def test_a_report_draws_what_was_measured_beside_what_was_expected(tmp_path: Path) -> None:
    ran(tmp_path, "run.rounds=3")
    picture = next(each for each in run_pictures(read_run(tmp_path)) if each.name == "votes")
    assert "expected" in picture.alt
    assert "blind attackers" in picture.note
    assert "the mean of Λ" in picture.note


def test_a_dry_run_warns_where_attackers_exceed_what_votes_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def said(*changes: str) -> str:
        assert main(["run", "--dry-run", *(word for own in (*VOTE, *FEW, *changes) for word in ("--set", own))]) == 0
        return capsys.readouterr().out.splitlines()[-1]

    assert said().startswith("  votes             a vote survives 6 Byzantine of 60 asked (blind)")
    knowing = ["attack={kind='OutputPoisoning'}", "clients.byzantine=12"]
    assert said(*knowing).startswith("  warning           a vote survives 12 Byzantine of 60 asked (omniscient)")
    assert "more than any vote survives" in said("attack={kind='OutputPoisoning'}", "clients.byzantine=31")
    assert "time" in said("clients.byzantine=0")


def test_shares_are_of_coordinates_that_have_a_sign() -> None:
    assert wrong_share(np.array([1.0, -1.0]), np.zeros(2)) == 0.0
