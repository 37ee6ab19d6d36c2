"""`fedpriv estimate` by propose-test-release: medians, quartiles, modes and trimmed sums that a test lets out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx

from simulations.command_line import main

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """20,000 records about 3."""
    np.save(tmp_path / "sample.npy", np.random.default_rng(1).normal(3, 1, (20000, 1)))
    return tmp_path / "sample.npy"


def asked(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], str]:
    status = main(["estimate", *words, "--json"])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else {}, err


def test_a_tested_median_is_near_certified_and_says_what_was_proposed(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found, err = asked([str(sample), "--method", "median-ptr", *BUDGET], capsys)
    assert status == 0
    assert found["mean"] == approx([3.0], abs=0.3)
    assert found["statistic"] == "median"
    assert 0.99 < found["epsilon"]["lower"] <= found["epsilon"]["upper"] <= 1
    assert found["tested"]["passed"] == [True]
    assert found["tested"]["standard_error"] == approx([0.0512], rel=0.01)
    assert found["tested"]["proposed"] == approx(0.0096, rel=0.01)
    assert found["releases"][0]["kind"] == "GeneralPtr"
    assert (found["unit"], found["adjacency"], found["trust"]) == ("record", "replace", "central")
    assert "1 private access to the records planned" in err


def test_other_methods_have_the_same_keys_and_nothing_tested(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tested = asked([str(sample), "--method", "mode-ptr", *BUDGET], capsys)[1]
    mean = asked([str(sample), "--method", "dp-mean", *BUDGET], capsys)[1]
    assert set(tested) == set(mean)
    assert (mean["tested"], mean["statistic"]) == (None, "mean")
    assert tested["mean"] == [3.0]


def test_a_test_that_fails_prints_no_median_and_ends_with_1(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["estimate", str(sample), "--method", "median-ptr", *BUDGET, "proposed=1e-8", "--quiet"])
    out = capsys.readouterr().out
    assert status == 1
    assert "no median  test: too few records to spare for a local sensitivity of 1e-08; a larger one may pass" in out
    assert "note       failed 1 of 1 tests: nothing" in out
    assert "local sensitivity 1e-08; tests ask for 61 records to spare, and pass wrongly once in 2e+06" in out


@pytest.mark.parametrize("method", ["median-ptr", "iqr-ptr", "mode-ptr"])
def test_a_file_with_nan_and_huge_numbers_is_answered(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = np.random.default_rng(1).normal(3, 1, 20_000)
    data[:100], data[100:200] = np.nan, 1e308
    np.save(tmp_path / "odd.npy", data)
    status, found, _ = asked([str(tmp_path / "odd.npy"), "--method", method, *BUDGET], capsys)
    assert status == 0
    assert np.isfinite(found["mean"]).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["median-ptr", "--corruption", "0.1"], "--corruption: median-ptr takes none"),
        (["median-ptr", "proposed=0"], "MedianPtr: proposed must be positive, got 0"),
        (["median-ptr", "proposed=x"], "MedianPtr: proposed must be a number, got 'x'"),
        (["mode-ptr", "--bound", "3"], "--bound: mode-ptr takes none"),
        (["trimmed-sum-ptr"], "trimmed-sum-ptr needs --bound"),
        (["median-ptr", "--epsilon", "0.001"], "n = 20,000 is too few: the test asks for 36,442 records to spare"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    words: list[str], message: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", str(sample), "--delta", "1e-6", *words_with_epsilon(words)]) == 2
    assert message in capsys.readouterr().err


def words_with_epsilon(words: list[str]) -> list[str]:
    """The method and its words, at ε = 1 where they say nothing of it."""
    return ["--method", *words, *([] if "--epsilon" in words else ["--epsilon", "1"])]


def test_one_record_is_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "one.npy", np.ones(1))
    assert main(["estimate", str(tmp_path / "one.npy"), "--method", "median-ptr", *BUDGET]) == 2
    assert "n = 1 is too few: the test asks for 61 records to spare; 307 would do" in capsys.readouterr().err
