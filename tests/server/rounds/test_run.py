"""Whole runs by the direct driver: the same bits however they are divided or stopped; nothing bad sinks them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedpriv import records
from fedpriv._base.files import replace_file
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from server import rounds
from server.directory import KEPT, kept_alone
from server.progress import result_table
from server.rounds.driver import Answer, Task
from simulations.flower import launch
from simulations.runs.direct import Here, OnRay

FEW = ["clients.count=60", "privacy.epsilon=20.0", "run.rounds=4"]
FAULTS = str(Path(__file__).parents[2])


def run(directory: Path, *overrides: str, cohorts: int = 1, driver: Any = None, resume: bool = False) -> dict[str, Any]:
    study = study_file.read_study("digits", [*FEW, *overrides])
    return rounds.run_rounds(study, directory, driver or Here(cohorts), resume=resume, quiet=True)


def content(directory: Path) -> bytes:
    return (directory / "records.jsonl").read_bytes()


def weights(directory: Path) -> np.ndarray:
    with np.load(directory / "checkpoint.npz") as file:
        return np.array(file["weights"])


def command(directory: Path, *arguments: str) -> list[str]:
    del directory
    return [sys.executable, "-m", "simulations.command_line", "run", *arguments]


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([FAULTS, str(Path(FAULTS).parent)])}
LOCAL = ["privacy.trust=local", "privacy.epsilon=2000.0"]
KINDS = {
    "sums under secure aggregation": [],
    "votes": ["aggregation.kind=MajorityVote", "server.step=0.01", "privacy.mechanism.trials=1"],
    "rows": [*LOCAL, 'aggregation={kind="TrimmedMean", dropped=5}'],
    "medians of local steps": [*LOCAL, "aggregation.kind=Median", "clients.records=10", "training.batch=3",
                               "training.local_steps=3"],
    "floats": ["privacy.trust=local", "privacy.mechanism={kind='Plain', clip=1.0}", "aggregation.kind=Mean"],
    "a network": ["training.model={kind='Mlp', hidden=[16]}", "clients.participation={kind='Fixed', number=40}"],
    "poison": ["attack.kind=OutputPoisoning"],
    "Dirichlet clients": ["clients.records=20", "clients.split={kind='Dirichlet', alpha=0.1}"],
    "local steps of uneven clients": [*LOCAL, "clients.records=10", "training.batch=6", "training.local_steps=3",
                                      "clients.split={kind='LogNormalSizes', deviation=1.0}",
                                      "training.model={kind='Mlp', hidden=[16]}"],
    "uneven clients of a module": [*LOCAL, "clients.records=10", "clients.split={kind='PowerSizes', exponent=1.0}",
                                   "training.model={kind='Cnn'}"],
}  # fmt: skip


def overrides(name: str) -> list[str]:
    plain = any("Plain" in each for each in KINDS[name])
    return [each for each in [*FEW, *KINDS[name]] if not (plain and "epsilon" in each)]


@pytest.mark.parametrize("name", KINDS)
def test_records_are_the_same_bytes_for_any_division_into_cohorts(name: str, tmp_path: Path) -> None:
    chosen = overrides(name)
    if name == "floats":  # nothing is promised, so nothing is calibrated
        text = study_file.study_text(study_file.read_study("digits")).replace("epsilon = 4.0\n", "")
        study = study_file.parsed_study(text, overrides=chosen)
    else:
        study = study_file.read_study("digits", chosen)
    for cohorts in (1, 2, 5):
        result = rounds.run_rounds(study, tmp_path / str(cohorts), Here(cohorts), quiet=True)
    assert content(tmp_path / "1") == content(tmp_path / "2") == content(tmp_path / "5")
    assert (weights(tmp_path / "1") == weights(tmp_path / "5")).all()
    assert result["failed"] == result["rejected"] == {}
    assert result["skipped"] == 0


@pytest.mark.slow
@pytest.mark.flower
def test_records_are_the_same_bytes_in_two_worker_processes(tmp_path: Path) -> None:
    everything_known = [*LOCAL, 'attack={kind="MinMax", knowledge="everything"}']
    run(tmp_path / "here", *everything_known)
    driver = OnRay(2, 3)
    try:
        run(tmp_path / "ray", *everything_known, driver=driver)
    finally:
        driver.close()
    assert content(tmp_path / "here") == content(tmp_path / "ray")


def test_the_shipped_study_learns_and_says_what_it_cost(tmp_path: Path) -> None:
    study = study_file.read_study("digits", ["run.evaluate_every=40"])
    result = rounds.run_rounds(study, tmp_path, Here(), quiet=True)
    assert result["accuracy"] > 0.88
    assert f"{records.read_records(tmp_path / 'records.jsonl').header['bits']['masked']:.0f} masked bits" in study.about
    assert 3.3 < result["epsilon"]["lower"] < result["epsilon"]["upper"] <= 4
    assert result["bytes_up"] == 40 * 1437 * result["client_bytes"]
    assert result["client_bytes"] < 1200  # 13 masked bits a coordinate; float32 would take 2,600
    assert json.loads((tmp_path / "result.json").read_text())["accuracy"] == result["accuracy"]


# Stopped and resumed


def test_a_model_that_no_round_moves_is_said_to_stand_still(tmp_path: Path) -> None:
    """A median of symmetric votes is the middle one, whatever most clients lean to: it costs its ε and does nothing."""
    still = run(tmp_path / "still", "privacy.trust=local", "aggregation.kind=Median", "clients.count=900")
    assert still["still"] == 4
    assert "the model did not move" in result_table(still)
    assert "still" not in run(tmp_path / "moving")


@pytest.mark.slow
def test_a_run_killed_at_any_moment_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    chosen = [f"--set={each}" for each in [*FEW, "run.rounds=60", "run.checkpoint_every=7", "run.evaluate_every=10"]]
    run(tmp_path / "whole", "run.rounds=60", "run.checkpoint_every=7", "run.evaluate_every=10")
    cut = tmp_path / "cut"
    for wanted in (5, 30):
        arguments = ["--resume", str(cut)] if cut.exists() else ["digits", *chosen, "--out", str(cut)]
        process = subprocess.Popen(
            command(cut, *arguments, "--driver", "direct", "--quiet"), env=ENVIRONMENT, stderr=subprocess.PIPE
        )
        while process.poll() is None and lines(cut) < wanted:
            time.sleep(0.005)
        process.kill()
        process.wait()
        assert lines(cut) < 60, "it was over before it was killed"
    result = rounds.run_rounds(study_file.read_study(str(cut / "study.toml")), cut, Here(), resume=True, quiet=True)
    assert content(cut) == content(tmp_path / "whole")
    assert (weights(cut) == weights(tmp_path / "whole")).all()
    assert result["why"] == "finished"


def lines(directory: Path) -> int:
    try:
        return content(directory).count(b"\n")
    except OSError:
        return 0


def test_ctrl_c_leaves_whole_records_and_ends_with_130(tmp_path: Path) -> None:
    chosen = [f"--set={each}" for each in [*FEW, "run.rounds=2000", "run.evaluate_every=100"]]
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(out, "digits", *chosen, "--out", str(out), "--driver", "direct"),
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
    )
    while process.poll() is None and lines(out) < 20:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error.decode()
    found = records.read_records(out / "records.jsonl")
    assert found.end is not None
    assert found.end["why"] == "interrupted"
    assert found.end["rounds"] == len(found.rounds) >= 18
    with np.load(out / "checkpoint.npz") as file:
        assert int(file["round"]) == len(found.rounds)


def test_a_directory_is_one_runs_at_a_time(tmp_path: Path) -> None:
    class Greedy(Here):
        """In each round, somebody else wants the directory."""

        def ask(self, task: Task) -> Iterator[Answer]:
            for resume in (True, False):
                with pytest.raises(FedprivError, match="run: is at work in another process"):
                    run(tmp_path / "run", resume=resume)
            with pytest.raises(FedprivError, match="run: is at work in another process"):
                launch.simulate_study(study_file.read_study("digits"), tmp_path / "run")
            return super().ask(task)

    run(tmp_path / "whole")
    run(tmp_path / "run", driver=Greedy())
    assert content(tmp_path / "run") == content(tmp_path / "whole")
    assert not {"error.json", "stop", "flower.log"} & {path.name for path in (tmp_path / "run").iterdir()}
    assert run(tmp_path / "run", resume=True)["why"] == "finished"


def test_a_directory_stays_its_runs_where_only_the_process_is_left_that_was_handed_it(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from server.directory import kept_alone
with kept_alone(Path({str(tmp_path)!r})):
    print("kept", flush=True)
    sys.stdin.read()
"""
    with kept_alone(tmp_path) as lock:
        child = subprocess.Popen(
            [sys.executable, "-c", program], env={**ENVIRONMENT, KEPT: str(lock)}, pass_fds=[lock],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == b"kept\n"
    with pytest.raises(FedprivError, match="is at work in another process"), kept_alone(tmp_path):
        pass
    child.communicate()
    with kept_alone(tmp_path):
        pass


def test_a_study_edited_in_the_runs_directory_is_not_gone_on_with(tmp_path: Path) -> None:
    run(tmp_path)
    file = tmp_path / "study.toml"
    whole = file.read_text()

    def resumed(text: str) -> dict[str, Any]:
        file.write_text(text)
        return rounds.run_rounds(study_file.read_study(str(file)), tmp_path, Here(), resume=True, quiet=True)

    with pytest.raises(
        FedprivError, match=r"study.toml is not the study of the records beside it \(what differs: seed\)"
    ):
        resumed(whole.replace("seed = 1", "seed = 2"))
    with pytest.raises(FedprivError, match=r"not the study of the records .* \(in what the records do not show\)"):
        resumed(whole.replace("step = 6.4", "step = 3.0"))
    assert resumed("# a remark\n" + whole)["why"] == "finished"


def test_a_checkpoint_cut_short_can_be_given_up(tmp_path: Path) -> None:
    run(tmp_path)
    before, checkpoint = content(tmp_path), tmp_path / "checkpoint.npz"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with pytest.raises(FedprivError, match=r"damaged checkpoint .*: remove it, and --resume begins again at round 1"):
        run(tmp_path, resume=True)
    checkpoint.unlink()
    run(tmp_path, resume=True)
    assert content(tmp_path) == before


def test_resuming_with_a_changed_study_is_refused_and_shows_the_difference(tmp_path: Path) -> None:
    run(tmp_path / "run")
    with pytest.raises(FedprivError, match=r"holds another study than is asked for: .*step = 6.4.*step = 3.0"):
        run(tmp_path / "run", "server.step=3.0", resume=True)
    with pytest.raises(FedprivError, match="holds no run to go on with"):
        run(tmp_path / "nothing", resume=True)
    with pytest.raises(FedprivError, match="holds a run already"):
        run(tmp_path / "run")


def test_the_ledger_remembers_a_round_that_was_asked_but_never_recorded(tmp_path: Path) -> None:
    class Stops(Here):
        def ask(self, task: Task) -> Iterator[Answer]:
            if task.round == 3:
                raise KeyboardInterrupt
            return super().ask(task)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", driver=Stops())
    found = records.read_records(tmp_path / "run" / "records.jsonl")
    assert len(found.rounds) == 2
    assert found.end is not None
    assert found.end["releases_of_worst"] == 3


def test_noise_that_cannot_be_drawn_again_is_charged_again(tmp_path: Path) -> None:
    class Stops(Here):
        def ask(self, task: Task) -> Iterator[Answer]:
            if task.round == 3:
                raise KeyboardInterrupt
            return super().ask(task)

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", "privacy.noise=cryptographic", driver=Stops(), resume=(tmp_path / "run").exists())
    found = records.read_records(tmp_path / "run" / "records.jsonl")
    assert found.end is not None
    assert found.end["releases_of_worst"] == 4


def test_a_full_disk_leaves_the_old_checkpoint_whole(tmp_path: Path) -> None:
    program = f"""
import resource, sys
from pathlib import Path
from fedpriv.studies import file as study_file
from server import rounds
from simulations.runs.direct import Here
class Full(Here):
    def ask(self, task):
        if task.round == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        return super().ask(task)
rounds.run_rounds(study_file.read_study("digits", {FEW!r}), Path({str(tmp_path / "run")!r}), Full(), quiet=True)
"""
    done = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True)
    assert "checkpoint.npz: cannot be written (File too large); the last one is whole" in done.stderr
    with np.load(tmp_path / "run" / "checkpoint.npz") as file:
        assert int(file["round"]) == 2
    run(tmp_path / "whole")
    run(tmp_path / "run", resume=True)
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_ctrl_c_just_after_a_file_was_put_in_its_place_stays_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = os.replace

    def interrupted(source: str, target: str) -> None:
        put(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"new")]


