"""The grid of a study, and its cells side by side: checked before anything runs, stopped, broken and gone on with."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedpriv import records
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from server import rounds
from simulations.command_line import main
from simulations.flower.surroundings import start_ray
from simulations.runs.direct import Here
from simulations.sweep.directory import check_sweep_directory, opened_sweep
from simulations.sweep.grid import Grid, grid_of
from simulations.sweep.progress import SweepProgress

STUDY = """
about = "a small grid"
data = { kind = "Synthetic", records = 200, features = 5, classes = 3, held_out = 50 }
clients = { count = 20, records = 10, byzantine = 4 }
attack = { kind = "SignFlip" }
server = { step = 0.5 }
run = { rounds = 6, checkpoint_every = 2 }
[privacy.mechanism]
kind = "Binomial"
clip = 1.0
trials = 4
scale = 3.0
[sweep]
run.seed = [1, 2]
aggregation = [{ kind = "Mean" }, { kind = "TrimmedMean", dropped = 4 }]
attack = [{ kind = "SignFlip" }, { kind = "OutputPoisoning", label = "poison" }]
"""
TRAPS = """
import os, signal
from pathlib import Path
from torch import nn

class Trap(nn.Module):
    def __init__(self, file=""):
        super().__init__()
        self.file, self.linear = Path(file), nn.Linear(5, 3)

    def forward(self, x):
        if self.file.is_file() and not self.training and len(x) > 2:  # two are how a model is tried
            deaths = int(self.file.read_text())
            if not deaths:
                raise RuntimeError("caught in the trap")
            self.file.write_text(str(deaths - 1)) if deaths > 1 else self.file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.linear(x.flatten(1))
