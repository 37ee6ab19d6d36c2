"""One cell, in whichever process: a whole run by the direct driver, gone on with or begun anew, to the same bytes."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path

from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.studies import file as study_file
from server import rounds
from server.directory import kept_alone
from server.directory.made_on import Made, check_same
from server.directory.outcome import ERROR, fail_job, job_ended
from simulations.runs.direct import Here
from simulations.sweep.directory import untried_attack

PATIENCE = 60.0  # seconds that a worker of a sweep that was killed may take to notice


def run_cell(
    study: str,  # as TOML
    place: Path,  # the cell's directory, which need not be there
    made: Made | None = None,  # the data of whoever asks, for another machine may have others under the same name
    index: Path | None = None,  # the sweep's own file, where another machine is to be refused that does not see it
) -> str | None:
    """Run a sweep's cell in its directory, in a worker; None, or in a line why it failed or did not attack."""
    if index is not None and not index.is_file():
        raise FedprivError(
            f"{index.parent} is not there on every machine: --out must be on a disk that all of them share"
        )
    try:
        until = time.monotonic() + PATIENCE
        while place.is_dir():  # a worker of a sweep that was killed may still be at work there
            late = time.monotonic() > until
            with suppress(*() if late else (FedprivError,)), kept_alone(place):
                break
            time.sleep(0.1)
        if made is not None:
            check_same("the sweep", made, study_file.parsed_study(study))
        # what failed begins anew, and an attack that was not tried; so does what is damaged
        if (place / "checkpoint.npz").exists() and not (place / ERROR).exists() and untried_attack(place) is None:
            with suppress(FedprivError):
                _run(study, place, resume=True)
                return untried_attack(place)
        shutil.rmtree(place, ignore_errors=True)
        _run(study, place, resume=False)
        return untried_attack(place)
    except FAULTS as error:
        place.mkdir(parents=True, exist_ok=True)
        fail_job(place, error)
        return str(error) if isinstance(error, FedprivError) else reason(error)


def _run(study: str, place: Path, resume: bool) -> None:
    """Run a cell's study by the direct driver in its directory, and note there that its job has ended."""
    rounds.run_rounds(study_file.parsed_study(study), place, Here(), resume=resume, quiet=True)
    job_ended(place)