def test_a_run_stops_at_its_budget(tmp_path: Path) -> None:
    result = run(tmp_path, "privacy.budget=12.0", "run.rounds=4")
    assert result["why"] == "budget"
    assert 0 < result["rounds"] < 4
    assert result["epsilon"]["upper"] <= 12


LOST = """
name = "lost"
data = { kind = "Synthetic", records = 260, features = 5, classes = 3, held_out = 60 }
clients = { count = 20, records = 10 }
privacy.mechanism = { kind = "Gaussian", clip = 1.0, noise = 20.0 }
privacy.budget = 0.66
privacy.noise = "NOISE"
server = { retries = 4, fewest = 20 }
run.rounds = 6
"""


class Losing(Here):
    """Loses one client's answers, until it has lost so many."""

    def __init__(self, times: int) -> None:
        super().__init__(20)
        self.times = times

    def ask(self, task: Task) -> Iterator[Answer]:
        for answer in super().ask(task):
            lost = self.times > 0 and 3 in answer.asked
            self.times -= lost
            yield Answer(answer.asked, None, "no answer") if lost else answer


@pytest.mark.parametrize("noise", ["cryptographic", "seeded"])
@pytest.mark.parametrize("times", [1, 3, 1000])
def test_a_retry_is_asked_only_where_the_budget_pays_for_it(tmp_path: Path, noise: str, times: int) -> None:
    study = study_file.parsed_study(LOST.replace("NOISE", noise))
    result = rounds.run_rounds(study, tmp_path, Losing(times), quiet=True)
    assert 0 < result["epsilon"]["upper"] <= 0.66
    assert result["why"] == "budget"
    lines = records.read_records(tmp_path / "records.jsonl").rounds
    skipped = [line["skipped"] for line in lines if line["skipped"]]
    assert set(skipped) <= {"19 answers, 20 needed"}
    assert bool(skipped) == (times == 1000 or (noise == "cryptographic" and times == 3))


