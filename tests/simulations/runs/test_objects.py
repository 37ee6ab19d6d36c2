"""fp.run with what one has in Python: it is what is trained, known again by digests, and refused in a line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import fedpriv as fp
from clients.data.memory import pool_in_memory
from clients.data.splits import divided_records, records_of
from fedpriv._base.digests import object_digest
from fedpriv._base.spelling import rounded_up
from fedpriv.errors import FedprivError
from simulations.report.run.figures import epsilon_figure
from simulations.report.run.runs import Run
from simulations.runs.tracking import scalars_of

ROOT = Path(__file__).resolve().parents[3]
STUDY = {
    "name": "mine",
    "clients": {"count": 20, "records": 12, "byzantine": 2},
    "privacy.mechanism": {"kind": "Binomial", "clip": 1.0, "scale": np.float64(3.0), "trials": 4},
    "server.step": 0.5,
    "run.rounds": np.int64(3),
    "run.seed": 1,
}
RNG = np.random.default_rng(1)
Y = np.arange(300) % 3
X = (np.eye(3)[Y] @ RNG.normal(size=(3, 4)) * 3 + RNG.normal(size=(300, 4))).astype(np.float32)


class Net(nn.Module):
    """Two layers."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, width), nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.last(self.first(x).relu())
        return logits


class Middle:
    """The median."""

    def __call__(self, matrix: Any, aid: Any = None) -> Any:
        """The median of all rows."""
        return np.median(matrix, axis=0)


class Shrinks:
    """An attack with a setting of its own."""

    def __init__(self, by: float = 2.0) -> None:
        self.by = by

    def on_updates(self, updates: Any, view: Any) -> Any:
        """Updates that say less."""
        return updates / self.by


class Pairs(torch.utils.data.Dataset[Any]):
    """A data set of torch's, which may lie of its length."""

    def __init__(self, says: int = len(X)) -> None:
        self.says = says

    def __len__(self) -> int:
        return self.says

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return torch.from_numpy(X[place]), int(Y[place])


def ran(directory: Path, **given: Any) -> Run:
    """A run of the study with these objects, all others as usual."""
    usual: dict[str, Any] = {"model": Net, "data": (X, Y), "rule": Middle(), "attack": Shrinks(3.0)}
    return fp.run(STUDY, directory, quiet=True, **usual | given)


def same(one: Run, other: Run) -> bool:
    """Whether two runs have the same accuracy after every round."""
    return [line["accuracy"] for line in one.rounds] == [line["accuracy"] for line in other.rounds]


def test_a_run_is_of_the_objects_it_was_given(tmp_path: Path) -> None:
    run = ran(tmp_path / "run")
    assert (run.ended, run.header["model"], run.header["rounds"]) == ("finished", "Module", 3)
    assert run.header["dimension"] == 4 * 8 + 8 + 8 * 3 + 3
    assert run.header["attack"]["kind"].startswith("fedpriv.given:Shrinks_")
    assert run.header["aggregation"]["kind"].startswith("fedpriv.given:Middle_")
    assert run.epsilon is not None
    assert 0 < run.epsilon["lower"] <= run.epsilon["upper"]
    assert not same(run, ran(tmp_path / "mean", rule=lambda matrix, aid: matrix.mean(axis=0)))


def test_the_same_objects_are_the_same_study_and_others_another(tmp_path: Path) -> None:
    ids = [
        ran(tmp_path / f"{number}", **given).header["study"]
        for number, given in enumerate([{}, {"attack": Shrinks(4.0)}, {"model": lambda: Net(9)}, {"data": (X + 1, Y)}])
    ]
    again = ran(tmp_path / "again")
    assert len(set(ids)) == 4
    assert again.header["study"] == ids[0]
    assert (again.directory / "records.jsonl").read_bytes() == (tmp_path / "0" / "records.jsonl").read_bytes()


