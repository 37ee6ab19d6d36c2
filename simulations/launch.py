"""How Flower is started and stopped: the one place that knows.

`fedpriv run` runs Flower's simulation by `flwr.simulation.run_simulation` in a process of its own (simulations/
simulation.py). MEASURED
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedpriv import study_file
from fedpriv.errors import FedprivError
from fedpriv.study import Study
from server.outcome import ERROR, STOP, Job, expect, outcome
from simulations.flower_command import app_directory, flower_run, superlink_run
from simulations.surroundings import cores, end_all, environment, scratch_directory, start_ray

LOG = "flower.log"

__all__ = ["app_directory", "flower_run", "simulate", "start_ray", "superlink_run"]


def simulate(
    study: Study,
    directory: str | os.PathLike[str],
    *,
    workers: int | None = None,
    cohorts: int | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Run a study by Flower's simulation on Ray; what its result.json says.

    `workers` processes (one a core) answer for `cohorts` nodes (one a worker). Ctrl-C ends the run when the round's
    records are whole, and a second one at once; neither leaves a process behind.
    """
    place = Path(directory).absolute()
    workers = workers or cores()
    job = Job(study=study_file.text(study), directory=str(place), resume=resume, quiet=quiet)
    expect(place)
    with scratch_directory() as scratch:
        log = scratch / LOG
        told = {"job": asdict(job), "workers": workers, "cohorts": cohorts or workers, "log": str(log)}
        _run_in_a_group(told, environment(scratch), place)
        try:
            result = outcome(place)
        except FedprivError:
            if (place / ERROR).exists() and log.exists():  # not of the person's making
                shutil.copy(log, place)
            raise
        if result["failed"] and log.exists():
            shutil.copy(log, place)
        return result


def _run_in_a_group(told: dict[str, Any], env: dict[str, str], directory: Path) -> None:
    """Start the simulation's process, and see its group off."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "simulations.simulation"],
        stdin=subprocess.PIPE,
        env=env,
        start_new_session=True,  # the terminal's Ctrl-C reaches this process alone
        text=True,
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        process.wait()
    except KeyboardInterrupt:
        (directory / STOP).touch()
        process.wait()
    finally:
        end_all(process)
