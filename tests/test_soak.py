"""Runs that die, at each of their writes and at random moments: nothing is lost, all is charged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soak

from fedpriv.records import Writer, record_bytes
from fedpriv.studies import file as study_file
from server import rounds
from server.rounds.driver import Answer, Task
from simulations.flower.surroundings import (
    at_home,
    end_all,
    flower_environment,
    process_began,
    wait_until,
    watched_scratch,
)
from simulations.runs.direct import Here

TESTS = Path(__file__).parent
STUDY = """
name = "dies"
data = { kind = "Synthetic", records = 60, features = 5, classes = 3, held_out = 20 }
clients = { count = 20, records = 2 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 4.0 }
aggregation.kind = "MajorityVote"
run = { rounds = 4, checkpoint_every = 2 }
"""
FILES = ("records.jsonl", "ledger.jsonl", "study.toml")


class Dead(BaseException):
    """What nobody catches."""


class Asked(Here):
    """Notes who was asked, in which round, with which model: a message each."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, bytes]] = []

    def ask(self, task: Task) -> Iterator[Answer]:
        self.asked.append((task.round, task.weights.tobytes()))
        yield from super().ask(task)


@contextmanager
def dying(at: int, patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Die at that write or rename: before it, half way through a line, or after it. From then on nothing is written."""
    counted, place = [0], os.replace

    def step(half: Callable[[], Any], act: Callable[[], Any]) -> None:
        if counted[0] > at:
            raise Dead
        for way in (lambda: None, half, act):
            counted[0] += 1
            if counted[0] > at:
                way()
                raise Dead
        act()

    def append(own: Writer, line: Any, durable: bool = False) -> None:
        content = record_bytes(line)
        step(lambda: put(own, content[: len(content) // 2]), lambda: put(own, content))

    def put(own: Writer, content: bytes) -> None:
        own._file.write(content)
        own._file.flush()

    with patch.context() as within:
        within.setattr(Writer, "append", append)
        within.setattr("os.replace", lambda *names: step(lambda: None, lambda: place(*names)))
        yield counted


def whole(directory: Path, driver: Here | None = None, resume: bool = False) -> dict[str, Any]:
    return rounds.run_rounds(study_file.parsed_study(STUDY), directory, driver or Here(), resume=resume, quiet=True)


def test_a_run_that_dies_at_any_of_its_writes_goes_on_to_the_same_bytes_and_all_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole(tmp_path / "whole")
    at = 0
    while True:
        place, driver = tmp_path / str(at), Asked()
        with dying(at, monkeypatch) as counted:
            try:
                whole(place, driver)
            except Dead:
                pass
            else:
                break  # it has no so many
        assert counted[0] == at + 1
        charged = [line for line in _lines(place / "ledger.jsonl") if '"round"' in line]
        assert len(charged) >= len({round for round, _ in driver.asked})
        again = Asked()
        assert whole(place, again, resume=(place / "study.toml").exists())["why"] == "finished"
        for name in FILES:
            assert (place / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), (at, name)
        with np.load(place / "checkpoint.npz") as a, np.load(tmp_path / "whole" / "checkpoint.npz") as b:
            assert all(np.array_equal(a[name], b[name]) for name in b)
        assert {path.name for path in place.iterdir()} == {path.name for path in (tmp_path / "whole").iterdir()}
        assert len(set(driver.asked + again.asked)) == 4  # the same question for the same round: the same bits
        at += 1
    assert at > 60


def _lines(file: Path) -> list[str]:
    return file.read_text().split("\n")[:-1] if file.exists() else []


def test_what_luck_had_a_part_in_is_never_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that was lost in round 1 and there the second time would sign two models with the same noise."""

    class Unlucky(Asked):
        def ask(self, task: Task) -> Iterator[Answer]:
            if task.round == 2:
                raise Dead
            self.asked.append((task.round, task.weights.tobytes()))
            kept = Task(task.round, task.weights, task.clients[1:], task.study, task.timeout)
            yield from Here.ask(self, kept)
            yield Answer(task.clients[:1], None, "lost: its worker")

    first, second = Unlucky(), Asked()
    with monkeypatch.context() as killed:
        killed.setattr(rounds.Rounds, "end", lambda *_: None)  # which a kill leaves no time for
        with pytest.raises(Dead):
            whole(tmp_path, first)
    whole(tmp_path, second, resume=True)
    assert not {round for round, _ in first.asked} & {round for round, _ in second.asked}


def test_what_is_at_home_in_a_killed_process_scratch_is_ended_whoever_its_parent_is_and_nothing_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "scratch" / "empty").mkdir(parents=True)
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    begun = f"import subprocess; print(subprocess.Popen({sleeps}, stdout=-3, stderr=-3).pid, flush=True)"
    with (tmp_path / "scratch" / "out").open("w") as out:
        children = [subprocess.Popen(sleeps, stdout=out), subprocess.Popen(sleeps, cwd=tmp_path)]
    watch = watched_scratch(tmp_path / "scratch")
    try:
        printed = subprocess.run([sys.executable, "-c", begun], cwd=tmp_path / "scratch" / "empty", capture_output=True)
        orphan = int(printed.stdout)
        assert sorted(at_home(tmp_path / "scratch")) == sorted([orphan, children[0].pid])
        assert watch.stdin is not None
        watch.stdin.close()  # as the end of this process would
        assert children[0].wait(60) == -9
        assert watch.wait(60) == 0
        assert not process_began(orphan)
        assert not (tmp_path / "scratch").exists()
        assert children[1].poll() is None
    finally:
        for child in children:
            child.kill()
        end_all(watch)


STARTING = """
import os, time
from simulations.flower import surroundings

begin = surroundings.init_ray

def told(workers):
    print(os.getcwd(), flush=True)
    begin(workers)

surroundings.init_ray = told
surroundings.start_ray(1)
time.sleep(600)  # Ray may have started before its agents have the titles that are waited for
"""


@pytest.mark.flower
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="only /proc says where a process is at home")
def test_a_kill_while_ray_starts_leaves_nothing_running_and_no_files(tmp_path: Path) -> None:
    """Ray's agents notice within minutes, and their titles have taken the place of whatever marked them."""
    words = [sys.executable, "-c", STARTING]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, env=flower_environment(tmp_path), text=True
    ) as process:
        assert process.stdout is not None
        scratch = Path(process.stdout.readline().strip()).parent
        assert wait_until(lambda: any("ray::" in _command(pid) for pid in at_home(scratch)), 60)
        process.kill()
    assert wait_until(lambda: not at_home(scratch) and not scratch.exists(), 20)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_a_message_that_died_with_its_worker_is_no_second_release_and_one_of_another_start_is() -> None:
    first, same, died, again = "1 7 111 a", "1 7 111 b", "1 7 222 a", "1 7 222 b"
    for lines, count in (([first], 1), ([first, same], 1), ([first, died], 1), ([first, again], 2)):
        assert soak.releases(lines) == {7: count}
    assert soak.releases([first, "2 7 111 a", "1 8 111 a"]) == {7: 2, 8: 1}


@pytest.mark.slow
def test_three_random_kills_lose_nothing(tmp_path: Path) -> None:
    own = ["--only", "direct", "--kills", "3", "--keep", str(tmp_path / "k")]
    command = [sys.executable, str(TESTS / "soak.py"), *own]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "3 kills, 0 faults"