def test_a_round_that_a_crash_left_charged_is_not_drawn_again_past_the_budget(tmp_path: Path) -> None:
    class Killed(Here):
        def ask(self, task: Task) -> Iterator[Answer]:
            raise KeyboardInterrupt

    study = study_file.parsed_study(LOST.replace("NOISE", "cryptographic"))
    for resume in range(5):
        try:
            result = rounds.run_rounds(study, tmp_path, Killed(), quiet=True, resume=bool(resume))
        except KeyboardInterrupt:
            continue
        assert result["why"] == "budget"
    assert json.loads((tmp_path / "result.json").read_text())["epsilon"]["upper"] <= 0.66


# Bad luck and bad messages


@pytest.fixture(autouse=True)
def _faults_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FAULTS)


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ('{kind="faults:Forged", how="truncated"}', "truncated"),
        ('{kind="faults:Forged", how="empty"}', "truncated"),
        ('{kind="faults:Forged", how="huge"}', "oversized"),
        ('{kind="faults:Forged", how="flipped"}', "checksum"),
        ('{kind="faults:Forged", how="noise"}', None),
        ('{kind="faults:Forged", how="twice"}', "oversized"),
        ('{kind="faults:WrongSymbols"}', "alphabet"),
    ],
)
@pytest.mark.parametrize("trust", ["secure-aggregation", "local"])
def test_a_forged_message_is_rejected_counted_and_survived(
    attack: str, reason: str | None, trust: str, tmp_path: Path
) -> None:
    chosen = [f"attack={attack}", f"privacy.trust={trust}", "server.fewest=50"]
    result = run(tmp_path, *chosen, "privacy.epsilon=2000.0")
    assert sum(result["rejected"].values()) == 6 * 4
    assert reason is None or set(result["rejected"]) == {reason}
    assert result["skipped"] == 0


