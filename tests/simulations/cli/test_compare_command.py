"""`fedpriv compare`: its tables, its JSON, its files, and how it says no."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from fedpriv.mechanisms import MECHANISMS
from simulations.command_line import main

ASKED = "compare --epsilon 0.5 --delta 1e-5 --clients 20 --byzantine 2 --dimension 1"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One comparison with everything it can write."""
    place = tmp_path_factory.mktemp("compare")
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", lambda *words, **_: printed.append(" ".join(map(str, words))))
        files = ["--csv", str(place / "points.csv"), "--plot", str(place / "frontier.png")]
        assert main([*shlex.split(ASKED), *files, "--json"]) == 0
    return json.loads("\n".join(printed)) | {"place": place}


def test_every_mechanism_stands_under_both_trusts(found: dict[str, Any]) -> None:
    for trust in ("local", "secure-aggregation"):
        own = found["trusts"][trust]
        assert {each["kind"] for each in own["mechanisms"]} | set(own["left_out"]) == set(MECHANISMS)
        for each in own["mechanisms"]:
            assert each["epsilon"]["lower"] <= each["epsilon"]["upper"] <= 0.5
            assert each in found["points"]
    assert (found["honest"], found["mean"], found["target"]["rounds"]) == (18, 1.0, 1)
    signs = next(each for each in found["trusts"]["local"]["mechanisms"] if each["kind"] == "StochasticSign")
    assert signs["bits"] == {"entropy": 1.0, "sent": 1.0, "sent_is": "exact"}
    assert set(signs["attackers"]) == {"blind", "omniscient"}
    assert signs["attackers"]["omniscient"]["exact"] <= signs["attackers"]["blind"]["exact"]


def test_the_csv_has_a_line_a_setting_that_was_tried(found: dict[str, Any]) -> None:
    with (found["place"] / "points.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(found["points"])
    for row, own in zip(rows, found["points"], strict=True):
        assert (row["trust"], row["kind"]) == (own["trust"], own["kind"])
        assert float(row["epsilon_upper"]) == own["epsilon"]["upper"]
        assert float(row["sent"]) == own["bits"]["sent"]
        assert row["error"] == ("" if own["error"] is None else repr(own["error"]["total"]))
        survived = own["attackers"]["blind"]
        assert row["blind_exact"] == ("" if survived is None else str(survived["exact"]))


def test_the_picture_is_one(found: dict[str, Any]) -> None:
    assert (found["place"] / "frontier.png").read_bytes().startswith(b"\x89PNG")


def test_people_are_told_the_same(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(ASKED)) == 0
    said = capsys.readouterr().out
    assert "local trust" in said
    assert "secure aggregation" in said
    assert "left out: Gaussian, sends reals" in said
    assert "2 attackers are survived (exact): blind by" in said
    for own in found["trusts"]["local"]["mechanisms"]:
        (line,) = [
            line for line in said.split("secure aggregation,")[0].splitlines() if line.startswith(own["kind"] + " ")
        ]
        assert "not known" in line if own["error"] is None else f"{own['error']['total']:.4g}" in line


REFUSED = [
    ("--epsilon nan --delta 1e-5 --clients 10", "epsilon must be finite, got nan"),
    ("--epsilon 2 --delta 0 --clients 10", "delta must be above 0 and below 1, got 0"),
    ("--epsilon 2 --delta 1 --clients 10", "delta must be above 0 and below 1, got 1"),
    ("--epsilon 2 --delta 1e-5 --clients 0", "clients must be at least 1, got 0"),
    ("--epsilon 2 --delta 1e-5 --clients 10 --byzantine 5", "byzantine must be below half of the clients, 10: got 5"),
    ("--epsilon 2 --delta 1e-5", "--clients"),
    ("--epsilon 2 --delta 1e-5 --clients 10 --dimension 1.5", "must be a whole number"),
    ("--epsilon 2 --delta 1e-5 --clients 10 --plot here.gif", "must end in .png, .svg or .pdf"),
    ("--epsilon 2 --delta 1e-5 --clients 10 --csv /nowhere/at/all.csv", "--csv /nowhere/at/all.csv: there is no"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[asked for asked, _ in REFUSED])
def test_what_cannot_be_compared_is_refused_in_one_line(
    asked: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *shlex.split(asked)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_the_readme_s_target_takes_less_than_half_a_minute(tmp_path: Path) -> None:
    import time

    begun = time.process_time()
    asked = "compare --epsilon 2 --delta 1e-5 --rounds 100 --clients 1000 --byzantine 50 --json"
    assert main([*shlex.split(asked), "--plot", str(tmp_path / "frontier.svg")]) == 0
    assert time.process_time() - begun < 30
