"""[F]'s text, claim by claim: what holds, what is a slip, and the golden numbers of the counter-examples."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pytest import approx

from simulations.command_line import main
from simulations.reproduce.catalogue import TEXTS
from simulations.reproduce.fdp._claims_votes import client_bound, printed_103, wrong_or_tied
from simulations.reproduce.fdp.claims import HEAD, fdp_claims

SLIPS = [
    "Theorem 1, (8)", "Corollary 1, (49), (50)", "Remark 4", "Remark 4", "Section 4.2", "Section 4.2",
    "Example 1, (16); Example 2, (18)", "Example 3", "Example 4", "Section 4.5, (25)", "Theorem 5", "Theorem 6",
    "Section 5", "Theorem 6", "Remark 10", *["Theorem 8, (103)"] * 4, "Theorem 8, (26), (108), (110)",
    "Theorem 8, (107)", "Theorem 10", "Theorem 10", "Theorem 11",
]  # fmt: skip


def test_every_claim_of_the_text_holds_or_is_a_slip_that_is_known() -> None:
    claims = fdp_claims()
    assert [claim.check.claim for claim in claims if not claim.check.passed] == []
    assert [claim.where for claim in claims if claim.slip] == SLIPS
    assert len({claim.check.claim for claim in claims}) == len(claims)


CASES = [  # N, K, p_s, M, x̄/B: exact, (103), a bound for clients at the mean
    ((100, 10, 0.05, 64, 0.3), 0.0237577, 2.1e-5, 0.118481),
    ((20, 2, 0.2, 64, 0.5), 0.0271157, 1.6e-11, 0.109522),
    ((5, 0, 0.2, 100, 0.9), 0.327680, 1.0e-26, 0.327680),
    ((100, 10, 0.5, 1, 0.3), 0.0367776, 0.183, 0.178722),
    ((20, 0, 0.1, 16, 0.6), 0.1235, 0.00156, 0.1294),
]


@pytest.mark.parametrize(("case", "exact", "printed", "mended"), CASES, ids=str)
def test_theorem_8_is_unsound_beyond_one_vote_a_user(
    case: tuple[int, int, float, int, float], exact: float, printed: float, mended: float
) -> None:
    assert wrong_or_tied(*case) == approx(exact, rel=4e-4)
    assert printed_103(*case) == approx(printed, rel=0.05)
    assert client_bound(*case) == approx(mended, rel=4e-4)


def test_the_claims_are_a_page_a_table_and_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "fdp-claims", "--out", str(tmp_path)]) == 0
    out, claims = capsys.readouterr().out, fdp_claims()
    rows = list(csv.DictReader((tmp_path / "fdp-claims.csv").read_text().splitlines()))
    told = json.loads((tmp_path / "fdp-claims.json").read_text())
    page = (tmp_path / "fdp-claims.md").read_text()
    assert list(rows[0]) == list(HEAD)
    assert len(rows) == len(told) == len(claims)
    assert f"## {len(SLIPS)} slips" in page
    assert f"## {len(claims) - len(SLIPS)} claims that hold" in page
    for row, each, claim in zip(rows, told, claims, strict=True):
        assert row["ours"] == each["ours"] == claim.check.ours
        assert each["passed"]
        assert claim.check.ours in out
        assert claim.check.ours in page
    assert any(each["published"] == "3.18" and each["ours"].startswith("3.80") for each in told)


def test_a_claim_that_fails_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = fdp_claims()[0]
    broken = replace(claim, check=replace(claim.check, right=False))
    monkeypatch.setitem(TEXTS, "fdp-claims", replace(TEXTS["fdp-claims"], make=lambda: [broken]))
    assert main(["reproduce", "fdp-claims", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "fedpriv: 1 of 1 checks failed\n"
    assert "FAILED" in (tmp_path / "fdp-claims.csv").read_text()


def test_claims_take_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "fdp-claims", "--data", "digits"]) == 2
    assert "fdp-claims trains on nothing" in capsys.readouterr().err