def test_a_message_of_another_round_is_rejected(tmp_path: Path) -> None:
    result = run(tmp_path, 'attack={kind="faults:Replayed"}', "server.fewest=50")
    assert set(result["rejected"]) <= {"round", "sender", "duplicate"}
    assert result["rejected"]["round"] >= 3 * 6


def test_an_update_that_is_not_finite_fails_its_client_alone(tmp_path: Path) -> None:
    result = run(tmp_path, 'attack={kind="faults:NotANumber"}', "server.fewest=50")
    assert result["failed"] == {"not finite": 6 * 4}
    assert result["skipped"] == 0


def test_an_attacker_that_ends_the_program_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quits.py").write_text("class Quits:\n    def on_updates(self, *_): raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = run(tmp_path / "run", "attack.kind=quits:Quits", "server.fewest=50")
    assert result["failed"] == {"attack": 6 * 4}
    assert result["why"] == "finished"


def test_a_client_that_was_late_is_not_silent_in_the_same_round(tmp_path: Path) -> None:
    class Late(Here):
        """As Flower's nodes: who is late is not asked when the round is asked again."""

        asked = 0

        def ask(self, task: Task) -> Iterator[Answer]:
            self.asked += 1
            yield Answer(task.clients, None, "late: no answer within 9 s" if self.asked % 2 else "silent: it was late")

    assert run(tmp_path, driver=Late())["failed"] == {"late": 60 * 4}


