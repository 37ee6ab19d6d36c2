"""Flower's ServerApp: a study from the run's configuration, and its outcome where the launcher finds it."""

from __future__ import annotations

import shlex
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from clients.flower.place import at_home
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from fedpriv.trust import curated
from server.directory.outcome import STOP, Job, begin_job, fail_job, job_ended
from server.nodes import GridDriver
from server.progress.listening import OnRound
from server.rounds import run_rounds
from server.rounds.masked_sums import MaskedSums, masks_sums

PATIENCE = 120.0  # seconds until every node must be there
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """What `flwr run` starts on the server: study, overrides, directory and resume are the run configuration's."""
    config = context.run_config
    serve_study(
        grid,
        Job(
            study=str(config["study"]),
            overrides=tuple(shlex.split(str(config["overrides"]))),
            directory=str(config["directory"]) or f"runs/flwr-{context.run_id}",
            resume=bool(config["resume"]),
            quiet=bool(config["quiet"]),
        ),
    )


def serve_study(grid: Grid, job: Job, *, restarted: bool = False, on_round: OnRound | None = None) -> None:
    """Run a job's study on the nodes of Flower's grid; how it ended is in the run's directory, for the launcher."""
    at_home()
    directory = Path(job.directory)
    begin_job(directory)
    try:
        study = study_file.read_study(job.study, job.overrides)
        driver = GridDriver(grid, study.clients.count, restarted=restarted, stop=(directory / STOP).exists)
        run_met(study, directory, driver, resume=job.resume, quiet=job.quiet, on_round=on_round)
    except BaseException as error:
        fail_job(directory, error)
        raise
    job_ended(directory)


def run_met(
    study: Study, directory: Path, driver: GridDriver, *, resume: bool, quiet: bool, on_round: OnRound | None = None
) -> None:
    """Meet Flower's nodes and run every round of a study on them; refused where they are not what it is for.

    A strategy of Flower's is not what drives it: that would start before the nodes are there, draw them by the global
    generator, wait for all or none of the replies, give up at the first malformed one, and believe what clients claim
    to weigh.
    """
    driver.meet(PATIENCE)
    if driver.deployed and curated(study.privacy.trust):
        raise FedprivError("privacy.trust = 'central' is for simulations: deployed nodes show nobody their updates")
    if driver.deployed and study.run.measure_votes:
        raise FedprivError("run.measure_votes is for simulations: a deployed server knows no client's gradient")
    masked = masks_sums(study, driver.deployed)
    if masked and study.evaluation is not None:
        raise FedprivError("evaluation: masked sums carry messages alone: privacy.trust = 'local', or no evaluation")
    asks = MaskedSums(driver) if masked else driver
    run_rounds(study, directory, asks, resume=resume, quiet=quiet, masked=masked, on_round=on_round)