"""
TRAPPED = """
[sweep]
training.model = [
  { kind = "Logistic" },
  { kind = "Module", path = "traps:Trap", settings = { file = "raises" }, label = "raises" },
  { kind = "Module", path = "traps:Trap", settings = { file = "dies-once" }, label = "dies once" },
  { kind = "Module", path = "traps:Trap", settings = { file = "dies" }, label = "dies" },
]
"""


def grid(sweep: str, base: str = STUDY, *overrides: str) -> Grid:
    return grid_of(base.partition("[sweep]")[0] + "[sweep]\n" + sweep, overrides)


def titles(found: Grid) -> list[str]:
    return [cell.title for cell in found.cells]


# The grid


def test_a_grid_is_every_combination_one_seed_after_the_other() -> None:
    assert titles(grid_of(STUDY)) == [
        f"aggregation = {rule}, attack = {attack}, run.seed = {seed}"
        for seed in (1, 2)
        for rule in ("Mean", "TrimmedMean dropped=4")
        for attack in ("SignFlip", "poison")
    ]


def test_a_cell_is_the_study_with_its_settings_and_bears_its_id() -> None:
    cell = grid_of(STUDY).cells[-1]
    content = STUDY.partition("[sweep]")[0]
    wanted = ["run.seed=2", 'attack={kind="OutputPoisoning"}', 'aggregation={kind="TrimmedMean", dropped=4}']
    study = study_file.parsed_study(content, overrides=wanted)
    assert cell.study == study
    assert cell.id == study.id.hex()


def test_paths_may_be_written_as_one_word_or_as_nested_tables() -> None:
    ways = ['"run.seed" = [1, 2]', "run.seed = [1, 2]", "[sweep.run]\nseed = [1, 2]"]
    assert len({tuple(cell.id for cell in grid(way).cells) for way in ways}) == 1


def test_a_table_with_a_kind_says_all_and_one_without_changes_what_it_names() -> None:
    found = grid('attack = [{kind = "RandomNoise"}]\nclients = [{byzantine = 2}, {byzantine = 3, count = 19}]')
    assert not any("factor" in cell.study.attack.settings for cell in found.cells if cell.study.attack)
    assert [(own.count, own.byzantine, own.records) for own in (cell.study.clients for cell in found.cells)] == [
        (20, 2, 10), (19, 3, 10),
    ]  # fmt: skip


def test_settings_that_change_together_stand_under_a_name_of_their_own() -> None:
    found = grid("""defence = [
      { label = "sums", "privacy.trust" = "secure-aggregation", aggregation = { kind = "Mean" } },
      { label = "rows", privacy.trust = "local", aggregation = { kind = "Median" } },
    ]""")
    assert titles(found) == ["defence = sums, run.seed = 1", "defence = rows, run.seed = 1"]
    assert [(cell.study.privacy.trust, cell.study.aggregation.kind) for cell in found.cells] == [
        ("secure-aggregation", "Mean"), ("local", "Median"),
    ]  # fmt: skip
    assert found.cells[0].study.privacy.mechanism.kind == "Binomial"


def test_a_table_comes_before_the_settings_in_it_whatever_their_order() -> None:
    found = grid('"attack.factor" = [1.0, 2.0]\nattack = [{kind = "SignFlip"}]')
    assert [cell.study.attack.settings["factor"] for cell in found.cells if cell.study.attack] == [1.0, 2.0]


def test_set_changes_all_cells_or_the_grid() -> None:
    found = grid_of(STUDY, ["run.rounds=2", "sweep.run.seed=[7]", "sweep.privacy.mechanism.scale=[3.0, 4.0]"])
    assert len(found.cells) == 8
    assert {cell.study.run.seed for cell in found.cells} == {7}
    assert {cell.study.run.rounds for cell in found.cells} == {2}


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ("", "has no [sweep] table"),
        ("run.seed = 3", "sweep: run.seed must be a list of values, got 3"),
        ("run.seed = []", "sweep: run.seed has no value: an empty list spans nothing"),
        ("run.seed = [1, 2, 1]", "sweep: run.seed has the value 1 twice"),
        ("run.seed = [1, 1.0]", "sweep: run.seed has the value 1.0 twice"),
        ('attack = [{kind = "Zero"}, {kind = "Zero"}]', "sweep: attack has the value Zero twice"),
        ('attack = [{kind = "Zero"}, {kind = "SignFlip", label = "Zero"}]', "sweep: attack has the value Zero twice"),
        ('attack = [{kind = "Zero", label = 3}]', "sweep: attack: label must be a word, got 3"),
        ('atack = [{kind = "Zero"}]', "sweep: atack is no setting (did you mean 'attack'?)"),
        ("runs.seed = [1, 2]", "sweep: runs.seed is no setting (did you mean 'run'?)"),
        (
            "defence = [3]",
            "sweep: defence is no setting; under a name of its own stand tables of dotted settings, got 3",
        ),
        ("attack = [{label = 'a'}]", "sweep: attack has a value that says nothing: {'label': 'a'}"),
        ('x = [{"run.seed" = 2}]\nrun.seed = [1]', "sweep: x and run.seed both set run.seed"),
        ("run.sed = [1, 2]", "cell run.sed = 1 (and 1 more): run has no key 'sed' (did you mean 'seed'?)"),
        ("x = [{label = 'a', runn.seed = 2}]", "cell x = a: the study has no table 'runn' (did you mean 'run'?)"),
        ("run.rounds = [1, 0, 2, -1]", "cell run.rounds = 0: run: rounds must be at least 1, got 0\nstudy: cell run.r"),
        ("clients.byzantine = [4, 20]", "cell clients.byzantine = 20: clients: byzantine leaves no honest client"),
        ('attack = ["SignFlip"]', "cell attack = SignFlip: attack must be a table, got 'SignFlip'"),
        (
            "x = [{label = 'a', run.rounds = 6}, {label = 'b', run.seed = 1}]",
            "two cells are the same study: x = a, run",
        ),
    ],
)
def test_a_bad_grid_is_refused_and_the_cell_named(sweep: str, message: str) -> None:
    with pytest.raises(FedprivError) as refused:
        grid(sweep) if sweep else grid_of(STUDY.partition("[sweep]")[0])
    assert f"study: {message}" in str(refused.value)


FORBIDDEN = """
aggregation = [{ kind = "Mean" }, { kind = "Median" }]
privacy.trust = ["local", "secure-aggregation"]
"""


def test_combinations_that_cannot_be_are_refused_or_by_the_word_skip_left_out() -> None:
    with pytest.raises(FedprivError, match=r"cell aggregation = Median, privacy.trust = secure-aggregation: aggregat"):
        grid(FORBIDDEN)
    found = grid(f'impossible = "skip"\n{FORBIDDEN}')
    assert len(found.cells) == 3
    assert found.skipped == 1
    assert [axis.path for axis in found.axes] == ["aggregation", "privacy.trust"]


def test_a_value_that_no_cell_can_have_is_refused_even_where_cells_are_left_out() -> None:
    with pytest.raises(
        FedprivError, match=r"no cell is possible with aggregation = Medain: unknown rule 'Medain' \(did"
    ):
        grid(f'impossible = "skip"\n{FORBIDDEN}'.replace("Median", "Medain"))
    with pytest.raises(FedprivError, match=r"no cell is possible with run.seed = 1.5: run.seed must be a whole number"):
        grid('impossible = "skip"\n"run.seed" = [1, 1.5]')
    with pytest.raises(FedprivError, match=r"cell privacy.delta = 0.1, run.sed = 1: run has no key 'sed'"):
        grid('impossible = "skip"\n"privacy.delta" = [0.1]\n"run.sed" = [1]')
    with pytest.raises(FedprivError, match=r"sweep: impossible can be 'skip' or be left out, got 'ignore'"):
        grid(f'impossible = "ignore"\n{FORBIDDEN}')


def test_what_the_grid_sets_cannot_be_set_beside_it() -> None:
    for override in ("run.seed=3", "attack.kind=Zero", "attack.factor=3"):
        with pytest.raises(FedprivError, match=r"the grid sets it; --set 'sweep\.(run\.seed|attack)=\[…\]' changes"):
            grid_of(STUDY, [override])


def test_run_refuses_a_grid_and_says_what_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "grid.toml").write_text(STUDY)
    assert main(["run", str(tmp_path / "grid.toml"), "--out", str(tmp_path / "out")]) == 2
    told = f"grid.toml: its [sweep] table makes it many studies: fedpriv sweep {tmp_path / 'grid.toml'} runs them"
    assert told in capsys.readouterr().err
    assert main(["run", "quick", "--dry-run"]) == 2
    assert "fedpriv sweep quick runs them" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_sweep_goes_on_with_more_seeds_but_not_with_fewer_or_others(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with opened_sweep(out, grid_of(STUDY)):
        pass
    for seeds in ([1, 2, 3], [3, 2, 1]):
        check_sweep_directory(out, grid_of(STUDY, [f"sweep.run.seed={seeds}"]))
    for seeds in ([1], [1, 3, 4]):
        with pytest.raises(FedprivError, match=r"holds another study: sweep.run.seed is \[1, 2\] there"):
            check_sweep_directory(out, grid_of(STUDY, [f"sweep.run.seed={seeds}"]))
    with pytest.raises(FedprivError, match=r"holds another study: run.rounds is 6 there, 7 here"):
        check_sweep_directory(out, grid_of(STUDY, ["sweep.run.seed=[1, 2, 3]", "run.rounds=7"]))


# The cells, on Ray


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """One Ray for all sweeps of this process."""
    end = start_ray(2)
    import ray

    yield ray
    end()


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The study above in a file, in the directory one is in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(STUDY)
    return tmp_path / "small.toml"


def sweep(*words: str) -> int:
    return main(["sweep", *words, "--quiet"])


def resolved(source: str, *overrides: str) -> Grid:
    """The grid as it is run: every study calibrated."""
    return grid_of(source, overrides).each(lambda study: rounds.planned(study).study)


def run_alone(found: Grid) -> dict[str, bytes]:
    """The records of every cell, one after the other in this process."""
    for cell in found.cells:
        rounds.run_rounds(cell.study, Path("alone/cells", cell.id), Here(), quiet=True)
    return contents(Path("alone"))


def contents(out: Path) -> dict[str, bytes]:
    """The records of every cell."""
    return {place.name: (place / "records.jsonl").read_bytes() for place in (out / "cells").iterdir()}


def index(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "sweep.json").read_text())
    return found


@pytest.mark.flower
@pytest.mark.usefixtures("ray", "study")
def test_the_records_are_the_same_bytes_whatever_the_number_of_workers() -> None:
    assert sweep("small.toml", "--out", "one", "--workers", "1") == sweep("small.toml", "--out", "two") == 0
    alone = run_alone(resolved("small.toml"))
    assert contents(Path("one")) == contents(Path("two")) == alone
    assert len(alone) == 8


@pytest.mark.flower
@pytest.mark.usefixtures("ray", "study")
def test_the_index_says_where_every_cell_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "small.toml", "--set", "run.rounds=1", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out).items() >= {"directory": "runs/small", "finished": 8, "failed": 0}.items()
    assert "cell 8/8" in printed.err
    found = index(Path("runs/small"))
    assert {key: found[key] for key in ("format", "name", "about", "seeds", "axes")} == {
        "format": 1, "name": "small", "about": "a small grid", "seeds": [1, 2], "axes": [
            {"path": "aggregation", "values": ["Mean", "TrimmedMean dropped=4"]},
            {"path": "attack", "values": ["SignFlip", "poison"]},
        ],
    }  # fmt: skip
    for cell in found["cells"]:
        header = records.read_records(Path("runs/small/cells", cell["id"], "records.jsonl")).header
        assert header["study"] == cell["id"]
        assert header["seed"] == cell["seed"]
        assert (
            header["attack"]["kind"] == {"SignFlip": "SignFlip", "poison": "OutputPoisoning"}[cell["place"]["attack"]]
        )
    again = resolved("runs/small/study.toml")
    assert [cell.id for cell in again.cells] == [cell["id"] for cell in found["cells"]]


@pytest.mark.flower
@pytest.mark.usefixtures("ray", "study")
def test_only_what_is_missing_is_done_again() -> None:
    assert sweep("small.toml", "--out", "out") == 0
    before, first = contents(Path("out")), index(Path("out"))["cells"]
    lost, cut, failed, damaged = (Path("out/cells", cell["id"]) for cell in first[:4])
    times = {name: Path("out/cells", name, "records.jsonl").stat().st_mtime_ns for name in before}
    for file in lost.iterdir():
        file.unlink()
    lost.rmdir()
    (cut / "result.json").unlink()
    (cut / "records.jsonl").write_bytes(before[cut.name][:-200])
    (failed / "error.json").write_text("{}")
    (damaged / "records.jsonl").write_text("junk\n")
    assert sweep("small.toml", "--out", "out") == 0
    assert contents(Path("out")) == before
    assert not (failed / "error.json").exists()
    done = {name for name in before if Path("out/cells", name, "records.jsonl").stat().st_mtime_ns != times[name]}
    assert done == {lost.name, cut.name, failed.name, damaged.name}


@pytest.mark.slow
@pytest.mark.flower
@pytest.mark.usefixtures("ray")
def test_a_cell_that_fails_is_recorded_and_tried_again_and_the_rest_go_on(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("traps.py").write_text(TRAPS)
    study.write_text(STUDY.partition("[sweep]")[0] + TRAPPED)
    for name, deaths in (("raises", 0), ("dies-once", 1), ("dies", 2)):
        Path(name).write_text(str(deaths))
    assert sweep("small.toml", "--out", "out", "--json") == 1
    printed = capsys.readouterr()
    assert printed.err == "fedpriv: 2 of 4 cells failed: the same command tries them again\n"
    found = json.loads(printed.out)
    assert (found["finished"], found["failed"]) == (2, 2)
    why = {failure["place"]["training.model"]: failure["why"] for failure in found["failures"]}
    assert "RuntimeError: caught in the trap" in why["raises"]
    assert "its worker died, 2 times" in why["dies"]
    for failure in found["failures"]:
        story = json.loads(Path("out/cells", failure["id"], "error.json").read_text())
        assert {"kind", "message", "asked_wrongly", "trace"} == set(story)
    Path("raises").unlink()
    assert sweep("small.toml", "--out", "out") == 0
    assert contents(Path("out")) == run_alone(resolved("small.toml"))


@pytest.mark.flower
@pytest.mark.usefixtures("ray", "study")
def test_the_directory_of_anything_else_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep("small.toml", "--out", "out") == 0
    before = contents(Path("out"))
    assert sweep("small.toml", "--out", "out", "--set", "run.rounds=3", "--set", "about=another") == 2
    error = capsys.readouterr().err
    assert (
        'out: holds another study: about is "a small grid" there, "another" here; run.rounds is 6 there, 3 here'
        in error
    )
    assert main(["run", "digits", "--driver", "direct", "--set", "run.rounds=1", "--quiet", "--out", "run"]) == 0
    for place in ("run", "small.toml"):
        assert sweep("small.toml", "--out", place) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith('fedpriv: run: holds another study: name is "digits" there, "small" here; about is')
    assert errors[1].startswith("fedpriv: small.toml: is there already and holds no sweep")
    assert contents(Path("out")) == before


@pytest.mark.flower
@pytest.mark.usefixtures("ray", "study")
def test_what_cannot_be_run_is_refused_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["small.toml", "--out", "out", "--set", "sweep.clients.records=[10, 11]", "--set", "sweep.run.seed=[1]"]
    assert sweep(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "fedpriv: small.toml: cell aggregation = Mean, attack = SignFlip, clients.records = 11, run.s"
    )
    assert "(and 3 more): clients: 20 clients of 11 record(s) each need 220 records, but there are 200" in error
    assert error.count("\n") == 1
    assert not Path("out").exists()


@pytest.mark.usefixtures("study")
def test_a_dry_run_counts_cells_and_epsilons_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["small.toml", "--dry-run", "--set", "sweep.privacy.mechanism.scale=[3.0, 4.0]"]
    assert sweep(*words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cells"], len(found["epsilon"]), found["seeds"]) == (16, 2, [1, 2])
    assert found["seconds"] > found["seconds_a_cell"] > 0
    assert sweep(*words) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("small: 16 cells\n  aggregation (2): Mean; TrimmedMean dropped=4\n")
    assert "expected time: about" in printed
    assert [file.name for file in Path().iterdir()] == ["small.toml"]


# Stopped


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "simulations.command_line", "sweep", *words]


def started(*words: str) -> subprocess.Popen[str]:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    return subprocess.Popen(command(*words), env=environment, stderr=subprocess.PIPE, text=True)


def until(met: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60) -> None:
    begun = time.monotonic()
    while not met():
        assert process.poll() is None, f"it ended with {process.returncode}: {process.communicate()[1]}"
        assert time.monotonic() - begun < seconds
        time.sleep(0.01)


def finished(out: Path) -> int:
    return len(list(out.glob("cells/*/result.json")))


LONG = ["long.toml", "--out", "out", "--set", "run.rounds=120", "--set", "run.evaluate_every=60"]
LONG += ["--set", "run.checkpoint_every=20", "--set", "sweep.run.seed=[1, 2]"]


@pytest.mark.flower
@pytest.mark.slow
@pytest.mark.usefixtures("ray")
def test_a_sweep_stopped_or_killed_goes_on_to_the_same_bytes(study: Path) -> None:
    study.rename("long.toml")
    first = started(*LONG)
    until(lambda: finished(Path("out")) >= 2, first)
    first.send_signal(signal.SIGINT)
    assert first.wait(20) == 130
    assert "fedpriv: interrupted; the same command goes on" in first.communicate()[1]
    there = finished(Path("out"))
    assert there < 6
    second = started(*LONG)
    until(lambda: finished(Path("out")) >= there + 2, second)
    second.kill()
    second.wait()
    before = finished(Path("out"))
    assert before < 8
    assert sweep(*LONG) == 0
    alone = run_alone(resolved("long.toml", *LONG[4::2]))
    assert contents(Path("out")) == alone
    assert len(alone) == 8


@pytest.mark.flower
def test_a_cluster_that_is_there_already_does_the_work(ray: Any, study: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    del study
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    words = command("small.toml", "--ray", address, "--workers", "2", "--json", "--quiet")
    outcome = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    assert (found["finished"], found["workers"]) == (8, 2)


@pytest.mark.flower
@pytest.mark.usefixtures("study")
def test_a_cluster_that_is_not_there_is_one_line() -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    words = command("small.toml", "--ray", "127.0.0.1:1", "--out", "out", "--quiet")
    outcome = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("fedpriv: Ray at 127.0.0.1:1 cannot be reached: ConnectionRefusedError")
    assert outcome.stderr.count("\n") == 1
    assert not Path("out").exists()


# What a person sees


def test_the_line_says_how_many_have_ended_failed_and_are_left_and_how_long_that_takes() -> None:
    shown = io.StringIO()
    seconds = iter(range(0, 1000, 10))
    progress = SweepProgress(
        total=20, there=4, workers=2, quiet=False, stream=shown, clock=lambda: float(next(seconds))
    )
    progress.ended("attack = Zero", 3.0, None)
    progress.ended("attack = Alie", 5.0, "RuntimeError: no")
    assert shown.getvalue().splitlines() == [
        "cell  5/20  15 left, 22.5 s",
        "failed: attack = Alie: RuntimeError: no",
        "cell  6/20  1 failed  14 left, 28.0 s",
    ]


def test_training_by_a_word_is_an_axis_like_any_other() -> None:
    text = 'data = { kind = "Digits", divide = 8.0, subtract = 1.0 }\nclients = { count = 2, records = 358 }\n'
    text += 'run.rounds = 1\ntraining = "StoBatch"\n[sweep]\ntraining = ["StoBatch", "AdLm"]\n'
    releases = [cell.study.privacy.release for cell in grid_of(text).cells]
    assert [release.kind for release in releases if release] == ["StoBatch", "AdLm"]
