"""The papers' figures from our own numbers: every check, the files, and what is said no to."""

from __future__ import annotations

import csv
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx

from simulations.command_line import main
from simulations.figures.checks import Check, check_lines
from simulations.reproduce.catalogue import CATALOGUE, TEXTS
from simulations.reproduce.fdp import _formulas as formulas
from simulations.reproduce.prime import _published as prime_published
from simulations.reproduce.prime import _runs as prime_runs
from simulations.reproduce.ptr.tables_published import TABLES
from simulations.reproduce.stobatch.published import FIGURES

SIGNATURE = b"\x89PNG\r\n\x1a\n"
DIFFER = {  # the claims that do not hold, each with its reason
    "fdp-figure-2": ["δ at ε = 1.67, M = 500"],
    "fdp-figure-4": ["NoisySign ≥ Gaussian ≥ (ε, δ), at every α, Φ(c/σ) as printed"],
    "fdp-figure-8": ["K itself falls with A, B = .5"],
    "ptr-figure-1": [f"4.2 is below 4.3 at δ₀ = 1e-10, σ = {noise}" for noise in (5, 10, 20)],
    "ptr-figure-2": [
        "4.4 is below the black box at every α it covers, σ = 10",
        "4.4 is below the black box at every α it covers, σ = 40",
        "4.4 holds, σ = 1.1",
    ],
    "ptr-figure-3": [f"4.4 is below the black box, σ = {noise}" for noise in (10, 40)],
    "ptr-figure-4": [
        "4.2 is below 4.3 at δ₀ = 1e-10, τ = 2/3",
        "4.3 is the same for all δ₀ ≤ 1e-8, τ = 1/3",
        "4.2 is below 4.3 at δ₀ = 1e-10, τ = 1/3",
        "4.3 is the same for all δ₀ ≤ 1e-8, τ = .1",
        "4.3 is below 4.2 at δ₀ = .9999 δ, τ = .1",
    ],
    "ptr-figure-5": [f"4.4 is below the black box, σ = {noise}" for noise in (10, 20, 40)],
}


SCALED = [name for name, each in CATALOGUE.items() if each.scales]  # runs, as many as there is time for


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in SCALED])
def test_every_check_of_a_figure_passes_and_differences_are_those_known(name: str) -> None:
    _, checks = CATALOGUE[name].make()
    assert [check.claim for check in checks if not check.passed] == []
    assert [check.claim for check in checks if not check.agrees] == DIFFER.get(name, [])