def test_a_step_past_float32_is_not_taken(tmp_path: Path) -> None:
    run(tmp_path, "server.step=1e60")
    reasons = {line["skipped"] for line in records.read_records(tmp_path / "records.jsonl").rounds}
    assert reasons == {"the step leads to weights that float32 cannot hold: server.step is too large"}


def test_an_attacker_that_raises_fails_alone_however_clients_are_divided(tmp_path: Path) -> None:
    chosen = ["attack.kind=faults:RaisesForOdd", "clients.byzantine=30", "server.fewest=35"]
    results = [run(tmp_path / str(cohorts), *chosen, cohorts=cohorts) for cohorts in (1, 7)]
    assert content(tmp_path / "1") == content(tmp_path / "7")
    assert 0 < results[0]["failed"]["attack"] < 4 * 30


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_a_ledger_that_was_cut_is_not_gone_on_with(keep: int, tmp_path: Path) -> None:
    run(tmp_path, "run.rounds=4")
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:keep]))
    with pytest.raises(FedprivError, match=r"ledger.jsonl: lacks round \d, which was asked"):
        run(tmp_path, "run.rounds=4", resume=True)


def test_records_that_are_missing_are_found_before_anybody_is_asked(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "records.jsonl").unlink()
    with pytest.raises(FedprivError, match=r"records.jsonl: is missing"):
        run(tmp_path, resume=True)


