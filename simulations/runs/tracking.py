"""Trackers of experiments as listeners of a run: TensorBoard, MLflow, Weights & Biases, loaded where one is asked for.

Nothing goes over a network unless its user has said so to the tracker itself: MLflow by MLFLOW_TRACKING_URI or the
address given, Weights & Biases by WANDB_MODE or WANDB_API_KEY; without these it writes what `wandb sync` sends.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedpriv._base.loading import loaded_object
from fedpriv._base.tables import leaf_table
from fedpriv.errors import FAULTS, FedprivError, one_of, reason
from fedpriv.records import Line, read_records
from server.directory import STUDY, run_name
from server.directory.results import covered_line
from server.progress.listening import OnRound

Log = Callable[[int, Mapping[str, float]], object]  # numbers of a round
Close = Callable[[str], object]  # with how the run has ended


class Begun(NamedTuple):
    """A run as a tracker is told of it, when its first round here has ended."""

    directory: Path
    name: str  # as no other run has it; the same when it is gone on with
    first: int  # the first round that is tracked here
    settings: dict[str, Any]  # by dotted path, as the run resolved them


class Tracker(NamedTuple):
    """One that a run is to be tracked by, found installed: what opens it."""

    word: str  # as it was asked for
    opens: Callable[[Begun], tuple[Log, Close]]


def tracker_of(word: str) -> Tracker:
    """The tracker that a `--track` word names, "tensorboard", "mlflow" or "wandb", with a place after a colon or none.

    >>> tracker_of("tensorbored")
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: --track 'tensorbored' is unknown (did you mean 'tensorboard'?); choices: tensorboard, \
mlflow, wandb
    """
    kind, _, place = word.partition(":")
    one_of(TRACKERS, **{"--track": kind})
    spec = find_spec(kind)
    if spec is None or spec.origin is None:  # a directory of that name is no package
        raise FedprivError(f"--track {kind}: {kind} is not installed: pip install 'fedpriv[track]'")
    return Tracker(word, partial(TRACKERS[kind], place))


@contextmanager
def tracked_rounds(trackers: Sequence[Tracker], directory: Path) -> Iterator[OnRound | None]:
    """A context that gives a run's listener which tells all trackers of each round, opened at the first; None of none.

    A round's ε is that of the rounds so far; at the end they are told the run's, which is another where it ended early.
    What goes wrong in one of them ends the run, which can be gone on with.
    """
    opened: list[tuple[Tracker, Log, Close]] = []
    released: list[Line | None] = []  # the run's release, once it has begun

    def track(line: Line) -> None:
        """Tell every tracker of one round of the run."""
        if not opened:
            settings = leaf_table(tomllib.loads((directory / STUDY).read_text(encoding="utf-8")), ".")
            begun = Begun(directory, run_name(directory), line["round"], settings)
            released.append(read_records(directory / "records.jsonl").header["release"])
            opened.extend((each, *_safely(each, each.opens, begun)) for each in trackers)
        for tracker, log, _ in opened:
            _safely(tracker, log, line["round"], scalars_of(covered_line(line, released[0])))

    how = "KILLED"
    try:
        yield track if trackers else None
        how = "FINISHED"
    finally:
        for tracker, log, close in opened:
            result = json.loads((directory / "result.json").read_text(encoding="utf-8"))
            spent = {f"run/epsilon/{side}": float(result["epsilon"][side]) for side in ("lower", "upper")}
            _safely(tracker, log, result["rounds"], {each: own for each, own in spent.items() if isfinite(own)})
            _safely(tracker, close, how)


def scalars_of(line: Line) -> dict[str, float]:
    """What a tracker is told of a round, by name: accuracy, R², loss, answers, ε, μ where looked at, bytes, refusals.

    >>> scalars_of({"accuracy": 0.5, "loss": None, "epsilon": {"lower": 1.0, "upper": float("inf")}, "bytes_up": 8,
    ...             "answered": 2, "rejected": {"late": 1}, "failed": {}})
    {'accuracy': 0.5, 'epsilon/lower': 1.0, 'bytes_up': 8, 'answered': 2, 'rejected': 1, 'failed': 0}
    """
    found = {name: line[name] for name in ("accuracy", "r2", "backdoor", "loss") if line.get(name) is not None}
    asked = line.get("evaluated") or {}
    found |= {f"evaluated/{name}": asked[name] for name in ("accuracy", "low", "high") if name in asked}
    for name in ("epsilon", "mu"):
        found |= {f"{name}/{side}": line[name][side] for side in ("lower", "upper") if line.get(name) is not None}
    found |= {name: line[name] for name in ("bytes_up", "answered") if name in line}
    found |= {name: sum(line[name].values()) for name in ("rejected", "failed") if name in line}
    return {name: value for name, value in found.items() if isfinite(value)}  # no tracker has an infinity


def _safely(tracker: Tracker, act: Callable[..., Any], *given: Any) -> Any:
    """Do something with a tracker; what it fails with is an error in a line that names it."""
    try:
        return act(*given)
    except FAULTS as error:
        raise FedprivError(f"--track {tracker.word}: {reason(error)}") from error


def open_tensorboard(place: str, begun: Begun) -> tuple[Log, Close]:
    """TensorBoard's event files, in a directory of their own or the run's; what a kill left of later rounds goes."""
    writer = loaded_object("torch.utils.tensorboard:SummaryWriter")(
        place or str(begun.directory / "tensorboard"), purge_step=begun.first
    )
    rows = "\n".join(f"| {name} | {value} |" for name, value in begun.settings.items())
    writer.add_text("settings", f"run {begun.name}\n\n| setting | value |\n|---|---|\n{rows}", begun.first)

    def log(number: int, values: Mapping[str, float]) -> None:
        """Write one round's numbers, bounds rounded outwards: an event has single precision."""
        for name, value in values.items():
            single = np.float32(value)
            side = name.rpartition("/")[2]
            if (side == "upper" and float(single) < value) or (side == "lower" and float(single) > value):
                single = np.nextafter(single, np.float32(np.inf if side == "upper" else -np.inf))
            writer.add_scalar(name, single, number)
        writer.flush()

    return log, lambda _: writer.close()


