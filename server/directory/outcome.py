"""How a run that Flower started has truly ended: Flower's exit statuses do not say.

`error.json` stands in the run's directory from before the start until the run has ended as it should. Nothing of Flower
or torch is imported here, so that a launcher can read it at once.
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedpriv._base.files import replace_file
from fedpriv.errors import FedprivError
from server.directory import kept_alone

ERROR = "error.json"  # there as long as the run has not ended as it should
UNFINISHED = "Flower ended before the run did"
STOP = "stop"  # a file of this name asks the run to end, as Ctrl-C does
LOG = "flower.log"  # what Flower and Ray said; it stays where something failed


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run: which study, where its records go, whether it goes on from them."""

    study: str  # its text, its file or its name
    overrides: tuple[str, ...] = ()  # settings such as run.seed=2, which replace the study's own
    directory: str  # where its records go
    resume: bool = False  # whether it goes on from them
    quiet: bool = False  # whether nothing of its progress is shown


def expect_failure(directory: Path) -> None:
    """Before Flower is started: say in the run's error.json that it has failed, until it has not."""
    directory.mkdir(parents=True, exist_ok=True)
    with kept_alone(directory):  # nobody's who is at work
        (directory / STOP).unlink(missing_ok=True)
        begin_job(directory)


def begin_job(directory: Path) -> None:
    """As Flower's server begins: say in error.json that the run has failed; it may have been asked to stop already."""
    directory.mkdir(parents=True, exist_ok=True)
    _say(directory, RuntimeError(UNFINISHED))


def fail_job(directory: Path, error: BaseException) -> None:
    """Say in a run's error.json why there is no result; where the disk is full, on the screen."""
    try:
        _say(directory, error)
    except OSError:
        print(f"fedpriv: {error}", file=sys.stderr)


def _say(directory: Path, error: BaseException) -> None:
    """Write an error and its trace into a run's error.json, as the run's end."""
    story = {
        "kind": type(error).__name__,
        "asked_wrongly": isinstance(error, FedprivError),
        "message": str(error),
        "trace": "".join(traceback.format_exception(error)),
    }
    replace_file(directory / ERROR, json.dumps(story, indent=1).encode(), mode=0o644)


def job_ended(directory: Path) -> None:
    """Take away a run's error.json and stop file: it has ended as it should, or its error is being raised."""
    (directory / ERROR).unlink(missing_ok=True)
    (directory / STOP).unlink(missing_ok=True)


def is_over(directory: Path) -> bool:
    """Whether a run that Flower started has ended, as it should or not: its launcher waits for that."""
    file = directory / ERROR
    return not file.exists() or UNFINISHED not in file.read_text(encoding="utf-8")


def outcome_of(directory: Path) -> dict[str, Any]:
    """The result of a run that Flower started and that has ended, for its launcher; else raise what ended it."""
    file = directory / ERROR
    if not file.exists():
        result: dict[str, Any] = json.loads((directory / "result.json").read_text(encoding="utf-8"))
        return result
    story = json.loads(file.read_text(encoding="utf-8"))
    if story["kind"] == "KeyboardInterrupt":
        job_ended(directory)
        raise KeyboardInterrupt
    if story["asked_wrongly"]:
        job_ended(directory)
        raise FedprivError(story["message"])
    raise FedprivError(
        f"{story['kind']}: {story['message'] or 'no reason given'} ({file} and flower.log there say more)"
    )
