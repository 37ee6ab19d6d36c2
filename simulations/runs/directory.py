"""Which directory a run is given on the command line, and what becomes of it where the run does not begin."""

from __future__ import annotations

import os
from pathlib import Path

from fedpriv.errors import FedprivError
from server.directory import ENVIRONMENT, STUDY
from server.directory.outcome import ERROR, LOG, STOP

BEFORE = {ERROR, STOP, LOG, ENVIRONMENT, "app"}  # what a run leaves that was killed before it began


def taken_directory(
    study: str,  # by whose name the directory goes where none is given
    out: str | None,  # --out
    resume: str | None,  # --resume
) -> tuple[Path, list[Path]]:
    """The directory of a `fedpriv run`, made so that no other takes it; and all that was made, the innermost first."""
    if resume is not None:
        if out is not None:
            raise FedprivError("--resume goes on in its own directory: no --out with it")
        return Path(resume), []
    if out is None:
        return next_free(Path(study).stem)
    place = Path(out)
    if place.exists() and not (
        place.is_dir() and all(name in BEFORE or name.startswith(".") for name in os.listdir(place))
    ):
        raise FedprivError(
            f"{out}: is there already; --resume {out} (fp.resume) goes on with a run, --out names another place"
        )
    made = _missing(place)
    place.mkdir(parents=True, exist_ok=True)
    return place, made


def next_free(name: str) -> tuple[Path, list[Path]]:
    """The directory runs/NAME, or with the next number free, made for this run alone; and all that was made."""
    for number in range(1, 1_000_000):
        out = Path("runs") / (name if number == 1 else f"{name}-{number}")
        made = _missing(out)
        try:
            out.mkdir(parents=True)
        except FileExistsError:
            continue
        return out, made
    raise FedprivError("runs: holds a million runs of that name")


def take_back(directory: Path, made: list[Path]) -> None:
    """Remove the directories that were made for a run that did not begin, unless it says why; the innermost first."""
    if not made or (directory / STUDY).exists() or (directory / LOG).exists():
        return
    try:
        for name in (ERROR, STOP):
            (directory / name).unlink(missing_ok=True)
        for each in made:
            each.rmdir()
    except OSError:  # somebody else is at work there
        pass


def _missing(directory: Path) -> list[Path]:
    """Which directories making a run's will make: of it and its parents those not there, the innermost first."""
    return [each for each in (directory, *directory.parents) if not each.exists()]
