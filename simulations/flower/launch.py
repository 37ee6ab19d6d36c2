"""How Flower is started and stopped: the one place that knows (with what it stands on, in the modules it imports).

`fedpriv run` calls `flwr.simulation.run_simulation` in a process of its own, not `flwr run`. Measured with two workers:
5.6 s from start to end of one round against 13.6 (12 against 24 on a busy machine), as there is no SuperLink to start,
no app to pack and unpack, and no end to wait for. `flwr run` gives no way to have Ray's workers started anew: one that
was killed fails every message it is given from then on, one that hangs is lost. And a run's directory on the same disk
is a simpler witness than three exit statuses. What speaks against it: Flower calls the function deprecated.
`flower_run` is there for whoever wants Flower's own command, to the same bits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedpriv.errors import FedprivError
from fedpriv.records import parsed_line
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server.directory import KEPT, kept_alone
from server.directory.outcome import ERROR, LOG, STOP, Job, expect_failure, job_ended, outcome_of
from server.progress.listening import OnRound, tell_round
from simulations.flower.command import app_directory, flower_run, superlink_run
from simulations.flower.surroundings import end_all, flower_environment, scratch_directory, start_ray, usable_cores

__all__ = ["app_directory", "flower_run", "simulate_study", "start_ray", "superlink_run"]


def simulate_study(
    study: Study,
    directory: str | os.PathLike[str],
    *,
    workers: int | None = None,
    cohorts: int | None = None,
    resume: bool = False,
    quiet: bool = False,
    on_round: OnRound | None = None,
) -> dict[str, Any]:
    """Run a study by Flower's simulation on Ray, the driver `flower` of `fedpriv run`; what result.json says.

    `workers` processes (one a core) answer for `cohorts` nodes (one a worker). Ctrl-C ends the run when the round's
    records are whole, and a second one at once; neither leaves a process behind.
    """
    place = Path(directory).absolute()
    workers = workers or usable_cores()
    job = Job(study=study_file.study_text(study), directory=str(place), resume=resume, quiet=quiet)
    expect_failure(place)
    log = place / LOG
    told = {"job": asdict(job), "workers": workers, "cohorts": cohorts or workers, "log": str(log)}
    with kept_alone(place) as lock, scratch_directory() as scratch:
        log.unlink(missing_ok=True)
        rounds, heard = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "simulations.flower._simulation"],
            stdin=subprocess.PIPE,
            env=flower_environment(scratch) | {KEPT: str(lock)},
            pass_fds=[lock, heard],  # that process keeps the directory where this one is killed
            cwd=scratch / "empty",
            start_new_session=True,  # the terminal's Ctrl-C reaches this process alone
            text=True,
        )
        os.close(heard)
        try:
            _listen(process, rounds, told | {"heard": heard}, on_round, place)
        except FedprivError:  # on_round's; the run itself was interrupted
            job_ended(place)
            log.unlink(missing_ok=True)
            raise
        finally:
            end_all(process)
        try:
            result = outcome_of(place)
        except BaseException:
            if not (place / ERROR).exists():  # asked wrongly, or Ctrl-C: there is nothing to explain
                log.unlink(missing_ok=True)
            raise
        if not result.get("failed"):
            log.unlink(missing_ok=True)
    return result


def _listen(
    simulation: subprocess.Popen[str],
    rounds: int,  # the descriptor that it tells of its rounds by
    told: Mapping[str, Any],  # what it is told first
    on_round: OnRound | None,
    place: Path,
) -> None:
    """Hear of every round of the simulation, which waits for the answer, until it ends; Ctrl-C has its run end."""
    assert simulation.stdin is not None
    with suppress(BrokenPipeError):  # it has ended: its directory says how
        try:
            with os.fdopen(rounds, "rb") as lines:
                print(json.dumps(told), file=simulation.stdin, flush=True)
                for line in lines:
                    stops = on_round is not None and tell_round(on_round, parsed_line(line), place)
                    print(STOP if stops else "on", file=simulation.stdin, flush=True)
            simulation.wait()
        except (KeyboardInterrupt, FedprivError) as error:
            (place / STOP).touch()
            simulation.stdin.close()  # it waits for no more answers
            simulation.wait()
            if isinstance(error, FedprivError):
                raise
    simulation.wait()
