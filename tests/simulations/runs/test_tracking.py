"""Trackers of experiments are told what a run's records hold: the real ones, read back; nothing over a network."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fedpriv.errors import FedprivError
from fedpriv.records import read_records
from simulations.command_line import main
from simulations.runs.tracking import scalars_of, tracker_of

QUICK = ["run", "--driver", "direct", "--quiet", "--set", "clients.count=60", "--set", "run.rounds=3"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to be in, with nothing that would send trackers anywhere."""
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_PROJECT", "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def wanted(run: Path, name: str) -> list[float]:
    return [scalars_of(line)[name] for line in read_records(run / "records.jsonl").rounds]


def test_tensorboards_events_hold_every_round_with_bounds_rounded_outwards(place: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert main([*QUICK, "--out", "run", "--track", "tensorboard", "--track", "tensorboard:other"]) == 0
    for where in ("run/tensorboard", "other"):
        events = EventAccumulator(str(place / where))
        events.Reload()
        found = {name: [own.value for own in events.Scalars(name)] for name in events.Tags()["scalars"]}
        assert [own.step for own in events.Scalars("accuracy")] == [1, 2, 3]
        assert found["accuracy"] == pytest.approx(wanted(place / "run", "accuracy"), rel=1e-6)
        for name in ("epsilon", "mu"):
            up, down = (list(zip(found[f"{name}/{side}"], wanted(place / "run", f"{name}/{side}"), strict=True))
                        for side in ("upper", "lower"))  # fmt: skip
            assert all(true <= told <= true * (1 + 1e-6) for told, true in up)
            assert all(true * (1 - 1e-6) <= told <= true for told, true in down)
        assert found["run/epsilon/upper"] == found["epsilon/upper"][-1:]
        assert found["rejected"] == found["failed"] == [0, 0, 0]
        assert "settings/text_summary" in events.Tags()["tensors"]


def test_mlflow_keeps_settings_and_every_round_and_a_run_that_goes_on_goes_on_there(place: Path) -> None:
    from mlflow import MlflowClient

    words = ["--driver", "direct", "--quiet", "--track", f"mlflow:{place / 'store'}"]
    assert main([*QUICK, "--out", "run", "--track", f"mlflow:{place / 'store'}"]) == 0
    (place / "run" / "checkpoint.npz").unlink()  # as if killed in its first round
    lines = (place / "run" / "records.jsonl").read_bytes().split(b"\n")
    (place / "run" / "records.jsonl").write_bytes(lines[0] + b"\n")
    assert main(["run", "--resume", "run", *words]) == 0
    client = MlflowClient(tracking_uri=str(place / "store"))
    [run] = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    assert run.info.run_name == "run"
    assert run.info.status == "FINISHED"
    assert (run.data.params["run.rounds"], run.data.params["privacy.mechanism.kind"]) == ("3", "Binomial")
    assert run.data.tags["fedpriv.run"] == json.loads((place / "run" / "environment.json").read_text())["run"]
    for name in ("accuracy", "loss", "epsilon/lower", "epsilon/upper", "mu/upper", "bytes_up"):
        history = sorted((own.step, own.value) for own in client.get_metric_history(run.info.run_id, name))
        assert sorted({*history}) == list(zip((1, 2, 3), wanted(place / "run", name), strict=True))


def test_weights_and_biases_stays_offline_until_its_user_says_otherwise(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, "--json", "--out", "run", "--track", "wandb:mine"]) == 0
    assert json.loads(capsys.readouterr().out)["why"] == "finished"
    [kept] = (place / "run" / "wandb").glob("offline-run-*")
    name = json.loads((place / "run" / "environment.json").read_text())["run"]
    assert (kept / f"run-{name}.wandb").stat().st_size > 0


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow", "wandb"])
def test_a_tracker_that_is_not_installed_is_refused_before_anything_is_done_and_names_the_extra(
    kind: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("simulations.runs.tracking.find_spec", lambda name: None)
    assert main([*QUICK, "--out", "run", "--track", kind]) == 2
    said = capsys.readouterr().err
    assert said == f"fedpriv: --track {kind}: {kind} is not installed: pip install 'fedpriv[track]'\n"
    assert not (place / "run").exists()


def test_a_directory_of_a_trackers_name_is_not_the_tracker(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(place)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    (place / "wandb").mkdir()
    with pytest.raises(FedprivError, match=r"wandb is not installed"):
        tracker_of("wandb:x")


def test_a_tracker_that_fails_ends_the_run_in_one_line_and_it_can_go_on(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "taken").write_text("a file")
    assert main([*QUICK, "--out", "run", "--track", "tensorboard:taken/below"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fedpriv: on_round failed in round 1 (FedprivError: --track tensorboard:taken/below: ")
    assert said.count("\n") == 1
    assert main(["run", "--resume", "run", "--driver", "direct", "--quiet"]) == 0
    assert len(read_records(place / "run" / "records.jsonl").rounds) == 3


def test_rounds_of_somebody_elses_superlink_cannot_be_tracked(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--superlink", "far", "--out", "run", "--track", "tensorboard"]) == 2
    assert "no on_round and no --track with it" in capsys.readouterr().err
