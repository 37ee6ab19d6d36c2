"""Whole runs through the real Flower and the real Ray: the bits, the bad luck, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soak

from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server import rounds
from simulations.flower import launch
from simulations.flower.surroundings import end_all, scratch_directory, wait_until
from simulations.runs import direct

TINY = """
name = "tiny"
data = { kind = "Synthetic", records = 260, features = 5, classes = 3, held_out = 60 }
clients = { count = 40, records = 5, byzantine = 1 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 4.0 }
attack.kind = "SignFlip"
aggregation.kind = "MajorityVote"
server = { step = 0.01, timeout = 60.0, retries = 0 }
run = { rounds = 4, seed = 3 }
"""

# A Byzantine client whose trouble in each call is a line of a file; what it has been through is another file.
FAULTS = """
import os, signal, time
from dataclasses import dataclass
from pathlib import Path

@dataclass(frozen=True)
class Trouble:
    folder: str

    def on_updates(self, updates, generators):
        done = Path(self.folder, "done")
        calls = len(done.read_text()) if done.exists() else 0
        plan = Path(self.folder, "plan").read_text().split()
        with done.open("a") as file:
            file.write(".")
        what = plan[calls] if calls < len(plan) else "well"
        if what == "raises":
            raise ArithmeticError("no luck")
        if what == "hangs":
            time.sleep(1000)
        if what == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        return updates
"""


def tiny(*overrides: str) -> Study:
    return study_file.parsed_study(TINY, overrides=overrides)


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "records.jsonl").read_text().splitlines()]


def directly(study: Study, directory: Path, *, resume: bool = False) -> bytes:
    rounds.run_rounds(study, directory, direct.Here(), resume=resume, quiet=True)
    return (directory / "records.jsonl").read_bytes()


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Whatever a test started must be gone when it ends, Ray's too, whose titles have written over their marks."""
    mark = f"FEDPRIV_TEST={os.getpid()}.{time.monotonic_ns()}"
    monkeypatch.setenv(*mark.split("="))
    soak.adopt()
    before = set(soak.running())
    yield mark
    wait_until(lambda: not set(soak.running()) - before, 10)
    soak.adopt(False)
    assert not {pid: command for pid, command in soak.running().items() if pid not in before}


def running(mark: str) -> dict[str, dict[str, str]]:
    """The processes, other than this one, with that in their environment: their command, and that environment."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "environ").read_text(errors="replace").split("\0")
            if place.name != str(os.getpid()) and mark in words:
                command = (place / "cmdline").read_text(errors="replace").replace("\0", " ")
                found[f"{place.name} {command}"] = dict(word.split("=", 1) for word in words if "=" in word)
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.fixture
def troubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The override that brings trouble into a study; none until a plan is written.

    The directory one is in does not choose the code, but a study's own paths start there.
    """
    (tmp_path / "trouble.py").write_text(FAULTS)
    (tmp_path / "plan").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "clients").mkdir(parents=True)
    (elsewhere / "clients" / "__init__.py").write_text("raise ImportError('another checkout')")
    monkeypatch.chdir(elsewhere)
    return 'attack={kind="trouble:Trouble", folder=".."}'


@pytest.mark.slow
@pytest.mark.flower
@pytest.mark.usefixtures("marked")
def test_flower_leaves_the_files_of_a_function_call_also_where_a_worker_is_killed_and_releases_adapt(
    tmp_path: Path, troubled: str
) -> None:
    release = "kind='AdaptiveDpSgd', clip=4.0, noise=1.2, sampling=0.5, count_noise=2.0"
    own = ["clients.count=6", "clients.records=40", f"privacy.release={{{release}}}", "training.local_steps=2"]
    study = tiny(troubled, *own)
    wanted = directly(study, tmp_path / "direct")
    (tmp_path / "done").unlink()
    (tmp_path / "plan").write_text("well dies")
    result = launch.simulate_study(study, tmp_path / "flower", workers=2, cohorts=3, quiet=True)
    assert (tmp_path / "flower" / "records.jsonl").read_bytes() == wanted
    assert (tmp_path / "done").read_text() == "....."  # four rounds, and the second anew
    found, expected = ({**np.load(tmp_path / each / "checkpoint.npz")} for each in ("flower", "direct"))
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in found)
    assert len(np.unique(found["settings"])) > 1  # they have moved, each client's its own way
    assert result == json.loads((tmp_path / "flower" / "result.json").read_text())
    assert result["why"] == "finished"
    assert not {"error.json", "flower.log", "stop"} & {file.name for file in (tmp_path / "flower").iterdir()}


