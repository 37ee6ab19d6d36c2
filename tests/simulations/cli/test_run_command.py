"""`fedpriv run` from the command line, by the direct driver; Flower's is in test_flower.py."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedpriv.errors import FedprivError
from fedpriv.registry import imported_class
from simulations.command_line import main
from simulations.flower.surroundings import flower_environment

QUICK = ["--driver", "direct", "--quiet", "--set", "clients.count=60", "--set", "privacy.epsilon=20.0"]
QUICK += ["--set", "run.rounds=2"]


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from simulations.command_line import parser_of; parser_of(); "
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
    assert "--resume runs/digits (fp.resume) goes on with a run" in capsys.readouterr().err


def test_progress_goes_to_standard_error_and_the_result_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *[word for word in QUICK if word != "--quiet"]]) == 0
    loud = capsys.readouterr()
    assert loud.err.startswith("round 2/2  accuracy")
    assert loud.err.count("\n") == 1
    for word in ("accuracy", "ε at most", "secure-aggregation trust", "fedpriv report runs/digits"):
        assert word in loud.out
    assert main(["run", *QUICK]) == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    assert quiet.out.splitlines()[:5] == loud.out.splitlines()[:5]


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
        (["--set", "attack.kind=faults:Nothing"], "attack: faults:Nothing has none of the methods"),
        (["--set", "attack.kind=faults:Nowhere"], "attack 'faults:Nowhere' cannot be imported"),
        (["--set", "privacy.dropouts=1400"], "which leaves none certain to have drawn noise"),
        (["--resume", "nowhere"], "holds no run to go on with"),
        (["--superlink", "local"], "no --driver direct"),
        (["--out", "file"], "is there already"),
        (["--out", "file/run"], "fedpriv: file/run: Not a directory"),
        (["--set", "privacy.mechanism.kind=plain"], "unknown mechanism 'plain' (did you mean 'Plain'?)"),
        (["--set", "privacy.delta=1"], "privacy: delta must be below 1"),
        (["--set", "privacy.delta=0"], "privacy: delta = 0: no finite ε is certified for these messages without a δ"),
        (["--set", f"clients.count={'9' * 5000}"], "--set takes numbers of fewer digits, got 99999999999999999999…"),
        (["--set", f"server.step={'9' * 4000}"], "server.step must be a number that can be meant"),
        (["--set", "data={kind='Synthetic', records=1000000000000}"], "20 features do not fit into memory"),
        (["--set", "clients={count=1000000000000, split='pool'}"], "fedpriv: not enough memory"),
        (
            ["--set", "attack.kind=nowhere:Nothing"],
            "on PYTHONPATH, beside the study's file or in the directory one is in",
        ),
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
    assert not Path("runs").exists()


def test_a_finished_run_resumed_stays_what_it_is() -> None:
    assert main(["run", *QUICK]) == 0
    before = Path("runs/digits/records.jsonl").read_bytes()
    assert main(["run", "--resume", "runs/digits", "--driver", "direct", "--quiet"]) == 0
    assert Path("runs/digits/records.jsonl").read_bytes() == before


def test_what_was_there_before_a_run_was_refused_stays() -> None:
    Path("empty").mkdir()
    assert main(["run", *QUICK, "--set", "privacy.delta=1", "--out", "empty"]) == 2
    assert main(["run", *QUICK, "--set", "privacy.delta=1", "--out", "a/b/c"]) == 2
    assert [path.name for path in Path().iterdir()] == ["empty"]


def test_the_directory_of_a_run_that_was_killed_before_it_began_is_taken_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    killed = Path("killed")
    killed.mkdir()
    for name in ("error.json", "stop", "flower.log"):
        (killed / name).touch()
    assert main(["run", "--resume", "killed", "--driver", "direct"]) == 2
    assert "holds no run to go on with (study.toml is missing): fedpriv run … --out killed" in capsys.readouterr().err
    assert main(["run", *QUICK, "--out", "killed"]) == 0
    assert main(["run", *QUICK, "--out", "killed"]) == 2


def test_a_run_in_which_no_round_counted_says_so_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *QUICK, "--set", "server.step=1e60", "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["why"] == "no round counted"
    assert "runs/digits: no round counted: all 2 were skipped, the first for the step leads to weights" in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("module", ["numpy", "torch"])
def test_ctrl_c_while_modules_are_loaded_is_one_line(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text(
        "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)"
    )
    paths = [str(tmp_path), str(Path(__file__).parents[3])]
    command = [sys.executable, "-m", "simulations.command_line", "run", *QUICK]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "fedpriv: interrupted\n")
    assert not Path("runs").exists()


@pytest.fixture
def _path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delenv("FEDPRIV_MODULES", raising=False)


@pytest.mark.usefixtures("_path_as_it_was")
def test_a_module_beside_the_study_is_found_here_by_workers_and_by_whoever_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "mine" / "study.toml"
    study.parent.mkdir()
    shutil.copy(Path(__file__).parents[3] / "fedpriv" / "studies" / "catalogue" / "digits.toml", study)
    (study.parent / "flips_mine.py").write_text("class Flips:\n    def on_updates(self, updates, *_): return -updates")
    before = sys.path[:]
    assert main(["run", "mine/study.toml", *QUICK, "--set", "attack.kind=flips_mine:Flips", "--out", "run"]) == 0
    assert flower_environment(tmp_path)["PYTHONPATH"].split(os.pathsep)[-2:] == [str(study.parent), str(tmp_path)]
    del sys.modules["flips_mine"]
    sys.path[:] = before
    monkeypatch.chdir("/")
    assert main(["run", "--resume", str(tmp_path / "run"), "--driver", "direct", "--quiet"]) == 0
    del sys.modules["flips_mine"]


@pytest.mark.usefixtures("_path_as_it_was")
def test_a_module_in_the_directory_one_is_in_is_found_after_what_is_installed() -> None:
    Path("flips_here.py").write_text("class Flips:\n    def on_updates(self, updates, *_): return -updates")
    Path("clients.py").write_text("raise ImportError('another checkout')")
    assert main(["run", *QUICK, "--set", "attack.kind=flips_here:Flips"]) == 0


@pytest.mark.usefixtures("_path_as_it_was")
def test_a_module_of_the_same_name_beside_another_study_is_not_taken_for_this_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue = Path(__file__).parents[3] / "fedpriv" / "studies" / "catalogue"
    for place, answer in (("one", "-updates"), ("two", "updates * 0")):
        (tmp_path / place).mkdir()
        shutil.copy(catalogue / "digits.toml", tmp_path / place / "study.toml")
        text = f"class Flips:\n    def on_updates(self, updates, *_): return {answer}"
        (tmp_path / place / "flips_twice.py").write_text(text)
    own = [*QUICK, "--set", "attack.kind=flips_twice:Flips"]
    assert main(["run", "one/study.toml", *own, "--out", "first"]) == 0
    assert main(["run", "two/study.toml", *own, "--out", "second"]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert "rename one" in said
    assert str(tmp_path / "two" / "flips_twice.py") in said
    (tmp_path / "one" / "flips_twice.py").write_text("class Flips:\n    def on_updates(self, updates, *_): return 3.0")
    assert main(["run", "one/study.toml", *own, "--out", "edited"]) == 2
    assert "begin another process" in capsys.readouterr().err
    del sys.modules["flips_twice"]
    assert main(["run", "two/study.toml", *own, "--out", "second"]) == 0
    del sys.modules["flips_twice"]


@pytest.mark.usefixtures("_path_as_it_was")
def test_a_package_of_ones_own_is_compared_down_to_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, value in (("one", 1), ("two", 2)):
        (tmp_path / place / "packed_mine").mkdir(parents=True)
        (tmp_path / place / "packed_mine" / "__init__.py").write_text("")
        (tmp_path / place / "packed_mine" / "kinds.py").write_text(f"class A:\n    value = {value}\n")
    with monkeypatch.context() as first:
        first.syspath_prepend(tmp_path / "one")
        assert imported_class("rule", "packed_mine.kinds:A").value == 1
    monkeypatch.syspath_prepend(tmp_path / "two")
    with pytest.raises(FedprivError, match=r"another 'packed_mine.kinds'.*rename one"):
        imported_class("rule", "packed_mine.kinds:A")
    del sys.modules["packed_mine"], sys.modules["packed_mine.kinds"]


@pytest.mark.usefixtures("_path_as_it_was")
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("training.model.kind=wrong_mine:Raises", "training.model: wrong_mine:Raises: ZeroDivisionError: mine"),
        ("training.model.kind=wrong_mine:Nothing", "wrong_mine:Nothing must give a clients.models.gradients.Net, got"),
        ("data.kind=wrong_mine:Raises", "data: wrong_mine:Raises: ZeroDivisionError: mine"),
        ("data.kind=wrong_mine:Nothing", "data: wrong_mine:Nothing must give a clients.data.pool.Pool, got NoneType"),
        ("server.optimiser.kind=wrong_mine:Nothing", "wrong_mine:Nothing: TypeError: cannot unpack"),
        ("server.optimiser.kind=wrong_mine:Raises", "wrong_mine:Raises: ZeroDivisionError: mine"),
        ("server.optimiser.kind=Adm", "unknown optimiser 'Adm' (did you mean 'Adam'?)"),
    ],
)
def test_whatever_a_class_of_ones_own_raises_or_gives_is_one_line(
    setting: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = ("build(self, *_)", "load(self)", "start(self, *_)", "step(self, *_)")
    text = [f"class {name}:\n" + "".join(f"    def {own}: {body}\n" for own in methods)
            for name, body in (("Nothing", "return None"), ("Raises", "raise ZeroDivisionError('mine')"))]  # fmt: skip
    Path("wrong_mine.py").write_text("\n".join(text))
    sys.modules.pop("wrong_mine", None)
    own = [*QUICK, "--set", "server.momentum=0"]
    assert main(["run", *own, "--set", setting, "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    sys.modules.pop("wrong_mine", None)


def test_labels_all_the_same_are_not_said_to_be_sorted(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.ones((100, 3), np.float32))
    np.save("y.npy", np.zeros(100, int))
    data = "data={kind='Arrays', path='.', held_out=20}"
    assert main(["run", "--driver", "direct", "--set", "clients.count=50", "--set", data]) == 2
    assert "every label is 0; a classifier needs two classes at least" in capsys.readouterr().err


def test_a_dry_run_says_in_words_what_is_long_and_nothing_of_a_guarantee_that_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["run", "--dry-run", "--set", "clients.count=60"]
    assert main([*few, "--set", "run.rounds=99999999"]) == 0
    long = capsys.readouterr().out
    assert "TB all clients in all" in long
    assert " days " in long or " years on one core" in long
    assert main([*few, "--set", "privacy={}"]) == 0
    plain = capsys.readouterr().out
    assert "privacy           none: updates are sent as they are" in plain
    assert "None" not in plain
    assert "trust" not in plain


def test_verbose_logs_a_line_a_round_in_the_place_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for word in QUICK if word != "--quiet"]
    assert main(["run", *words, "--verbose"]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert "INFO fedpriv.rounds: round 1/2  accuracy " in first
    assert "INFO fedpriv.rounds: round 2/2  accuracy " in second
    assert main(["run", *words, "--quiet", "--json"]) == 0
    assert capsys.readouterr().err == ""
