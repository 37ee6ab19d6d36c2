"""What an earlier version made, whose ids hashed every setting (format 0): read, and gone on with by nobody."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from clients.node.policy import Policy, Refused
from fedpriv.accounting.ledger import Budget
from fedpriv.errors import FedprivError
from fedpriv.records import read_records
from fedpriv.studies import file as study_file
from server.directory import checkpoint, format_of
from server.directory.checkpoint import State
from server.directory.journal import Journal
from simulations.command_line import main
from simulations.sweep.directory import check_sweep_directory
from simulations.sweep.grid import grid_of

OLD = Path(__file__).parent / "format_0"  # a run and a sweep that commit 24aae02 made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(OLD / "run", tmp_path / "run")
    return tmp_path / "run"


def test_resume_refuses_it_naming_the_format_and_what_to_do(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    assert main(["run", "--resume", str(run), "--driver", "direct", "--quiet"]) == 2
    error = capsys.readouterr().err
    assert error == (
        f"fedpriv: {run}: a run of format 0, where this version goes on with format 1: fedpriv report, certify and "
        "audit read it; --out begins another run\n"
    )
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before


def test_report_and_certify_and_audit_read_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = read_records(run / "records.jsonl").header["study"]
    few = ["--images", "2", "--draws", "20", "--quiet", "--no-figure", "--workers", "1"]
    assert main(["certify", str(run), *few]) == 0
    assert told in next((run / "certify").iterdir()).read_text(encoding="utf-8")
    assert main(["audit", str(run), "--canaries", "200", "--quiet"]) in (0, 1)
    assert json.loads((run / "audit" / "audit.json").read_text(encoding="utf-8"))["study"] == told
    capsys.readouterr()
    assert main(["report", str(run)]) == 0
    assert "audited" in capsys.readouterr().out


def test_its_checkpoint_and_its_ledger_are_no_other_runs(run: Path, tmp_path: Path) -> None:
    study = study_file.read_study(str(run / "study.toml"))
    with np.load(run / "checkpoint.npz") as held:
        begun = State.begun(study, held["weights"])
    with pytest.raises(FedprivError, match=r"checkpoint of a study of format 0, this one's is 1"):
        checkpoint.load_checkpoint(run, study.id, begun)
    with pytest.raises(FedprivError, match=r"ledger.jsonl: is the ledger of a study of format 0, this one's is 1$"):
        Journal(run, study, None)


def test_a_ledger_of_another_study_is_whole_and_said_to_be_another_s(tmp_path: Path) -> None:
    Journal(tmp_path, study_file.read_study("digits"), None).close()
    with pytest.raises(FedprivError, match=r"ledger.jsonl: is the ledger of another study$"):
        Journal(tmp_path, study_file.read_study("digits", ["run.seed=2"]), None)


def test_a_sweep_is_reported_and_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = tmp_path / "sweep"
    shutil.copytree(OLD / "sweep", sweep)
    with pytest.raises(FedprivError, match=r"a sweep of format 0, where this version goes on with format 1"):
        check_sweep_directory(sweep, grid_of(str(sweep / "study.toml")))
    assert main(["report", str(sweep)]) == 0
    assert "format-0" in capsys.readouterr().out


def test_a_policy_that_lists_ids_says_of_which_format_they_must_be(run: Path) -> None:
    study = study_file.read_study(str(run / "study.toml"), ["attack.kind=Zero"])
    old = read_records(run / "records.jsonl").header["study"]
    budget = Budget(epsilon=9.0, delta=1e-5)
    with pytest.raises(
        Refused, match=rf"\({study.id.hex()}\) is not among .* by id, of which this version knows format 1"
    ):
        Policy(budget=budget, studies=(old,), attacks=True).check(study)
    Policy(budget=budget, studies=(study.id.hex(),), attacks=True).check(study)


def test_a_run_made_now_says_its_format(tmp_path: Path, run: Path) -> None:
    now = tmp_path / "now"
    assert main(["run", str(run / "study.toml"), "--driver", "direct", "--quiet", "--out", str(now)]) == 0
    assert (format_of(now), format_of(run)) == (1, 0)
    before, after = read_records(run / "records.jsonl"), read_records(now / "records.jsonl")
    assert before.header.pop("study") != after.header.pop("study")
    for line in [*before.rounds, *after.rounds]:
        for name in ("epsilon", "mu", "beta"):  # brackets, whose ends may come closer; the old run has but one
            line.pop(name, None)
    for line in after.rounds:
        assert len(line.pop("accuracy_by_class")) == 10  # which earlier versions did not measure
    assert (before.header, before.rounds) == (after.header, after.rounds)