def test_what_ships_is_written_into_the_study_as_in_its_file(tmp_path: Path) -> None:
    run = ran(tmp_path / "run", rule=fp.aggregation.TrimmedMean(dropped=1), attack=fp.attacks.SignFlip)
    assert run.header["aggregation"] == {"kind": "TrimmedMean", "dropped": 1}
    assert run.header["attack"] == {"kind": "SignFlip", "knowledge": "own", "factor": 1.0}


def test_a_run_goes_on_with_the_same_objects_alone_and_names_what_differs(tmp_path: Path) -> None:
    run = ran(tmp_path / "run")
    own: dict[str, Any] = {"model": Net, "data": (X, Y), "rule": Middle(), "attack": Shrinks(3.0)}
    assert same(fp.resume(run.directory, quiet=True, **own), run)
    for word in own:
        less = {name: made for name, made in own.items() if name != word}
        with pytest.raises(FedprivError, match=f"was begun with {word}=.*: give it again"):
            fp.resume(run.directory, **less)
    for word, other in {"model": Net(), "data": (X, 2 - Y), "rule": Middle, "attack": Shrinks(5.0)}.items():
        with pytest.raises(FedprivError, match=f"was begun with {word}= .*: another run's"):
            fp.resume(run.directory, **own | {word: other})
    plain = fp.run("digits", tmp_path / "plain", overrides={"clients.count": 60, "run.rounds": 1}, quiet=True)
    with pytest.raises(FedprivError, match="was begun with model Logistic, and this is Net_"):
        fp.resume(plain.directory, model=Net)


class Stopped:
    """A mean that Ctrl-C meets, where the environment says so."""

    def __call__(self, matrix: Any, aid: Any = None) -> Any:
        """The mean of all rows."""
        if os.environ.get("TEST_STOPS") == "now" and aid is not None and len(matrix) == len(os.environ["TEST_ROWS"]):
            raise KeyboardInterrupt
        return matrix.mean(axis=0)


def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ran(tmp_path / "whole", rule=Stopped())
    monkeypatch.setenv("TEST_STOPS", "now")
    monkeypatch.setenv("TEST_ROWS", "x" * 20)
    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path / "stopped", rule=Stopped())
    monkeypatch.delenv("TEST_STOPS")
    given: dict[str, Any] = {"model": Net, "data": (X, Y), "rule": Stopped(), "attack": Shrinks(3.0)}
    fp.resume(tmp_path / "stopped", quiet=True, **given)
    names = ("records.jsonl", "study.toml")
    assert all((tmp_path / "stopped" / name).read_bytes() == (whole.directory / name).read_bytes() for name in names)
    assert fp.report(whole.directory).is_file()


def test_an_early_end_is_costed_as_all_rounds_and_answers_wherever_it_is_shown(tmp_path: Path) -> None:
    overrides = {"run.rounds": 6, "evaluation.mechanism": {"kind": "RandomisedResponse", "levels": 1, "epsilon": 1.0},
                 "privacy.mechanism.scale": 8.0, "clients.byzantine": 0}  # fmt: skip
    given: dict[str, Any] = {"overrides": overrides, "quiet": True, "data": (X, Y)}
    stopped = fp.run(STUDY, tmp_path / "stopped", on_round=lambda line: line["round"] == 2, **given)
    whole = fp.run(STUDY, tmp_path / "whole", **given)
    assert stopped.records.end is not None
    assert (stopped.answers, stopped.releases) == (whole.answers, whole.releases) == (6, 6)
    alpha = np.array([0.01, 0.05, 0.1])
    found, planned = stopped.tradeoff(alpha), whole.tradeoff(alpha)
    assert np.array_equal(found.lower, planned.lower)
    assert np.array_equal(found.upper, 1 - alpha)
    told = stopped.records.end["beta"]["0.01"]
    assert told["lower"] == pytest.approx(found.lower[0], abs=1e-5)
    drawn = epsilon_figure(stopped)
    assert drawn is not None
    assert rounded_up(stopped.records.end["epsilon"]["upper"]) in drawn[1]
    assert "decided beforehand" in drawn[2]


