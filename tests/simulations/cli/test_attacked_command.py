"""`fedpriv certify --attack`, noise as it was in training, and both in a run's report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulations.command_line import main

RUN = ["run", "--driver", "direct", "--quiet", "--set", "clients.count=60", "--set", "run.rounds=2"]
INSIDE = ["--set", "data.divide=8", "--set", "data.subtract=1"]
FEW = ["--images", "6", "--draws", "40", "--quiet", "--no-figure", "--workers", "2", "--json"]
NOISY = "training.model={kind='Randomised', noise=0.3, at='%s', network={kind='Logistic'}}"


def trained(place: Path, *words: str) -> str:
    assert main([*RUN, *INSIDE, "--set", "privacy.epsilon=20.0", "--out", str(place), *words]) == 0
    return str(place)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return trained(tmp_path_factory.mktemp("attacked") / "run")


def test_accuracy_under_attack_stands_next_to_certified_accuracy_and_costs_once(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["certify", run, *FEW, "--attack", "0.1,0.02"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["size"] for row in found["attacked"]] == [0.02, 0.1]
    for row in found["attacked"]:
        assert list(row["attacks"]) == ["FGSM", "I-FGSM", "MIM", "PGD"]
        assert row["certified"] <= row["all"]["not_surely_wrong"]
        assert row["all"]["accuracy"] <= min(own["accuracy"] for own in row["attacks"].values())
    kept = sorted(Path(found["file"]).parent.glob("*-attacked-*.jsonl"))
    before = [file.read_bytes() for file in kept]
    assert main(["certify", run, *FEW, "--attack", "0.02,0.1"]) == 0
    assert json.loads(capsys.readouterr().out)["attacked"] == found["attacked"]
    assert [file.read_bytes() for file in kept] == before


def test_the_table_for_people_has_a_column_for_each_attack(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", run, *FEW[:-1], "--attack", "0.05"]) == 0
    shown = capsys.readouterr().out
    for name in ("ℓ∞ size", "certified", "FGSM", "I-FGSM", "MIM", "PGD", "the worst of them"):
        assert name in shown


def test_a_report_shows_what_certifying_found(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["certify", run, *FEW, "--attack", "0.05"])
    capsys.readouterr()
    assert main(["report", run, "--no-html"]) == 0
    shown = capsys.readouterr().out
    assert "GaussianSmoothing 0.25" in shown
    assert "attacked by 0.05" in shown
    assert main(["report", run, "--no-html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certified"][0]["attacked"][0]["size"] == 0.05


@pytest.mark.parametrize(
    ("at", "kind", "words"),
    [("input", "GaussianSmoothing", "on every input"), ("first layer", "LayerSmoothing", "behind the first layer")],
)
def test_a_model_with_noise_in_training_is_certified_with_that_noise(
    at: str, kind: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(tmp_path / "run", "--set", NOISY % at)
    capsys.readouterr()
    assert main(["certify", run, *FEW]) == 0
    found = json.loads(capsys.readouterr().out)["smoothing"]
    assert (found["kind"], found["noise"]) == (kind, 0.3)
    assert main(["certify", run, *FEW[:-1]]) == 0
    assert words in capsys.readouterr().out
    assert main(["certify", run, *FEW, "--noise", "0.1"]) == 0
    assert json.loads(capsys.readouterr().out)["smoothing"] == {"kind": "GaussianSmoothing", "noise": 0.1}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [("0.1,x", "--attack must be sizes such as 0.05,0.1, got '0.1,x'"), ("0", "attack must be positive, got 0.0"),
     ("nan", "attack must be finite")],
)  # fmt: skip
def test_sizes_that_are_none_are_refused_before_anything_is_done(
    sizes: str, message: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", run, "--quiet", "--attack", sizes]) == 2
    assert message in capsys.readouterr().err
