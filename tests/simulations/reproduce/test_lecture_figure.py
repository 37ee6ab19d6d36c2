"""The lecture's figure of DP-SGD: its grid of studies, and its page however far it has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedpriv._base.tables import toml_text
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from simulations.command_line import main
from simulations.reproduce.lecture import NAME
from simulations.reproduce.lecture.found import Found, Spot
from simulations.reproduce.lecture.methods import ALL, EPSILONS, LAST, METHODS, POINT, lecture_studies, point_label
from simulations.reproduce.lecture.page import best_words, csv_of, finding_words, lecture_page, lecture_picture
from simulations.sweep._cell import run_cell
from simulations.sweep.directory import opened_sweep, place_of
from simulations.sweep.grid import Grid, grid_of

TRAINED = [("SGD", 4.0), ("noise decay", 8.0), (LAST, ALL)]


def grid() -> Grid:
    return grid_of(toml_text(lecture_studies(NAME, None, 2)))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Three ways to train, of one seed."""
    out = tmp_path_factory.mktemp("lecture")
    with opened_sweep(out, grid()):
        for cell in grid().cells:
            if cell.study.run.seed == 1 and cell.place[POINT] in [point_label(*each) for each in TRAINED]:
                assert run_cell(study_file.study_text(cell.study), place_of(out, cell)) is None
    return Found.of(out)


def test_every_way_to_train_stands_at_every_epsilon_with_three_seeds() -> None:
    assert len(grid().cells) == 3 * (len(METHODS) * len(EPSILONS) + 1)
    asked = {(cell.place[POINT], cell.study.privacy.epsilon) for cell in grid().cells}
    assert {(point_label(method, epsilon), epsilon) for method in METHODS for epsilon in EPSILONS} <= asked


def test_the_steps_of_a_way_to_train_lie_between_its_two() -> None:
    for own in METHODS.values():
        steps = [own.step(epsilon) for epsilon in EPSILONS]
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == own.steps


def test_a_page_tells_what_is_done_certified_and_by_the_moments_accountant(found: Found) -> None:
    assert set(found.spots) == set(TRAINED)
    plain, decay = found.spots["SGD", 4.0], found.spots["noise decay", 8.0]
    assert plain.upper <= 4.0 < (plain.moments or 0.0)
    assert decay.moments is None  # it is of one noise
    assert plain.kept.mean > 0.9
    words = lecture_page(found)
    assert f"| SGD | – | – | – | {100 * plain.kept.mean:.1f} | – |" in words
    assert any("next to no noise" in line for line in finding_words(found))
    assert len(csv_of(found).splitlines()) == 4
    assert lecture_picture(found)[:4] == b"\x89PNG"


def test_an_interval_needs_seeds() -> None:
    assert Spot("SGD", 1.0, 1.0, None, {1: 0.9}).kept.half is None


def test_the_best_way_to_train_is_named_only_where_three_seeds_tell_it_from_the_others() -> None:
    kept = {"SGD": [0.80, 0.81, 0.82], "Adam": [0.90, 0.91, 0.92], "momentum": [0.89, 0.92, 0.90]}

    def said(seeds: int, *methods: str) -> str:
        return best_words({each: Spot(each, 1.0, 1.0, None, dict(enumerate(kept[each][:seeds]))) for each in methods})

    assert said(2, "SGD", "Adam") == "none is said to be best: 2 seeds, and a ranking needs 3"
    assert said(3, "SGD", "Adam") == "the best is Adam: 91.0 ± 2.5, SGD 81.0 ± 2.5"
    assert said(3, *kept) == "Adam has most, 91.0 ± 2.5, and is not distinguishable from momentum"


def test_data_without_enough_images_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", NAME, "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    with pytest.raises(FedprivError):
        lecture_studies(NAME, None, 2, str(tmp_path))