def test_what_releases_divide_by_does_not_come_of_the_data(tmp_path: Path) -> None:
    release = {"kind": "DpSgd", "clip": 1.0, "noise": 1.0, "sampling": 0.5}
    changes = {"privacy": {"mechanism": {"kind": "Plain"}, "release": release}, "clients.byzantine": 0, "run.rounds": 1}
    given: dict[str, Any] = {"data": (X, Y), "clients": np.arange(300) // 10, "quiet": True}
    with pytest.raises(FedprivError, match=r"clients\.records is missing: releases and the divisor") as caught:
        fp.run(STUDY, tmp_path / "none", overrides=changes | {"clients.records": 1}, **given)
    assert "\n" not in str(caught.value)
    run = fp.run(STUDY, tmp_path / "run", overrides=changes | {"clients.records": 9}, **given)
    assert "records = 9" in run.study


class Remembers:
    """A rule that keeps the directions so far."""

    def __init__(self) -> None:
        self.kept = 0.0

    def __call__(self, matrix: Any, aid: Any = None) -> Any:
        """The mean of all rows, with momentum."""
        self.kept = 0.9 * self.kept + matrix.mean(axis=0)
        return self.kept


def test_frames_and_words_are_data_and_ids_too(tmp_path: Path) -> None:
    words = np.array([f"u{each % 20}" for each in range(300)], object)
    frame, labels = pd.DataFrame(X), pd.Series(Y)
    one = ran(tmp_path / "one", data=(frame, labels), clients=words)
    other = ran(tmp_path / "other", clients=words.astype(str))
    assert same(one, other)
    with pytest.raises(FedprivError, match=r"data: must be \(x, y\).*got DataFrame"):
        ran(tmp_path / "none", data=frame)


def test_what_is_asked_of_a_run_wrongly_is_one_line(tmp_path: Path) -> None:
    run = ran(tmp_path / "run")
    for ask in (lambda: run.tradeoff("a"), lambda: run.export(5), lambda: fp.read_run(None)):  # type: ignore[arg-type]
        with pytest.raises(FedprivError, match=r"got '?(a|5|None)") as caught:
            ask()
        assert "\n" not in str(caught.value)
    assert not run.frame().isna().all().any()


def test_a_regression_is_exported_shown_and_tracked_by_its_r2(tmp_path: Path) -> None:
    changes = {"training.loss": {"kind": "SquaredError"}, "clients.byzantine": 0}
    study = {**STUDY, "data": {"kind": "Linear", "records": 300, "features": 4}}
    run = fp.run(study, tmp_path / "run", overrides=changes, quiet=True)
    assert run.model()(torch.zeros(2, 4)).shape == (2, 1)
    assert run.export(tmp_path / "model.pt").is_file()
    assert "R² " in repr(run)
    assert "R²" in run._repr_html_()
    assert "r2" in scalars_of(run.rounds[-1])


SCALE = np.ones(3)


def scaled(matrix: Any, aid: Any = None) -> Any:
    """A rule that reads an array of its module."""
    return matrix.mean(axis=0) * SCALE[0]


def test_a_rule_that_reads_another_array_is_another_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ran(tmp_path / "run", rule=scaled)
    monkeypatch.setitem(scaled.__globals__, "SCALE", np.full(3, -7.0))
    with pytest.raises(FedprivError, match=r"was begun with rule= .*: another run's"):
        fp.resume(run.directory, quiet=True, model=Net, data=(X, Y), rule=scaled, attack=Shrinks(3.0))
    assert object_digest([1]) != object_digest([b"int 1"])


def test_a_killed_round_is_not_asked_again_with_another_model_or_code(tmp_path: Path) -> None:
    given: dict[str, Any] = {"model": Net, "data": (X, Y), "rule": Remembers(), "attack": Shrinks(3.0)}

    saved = tmp_path / "saved"  # what a kill in round 6 leaves
    overrides = {"run.rounds": 8, "run.checkpoint_every": 3}

    def keep(line: Any) -> bool:
        if line["round"] == 5:
            copytree(tmp_path / "run", saved)
        return False

    fp.run(STUDY, tmp_path / "run", overrides=overrides, quiet=True, on_round=keep, **given)
    with pytest.raises(FedprivError, match="round 5 has asked already"):
        fp.resume(saved, quiet=True, **given)


def test_what_nothing_tells_from_others_is_said_at_the_start_and_refused_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def endless() -> Any:
        yield 1

    def build(unused: Any = endless()) -> Net:  # noqa: B008
        return Net()

    run = fp.run(STUDY, tmp_path / "run", model=build, data=(X, Y), attack=Shrinks)
    assert "nothing tells model= from another object, so this run cannot be resumed" in capsys.readouterr().err
    with pytest.raises(FedprivError, match="model= that nothing tells from others: begin it anew"):
        fp.resume(run.directory, data=(X, Y), attack=Shrinks)


def test_a_module_is_copied_as_it_is_and_its_owner_keeps_it(tmp_path: Path) -> None:
    torch.manual_seed(3)
    module = Net()
    before = [own.detach().clone() for own in module.parameters()]
    run = ran(tmp_path / "run", model=module)
    assert all(torch.equal(own, was) for own, was in zip(module.parameters(), before, strict=True))
    with torch.no_grad():
        module.last.bias += 1
    with pytest.raises(FedprivError, match="was begun with model="):
        fp.resume(run.directory, model=module, data=(X, Y), rule=Middle(), attack=Shrinks(3.0))
    with pytest.raises(FedprivError, match="GroupNorm looks at one record"):
        ran(tmp_path / "norm", model=nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    assert not (tmp_path / "norm").exists()


def test_a_model_that_was_given_is_had_again_with_its_class_alone(tmp_path: Path) -> None:
    run = ran(tmp_path / "run")
    read = fp.read_run(run.directory)
    with pytest.raises(FedprivError, match="is an object that a Python session gave"):
        read.model()
    with pytest.raises(FedprivError, match=r"was begun with model fedpriv\.given:Net_.*: another's weights"):
        read.model(lambda: Net(8))
    held = torch.from_numpy(pool_in_memory((X, Y)).x_test)
    torch.testing.assert_close(run.model()(held), read.model(Net)(held))
    state = torch.load(read.export(tmp_path / "model.pt", Net), weights_only=True)
    assert set(state) == {"first.weight", "first.bias", "last.weight", "last.bias"}


def test_all_forms_of_the_same_data_are_learnt_alike(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    forms = [
        (X, Y), {"x": X.tolist(), "y": Y}, (torch.tensor(X), torch.tensor(Y)), Pairs(),
        datasets.Dataset.from_dict({"features": X, "label": Y}),
    ]  # fmt: skip
    runs = [ran(tmp_path / str(number), data=data) for number, data in enumerate(forms)]
    assert all(same(runs[0], run) for run in runs[1:])


def test_ids_give_each_client_its_own_records(tmp_path: Path) -> None:
    ids = np.array([f"user {number}" for number in np.arange(300) % 7])
    run = ran(tmp_path / "run", clients=ids)
    assert run.header["clients"] == 7
    assert 'split = "natural"' in run.study
    pool = pool_in_memory((X, Y), clients=ids)
    assert pool.owners is not None
    assert set(pool.owners) == set(range(7))
    whose = "clients.split: Digits data do not say here whose each record is: Arrays by users.npy beside x.npy, "
    with pytest.raises(FedprivError, match=whose):
        fp.run("digits", tmp_path / "digits", overrides={"clients.split": "natural"}, quiet=True)
    with pytest.raises(FedprivError, match="count = 9, but the data name 7 users: ask for fewer"):
        divided_records("natural", pool.y, 9, 1, 1, pool.owners)
    held = divided_records("natural", pool.y, 7, 1, 1, pool.owners)
    assert [set(pool.owners[records_of(held, client)]) for client in range(7)] == [{client} for client in range(7)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data": (X, Y / 2)}, "data: y: label 1 is 0.5; labels are class numbers"),
        ({"data": (X, Y * 1000)}, "data: y: its labels go up to 2000"),
        ({"data": (X, Y.astype(str))}, "data: y: labels must be whole numbers"),
        ({"data": (X * np.nan, Y)}, "data: x: record 0 holds nan"),
        ({"data": (X[:0], Y[:0])}, "data: held_out must be below the 0 records"),
        ({"data": (X, Y[:5])}, "data: x holds 300 records, but y holds 5"),
        ({"data": X}, r"data: must be \(x, y\)"),
        ({"data": (1, 2)}, r"data: must be \(x, y\).*got a single number"),
        ({"data": {"x": X, "Y": Y}}, "data: 'Y' is no part of data"),
        ({"data": {"x": X, "y": Y, "held_out": 300}}, "held_out must be below the 300 records"),
        ({"data": Pairs(says=400)}, "record 300 of the 400 that Pairs says it has is no"),
        ({"clients": np.linspace(0, 1, 300)}, "ids are whole numbers or words"),
        ({"clients": [1, 2]}, "one for each of 300 records"),
        ({"data": None, "clients": Y}, "clients= and columns= say what data= are"),
        ({"columns": ("a", "b")}, "data: columns are a Hugging Face data set's"),
        ({"clients": "who"}, "data: columns are a Hugging Face data set's"),
        ({"data": Pairs(), "clients": "who"}, "data: columns are a Hugging Face data set's"),
        ({"data": (np.ma.masked_greater(X, 1), Y)}, "data: x: is a masked array"),
        ({"on_round": 5}, "on_round is called with each round's line"),
        ({"workers": -1}, "workers must be at least 1"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"cohorts": 0}, "cohorts must be at least 1"),
        ({"model": 3}, "model is a torch.nn.Module or what makes one"),
        ({"model": lambda: 3}, "it must make a torch.nn.Module, got a int"),
        ({"model": nn.Linear(5, 3)}, r"records of shape \(4,\) do not go through"),
        ({"rule": "Median"}, "rule is an object or a class, got 'Median'"),
        ({"rule": 3}, "has no __call__"),
        ({"rule": lambda rows: rows[0]}, r"must take \(self, matrix, aid\)"),
        ({"attack": object()}, "has none of the methods on_data"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_leaves_nothing(given: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match=words) as caught:
        ran(tmp_path / "run", **given)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_another_process_is_told_what_it_lacks(tmp_path: Path) -> None:
    run = ran(tmp_path / "run")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "simulations.command_line", "run", "--resume", str(run.directory)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is an object that a Python session gave fp.run" in done.stderr
    assert done.stderr.count("\n") == 1


PROGRAM = """
import sys
import fedpriv as fp
import numpy as np
from pathlib import Path
from torch import nn

class Half:
    def on_updates(self, updates, view):
        return updates / 2

x = np.random.default_rng(1).normal(size=(100, 4)).astype("f")
given = dict(model=lambda: nn.Linear(4, 2), data=(x, (x[:, 0] > 0) * 1), attack=Half())
study = {study!r}
runs = [fp.run(study, where, quiet=True, **way, **given) for where, way in {ways!r}]
one, *others = [(run.directory / "records.jsonl").read_bytes() for run in runs]
assert all(each == one for each in others)
{more}
print("same")
"""
UNSENT = """
try:
    fp.run(study, "lock", quiet=True, workers=2, **given | {"attack": type("A", (Half,), {"lock": open("x", "w")})})
except fp.FedprivError as error:
    assert "cannot be" in str(error), error
else:
    raise AssertionError
"""


@pytest.mark.slow
@pytest.mark.flower
def test_workers_of_ray_and_of_flower_get_the_same_objects(tmp_path: Path) -> None:
    study = {
        "name": "mine", "clients.count": 20, "clients.records": 4, "clients.byzantine": 2, "run.rounds": 2,
        "run.seed": 1, "privacy.mechanism": {"kind": "Plain"},
    }  # fmt: skip
    ways: list[tuple[str, dict[str, Any]]] = [("here", {}), ("ray", {"workers": 2}), ("flower", {"driver": "flower"})]
    program = PROGRAM.format(study=study, ways=ways, more=UNSENT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-"], input=program, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout.endswith("same\n"), done.stderr
