"""The tables of [P]: which studies they are, how they are run for so many minutes, what is said of what came out."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pytest import approx

from fedpriv import records
from fedpriv._base.tables import toml_text
from fedpriv.errors import FedprivError
from fedpriv.studies import promise as guarantee
from fedpriv.studies.study import Kind
from server.rounds import planned
from simulations.command_line import main
from simulations.reproduce.ptr._cifar import cifar_arrays
from simulations.reproduce.ptr._tables import data_of, scaled_down, studies
from simulations.reproduce.ptr.tables_found import Found
from simulations.reproduce.ptr.tables_published import (
    BUDGET,
    COIN,
    DPSGD,
    FREE,
    GAUSSIAN,
    PTR,
    RELEASES,
    TABLES,
    UP,
)
from simulations.reproduce.ptr.tables_run import worked_tables
from simulations.sweep.grid import Grid, grid_of

NAMES = ["ptr-table-1", "ptr-table-1-variants", "ptr-table-3", "ptr-table-4"]  # those that digits can stand for


def grid(name: str, **changed: Any) -> Grid:
    """A table's grid on the digits, of one seed."""
    table = studies(name, None, 2, "digits")
    table["sweep"] |= {"run.seed": [1]} | changed
    return grid_of(toml_text(table))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_has_a_cell_for_every_row_epsilon_and_release_and_seeds_come_one_after_another(name: str) -> None:
    found = grid_of(toml_text(studies(name, None, 2, "digits")))
    places = [tuple(cell.place.values()) for cell in found.cells]
    table = TABLES[name]
    rows = {(f"{epsilon}", row, release) for row, epsilon in table.published for release in table.releases}
    assert set(places) == rows
    assert len(places) == len(rows) * len(found.seeds)
    seeds = [cell.study.run.seed for cell in found.cells]
    assert seeds == sorted(seeds)


@pytest.mark.slow
def test_all_releases_are_certified_to_have_the_same_epsilon_in_the_same_steps() -> None:
    found = grid("ptr-table-1", corruption=[{"kind": "RandomLabel", "share": 0.1}])
    for cell in found.cells:
        plan = planned(cell.study)
        epsilon = guarantee.epsilon_after(plan.study, plan.net.dimension, plan.study.run.rounds)
        assert 0.998 * plan.study.privacy.epsilon < epsilon.upper <= plan.study.privacy.epsilon
        tested = plan.study.privacy.release.kind == "Ptr"  # of which no data are known to reach all on a sample
        assert 0.5 * epsilon.upper < epsilon.lower < (0.99 if tested else 1) * epsilon.upper
    assert len({cell.study.run.rounds for cell in found.cells}) == 1


def test_a_row_that_corrupts_nothing_strikes_no_record_and_the_others_their_share() -> None:
    shares = {cell.place["corruption"]: cell.study.corrupted.share for cell in grid("ptr-table-4").cells}
    assert shares == {row: float(row.split()[-1]) if row != "none" else 0.0 for row in TABLES["ptr-table-4"].rows}


