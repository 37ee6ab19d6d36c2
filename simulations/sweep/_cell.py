"""One cell, in whichever process: a whole run by the direct driver, gone on with or begun anew, to the same bytes."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.studies import file as study_file
from server import rounds
from server.directory import kept
from server.directory.made_on import Made, check_same
from server.directory.outcome import ERROR, fail, met
from simulations.runs.direct import Here
from simulations.sweep.directory import untried

PATIENCE = 60.0  # seconds that a worker of a sweep that was killed may take to notice


def run_cell(study: str, place: Path, made: Made | None = None) -> str | None:
    """Run a study, given as TOML, in its place; None, or why it failed or its attack was not tried, in a line.

    `made` is the data that whoever asks has, for another machine may have others under the same name.
    """
    try:
        _wait_until_free(place)
        if made is not None:
            check_same("the sweep", made, study_file.parsed(study))
        if not (_begun(place) and _ran(study, place, resume=True)):
            shutil.rmtree(place, ignore_errors=True)
            _run(study, place, resume=False)
        return untried(place)
    except FAULTS as error:
        place.mkdir(parents=True, exist_ok=True)
        fail(place, error)
        return str(error) if isinstance(error, FedprivError) else reason(error)


def _begun(place: Path) -> bool:
    """Whether there is something to go on with; what failed begins anew, and an attack that was not tried."""
    return (place / "checkpoint.npz").exists() and not (place / ERROR).exists() and untried(place) is None


def _ran(study: str, place: Path, resume: bool) -> bool:
    """Whether it could be gone on with: what is damaged begins anew."""
    try:
        _run(study, place, resume)
        return True
    except FedprivError:
        return False


def _run(study: str, place: Path, resume: bool) -> None:
    rounds.run(study_file.parsed(study), place, Here(), resume=resume, quiet=True)
    met(place)


def _wait_until_free(place: Path) -> None:
    until = time.monotonic() + PATIENCE
    while place.is_dir():
        try:
            with kept(place):
                return
        except FedprivError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