def test_a_client_that_raises_is_counted_and_the_others_go_on(tmp_path: Path) -> None:
    model = 'training.model={kind="Module", path="faults:RaisesOnSome"}'
    result = run(tmp_path, model, "server.fewest=20")
    failed = sum(result["failed"].values())
    assert 0 < failed < 4 * 40
    assert result["skipped"] == 0
    note = records.read_records(tmp_path / "records.jsonl").rounds[0]["note"]
    assert "this record cannot be read" in note


def test_rounds_without_answers_are_skipped_and_the_run_ends_well(tmp_path: Path) -> None:
    model = 'training.model={kind="Module", path="faults:RaisesOnSome", settings={least=1e9}}'
    result = run(tmp_path, model)
    assert result["skipped"] == result["rounds"] == 4
    assert result["why"] == "no round counted"
    assert run(tmp_path, model, resume=True)["why"] == "no round counted"
    assert result["bytes_up"] == 0
    assert result["epsilon"]["upper"] > 0  # they were asked: nothing is refunded


def test_a_round_that_asks_nobody_is_skipped(tmp_path: Path) -> None:
    chosen = ["clients.participation={kind='Poisson', rate=0.01}", "privacy.trust=local", "privacy.epsilon=2000.0"]
    result = run(tmp_path, *chosen, "run.rounds=8")
    found = records.read_records(tmp_path / "records.jsonl")
    assert 0 < result["skipped"] < 8
    assert {line["skipped"] for line in found.rounds if line["asked"] == 0} == {"0 answers, 1 needed"}


def test_a_node_that_answers_for_others_is_rejected(tmp_path: Path) -> None:
    class Crossed(Here):
        """Two nodes, each with the other's reply."""

        def ask(self, task: Task) -> Iterator[Answer]:
            first, second = list(super().ask(task))
            yield Answer(first.asked, second.content)
            yield Answer(second.asked, first.content)

    result = run(tmp_path, driver=Crossed(2))
    assert result["rejected"] == {"sender": 4 * 2 * 2}
    assert result["skipped"] == 4


def test_an_answer_given_twice_counts_once(tmp_path: Path) -> None:
    class Twice(Here):
        def ask(self, task: Task) -> Iterator[Answer]:
            for answer in super().ask(task):
                yield answer
                yield answer

    run(tmp_path / "once")
    result = run(tmp_path / "twice", driver=Twice())
    assert result["rejected"] == {"duplicate": 4}
    assert (weights(tmp_path / "once") == weights(tmp_path / "twice")).all()


def test_answers_in_any_order_give_the_same_bytes(tmp_path: Path) -> None:
    class Backwards(Here):
        def ask(self, task: Task) -> Iterator[Answer]:
            return iter(list(super().ask(task))[::-1])

    chosen = [*LOCAL, "aggregation.kind=Median"]
    run(tmp_path / "one", *chosen)
    run(tmp_path / "other", *chosen, driver=Backwards(4))
    assert content(tmp_path / "one") == content(tmp_path / "other")


def test_a_round_with_too_few_is_asked_again(tmp_path: Path) -> None:
    class Flaky(Here):
        """Every second time, the second half is lost."""

        calls = 0

        def ask(self, task: Task) -> Iterator[Answer]:
            for place, answer in enumerate(super().ask(task)):
                lost = self.calls % 2 == 0 and place == 1
                yield Answer(answer.asked, None, "lost: the network") if lost else answer
            self.calls += 1

    run(tmp_path / "well")
    result = run(tmp_path / "flaky", driver=Flaky(2))
    assert result["skipped"] == 0
    assert content(tmp_path / "flaky") == content(tmp_path / "well")