@pytest.fixture
def images(tmp_path: Path) -> str:
    """A directory of idx files: 1,000 black images to train on, 20 held out."""
    for half, count in (("train", 1000), ("t10k", 20)):
        shape = np.array([count, 28, 28], ">u4")
        labels = np.arange(count, dtype=np.uint8) % 10
        (tmp_path / f"{half}-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + shape.tobytes() + bytes(count * 784))
        (tmp_path / f"{half}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + shape[:1].tobytes() + labels.tobytes())
    return str(tmp_path)


def test_more_minutes_never_mean_fewer_steps_and_a_table_of_one_seed_takes_less_than_all_of_them(images: str) -> None:
    given = (0.01, 0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 1e9, None)
    first, *steps, last = (studies("ptr-table-1", minutes, 2, images)["run"]["rounds"] for minutes in given)
    assert [first, *steps, last] == sorted([first, *steps, last])
    assert (first, steps[0], steps[-1], last) == (100, 100, 2000, 2000)
    assert all(56 * at * 0.05 / 2 < 60 * minutes for at, minutes in zip(steps[2:5], (5.0, 10.0, 30.0), strict=True))


def test_the_papers_numbers_have_trimming_with_tests_ahead_of_trimming_without_everywhere() -> None:
    for table in TABLES.values():
        assert all(gaussian < ptr for gaussian, _, ptr in table.published.values())
    ours = TABLES["ptr-table-3"].published["none", 2.0]
    assert ours[::2] == TABLES["ptr-table-4"].published["none", 2.0][::2]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that was begun with one row, one ε, two seeds and eight steps, and is gone on with until it is done."""
    out = tmp_path_factory.mktemp("tables") / "table"
    table = studies("ptr-table-4", None, 2, "digits")
    table["run"] |= {"rounds": 8, "evaluate_every": 8}
    kept = [each for each in table["sweep"]["corruption"] if each["label"] == "gradient 0.2"]
    table["sweep"] |= {"run.seed": [1, 2], "privacy.epsilon": [2.5], "corruption": kept}
    out.mkdir()
    (out / "study.toml").write_text(toml_text(grid_of(toml_text(table)).table), encoding="utf-8")
    assert main(["reproduce", "ptr-table-4", "--out", str(out), "--budget", "5"]) == 0
    return out


def accuracies(out: Path, release: str) -> dict[int, float]:
    """By seed, read from the records of the runs."""
    cells = json.loads((out / "sweep.json").read_text())["cells"]
    own = [cell for cell in cells if cell["place"]["privacy.release"] == release]
    runs = {cell["seed"]: records.read_records(out / "cells" / cell["id"] / "records.jsonl").rounds for cell in own}
    return {seed: rounds[-1]["accuracy"] for seed, rounds in runs.items()}


@pytest.mark.slow
@pytest.mark.flower
@pytest.mark.slow
def test_the_table_holds_means_over_seeds_differences_by_seed_and_the_papers_numbers(ran: Path) -> None:
    page = (ran / "ptr-table-4.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| gradient 0.2 | 2.5 |"))
    cells = [each.strip() for each in row.strip("|").split("|")]
    for place, release in enumerate(RELEASES, start=2):
        assert cells[place].startswith(f"{100 * fmean(accuracies(ran, release).values()):.1f} ± ")
    assert [cell.split()[-1] for cell in cells[2:5]] == ["[76.7]", "[75.7]", "[77.2]"]
    assert "[" not in cells[5]  # [P] has no coin
    for place, tested in ((6, PTR), (8, COIN)):
        ahead = fmean(accuracies(ran, tested)[seed] - accuracies(ran, GAUSSIAN)[seed] for seed in (1, 2))
        assert cells[place].startswith(f"{100 * ahead:+.1f}".replace("-", "−"))


@pytest.mark.flower
@pytest.mark.slow
def test_the_page_says_what_was_run_on_what_and_names_places_that_have_no_run(ran: Path) -> None:
    page = (ran / "ptr-table-4.md").read_text(encoding="utf-8")
    for words in ("On scikit-learn's digits", "8 of 8 cells, seeds 1–2; without any: none, ε = 2, TSGD+Gaussian;",
                  "logistic regression, not a CNN", "8 steps", "EMNIST letters", "TSGD+PTR beats DPSGD"):  # fmt: skip
        assert words in page


@pytest.mark.flower
@pytest.mark.slow
def test_the_csv_has_every_cell_with_its_certified_epsilon(ran: Path) -> None:
    rows = list(csv.DictReader((ran / "ptr-table-4.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 8
    for row in rows:
        assert float(row["accuracy"]) == accuracies(ran, row["release"])[int(row["seed"])]
        assert float(row["epsilon_lower"]) <= float(row["epsilon_upper"]) <= 2.5
    noise = {row["release"]: float(row["noise"]) for row in rows}
    assert noise[GAUSSIAN] == noise[DPSGD] < noise[COIN] < noise[PTR]  # the test costs something, a coin less
    assert {row["steps"] for row in rows} == {"8"}


@pytest.mark.flower
@pytest.mark.slow
def test_how_often_the_test_passed_is_read_from_how_f_moved(ran: Path) -> None:
    found = Found.of(ran)
    cells = [cell for cell in found.sweep.done if cell.place["privacy.release"] == PTR]
    shares = []
    for cell in cells:
        rounds = records.read_records(ran / "cells" / cell.id / "records.jsonl").rounds
        trimmed = [89.0, *(line["adapted"]["trimmed"] for line in rounds)]
        shares.append(fmean(after < before for before, after in pairwise(trimmed)))
    assert found.passed("gradient 0.2", 2.5, PTR) == approx(fmean(shares))


@pytest.mark.flower
@pytest.mark.slow
def test_what_is_finished_is_not_run_again_and_the_same_pages_come_of_it(ran: Path) -> None:
    def state() -> dict[str, bytes]:
        return {str(each): each.read_bytes() for each in ran.rglob("*") if each.suffix in (".md", ".csv", ".jsonl")}

    before = state()
    assert main(["reproduce", "ptr-table-4", "--out", str(ran)]) == 0
    assert state() == before


@pytest.mark.flower
@pytest.mark.slow
def test_a_directory_of_other_data_or_of_another_table_is_refused(ran: Path, tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match="holds 'ptr-table-4', not ptr-table-1"):
        worked_tables("ptr-table-1", ran, None)
    with pytest.raises(FedprivError, match="was begun on Digits, not on"):
        worked_tables("ptr-table-4", ran, None, str(tmp_path))


@pytest.mark.slow
@pytest.mark.flower
def test_a_budget_too_small_for_any_cell_says_so_and_can_be_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "table"
    command = ["reproduce", "ptr-table-3", "--data", "digits", "--out", str(out), "--budget", "1e-4"]
    assert main(command) == 2
    assert "no cell has come to its end: a larger --budget goes on there" in capsys.readouterr().err
    assert (out / "study.toml").is_file()


@pytest.mark.parametrize(
    ("words", "message"), [("--budget 0", "budget must be positive"), ("--data nowhere", "nowhere")]
)
def test_what_cannot_be_run_is_refused_in_one_line(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "ptr-table-1", "--out", str(tmp_path / "x"), *words.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_images_take_the_papers_settings_in_as_many_steps_as_the_minutes_allow_and_the_page_says_so(
    images: str,
) -> None:
    short, whole = (
        grid_of(toml_text(studies("ptr-table-1", minutes, 2, images))).cells[0].study for minutes in (10, None)
    )
    assert (short.run.rounds, short.server.step) == (340, approx(0.6))
    assert (whole.run.rounds, whole.server.step) == (2000, approx(0.15))
    assert whole.privacy.release == Kind("TrimmedGaussian", {"clip": 1.0, "sampling": 0.256, "trimmed": 0.25})
    assert whole.training.model.kind == "TutorialCnn"
    assert scaled_down(short, 1)[:2] == ["340 steps of 0.6; 2,000 steps of .15 without a budget", "1 seed of [P]'s 5"]
    assert data_of(short) == f"the idx files in {images}"


def test_what_the_paper_leaves_open_is_a_column_of_its_own_for_either_test() -> None:
    found = grid("ptr-table-1-variants")
    settings = {cell.place["privacy.release"]: cell.study.privacy.release for cell in found.cells}
    up, free = ({name for name in settings if each in name} for each in (UP, FREE))
    assert up == {PTR + UP, COIN + UP}
    assert free == {PTR + FREE, COIN + FREE}
    for name, release in settings.items():
        assert release is not None
        assert release.settings.get("after_pass", "less") == ("more" if name in up else "less")
        assert release.settings.get("most", 0.5) == (1.0 if name in free else 0.5)
        assert ("test_noise" in release.settings) == name.startswith(PTR) * (not name.startswith(COIN))


def test_the_papers_own_protocol_has_its_noises_and_ends_when_epsilon_is_spent(images: str) -> None:
    found = grid_of(toml_text(studies("ptr-table-1-printed", None, 2, images)))
    for cell in found.cells:
        release = cell.study.privacy.release
        assert release is not None
        assert release.settings["noise"] == (0.7 if cell.place["privacy.release"] == GAUSSIAN else 1.1)
        assert cell.study.privacy.epsilon is None
        assert str(cell.study.privacy.budget) == cell.place[BUDGET]
        assert (cell.study.server.step, cell.study.run.rounds) == (approx(0.15), 40_000)
    assert found.cells[0].study.run.evaluate_every == 100  # a budget ends a run at a step that is not evaluated
    assert "trained for longer" in scaled_down(found.cells[0].study, 1)[1]
    with pytest.raises(FedprivError, match="--data names images"):
        studies("ptr-table-1-printed", None, 2, "digits")


def some_cifar(folder: Path, form: str) -> None:
    """Five batches of 20 images and one of 10, random, as binary batches or as PNGs with labels in JSON."""
    rng = np.random.default_rng(1)
    labels: dict[str, list[int]] = {"train": [], "test": []}
    for name, count in (*((f"data_batch_{number}", 20) for number in range(1, 6)), ("test_batch", 10)):
        own = np.arange(count, dtype=np.uint8) % 10
        planes = rng.integers(0, 256, (count, 3, 32 * 32), np.uint8)
        labels["test" if "test" in name else "train"] += own.tolist()
        if form == "bin":
            rows = np.concatenate([own[:, None], planes.reshape(count, -1)], axis=1)
            (folder / f"{name}.bin").write_bytes(rows.tobytes())
        else:
            Image.fromarray(planes.transpose(0, 2, 1)).save(folder / f"{name}.png")
    if form == "png":
        for half, own_labels in labels.items():
            (folder / f"{half}_lables.json").write_text(json.dumps(own_labels))


def test_cifars_images_are_the_same_arrays_from_either_of_its_forms(tmp_path: Path) -> None:
    made = []
    for form in ("bin", "png"):
        (source := tmp_path / form).mkdir()
        some_cifar(source, form)
        folder = Path(cifar_arrays(str(source), tmp_path / f"{form} table"))
        made.append([np.load(folder / f"{name}.npy") for name in ("x", "y", "x_test", "y_test")])
        assert cifar_arrays(None, tmp_path / f"{form} table") == str(folder)  # needs its files no more
        assert cifar_arrays(str(folder), tmp_path / "elsewhere") == str(folder)
    assert made[0][0].shape == (100, 32, 32, 3)
    assert made[0][1].tolist() == (np.arange(20) % 10).tolist() * 5
    assert all(np.array_equal(one, other) for one, other in zip(*made, strict=True))


def test_cifars_table_has_the_papers_settings(tmp_path: Path) -> None:
    some_cifar(tmp_path, "bin")
    table = studies("ptr-table-1-cifar", None, 2, cifar_arrays(str(tmp_path), tmp_path / "table"))
    cells = grid_of(toml_text(table)).cells
    for cell in cells:
        release = cell.study.privacy.release
        assert release is not None
        assert release.settings["clip"] == 3.0
        if release.kind == "Ptr":
            assert release.settings["bound"] == approx(2 / 3)
        assert (cell.study.server.step, cell.study.training.model.kind) == (approx(0.1), "TutorialCnn")
    assert {cell.place["privacy.epsilon"] for cell in cells} == {"7.0", "10.0"}


@pytest.mark.parametrize("spoil", ["nothing there", "a batch too short", "labels missing", "a picture too narrow"])
def test_what_is_no_cifar_is_refused_in_one_line_that_says_what_it_is(spoil: str, tmp_path: Path) -> None:
    if spoil != "nothing there":
        some_cifar(tmp_path, "bin" if spoil == "a batch too short" else "png")
    if spoil == "a batch too short":
        (tmp_path / "data_batch_3.bin").write_bytes(bytes(3072))
    if spoil == "labels missing":
        (tmp_path / "train_lables.json").write_text("[1, 2]")
    if spoil == "a picture too narrow":
        Image.fromarray(np.zeros((10, 100, 3), np.uint8)).save(tmp_path / "test_batch.png")
    with pytest.raises(FedprivError, match="CIFAR-10") as told:
        cifar_arrays(str(tmp_path), tmp_path / "table")
    assert "\n" not in str(told.value)


def test_cifars_table_without_data_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match=r"--data names a directory of x\.npy and y\.npy"):
        worked_tables("ptr-table-1-cifar", tmp_path / "table", None)