@pytest.mark.flower
@pytest.mark.usefixtures("marked")
def test_a_listener_in_this_process_is_told_each_round_of_flowers_simulation_and_stops_it(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []

    def listen(line: dict[str, Any]) -> bool:
        assert lines(tmp_path / "run")[line["round"]]["bytes_up"] == line["bytes_up"]
        heard.append(line)
        return line["round"] == 3

    study = tiny("run.rounds=5")
    result = launch.simulate_study(study, tmp_path / "run", workers=1, quiet=True, on_round=listen)
    assert (result["why"], result["rounds"], [line["round"] for line in heard]) == ("stopped", 3, [1, 2, 3])

    def fail(line: dict[str, Any]) -> None:
        raise ValueError(line["round"])

    with pytest.raises(FedprivError, match=r"^on_round failed in round 4 \(ValueError: 4\)"):
        launch.simulate_study(study, tmp_path / "run", workers=1, resume=True, quiet=True, on_round=fail)
    assert lines(tmp_path / "run")[-1]["why"] == "interrupted"
    assert not {"error.json", "stop"} & {file.name for file in (tmp_path / "run").iterdir()}
    assert directly(study, tmp_path / "run", resume=True) == directly(study, tmp_path / "whole")


@pytest.mark.flower
@pytest.mark.slow
@pytest.mark.usefixtures("marked")
def test_clients_that_raise_or_hang_cost_their_own_cohort_some_rounds(tmp_path: Path, troubled: str) -> None:
    (tmp_path / "plan").write_text("well raises hangs")
    study = tiny(troubled, "run.rounds=20", "server.timeout=8")
    result = launch.simulate_study(study, tmp_path / "run", workers=2, cohorts=2, quiet=True)
    assert result["why"] == "finished"
    found = [(line["answered"], line["failed"]) for line in lines(tmp_path / "run") if line["kind"] == "round"]
    assert found[:4] == [(40, {}), (39, {"attack": 1}), (20, {"late": 20}), (20, {"silent": 20})]
    assert found[-1] == (40, {})  # the hung process was ended at the time-out and another is in its place
    assert "no luck" in (tmp_path / "run" / "records.jsonl").read_text()


def started(directory: Path, study: Path) -> subprocess.Popen[bytes]:
    """`fedpriv run` in a process of its own, some rounds under way."""
    command = [sys.executable, "-m", "simulations.command_line", "run", str(study), "--out", str(directory),
               "--workers", "1", "--quiet"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not ((directory / "records.jsonl").exists() and len(lines(directory)) > 4):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


@pytest.mark.flower
@pytest.mark.slow
@pytest.mark.parametrize("ended", [signal.SIGINT, signal.SIGKILL], ids=lambda ended: ended.name)
def test_a_run_cut_short_is_whole_and_goes_on_to_the_same_bits(
    ended: signal.Signals, tmp_path: Path, marked: str
) -> None:
    file = tmp_path / "tiny.toml"
    long = tiny("run.rounds=600", "run.checkpoint_every=7")
    file.write_text(study_file.study_text(long))
    process = started(tmp_path / "run", file)
    scratches = {Path(env["RAY_TMPDIR"]) for env in running(marked).values() if "RAY_TMPDIR" in env}
    process.send_signal(ended)
    assert process.wait(30) == (130 if ended == signal.SIGINT else -signal.SIGKILL)
    deadline = time.monotonic() + 10  # killed, its simulation finds out by itself
    while lines(tmp_path / "run")[-1]["kind"] != "end" and time.monotonic() < deadline:
        time.sleep(0.05)
    last = lines(tmp_path / "run")[-1]
    assert last["kind"] == "end"
    assert last["why"] == "interrupted"
    assert [line["round"] for line in lines(tmp_path / "run")[1:-1]] == list(range(1, last["rounds"] + 1))
    assert 3 < last["rounds"] < 600
    while running(marked) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [scratch.exists() for scratch in scratches] == [False]
    assert directly(long, tmp_path / "run", resume=True) == directly(long, tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.flower
@pytest.mark.usefixtures("marked")
def test_flowers_own_command_leaves_the_same_records_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("simulations.flower.command.__file__", str(tmp_path / "simulations" / "installed.py"))
    app = launch.app_directory(tmp_path / "run")  # as it is where fedpriv is installed without its repository
    written = (app / "pyproject.toml").read_bytes()
    result = launch.flower_run(app, tiny(), tmp_path / "run", nodes=2)
    assert result["why"] == "finished"
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == directly(tiny(), tmp_path / "direct")
    assert (app / "pyproject.toml").read_bytes() == written
    assert not home.exists()


def test_the_repository_is_a_flower_app_and_flower_has_nothing_to_rewrite_in_it() -> None:
    import tomllib

    from simulations.flower.command import APP

    repository = Path(__file__).parents[3]
    assert launch.app_directory(Path("unused")) == repository
    flower = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["flwr"]
    assert set(flower) == {"app"}
    ours = tomllib.loads(APP.format(version="1"))["tool"]["flwr"]["app"]
    assert {name: flower["app"][name] for name in ours} == ours


@pytest.mark.flower
@pytest.mark.usefixtures("marked")
def test_what_keeps_ray_from_starting_is_the_error_and_the_log_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ray.py").write_text("print('quite broken', flush=True)\nraise ImportError('no ray here')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(FedprivError, match=r"ImportError: no ray here \(.*error.json and flower.log") as error:
        launch.simulate_study(tiny(), tmp_path / "run", quiet=True)
    assert "\n" not in str(error.value)
    assert "quite broken" in (tmp_path / "run" / "flower.log").read_text()


# --- what it stands on --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("marked")
def test_the_end_of_a_process_is_the_end_of_what_left_its_group() -> None:
    shell = shutil.which("sh") or "/bin/sh"
    words = f"import subprocess, time; subprocess.Popen(['{shell}', '-c', 'sleep 100'], start_new_session=True)"
    process = subprocess.Popen([sys.executable, "-c", f"{words}; print('up', flush=True); time.sleep(100)"],
                               start_new_session=True, stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    end_all(process)
    process.stdout.close()


def test_scratch_has_a_short_name_and_is_gone_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), scratch_directory() as scratch:  # noqa: PT012
        assert len(str(scratch)) < 20  # Ray's sockets live in it, and a socket's name has 107 bytes at most
        raise ZeroDivisionError
    assert not scratch.exists()


def test_a_superlink_that_is_not_there_is_an_error_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text('[superlink.near]\naddress = "127.0.0.1:9"\ninsecure = true\n')
    with pytest.raises(FedprivError, match="Flower did not start the run") as error:
        launch.superlink_run(tiny(), tmp_path / "run", "far", quiet=True)
    assert "\n" not in str(error.value)


def test_the_reason_in_flowers_box_is_told_whole() -> None:
    from simulations.flower._flwr import Shown

    shown = Shown(quiet=True)
    box = ["Loading …", "╭─ Error ──────╮", "│ An error. Connection  │", "│ 'nope' not found.  │", "╰──────────────╯"]
    shown.read(f"{line}\n" for line in box)
    assert shown.reason() == "An error. Connection 'nope' not found."
    plain = Shown(quiet=True)
    plain.read(["something\n", "the last words\n", "\n"])
    assert plain.reason() == "the last words"


def test_a_run_whose_draws_are_secret_ends_on_flower_and_tells_nothing_of_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simulations.command_line", "run", "central", "--set", "run.rounds=2", "--quiet"]
    done = subprocess.run([*command, "--json", "--out", str(tmp_path / "run")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"failed", "rejected", "bytes_up"} & json.loads(done.stdout).keys()