def open_mlflow(place: str, begun: Begun) -> tuple[Log, Close]:
    """MLflow, where its own settings or `place` say, under the experiment they name or the study's: a run of its own.

    A place that is a directory is what MLflow calls a file store.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    if place and ":" not in place:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    client = loaded_object("mlflow:MlflowClient")(tracking_uri=place or None)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or begun.settings["name"]
    there = client.get_experiment_by_name(name)
    experiment = client.create_experiment(name) if there is None else there.experiment_id
    before = client.search_runs([experiment], f"tags.`fedpriv.run` = '{begun.name}'")
    tags = {"fedpriv.run": begun.name}
    own = before[0] if before else client.create_run(experiment, run_name=begun.directory.name, tags=tags)
    run = own.info.run_id
    for setting, value in begun.settings.items():
        client.log_param(run, setting, value)

    def log(number: int, values: Mapping[str, float]) -> None:
        """Log one round's numbers."""
        for each, value in values.items():
            client.log_metric(run, each, value, step=number)

    return log, lambda how: client.set_terminated(run, how)


def open_wandb(place: str, begun: Begun) -> tuple[Log, Close]:
    """Weights & Biases: the project `place` or of the study's name, files in the run's directory, offline by itself."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    wandb = loaded_object("wandb")
    told = os.environ.get("WANDB_MODE") or os.environ.get("WANDB_API_KEY")
    run = wandb.init(
        project=place or os.environ.get("WANDB_PROJECT") or begun.settings["name"], id=begun.name,
        name=begun.directory.name, config=begun.settings, dir=str(begun.directory), resume="allow",
        mode=None if told else "offline",
        settings=wandb.Settings(console="off", silent=True, disable_git=True, save_code=False),
    )  # fmt: skip
    return (
        lambda number, values: run.log(dict(values), step=number),
        lambda how: run.finish(exit_code=0 if how == "FINISHED" else 1),
    )


TRACKERS: Mapping[str, Callable[[str, Begun], tuple[Log, Close]]] = {
    "tensorboard": open_tensorboard, "mlflow": open_mlflow, "wandb": open_wandb,
}  # fmt: skip
