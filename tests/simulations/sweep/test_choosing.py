"""Settings chosen at each place of a grid: by records set aside and seeds of their own, never by the test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from simulations.command_line import main
from simulations.report.sweep.cells import read_sweep
from simulations.sweep._cell import run_cell
from simulations.sweep.choosing import best_value, choices_made, with_choices
from simulations.sweep.directory import is_complete, opened_sweep, place_of, write_index
from simulations.sweep.grid import Grid, grid_of
from simulations.sweep.stop import Stop
from simulations.sweep.sweeping import resolved_cells

BASE = """
data = { kind = "Synthetic", records = 300, features = 5, classes = 3, held_out = 50, aside = 60 }
clients = { count = 20, records = 10, byzantine = 4 }
attack = { kind = "SignFlip" }
run = { rounds = 3 }
privacy = { mechanism = { kind = "Binomial", clip = 1.0, trials = 4, scale = 3.0 } }
"""
SWEEP = """
[sweep]
run.seed = [1, 2]
aggregation = [{ kind = "Mean" }, { kind = "TrimmedMean", dropped = 4 }]
[sweep.chosen]
run.seed = [11, 12]
server.step = [1e-6, 1.0]
"""


def grid(sweep: str = SWEEP, base: str = BASE) -> Grid:
    return grid_of(base + sweep)


def run_all(found: Grid, out: Path) -> None:
    """Every cell of a grid, one after the other in this process."""
    for cell in found.cells:
        assert run_cell(study_file.study_text(cell.study), place_of(out, cell)) is None


def accuracy(out: Path, cell: Any) -> float:
    return float(json.loads((place_of(out, cell) / "result.json").read_text())["accuracy"])


# The grid


def test_trials_are_every_value_at_every_place_with_seeds_of_their_own_measured_on_records_set_aside() -> None:
    found = grid()
    assert found.choosing is not None
    assert (found.runs, len(found.cells), len(found.choosing.cells)) == (4, 8, 8)
    assert {cell.study.run.seed for cell in found.choosing.cells} == {11, 12}
    assert {cell.study.data.settings["measure"] for cell in found.choosing.cells} == {"aside"}
    assert not any("measure" in cell.study.data.settings for cell in found.cells)
    assert {cell.study.server.step for cell in found.choosing.cells} == {1e-6, 1.0}
    assert found.choosing.cells[0].title == "aggregation = Mean, server.step = 1e-06, run.seed = 11"


def test_several_settings_are_chosen_together_as_all_their_combinations() -> None:
    found = grid(SWEEP + "server.momentum = [0.0, 0.9]\n")
    assert found.choosing is not None
    assert len(found.choosing.cells) == 2 * 2 * 4
    assert found.runs == 4


def test_a_grid_of_python_is_that_of_a_file() -> None:
    table = {"run.seed": [1, 2], "aggregation": [{"kind": "Mean"}, {"kind": "TrimmedMean", "dropped": 4}],
             "chosen": {"run.seed": [11, 12], "server.step": [1e-6, 1.0]}}  # fmt: skip
    ours, theirs = grid_of(BASE, axes_given=table), grid()
    assert [cell.id for cell in ours.cells] == [cell.id for cell in theirs.cells]
    assert ours.choosing is not None
    assert theirs.choosing is not None
    assert [cell.id for cell in ours.choosing.cells] == [cell.id for cell in theirs.choosing.cells]


VARIED = '[sweep]\nrun.seed = [1]\n"server.momentum" = [0.0, 0.5]\n[sweep.chosen]\n'


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("run.seed = [2]\nserver.step = []", "sweep: server.step has no value: an empty list spans nothing"),
        ("run.seed = [2]\nserver.step = [0.1]", "sweep: chosen.server.step has one value, 0.1: there is nothing to ch"),
        ("run.seed = [2]\nserver.step = 0.1", "sweep: chosen.server.step must be a list of values, got 0.1"),
        ("run.seed = [2]\nserver.momentum = [0.1, 0.2]",
         "sweep: server.momentum and chosen.server.momentum both set server.momentum: it is varied, or chosen"),
        ("server.step = [0.1, 0.2]", "sweep: chosen.run.seed must list the seeds to choose by, none of which is the s"),
        ("run.seed = [2]", "sweep: chosen names no setting to choose, only seeds"),
        ("run.seed = [2, 1]\nserver.step = [0.1, 0.2]", "sweep: chosen.run.seed has 1, which is a seed of the sweep's"),
        ("run.seed = [2]\nserver.stepp = [0.1, 0.2]", "has no key 'stepp' (did you mean 'step'?)"),
    ],
)  # fmt: skip
def test_a_bad_choosing_is_refused(chosen: str, message: str) -> None:
    with pytest.raises(FedprivError) as refused:
        grid(VARIED + chosen)
    assert message in str(refused.value)


def test_without_records_set_aside_nothing_is_chosen_nor_with_more_than_there_are() -> None:
    with pytest.raises(FedprivError, match=r"chooses by training records set aside: data.aside = 200 or so"):
        grid(base=BASE.replace(", aside = 60", ""))
    with pytest.raises(FedprivError, match=r"data: aside must be below the 300 records there are"):
        resolved_cells(grid(base=BASE.replace("aside = 60", "aside = 300")), True, Stop())
    with pytest.raises(FedprivError, match=r"data.measure is the choosing's to say: leave it out"):
        grid(base=BASE.replace("aside = 60", 'aside = 60, measure = "held-out"'))
    with pytest.raises(FedprivError, match=r"--set server.step: the grid sets it; --set 'sweep.chosen.server.st"):
        grid_of(BASE + SWEEP, ["server.step=1.0"])


# What is chosen

accuracies = st.none() | st.floats(0, 1)


@given(st.dictionaries(st.tuples(st.sampled_from("abc")), st.lists(accuracies, min_size=1, max_size=3), min_size=1))
def test_no_value_beats_the_chosen_and_none_is_chosen_of_which_a_trial_failed(
    tried: dict[tuple[str], list[float | None]],
) -> None:
    whole = {value: [each for each in found if each is not None] for value, found in tried.items() if None not in found}
    chosen = best_value(tried)  # type: ignore[arg-type]
    if not whole:
        assert chosen is None
        return
    assert chosen in whole
    assert all(sum(found) / len(found) <= sum(whole[chosen]) / len(whole[chosen]) + 1e-12 for found in whole.values())


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Grid]:
    """A sweep of two rules with a step that is far too small and one that is not, run in this process."""
    out, found = tmp_path_factory.mktemp("choosing") / "out", resolved_cells(grid(), True, Stop())
    assert found.choosing is not None
    with opened_sweep(out, found, choices_made(out, found)):
        half = read_sweep(out)
        assert [(cell.state, cell.why) for cell in half.cells] == [("missing", "its settings are not chosen yet")] * 4
        assert {cell.state for cell in half.trials} == {"missing"}
        run_all(found.choosing, out)
        choices = choices_made(out, found)
        write_index(out, found, choices)
        run_all(with_choices(found, choices), out)
    return out, found


def test_the_value_chosen_is_that_of_the_best_trials(chosen: tuple[Path, Grid]) -> None:
    out, found = chosen
    assert found.choosing is not None
    for rule in ("Mean", "TrimmedMean dropped=4"):
        trials = [cell for cell in found.choosing.cells if cell.place["aggregation"] == rule]
        means = {
            value: sum(accuracy(out, cell) for cell in trials if cell.value == value) / 2
            for value in {cell.value for cell in trials}
        }
        assert choices_made(out, found)[(rule,)] == max(means, key=lambda value: means[value]) == ("1.0",)


def test_only_cells_with_the_value_chosen_are_run_and_they_are_measured_on_the_test(chosen: tuple[Path, Grid]) -> None:
    out, _ = chosen
    sweep = read_sweep(out)
    assert [(cell.state, dict(cell.chosen)) for cell in sweep.cells] == [("done", {"server.step": "1.0"})] * 4
    assert {cell.ran.test_examples for cell in sweep.cells if cell.ran} == {50}
    assert {cell.ran.test_examples for cell in sweep.trials if cell.ran} == {60}
    assert {cell.ran.data["records"] for cell in (*sweep.cells, *sweep.trials) if cell.ran and cell.ran.data} == {240}
    assert len(sweep.trained) == len(list((out / "cells").iterdir())) == 12
    assert is_complete(out)


def test_a_place_one_of_whose_trials_is_still_to_come_has_no_value_and_where_all_failed_none(
    chosen: tuple[Path, Grid], tmp_path: Path
) -> None:
    _, found = chosen
    assert choices_made(tmp_path, found) == choices_made(tmp_path, found, ended=True) == {}
    assert with_choices(found, {}).cells == ()


def test_the_report_says_what_was_chosen_by_what_and_what_that_cost(
    chosen: tuple[Path, Grid], capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = chosen
    assert main(["report", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cells"], found["trials"], found["trained"]) == (4, 8, 12)
    assert "'sweep.run.seed=[1, 2, 3]'" in found["to_rank"]
    said = " ".join(found["said"])
    assert (
        "Chosen at each place, under its own attack: server.step (of 1e-06, 1.0), by mean accuracy on 60 training"
        in said
    )
    assert "over seeds of their own (11–12); the records of the test had no part in it. 8 trials were for that" in said
    page = (out / "report" / "index.html").read_text(encoding="utf-8")
    assert "What was chosen (8 trials; choosing.csv)" in page
    assert "accuracy, records set aside" in page
    lines = (out / "report" / "choosing.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "aggregation,server.step,accuracy_aside,half_width,seeds,chosen"
    assert [line.split(",")[1] for line in lines if line.endswith(",yes")] == ["1.0", "1.0"]
    assert "server.step" in (out / "report" / "cells.csv").read_text(encoding="utf-8").splitlines()[0]


@pytest.mark.flower
def test_the_command_tries_chooses_and_runs_and_again_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "steps.toml").write_text(BASE + SWEEP)
    words = ["sweep", str(tmp_path / "steps.toml"), "--out", str(tmp_path / "out"), "--quiet", "--json"]
    assert main([*words, "--workers", "1"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["cells"], first["finished"], first["trials"], first["trained"]) == (4, 4, 8, 12)
    before = {file: file.read_bytes() for file in (tmp_path / "out").glob("cells/*/records.jsonl")}
    assert main(words) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["already"], again["workers"], again["trained"]) == (4, 0, 12)
    assert {file: file.read_bytes() for file in (tmp_path / "out").glob("cells/*/records.jsonl")} == before
