"""[S] Figures 2, 4 and 6: trainings small enough for a test, and what is said of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.data import DATA_SETS
from clients.data.identity import data_identity
from clients.training.stobatch import noised_gradient
from fedpriv._base.tables import toml_text
from simulations.command_line import main
from simulations.reproduce.stobatch import page as stobatch_page
from simulations.reproduce.stobatch._cells import Cell, Scale, cells, data, full, study
from simulations.reproduce.stobatch._measured import RADII, measured
from simulations.reproduce.stobatch.found import ATTACKS, Found
from simulations.reproduce.stobatch.published import (
    ADLM,
    DPSGD,
    EACH,
    FIGURES,
    HONEST,
    PIXELDP,
    PRINTED,
    SECURE,
    STOBATCH,
)
from simulations.reproduce.stobatch.run import SCALE, SEEDS

MODEL = {"kind": "EncodedCnn", "maps": [4], "kernel": 3, "units": 8}
SIZES = (0.02,)


@pytest.fixture
def scale() -> Scale:
    table, digits = data("digits")
    return replace(full(table, digits), model=MODEL, batch=50, steps=3, inner=1, images=5, draws=100)


@pytest.mark.parametrize(
    "cell",
    [
        Cell(method=STOBATCH, epsilon=2.0, draw=EACH),
        Cell(method=STOBATCH, epsilon=2.0, draw=PRINTED),
        Cell(method=ADLM, epsilon=2.0, draw=EACH),
        Cell(method=SECURE, epsilon=2.0),
        Cell(method=PIXELDP),
    ],
    ids=lambda cell: cell.title,
)
def test_a_training_is_asked_for_accuracy_under_attack_and_certified_accuracy(
    cell: Cell, scale: Scale, tmp_path: Path
) -> None:
    found = measured(cell, scale, SIZES, tmp_path)
    own = found["under"]["0.02"]
    assert own["all"] <= min(own[name] for name in ATTACKS)
    assert own["all"] <= own["not_surely_wrong"]
    assert ("certified" in found) == (cell.method != ADLM)
    if "certified" in found:
        shares = [found["certified"][str(radius)] for radius in RADII]
        assert shares == sorted(shares, reverse=True)
        assert found["certified"]["0.02"] <= own["not_surely_wrong"]
        assert cell.method != PIXELDP or found["certified"]["0.02"] > 0  # so the line above says something
    assert measured(cell, scale, SIZES, tmp_path) == found  # from its file


@pytest.mark.parametrize("draw", [PRINTED, EACH])
def test_more_images_are_asked_of_a_training_that_is_done(
    draw: str, scale: Scale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell(method=ADLM, epsilon=2.0, draw=draw)
    few = measured(cell, scale, SIZES, tmp_path)
    monkeypatch.setattr("clients.training.stobatch.noised_gradient", None)  # nothing can be trained any more
    more = measured(cell, replace(scale, images=9), SIZES, tmp_path)
    withstood = [found["under"]["0.02"]["withstood"] for found in (few, more)]
    assert (len(withstood[0]), len(withstood[1])) == (5, 9)
    assert withstood[1][:5] == withstood[0]
    assert np.mean(withstood[1]) == pytest.approx(np.mean([more["under"]["0.02"][name] for name in ATTACKS]))


@pytest.mark.parametrize("draw", [PRINTED, EACH])
def test_a_training_that_was_interrupted_goes_on_to_the_same_answers(
    draw: str, scale: Scale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, steps = Cell(method=ADLM, epsilon=2.0, draw=draw), list[int]()

    def interrupted(*given: Any) -> Any:
        steps.append(1)
        if len(steps) == 4:  # two a step: in the second one
            raise KeyboardInterrupt
        return noised_gradient(*given)

    wanted = measured(cell, scale, SIZES, tmp_path / "whole")
    monkeypatch.setattr("clients.training.stobatch.noised_gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured(cell, scale, SIZES, tmp_path / "parts")
    found = measured(cell, scale, SIZES, tmp_path / "parts")
    assert len(steps) == 4 + 2 * (scale.steps - 1)  # the first one is not done again
    assert found["under"] == wanted["under"]


def test_more_images_than_are_held_out_are_refused(scale: Scale, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / SCALE).write_text(json.dumps({"figure": "stobatch-figure-6", **asdict(scale)}))
    for images in ("361", "0"):
        assert main(["reproduce", "stobatch-figure-6", "--out", str(tmp_path), "--images", images]) == 2
        assert capsys.readouterr().err == f"fedpriv: --images: 360 are held out, got {images}\n"
    assert main(["reproduce", "fdp-figure-8", "--images", "5"]) == 2
    assert "attacks none" in capsys.readouterr().err


def test_trainings_on_other_data_are_not_gone_on_with(scale: Scale, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "data").mkdir()
    images, labels = np.zeros((20, 6, 6), np.uint8), np.arange(20) % 2
    for name, values in (("x", images), ("y", labels), ("x_test", images[:4]), ("y_test", labels[:4])):
        np.save(tmp_path / "data" / f"{name}.npy", values)
    own = {"kind": "Arrays", "path": str(tmp_path / "data"), "divide": 127.5, "subtract": 1.0}
    made = data_identity("Arrays", DATA_SETS.made("Arrays", {"path": own["path"]}).load())
    begun = {"figure": "stobatch-figure-6", "made": made, **asdict(replace(scale, data=own))}
    (tmp_path / SCALE).write_text(json.dumps(begun))
    np.save(tmp_path / "data" / "x.npy", images + 1)
    assert main(["reproduce", "stobatch-figure-6", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.count("20 records of 6 × 6") == 2


def test_only_noise_drawn_for_each_example_is_a_run_and_has_an_epsilon(scale: Scale, tmp_path: Path) -> None:
    """Noise as the paper draws it protects no example: it has no ledger and no ε, whatever the paper says of it."""
    each, printed = Cell(method=ADLM, epsilon=2.0, draw=EACH), Cell(method=ADLM, epsilon=2.0, draw=PRINTED)
    honest, secure = Cell(method=ADLM, epsilon=30.0, draw=HONEST), Cell(method=DPSGD, epsilon=2.0)
    found = {cell: measured(cell, scale, (), tmp_path) for cell in (each, printed, honest, secure)}
    assert found[printed]["example_epsilon"] is None
    assert [file.name for file in (tmp_path / scale.trained(printed)).iterdir()] == ["checkpoint.npz"]
    assert (tmp_path / scale.trained(each) / "ledger.jsonl").is_file()
    assert found[each]["example_epsilon"] > 10  # of a published 2
    assert 29.9 < found[honest]["example_epsilon"] <= 30
    assert 1.9 < found[secure]["example_epsilon"] <= 2


def test_every_training_of_a_figure_is_a_study_of_its_own_that_can_be_read(scale: Scale) -> None:
    from fedpriv.studies import file as study_file

    for name in FIGURES:
        own = cells(name, 1)
        assert len({scale.name(cell) for cell in own}) == len(own)
        for cell in own:
            assert study_file.parsed_study(toml_text(study(cell, scale))).run.rounds == 3


@pytest.mark.flower
@pytest.mark.slow
def test_the_command_makes_a_page_a_table_and_a_picture_and_goes_on_where_it_stopped(
    scale: Scale, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, name = tmp_path / "figure", "stobatch-figure-6"
    out.mkdir()
    (out / SCALE).write_text(json.dumps({"figure": name, **asdict(scale)}))
    for known in [cell for seed in range(1, SEEDS + 1) for cell in cells(name, seed)][1:]:
        answer = {**_answer(known, 0.5), "cell": asdict(known)}
        (out / "cells").mkdir(exist_ok=True)
        (out / "cells" / f"{scale.name(known)}.json").write_text(json.dumps(answer))
    assert main(["reproduce", name, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "certified accuracy is at most accuracy under attack" in said
    assert "FAILED" not in said
    page = (out / f"{name}.md").read_text()
    assert f"{STOBATCH}, {PRINTED} | 1 | ∞ |" in page
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((out / f"{name}.csv").read_text().splitlines()))
    assert {row["seed"] for row in rows} == {str(seed) for seed in range(1, SEEDS + 1)}
    assert main(["reproduce", "stobatch-figure-4", "--out", str(out)]) == 2
    assert "holds another figure" in capsys.readouterr().err


def _answer(cell: Cell, share: float) -> dict[str, Any]:
    figure = next(own for own in FIGURES.values() if cell.epsilon in (None, *own.epsilons) and own.certified)
    under = {str(size): dict.fromkeys([*ATTACKS, "all", "not_surely_wrong"], share) for size in figure.sizes}
    certified = {str(radius): share if radius < 0.02 else 0.0 for radius in RADII}
    return {"example_epsilon": None, "images": 5, "accuracy": share, "under": under, "certified": certified,
            "as_published": certified}  # fmt: skip


def answers(name: str, **shares: float) -> Iterator[dict[str, Any]]:
    """What trainings of a figure would have come to: the share under attack by method, or by how its noise is drawn."""
    for cell in cells(name, 1):
        share = shares.get(f"{cell.method} {cell.draw}".strip(), shares.get(cell.method, 0.3))
        shares_of = dict.fromkeys([*ATTACKS, "all", "not_surely_wrong"], share)
        withstood = [1.0] * round(200 * share) + [0.0] * round(200 * (1 - share))
        under = {str(size): shares_of | {"withstood": withstood} for size in FIGURES[name].sizes}
        yield {"cell": asdict(cell), "example_epsilon": None, "images": 5, "accuracy": share, "under": under}


def test_a_gain_that_honest_noise_removes_is_said_to_be_removed(scale: Scale) -> None:
    shares = {f"{STOBATCH} {PRINTED}": 0.8, f"{STOBATCH} {EACH}": 0.1}
    found = Found("stobatch-figure-2", replace(scale, images=200), list(answers("stobatch-figure-2", **shares)))
    checks = {check.claim: check for check in found.checks()}
    assert all(check.passed for check in checks.values())
    assert checks[f"StoBatch ({PRINTED}) is above DP-SGD under attack"].agrees
    lost = checks[f"StoBatch ({EACH}) is above DP-SGD under attack"]
    assert not lost.agrees
    assert "removes the gain" in lost.why
    assert "−20.0" in lost.ours


def test_a_lead_of_what_has_learnt_nothing_is_none(scale: Scale) -> None:
    shares = {f"{STOBATCH} {EACH}": 0.14, f"{ADLM} {EACH}": 0.0}
    found = Found("stobatch-figure-2", replace(scale, images=200), list(answers("stobatch-figure-2", **shares)))
    (lead,) = [check for check in found.checks() if check.claim == f"StoBatch ({EACH}) is above AdLM under attack"]
    assert "+14.0 at ε = 2" in lead.ours
    assert not lead.agrees


def test_a_certificate_that_an_attack_breaks_for_sure_fails(scale: Scale) -> None:
    broken = _answer(Cell(method=PIXELDP), 0.5)
    broken["under"]["0.05"]["not_surely_wrong"] = 0.4
    broken["certified"]["0.05"] = 0.5
    found = Found("stobatch-figure-6", scale, [{**broken, "cell": asdict(Cell(method=PIXELDP))}])
    assert [check.claim for check in found.checks() if not check.passed] == [
        "certified accuracy is at most accuracy under attack"
    ]


@pytest.mark.parametrize("name", ["stobatch-figure-2", "stobatch-figure-4"])
def test_figures_are_drawn_and_their_tables_have_both_columns(name: str, scale: Scale) -> None:
    found = Found(name, scale, list(answers(name)))
    assert stobatch_page.figure_picture(found).startswith(b"\x89PNG")
    page = stobatch_page.figure_page(found)
    for draw in (PRINTED, EACH):
        assert f"| {STOBATCH}, {draw} |" in page
    assert "protects none of them" in page


def test_data_are_those_named_and_images_in_colour_are_trained_as_cifar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 32, 32, 3), np.uint8))
    np.save(tmp_path / "y.npy", np.zeros(4, np.int64))
    table, digits = data(str(tmp_path))
    assert (table["kind"], digits) == ("Arrays", False)
    assert full(table, digits).model == {"kind": "CifarCnn"}
    assert main(["reproduce", "stobatch-figure-2", "--data", str(tmp_path / "none"), "--out", str(tmp_path / "o")]) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
