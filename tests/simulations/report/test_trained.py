"""What a run has learnt can be taken out, as a module and as files; a frame and a card tell its numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import fedpriv as fp
from clients.training.prepared import net_of, pool_of
from fedpriv.errors import FedprivError
from fedpriv.studies.file import parsed_study
from simulations.command_line import main
from simulations.report.run.runs import Run

FEW = {"clients.count": 60, "run.rounds": 2}
MODELS: list[dict[str, Any]] = [
    {"kind": "Logistic"},
    {"kind": "Mlp", "hidden": [7, 5]},
    {"kind": "Cnn"},
    {"kind": "EncodedCnn", "maps": [4, 4], "units": 8, "kernel": 3},
    {"kind": "Randomised", "network": {"kind": "Cnn"}, "noise": 0.5},
    {"kind": "Module", "path": "torch.nn:Linear", "settings": {"in_features": 8, "out_features": 10}},
]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two rounds on digits."""
    return fp.run("digits", tmp_path_factory.mktemp("run") / "digits", overrides=FEW, quiet=True)


def right(module: nn.Module, run: Run) -> float:
    """How many of the records held out a module gets right."""
    pool = pool_of(parsed_study(run.study))
    with torch.no_grad():
        return float((module(torch.from_numpy(pool.x_test)).argmax(1).numpy() == pool.y_test).mean())


@pytest.mark.parametrize("model", MODELS[:5], ids=lambda model: str(model["kind"]))
def test_the_module_of_every_kind_gives_the_runs_logits(model: dict[str, Any], tmp_path: Path) -> None:
    changes = FEW | {"training.model": model, "run.rounds": 1}
    if model["kind"] == "EncodedCnn":
        changes |= {"clients.count": 20}
    run = fp.run("digits", tmp_path / "run", overrides=changes, quiet=True)
    module, study = run.model(), parsed_study(run.study)
    pool = pool_of(study)
    net = net_of(study, pool)
    with np.load(run.directory / "checkpoint.npz") as saved:
        weights = saved["weights"].astype(np.float32)
    net._engine.load(torch.from_numpy(weights)[None])
    ours = net._engine.logits(pool.x_test)
    with torch.no_grad():
        theirs = module(torch.from_numpy(pool.x_test))
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-5)
    assert right(module, run) == run.accuracy
    assert not module.training
    assert sum(own.numel() for own in module.parameters()) == run.header["dimension"]


@pytest.mark.parametrize("ending", ["pt", "safetensors", "npz"])
def test_what_is_exported_has_the_accuracy_of_the_run(ending: str, digits: Run, tmp_path: Path) -> None:
    file = tmp_path / f"model.{ending}"
    assert main(["export", str(digits.directory), str(file)]) == 0
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    match ending:
        case "pt":
            state = torch.load(file, weights_only=True)
        case "safetensors":
            state = load_file(file)
        case _:
            with np.load(file) as arrays:
                state = {name: torch.from_numpy(arrays[name]) for name in arrays}
    module.load_state_dict(state)
    assert right(module, digits) == digits.accuracy


def test_an_export_overwrites_nothing_and_says_what_is_wrong(
    digits: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.pt").write_text("mine")
    for words, what in [
        ([str(digits.directory), str(tmp_path / "model.pt")], "is there already: name another file"),
        (
            [str(digits.directory), str(tmp_path / "model.onnx")],
            "ending '.onnx' is unknown; choices: .pt, ",
        ),
        ([str(digits.directory), str(tmp_path / "none" / "model.pt")], "cannot be written (No such file or directory)"),
        ([str(tmp_path), str(tmp_path / "new.pt")], "no records.jsonl there"),
    ]:
        assert main(["export", *words]) == 2
        told = capsys.readouterr().err
        assert what in told
        assert told.count("\n") == 1
    assert (tmp_path / "model.pt").read_text() == "mine"
    assert main(["export", str(digits.directory), str(tmp_path / "new.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == digits.accuracy


def test_a_run_says_its_numbers(digits: Run) -> None:
    assert digits.accuracy == digits.rounds[-1]["accuracy"]
    assert digits.epsilon is not None
    assert digits.mu is not None
    low, high = digits.tradeoff(0.01)
    recorded = digits.spent("beta")
    assert recorded is not None
    assert low == pytest.approx(recorded["0.01"]["lower"], rel=1e-3)
    assert high == pytest.approx(recorded["0.01"]["upper"], rel=1e-3)
    assert repr(digits).startswith(f"<Run digits: finished, accuracy {digits.accuracy:.3f}, ε ≤ ")


def test_a_frame_has_a_row_a_round_and_no_tables_within(digits: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    frame = digits.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["round"]) == [1, 2]
    assert frame["epsilon.upper"].iloc[-1] == digits.rounds[-1]["epsilon"]["upper"]
    assert not any(isinstance(value, dict) for column in frame for value in frame[column])
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert digits.frame()["epsilon.upper"] == list(frame["epsilon.upper"])


def test_a_notebook_shows_a_card_and_the_figures(digits: Run, tmp_path: Path) -> None:
    card = digits._repr_html_()
    assert digits.epsilon is not None
    for words in ("digits", f"{digits.accuracy:.3f} of 360 records held out", "at most", "at least", "δ = 1e-5"):
        assert words in card
    assert "<script" not in card
    assert digits.figures["accuracy"]._repr_png_().startswith(b"\x89PNG")
    plain = {"name": "plain", "data.kind": "Digits", "clients.count": 9, "run": {"rounds": 1, "seed": 1}}
    run = fp.run(plain | {"privacy.mechanism.kind": "Plain"}, tmp_path / "plain", quiet=True)
    assert "none: updates were sent as they are" in run._repr_html_()
    with pytest.raises(FedprivError, match="no attacker need ever miss"):
        run.tradeoff(0.1)


def test_a_run_without_a_checkpoint_has_no_model(digits: Run, tmp_path: Path) -> None:
    for name in ("records.jsonl", "study.toml"):
        (tmp_path / name).write_bytes((digits.directory / name).read_bytes())
    with pytest.raises(FedprivError, match="no round has been saved"):
        fp.read_run(tmp_path).model()
    (tmp_path / "checkpoint.npz").write_bytes(b"PK")
    with pytest.raises(FedprivError, match="damaged checkpoint"):
        fp.read_run(tmp_path).model()
