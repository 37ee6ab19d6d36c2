"""An attack that fails by itself is no attack that was survived: the run, the sweep and the page say so."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.training import cohort
from fedpriv import records
from fedpriv.attacks import Silent
from fedpriv.studies import file as study_file
from server import rounds
from simulations.command_line import main
from simulations.runs.direct import Here
from simulations.sweep._cell import run_cell
from simulations.sweep.directory import is_complete, is_finished, opened_sweep, place_of
from simulations.sweep.grid import grid_of

STUDY = """
name = "tried"
data = { kind = "Synthetic", records = 300, features = 6, classes = 3 }
clients = { count = 20, byzantine = 4, records = 5 }
attack.kind = "WHICH"
[privacy.mechanism]
kind = "Binomial"
clip = 1.0
scale = 2.0
trials = 4
[run]
rounds = 3
"""
MODULE = """
import numpy as np
from fedpriv.attacks import Silent

class Wrong:
    def on_updates(self, updates, view):
        return np.ones((3, 3))

class Hides:
    def on_updates(self, updates, view):
        raise Silent("not today")

class HidesQuietly:
    def on_messages(self, updates, view):
        raise Silent

class SpoilsData:
    def on_data(self, x, y, classes, generators):
        raise KeyError("records")

class NoBytes:
    def on_bytes(self, frame):
        raise SystemExit(4)

class Garbage:
    def on_bytes(self, frame):
        return b"?"

class SomeFail:
    failed = 0
    def on_updates(self, updates, view):
        if view.generators()[0].random() < 0.5:
            raise RuntimeError("this one gives up")
        return -updates
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "ownattacks.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("ownattacks", None)
    yield
    sys.modules.pop("ownattacks", None)


def run(directory: Path, attack: str, *overrides: str, cohorts: int = 1) -> dict[str, Any]:
    study = study_file.parsed_study(STUDY.replace("WHICH", attack), overrides=overrides)
    return rounds.run_rounds(study, directory, Here(cohorts), quiet=True)


WHY = {
    "ownattacks:Wrong": "ValueError: could not broadcast",
    "ownattacks:SpoilsData": "KeyError: 'records'",
    "ownattacks:NoBytes": "SystemExit: 4",
}


@pytest.mark.parametrize("attack", WHY)
def test_an_attack_that_always_raises_was_not_tried(attack: str, tmp_path: Path) -> None:
    result = run(tmp_path / "run", attack)
    assert result["not_tried"].startswith(WHY[attack])
    assert (result["why"], result["failed"]) == ("finished", {"attack": 12})
    found = records.read_records(tmp_path / "run" / "records.jsonl")
    assert found.end is not None
    assert found.end["not_tried"] == result["not_tried"]
    assert {line["attack_failed"]["acted"] for line in found.rounds} == {0}


TRIED = {
    "ownattacks:Hides": {"absent": 12}, "ownattacks:HidesQuietly": {"absent": 12}, "NonFinite": {"not finite": 12},
    "SignFlip": {}, "ownattacks:Garbage": {},
}  # fmt: skip


@pytest.mark.parametrize("attack", TRIED)
def test_an_attack_that_means_to_be_absent_or_refused_was_tried(attack: str, tmp_path: Path) -> None:
    result = run(tmp_path / "run", attack)
    assert (result["not_tried"], result["failed"]) == (None, TRIED[attack])
    assert "attack_failed" not in (tmp_path / "run" / "records.jsonl").read_text(encoding="utf-8")


def test_an_attack_that_fails_now_and_then_was_tried(tmp_path: Path) -> None:
    result = run(tmp_path / "run", "ownattacks:SomeFail")
    assert 0 < result["failed"]["attack"] < 12
    assert result["not_tried"] is None
    lines = records.read_records(tmp_path / "run" / "records.jsonl").rounds
    acted = sum(line["attack_failed"]["acted"] if "attack_failed" in line else 4 for line in lines)
    assert acted == 12 - result["failed"]["attack"]


