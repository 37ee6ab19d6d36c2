"""`fedpriv certify` from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from simulations.certify.accuracy import radius_steps
from simulations.command_line import main

RUN = ["run", "--driver", "direct", "--quiet", "--set", "clients.count=60", "--set", "run.rounds=2"]
FEW = ["--images", "12", "--draws", "60", "--quiet", "--no-figure", "--workers", "2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("certify") / "run"
    assert main([*RUN, "--out", str(place), "--set", "privacy.epsilon=20.0"]) == 0
    return place


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> str:
    shutil.copytree(trained, tmp_path / "run")
    return str(tmp_path / "run")


def test_json_says_what_is_certified(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", run, *FEW, "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    assert (found["images"], found["draws"], found["confidence"], found["norm"]) == (12, 60, 0.999, "l2")
    shares = [row["accuracy"] for row in found["certified"]]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == found["accuracy"]["smoothed"] <= 1 - found["accuracy"]["abstained"]
    assert all(row["linf"] == pytest.approx(row["radius"] / 8) for row in found["certified"])
    assert any("ε" in name for name in found["privacy"])


def test_more_images_cost_only_those_that_are_new_and_change_nothing(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["certify", run, *FEW, "--json"])
    file = Path(json.loads(capsys.readouterr().out)["file"])
    first = file.read_bytes()
    file.write_bytes(first[:-20])  # as a kill would leave it
    main(["certify", run, *FEW[2:], "--images", "15", "--json"])
    both = json.loads(capsys.readouterr().out)
    assert both["images"] == 15
    assert file.read_bytes().startswith(first)
    assert len(file.read_bytes().splitlines()) == 16


def test_laplace_noise_is_shown_beside_what_its_papers_print(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", run, *FEW, "--law", "laplace", "--noise", "0.1"]) == 0
    shown = capsys.readouterr().out
    assert "by the radius as published" in shown
    assert "ℓ∞ radius" in shown


def test_images_of_ones_own_are_scaled_as_the_studys(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", rng.integers(0, 17, (5, 8, 8), np.uint8))
    np.save(tmp_path / "y.npy", np.arange(5))
    assert main(["certify", run, *FEW[2:], "--data", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == 5
    with (tmp_path / "x.npy").open("wb") as file:
        np.savez(file, x=np.zeros((5, 8, 8)))
    assert main(["certify", run, *FEW[2:], "--data", str(tmp_path)]) == 2
    assert "an archive of arrays, where one array is needed" in capsys.readouterr().err
    np.save(tmp_path / "x.npy", np.full((5, 8, 8), 200, np.uint8))
    assert main(["certify", run, *FEW[2:], "--data", str(tmp_path)]) == 2
    assert "inputs must be in [-1, 1], input 0 reaches 12.2" in capsys.readouterr().err


def test_the_figure_is_drawn_beside_the_verdicts(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for word in FEW if word != "--no-figure"]
    assert main(["certify", run, *words, "--json"]) == 0
    figure = Path(json.loads(capsys.readouterr().out)["figure"])
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--draws", "1"], "draws must be at least 2, got 1"),
        (["--confidence", "1"], "confidence must be above 0 and below 1, got 1.0"),
        (["--confidence", "nan"], "confidence must be finite, got nan"),
        (["--noise", "0"], "noise must be positive, got 0.0"),
        (["--law", "gausian"], "did you mean 'gaussian'?"),
        (["--images", "361"], "--images must be at most 360"),
        (["--workers", "0"], "workers must be at least 1"),
        (["--data", "nowhere"], "--data nowhere: is no directory"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(
    run: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", run, "--quiet", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_directory_without_a_run_or_without_a_round_is_refused(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", str(tmp_path / "none")]) == 2
    assert "holds no run" in capsys.readouterr().err
    Path(run, "checkpoint.npz").unlink()
    assert main(["certify", run]) == 2
    assert "no round has been saved yet" in capsys.readouterr().err


@pytest.mark.parametrize(("largest", "last"), [(0.83, 0.8), (12.0, 12.0), (0.0099, 0.009), (1.0, 1.0)])
def test_radii_are_round_numbers_up_to_the_largest(largest: float, last: float) -> None:
    found = radius_steps(largest)
    assert found[0] == 0
    assert found[-1] == pytest.approx(last)
    assert 5 <= len(found) <= 11
    assert radius_steps(0.0) == [0.0]
