"""Tables of reports for programs: what they hold is what the records hold, as CSV and as Parquet."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pandas
import pytest
from test_sweep_report import write_sweep

import fedpriv as fp
from fedpriv.records import read_records
from fedpriv.studies.file import read_study
from server.progress import result_table
from server.progress.words import bytes_words
from server.rounds import run_rounds
from simulations.command_line import main
from simulations.report.run.card import run_card
from simulations.report.run.facts import run_summary
from simulations.report.run.page import run_page
from simulations.report.run.runs import read_run
from simulations.report.run.tables import run_tables
from simulations.report.sweep.cells import read_sweep
from simulations.runs.direct import Here
from simulations.runs.tracking import Tracker, tracked_rounds


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one that finished with clients that fail, one without noise that was stopped."""
    place = tmp_path_factory.mktemp("runs")
    few = ["clients.count=60", "run.rounds=4"]
    fp.run("digits", place / "one", overrides=[*few, "attack.kind=NonFinite", "server.fewest=50"], quiet=True)
    plain = [*few, "privacy={}", "run.evaluate_every=2"]
    fp.run("digits", place / "two", overrides=plain, quiet=True, on_round=lambda line: line["round"] == 3)
    return place


def test_csv_and_parquet_hold_every_round_of_every_run(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs)
    written = ["--csv", str(tmp_path / "a" / "csv"), "--parquet", str(tmp_path / "b")]
    assert main(["report", "one", "two", "--no-html", "--json", *written]) == 0
    found = json.loads(capsys.readouterr().out)
    names = ["rounds", "refusals", "runs"]
    assert found["csv"] == [str(tmp_path / "a" / "csv" / f"{name}.csv") for name in names]
    assert found["parquet"] == [str(tmp_path / "b" / f"{name}.parquet") for name in names]
    frames = {name: pandas.read_csv(tmp_path / "a" / "csv" / f"{name}.csv") for name in names}
    for name, frame in [own for own in frames.items() if own[0] != "runs"]:  # where an attack's value is the word nan
        same = pandas.read_parquet(tmp_path / "b" / f"{name}.parquet")
        same = same.where(same.notna(), float("nan"))
        pandas.testing.assert_frame_equal(frame, same, check_dtype=False)
    for run in ("one", "two"):
        lines = read_records(runs / run / "records.jsonl").rounds
        rounds = frames["rounds"][frames["rounds"]["run"] == run]
        assert rounds["round"].tolist() == [line["round"] for line in lines]
        assert rounds["failed"].tolist() == [sum(line["failed"].values()) for line in lines]
        assert rounds["accuracy"].dropna().tolist() == [own for line in lines if (own := line["accuracy"]) is not None]
        uppers = [line["epsilon"]["upper"] for line in lines if line["epsilon"] is not None]
        assert rounds["epsilon_upper"].dropna().tolist() == uppers
        refused = frames["refusals"][frames["refusals"]["run"] == run]
        assert refused["clients"].sum() == sum(
            sum(line[what].values()) for line in lines for what in ("rejected", "failed")
        )
    assert frames["runs"]["ended"].tolist() == ["finished", "stopped"]
    assert frames["runs"]["run"].tolist() == ["one", "two"]


def test_a_run_that_was_stopped_has_the_epsilon_of_all_its_rounds_in_its_row(tmp_path: Path) -> None:
    few = ["clients.count=60", "run.rounds=4"]
    stopped = fp.run("digits", tmp_path / "run", overrides=few, quiet=True, on_round=lambda line: True)
    head, [row] = run_tables([stopped])["runs"]
    own = dict(zip(head, row, strict=True))
    assert own["epsilon_lower"] == 0
    assert own["epsilon_upper"] == stopped.records.end["epsilon"]["upper"] > own["of_rounds_done_epsilon_upper"]  # type: ignore[index]


def test_without_pyarrow_parquet_is_refused_in_one_line_that_names_the_extra(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = builtins.__import__

    def imported(name: str, *others: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return there(name, *others)

    monkeypatch.setattr(builtins, "__import__", imported)
    assert main(["report", str(runs / "one"), "--no-html", "--parquet", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert said.err == "fedpriv: --parquet needs pyarrow: pip install 'fedpriv[parquet]'; --csv works without it\n"
    assert not (tmp_path / "out").exists()


def test_a_place_that_is_a_file_is_refused(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["report", str(runs / "one"), "--no-html", "--csv", str(tmp_path / "taken")]) == 2
    assert "taken: cannot be written" in capsys.readouterr().err


SECRETS = {"asked", "answered", "rejected", "failed", "bytes_up", "bytes_transport", "seconds", "participation"}


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_how_many_clients_a_trusted_server_drew_is_shown_by_nothing_but_its_own_files(
    rate: float, tmp_path: Path
) -> None:
    told: list[str] = []
    tracker = Tracker("a test", lambda begun: (lambda round, numbers: told.extend(numbers), lambda how: None))
    overrides = [f"clients.participation.rate={rate}", "run.rounds=2", "clients.count=100", "privacy.epsilon=50"]
    with tracked_rounds([tracker], tmp_path) as on_round:
        result = run_rounds(read_study("central", overrides), tmp_path, Here(), quiet=True, on_round=on_round)
    run, sent = read_run(tmp_path), sum(line["bytes_up"] for line in read_records(tmp_path / "records.jsonl").rounds)
    (names, values), summary = run_tables([run])["rounds"], run_summary(run)
    exported = {name for name, value in zip(names, values[0], strict=True) if value is not None}
    known = {name for name, value in summary.items() if value is not None}
    seen = {*told, *exported, *known, *run.frame(), *(result.keys() - {"seconds"}), *run.figures}
    assert seen & SECRETS == (set() if rate < 1 else SECRETS)
    for words in (result_table(result), run_card(run), run_page(run, ())):
        assert (bytes_words(sent) in words) == (rate == 1)


def test_the_axes_of_a_sweep_are_numbers_to_programs_where_they_are_numbers(tmp_path: Path) -> None:
    axes = {"clients.byzantine": ["0", "0.25"], "release": ["1.0", "01.1"], "privacy.epsilon": ["2.0", "4.0"]}
    sweep = write_sweep(tmp_path / "out", axes, lambda place, seed: 0.5)
    frame = read_sweep(sweep).frame()
    assert list(frame["clients.byzantine"].unique()) == [0, 0.25]
    assert frame[frame["privacy.epsilon"] > 2]["accuracy"].count() == 4
    assert list(frame["release"].unique()) == ["1.0", "01.1"]
    assert main(["report", str(sweep), "--no-html", "--csv", str(tmp_path), "--parquet", str(tmp_path)]) == 0
    assert pandas.read_parquet(tmp_path / "summary.parquet")["privacy.epsilon"].dtype == float
    assert (tmp_path / "cells.csv").read_text().splitlines()[1].split(",")[1:4] == ["0", "1.0", "2.0"]