def test_the_bytes_do_not_depend_on_how_clients_are_divided(tmp_path: Path) -> None:
    for attack in ("ownattacks:Wrong", "ownattacks:SomeFail"):
        for cohorts in (1, 5):
            run(tmp_path / f"{attack[11:]}{cohorts}", attack, cohorts=cohorts)
        one, five = ((tmp_path / f"{attack[11:]}{cohorts}" / "records.jsonl").read_bytes() for cohorts in (1, 5))
        assert one == five


def test_a_run_says_so_at_its_end_and_its_exit_code_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    for attack, code in (("ownattacks:Wrong", 1), ("ownattacks:Hides", 0)):
        file.write_text(STUDY.replace("WHICH", attack), encoding="utf-8")
        out = str(tmp_path / attack[11:])
        assert main(["run", str(file), "--driver", "direct", "--out", out, "--json"]) == code
        printed = capsys.readouterr()
        assert (json.loads(printed.out)["not_tried"] is not None) == bool(code)
        last = printed.err.strip().splitlines()[-1]
        assert ("the attack was not tried: it failed at every Byzantine client" in last) == bool(code)
        assert main(["report", out]) == 0
        assert ("not tried" in capsys.readouterr().out) == bool(code)
        page = (Path(out) / "report" / "index.html").read_text(encoding="utf-8")
        assert ("not tried: it failed at every Byzantine client" in page) == bool(code)
        assert (", attack not tried</span></h1>" in page) == bool(code)


def swept(tmp_path: Path, attacks: str) -> tuple[Path, list[str | None]]:
    file, out = tmp_path / "grid.toml", tmp_path / "out"
    grid_text = f'[sweep]\n"aggregation.kind" = ["Mean", "Median"]\n"attack" = [{attacks}]\n'
    file.write_text(STUDY.replace("WHICH", "SignFlip") + grid_text, encoding="utf-8")
    grid = grid_of(str(file))
    with opened_sweep(out, grid):
        said = [run_cell(study_file.study_text(cell.study), place_of(out, cell)) for cell in grid.cells]
    assert is_complete(out) == all(each is None for each in said)
    assert [is_finished(place_of(out, cell)) for cell in grid.cells] == [each is None for each in said]
    return out, said


def test_a_sweep_does_not_count_an_attack_that_was_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, said = swept(tmp_path, '{ kind = "SignFlip" }, { kind = "ownattacks:Wrong" }')
    assert sum(each is not None and "not tried" in each and "ValueError" in each for each in said) == 2
    assert main(["report", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["done"], found["untried"], found["failed"]) == (2, 2, 0)
    assert "all" not in {each["survives"] for each in found["defences"]}
    sentences = " ".join(found["said"])
    assert "In 2 cells the attack was not tried, as it failed at every Byzantine client" in sentences
    assert "ValueError: could not broadcast" in sentences
    assert "defences survive everything tried" not in sentences
    assert main(["report", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "not tried:" in printed
    page = (out / "report" / "index.html").read_text(encoding="utf-8")
    assert "0 of 2" in page
    assert ">not tried<" in page
    rows = (out / "report" / "cells.csv").read_text(encoding="utf-8")
    assert rows.count(",untried,") == 2


def test_where_no_attack_was_tried_none_was_survived(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = swept(tmp_path, '{ kind = "ownattacks:Wrong" }, { kind = "ownattacks:NoBytes" }')
    assert main(["report", str(out), "--json"]) == 0
    assert "survive" not in " ".join(json.loads(capsys.readouterr().out)["said"]).replace("none was survived", "")


def test_the_same_command_tries_again_what_was_not_tried(tmp_path: Path) -> None:
    out, said = swept(tmp_path, '{ kind = "SignFlip" }, { kind = "ownattacks:Wrong" }')
    mended = MODULE.replace("return np.ones((3, 3))", "return -updates")
    (tmp_path / "ownattacks.py").write_text(mended, encoding="utf-8")
    sys.modules.pop("ownattacks")
    cohort._cohort.cache_clear()  # as in another process
    assert said.count(None) == 2
    _, again = swept(tmp_path, '{ kind = "SignFlip" }, { kind = "ownattacks:Wrong" }')
    assert again == [None] * 4
    assert is_complete(out)


def test_silent_is_public() -> None:
    assert issubclass(Silent, Exception)