@pytest.mark.parametrize("name", ["fdp-figure-3", "fdp-figure-9"])
def test_a_figure_is_a_picture_a_table_and_a_line_for_each_check(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", name, "--out", str(tmp_path / "new" / "place"), "--budget", "1"]) == 0
    out = capsys.readouterr().out
    assert (tmp_path / "new" / "place" / f"{name}.png").read_bytes().startswith(SIGNATURE)
    rows = list(csv.DictReader((tmp_path / "new" / "place" / f"{name}.csv").read_text().splitlines()))
    panels, checks = CATALOGUE[name].make()
    assert len(rows) == sum(len(line.x) for panel in panels for line in panel.lines)
    last = panels[-1].lines[-1]
    assert (float(rows[-1]["x"]), float(rows[-1]["y"])) == (last.x[-1], last.y[-1])
    for check in checks:
        assert f"{check.claim} " in out
    assert out.count(" ok\n") == sum(check.agrees for check in checks)


def test_the_lines_read_published_ours_and_a_verdict() -> None:
    same = Check(claim="a", published="1", ours="1.0", agrees=True)
    other = Check(claim="bb", published="22", ours="3", agrees=False, why="a slip")
    assert check_lines([same, other]) == [
        "a   published 1   ours 1.0  ok",
        "bb  published 22  ours 3    differs (a slip)",
    ]


def test_a_check_fails_where_nobody_knows_why_and_where_a_known_difference_is_gone_and_where_ours_is_wrong() -> None:
    known = Check(claim="a", published="1", ours="2", agrees=False, why="a slip")
    assert known.passed
    for wrong in (replace(known, why=""), replace(known, agrees=True), replace(known, right=False)):
        assert not wrong.passed
        assert wrong.verdict.startswith("FAILED")


def test_a_failed_check_is_exit_code_1_and_the_files_are_there_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    panels, _ = CATALOGUE["fdp-figure-3"].make()
    broken = Check(claim="a", published="1", ours="2", agrees=False)
    monkeypatch.setitem(CATALOGUE, "fdp-figure-3", replace(CATALOGUE["fdp-figure-3"], make=lambda: (panels, [broken])))
    assert main(["reproduce", "fdp-figure-3", "--out", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "FAILED" in out
    assert err == "fedpriv: 1 of 1 checks failed\n"
    assert (tmp_path / "fdp-figure-3.png").exists()


@pytest.mark.parametrize("line", ["reproduce", "reproduce --list"])
def test_without_a_name_it_says_what_there_is(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) == 0
    assert [row.split()[0] for row in capsys.readouterr().out.splitlines()] == [
        *CATALOGUE, *TEXTS, *TABLES, *FIGURES, "lecture-figure", "inversion",
    ]  # fmt: skip


REFUSED = [
    ("reproduce fdp-figure-5", "nothing to reproduce is called 'fdp-figure-5' (did you mean 'fdp-figure-"),
    ("reproduce fdp-figure-3 --budget nan", "budget must be finite, got nan"),
    ("reproduce fdp-figure-3 --budget 0", "budget must be positive"),
    ("reproduce fdp-figure-3 --budget 0.001", "fdp-figure-3 may take 0.1 minutes, more than the budget of 0.001"),
    ("reproduce fdp-figure-3 --out pyproject.toml/x", "pyproject.toml/x: cannot be written"),
    ("reproduce fdp-figure-3 extra", "'extra' is not understood here"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=lambda text: str(text)[:50])
def test_what_cannot_be_reproduced_is_one_line(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fedpriv: ")
    assert err.count("\n") == 1
    assert message in err


def test_the_printed_formulas_at_points_worked_out_by_hand() -> None:
    alpha = np.array([0.05, 0.25, 0.5])
    assert formulas.ternary(alpha, 0.1, 0.25, 0.5) == approx([1 - 7 / 3 * 0.05, 0.55, 0.3])
    assert formulas.stochastic_sign(alpha, 0.1, 0.25) == approx([1 - 7 / 3 * 0.05, 1 - 7 / 3 * 0.25, 3 / 7 * 0.5])
    assert formulas.theorem_2(np.array([0.0, 0.25, 0.5, 0.75, 1.0]), 2, 1) == approx([0.75, 0.25, 0.125, 0.0, 0.0])
    assert formulas.theorem_3(alpha[:2], 16, 0.55) == approx([0.799332182261, 0.445901527214], abs=1e-12)


# --- fedpriv tolerance --------------------------------------------------------------------------------------------

VOTE = "tolerance Binomial clip=0.1 scale=0.5 trials=1 --honest 100 --mean 0.1"


def asked(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*shlex.split(line), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def test_tolerance_answers_in_json_with_all_three_numbers_and_what_each_assumes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = asked(VOTE, capsys)
    assert found["published"] == approx(26.05, abs=0.005)
    assert (found["exact"], found["hoeffding"]) == (95, 91)
    assert (found["kind"], found["honest"], found["mean"], found["attack"]) == ("Binomial", 100, 0.1, "blind")
    assert [each["attackers"] for each in found["right"]] == [95, 96]
    assert found["right"][0]["probability"] > 0.5 > found["right"][1]["probability"]
    assert found["assumptions"]["ties"] == "wrong"
    assert "exactly at the mean" in found["proof"]["exact"]
    assert "any honest data" in found["proof"]["hoeffding"]
    assert found["proof"]["published"].startswith("[F] Theorem 5")


ANSWERS = [
    (f"{VOTE} --attack omniscient", "omniscient", "[F] Theorem 10 at probability 1", 19),
    (f"{VOTE} --probability 1", "vote", "[F] Theorem 10", 19),
    (
        "tolerance Ternary clip=0.1 spread=0.25 scale=0.5 --honest 1000 --mean 0.1 --probability 0.5",
        "vote", "[F] Theorem 11", 399,
    ),
    (
        "tolerance Ternary clip=0.1 spread=0.25 scale=0.5 --honest 1e3 --mean 0.1 --attack omniscient",
        "omniscient", "no theorem speaks of this", 199,
    ),
    ("tolerance Cldp clip=0.1 epsilon=1 --honest 1000 --mean 0.1", "blind", "[F] Theorem 5", 997),
    ("tolerance Binomial clip=1 scale=9 trials=1 --honest 9 --mean 1e-4", "blind", "[F] Theorem 5, says nothing", 0),
    ("tolerance Binomial clip=1 scale=9 trials=1 --honest 8 --mean 1e-4", "blind", "[F] Theorem 5, says nothing", -1),
    (f"{VOTE} --sampling 0.05", "blind", "[F] Theorem 8's (103) does not hold", 48),
    ("tolerance NoisySign clip=1 noise=1 --honest 100 --mean 0.25", "blind", "no theorem speaks of this", 95),
]  # fmt: skip


@pytest.mark.parametrize(("line", "attack", "theorem", "exact"), ANSWERS, ids=lambda value: str(value)[:60])
def test_tolerance_names_the_attack_and_the_theorem(
    line: str, attack: str, theorem: str, exact: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(line, capsys)
    assert (found["attack"], found["exact"]) == (attack, exact)
    assert found["proof"]["published"].startswith(theorem)


def test_mechanisms_side_by_side_are_as_they_are_alone(capsys: pytest.CaptureFixture[str]) -> None:
    other = "NoisySign clip=0.1 noise=0.5"
    found = asked(f"{VOTE} --sampling 0.5 --compare {other} --compare Cldp clip=0.1 epsilon=1", capsys)
    assert [each["kind"] for each in found["compared"]] == ["NoisySign", "Cldp"]
    alone = asked(VOTE.replace("Binomial clip=0.1 scale=0.5 trials=1", other) + " --sampling 0.5", capsys)
    assert found["compared"][0] == alone
    assert main([*shlex.split(VOTE), "--compare", *other.split()]) == 0
    out = capsys.readouterr().out
    assert [line.split()[-1] for line in out.splitlines() if "clip=" in line] == ["95", str(_exact(other, capsys))]


def _exact(mechanism: str, capsys: pytest.CaptureFixture[str]) -> int:
    found: int = asked(VOTE.replace("Binomial clip=0.1 scale=0.5 trials=1", mechanism), capsys)["exact"]
    return found


def test_tolerance_tells_people_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(VOTE)) == 0
    out = capsys.readouterr().out
    for words in ("published   26.05", "hoeffding   91", "exact       95", "ties are wrong", "blind attackers"):
        assert words in out


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_tolerance_draws(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"tolerance.{form}"
    assert main([*shlex.split(VOTE), "--plot", str(path)]) == 0
    assert path.read_bytes()[:5] in (SIGNATURE[:5], b"<?xml", b"%PDF-")


TERNARY = "tolerance Ternary clip=0.1 spread=0.25 scale=0.5 --honest 50 --mean 0.1"


@pytest.mark.parametrize(
    "line",
    [
        f"{TERNARY} --probability 0.4",
        f"{TERNARY} --attack omniscient",
        "tolerance Ternarize clip=0.1 scale=0.5 --honest 50 --mean 0.01",
        "tolerance StochasticSign clip=0.1 scale=5 --honest 3 --mean 0.001",
        "tolerance Cldp clip=0.1 epsilon=20 --honest 50 --mean 0.05 --probability 0.9",
        "tolerance NoisySign clip=1 noise=1 --honest 50 --mean 0.3",
        "tolerance Binomial clip=0.1 scale=0.5 trials=2 --honest 50 --mean 0.1 --sampling 0.5",
    ],
)
def test_every_kind_can_be_drawn(line: str, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    assert main([*shlex.split(line), "--plot", str(tmp_path / "a.png")]) == 0
    assert [str(each.message) for each in recwarn] == []


NO = [
    (f"{VOTE[:-3]}nan", "mean must be finite, got nan"),
    (f"{VOTE[:-3]}-0.1", "mean must be positive, got -0.1"),
    (f"{VOTE[:-3]}0", "mean must be positive"),
    (f"{VOTE[:-3]}1e300", "mean must be at most 1e+150"),
    (f"{VOTE[:-3]}0.2", "mean must be at most the mechanism's peak = 0.1, got 0.2"),
    (VOTE.replace("100", "0"), "honest must be at least 1"),
    (VOTE.replace("100", "-5"), "honest must be at least 1"),
    (VOTE.replace("100", "2.5"), "--honest: must be a whole number"),
    (VOTE.replace("100", "1e30"), "honest must be at most"),
    (VOTE.replace("Binomial", "Binomal"), "did you mean 'Binomial'"),
    ("tolerance Gaussian clip=1 noise=1 --honest 10 --mean 0.1", "Gaussian has no tolerance here"),
    (f"{VOTE} --sampling 0", "sampling must be positive"),
    (f"{VOTE} --sampling 1.5", "sampling must be"),
    (f"{VOTE} --compare Binomal clip=1", "did you mean 'Binomial'"),
    (f"{VOTE} --compare Binomial clip=0.01 scale=1 trials=1", "mean must be at most the mechanism's peak = 0.01"),
    (VOTE.replace("scale=0.5", "scale=0.05"), "scale must be larger than peak"),
    (VOTE.replace("scale=0.5", "scale=nan"), "scale must be finite"),
    (f"{VOTE} --attack blnd", "did you mean 'blind'"),
    (f"{VOTE} --attack blind --probability 0.7", "give --attack or --probability, not both"),
    (f"{VOTE} --probability 0.5", "probability must be above 0.5"),
    (f"{VOTE} --probability nan", "probability must be finite"),
    (f"{VOTE} --probability 2", "at most 1, got 2"),
    (f"{VOTE} --plot tolerance.bmp", "must end in .png, .svg or .pdf"),
    (f"{VOTE} --plot pyproject.toml/x.png", "--plot pyproject.toml/x.png"),
    ("tolerance Binomial clip=0.1 scale=0.5 trials=1 --mean 0.1", "--honest"),
    ("tolerance Binomial clip=0.1 scale=0.5 trials=1 --honest 5", "--mean"),
]


@pytest.mark.parametrize(("line", "message"), NO, ids=lambda text: str(text)[-60:])
def test_a_slip_in_tolerance_is_one_line(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fedpriv: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("name", SCALED)
def test_runs_are_made_as_small_as_their_budget_and_every_difference_says_how_small(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", name, "--budget", "0.01", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"n = [\d,]+ here|n is 0\.\d+ of the paper's", out)
    assert "FAILED" not in out
    assert (tmp_path / f"{name}.png").read_bytes().startswith(SIGNATURE)
    rows = list(csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines()))
    assert {row["line"] for row in rows} >= {"DP Mean", "PRIME", "PRIME as printed"}


def test_what_the_printed_prime_would_see_is_noise() -> None:
    at = prime_published.Setting(10**6, 100, 0.05, 20.0)
    assert prime_published.covariance_noise(at) > 600 * prime_published.signal(at)
    noisier = at._replace(epsilon=0.02)
    assert prime_published.covariance_noise(noisier) == approx(
        prime_published.covariance_noise(at) * 0.9 / (0.99 * 0.02)
    )


def test_a_sample_is_mostly_honest_about_a_mean_that_is_not_zero() -> None:
    at = prime_published.Setting(20_000, 3, 0.1, 1.0)
    data = prime_runs.sample(at, seed=0)
    assert data[2000:].mean(axis=0) == approx(np.full(3, prime_runs.CENTRE), abs=0.04)
    assert data[:2000].mean(axis=0) == approx(np.full(3, prime_runs.CENTRE + 1.5), abs=0.1)
