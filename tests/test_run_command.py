"""`fedpriv run` from the command line, by the direct driver; Flower's is in test_flower.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simulations.command_line import main

QUICK = ["--driver", "direct", "--quiet", "--set", "clients.count=60", "--set", "privacy.epsilon=20.0"]
QUICK += ["--set", "run.rounds=2"]


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from simulations.command_line import parser; parser(); "
        "sys.exit(bool({'torch', 'ray', 'flwr', 'matplotlib', 'sklearn', 'scipy.stats'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_json_alone_stands_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *QUICK, "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    wanted = {
        "directory", "accuracy", "rounds", "clients", "seconds", "epsilon", "delta", "unit", "trust", "adjacency",
        "bytes_up", "bytes_transport", "rejected",
    }  # fmt: skip
    assert wanted <= set(found)
    assert {"lower", "upper"} <= set(found["epsilon"])
    assert (found["rounds"], found["clients"], found["unit"]) == (2, 60, "client")
    assert found["bytes_up"] == 2 * 60 * found["client_bytes"]
    assert printed.err == ""


def test_runs_are_never_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *QUICK]) == main(["run", *QUICK]) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["digits", "digits-2"]
    first, second = (Path("runs", name, "records.jsonl").read_bytes() for name in ("digits", "digits-2"))
    assert first == second
    assert main(["run", *QUICK, "--out", "runs/digits"]) == 2
    assert "--resume runs/digits goes on with a run" in capsys.readouterr().err


def test_progress_and_the_final_table_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *[word for word in QUICK if word != "--quiet"]]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    for word in ("round 2/2", "accuracy", "ε at most", "secure-aggregation trust", "fedpriv report runs/digits"):
        assert word in printed.err


def test_a_dry_run_says_what_it_would_cost_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *QUICK, "--dry-run", "--json"]) == 0
    forecast = json.loads(capsys.readouterr().out)
    assert not Path("runs").exists()
    assert main(["run", *QUICK, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert forecast["epsilon"] == result["epsilon"]
    assert forecast["bytes_up"] == result["bytes_up"]
    assert main(["run", "--dry-run"]) == 0
    assert "at most 3.99" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "no study 'nothing'"),
        (["--driver", "flwr"], "driver 'flwr' is unknown (did you mean 'flower'?)"),
        (["--workers", "0"], "must be a whole number of at least 1, got '0'"),
        (["--set", "run.rouds=3"], "digits.toml: run has no key 'rouds' (did you mean 'rounds'?)"),
        (["--set", "data.kind=Digit"], "data: unknown data set 'Digit' (did you mean 'Digits'?)"),
        (["--set", "training.model.kind=Logistics"], "'Logistics' (did you mean 'Logistic'?)"),
        (["--set", "clients.count=2000"], "2000 clients of 1 record(s) each need 2,000 records, but there are 1,437"),
        (["--set", "attack.kind=faults:Nothing"], "attack: Nothing has none of the methods"),
        (["--set", "attack.kind=faults:Nowhere"], "attack 'faults:Nowhere' cannot be imported"),
        (["--set", "privacy.dropouts=1400"], "which leaves none certain to have drawn noise"),
        (["--resume", "nowhere"], "holds no run to go on with"),
        (["--superlink", "local"], "no --driver direct"),
        (["--out", "file"], "is there already"),
    ],
)
def test_what_is_asked_wrongly_is_said_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").touch()
    first = [] if words[0].startswith("-") else [words.pop(0)]
    assert main(["run", *first, "--driver", "direct", "--quiet", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(Path("runs").glob("*")) if Path("runs").exists() else True


def test_a_finished_run_resumed_stays_what_it_is() -> None:
    assert main(["run", *QUICK]) == 0
    before = Path("runs/digits/records.jsonl").read_bytes()
    assert main(["run", "--resume", "runs/digits", "--driver", "direct", "--quiet"]) == 0
    assert Path("runs/digits/records.jsonl").read_bytes() == before
