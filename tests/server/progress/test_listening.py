"""Who listens to a run: called when a round is on disk, obeyed, and what goes wrong there costs nothing; `run.stop`."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import fedpriv as fp
from fedpriv.records import Line, read_records
from simulations.report.run.facts import privacy_facts

FEW = ["clients.count=60", "run.rounds=6"]


def run(place: Path, *more: str, **settings: Any) -> Any:
    """A small run, by the direct driver."""
    return fp.run("digits", place, overrides=[*FEW, *more], quiet=True, **settings)


def test_a_listener_is_told_each_round_as_it_stands_on_disk(tmp_path: Path) -> None:
    heard: list[Line] = []

    def listen(line: Line) -> None:
        heard.append(line)
        assert read_records(tmp_path / "run" / "records.jsonl").rounds == heard

    assert run(tmp_path / "run", on_round=listen).ended == "finished"
    assert [line["round"] for line in heard] == [1, 2, 3, 4, 5, 6]


def test_a_listener_stops_the_run_which_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    stopped = run(tmp_path / "run", on_round=lambda line: line["round"] == 2)
    assert (len(stopped.rounds), stopped.records.end["why"]) == (2, "stopped")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["why"] == "stopped"
    assert fp.resume(tmp_path / "run", quiet=True).ended == "finished"
    run(tmp_path / "whole")
    one, two = ((tmp_path / name / "records.jsonl").read_bytes() for name in ("run", "whole"))
    assert one == two


def test_what_a_listener_says_after_the_last_round_stops_nothing(tmp_path: Path) -> None:
    assert run(tmp_path / "run", on_round=lambda line: line["round"] == 6).ended == "finished"


def test_what_a_listener_raises_ends_the_run_in_one_line_and_all_is_whole(tmp_path: Path) -> None:
    def fail(line: Line) -> None:
        if line["round"] == 3:
            raise OSError("no\nroom")

    with pytest.raises(fp.FedprivError, match=r"^on_round failed in round 3 \(OSError: no room\): .*--resume .*run"):
        run(tmp_path / "run", on_round=fail)
    assert len(read_records(tmp_path / "run" / "records.jsonl").rounds) == 3
    assert fp.resume(tmp_path / "run", quiet=True).ended == "finished"
    run(tmp_path / "whole")
    one, two = ((tmp_path / name / "records.jsonl").read_bytes() for name in ("run", "whole"))
    assert one == two


def test_the_epsilon_of_a_run_that_was_stopped_is_that_of_all_its_rounds(tmp_path: Path) -> None:
    whole, stopped = run(tmp_path / "whole"), run(tmp_path / "run", on_round=lambda line: line["round"] == 2)
    end = stopped.records.end
    assert (end["releases_of_worst"], end["releases_possible"]) == (2, 6)
    assert stopped.epsilon == {"lower": 0.0, "upper": whole.epsilon["upper"], "clt": None}
    assert end["mu"]["upper"] == whole.records.end["mu"]["upper"]
    assert end["of_rounds_done"]["epsilon"] == whole.rounds[1]["epsilon"]
    for level, (low, high) in ((level, own.values()) for level, own in end["beta"].items()):
        assert low == whole.records.end["beta"][level]["lower"]
        assert high == 1 - float(level)
    said = " ".join(text for _, text in privacy_facts(stopped))
    assert "charged for 2 releases, with all rounds planned 6" in said
    assert "of all rounds planned: when it ended may tell of what was sent" in said
    assert stopped.account.upper_epsilon(1e-5) == pytest.approx(whole.epsilon["upper"], rel=1e-3)
    assert "of_rounds_done" not in whole.records.end


def test_a_budget_and_kept_records_bound_what_a_stopped_run_can_have_given_away(tmp_path: Path) -> None:
    local = ["privacy.trust=local", "privacy.mechanism.scale=2.0", "privacy.epsilon=1000.0", "run.rounds=20"]
    planned = run(tmp_path / "planned", *local).rounds
    budget = planned[9]["epsilon"]["upper"] * 1.001
    stopped = run(tmp_path / "run", *local, f"privacy.budget={budget}", on_round=lambda line: line["round"] == 2)
    assert stopped.records.end["releases_possible"] == 10
    assert stopped.epsilon["upper"] <= budget


@pytest.mark.parametrize("accuracy", [0.05, 0.2, 0.99])
def test_a_run_stops_at_the_first_accuracy_that_is_enough(accuracy: float, tmp_path: Path) -> None:
    found = fp.run("digits", tmp_path / "run", overrides=["run.rounds=8", f"run.stop.accuracy={accuracy}"], quiet=True)
    reached = [line["accuracy"] >= accuracy for line in found.rounds]
    assert not any(reached[:-1])
    assert found.records.end["why"] == ("accuracy reached" if reached[-1] and len(reached) < 8 else "finished")


@pytest.mark.parametrize("every", [1, 2])
def test_patience_counts_evaluated_rounds_since_the_best_and_a_resumed_run_counts_on(
    every: int, tmp_path: Path
) -> None:
    settings = ["run.rounds=40", "run.stop={patience=3}", f"run.evaluate_every={every}"]
    whole = run(tmp_path / "whole", *settings)
    assert whole.records.end["why"] == "accuracy no better"
    seen = [line["accuracy"] for line in whole.rounds if line["accuracy"] is not None]
    assert seen.index(max(seen)) == len(seen) - 4
    assert len(whole.rounds) < 40
    run(tmp_path / "run", *settings, on_round=lambda line: line["round"] == len(whole.rounds) - 1)
    assert fp.resume(tmp_path / "run", quiet=True).records.end["why"] == "accuracy no better"
    assert fp.resume(tmp_path / "run", quiet=True).records.end["why"] == "accuracy no better"  # nothing is left to do
    one, two = ((tmp_path / name / "records.jsonl").read_bytes() for name in ("run", "whole"))
    assert one == two


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["run.stop={}"], "run.stop: stop needs accuracy or patience"),
        (["run.stop.accuracy=0.0"], "stop: accuracy must be"),
        (["run.stop.accuracy=1.5"], "stop: accuracy must be"),
        (["run.stop.accuracy=nan"], "stop: accuracy must be"),
        (["run.stop.patience=0"], "stop: patience must be"),
        (["run.stop.patience=2.5"], "patience must be a whole number"),
        (["run.stop.loss=1.0"], "run.stop has no key 'loss'"),
    ],
)
def test_a_stop_that_means_nothing_is_refused(settings: list[str], words: str) -> None:
    with pytest.raises(fp.FedprivError, match=words):
        fp.read_study("digits", settings)


def test_a_stop_by_accuracy_needs_held_out_records(tmp_path: Path) -> None:
    study = 'data = { kind = "Digits", held_out = 0 }\nclients = { count = 10 }\n'
    with pytest.raises(fp.FedprivError, match=r"run\.stop|held_out"):
        fp.run(study + "run = { rounds = 2, stop = { accuracy = 0.5 } }\n", tmp_path / "run", quiet=True)


def test_studies_that_stop_nowhere_keep_their_ids_and_those_that_do_have_their_own() -> None:
    plain = fp.read_study("digits")
    assert plain.id != fp.read_study("digits", ["run.stop.patience=3"]).id
    assert "stop" not in plain.table()["run"]


def test_rounds_are_logged_under_fedpriv_and_nothing_is_printed_by_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, logger="fedpriv")
    run(tmp_path / "run", "run.rounds=2", "server.step=1e30", "run.checkpoint_every=2")
    [first, second] = [each for each in caplog.records if each.name == "fedpriv.rounds"]
    assert first.getMessage().startswith("round 1/2  accuracy ")
    assert second.levelname in ("INFO", "WARNING")
    assert capsys.readouterr() == ("", "")
