"""Flower's ServerApp: a study from the run's configuration, and its outcome where the launcher finds it."""

from __future__ import annotations

import shlex
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from clients.flower.place import at_home
from fedpriv.studies import file as study_file
from server.directory.outcome import STOP, Job, begin_job, fail_job, job_ended
from server.progress.listening import OnRound
from server.strategy import PrivateStrategy

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
        strategy = PrivateStrategy(
            study, directory, resume=job.resume, quiet=job.quiet, restarted=restarted,
            stop=(directory / STOP).exists, on_round=on_round,
        )  # fmt: skip
        strategy.start(grid)
    except BaseException as error:
        fail_job(directory, error)
        raise
    job_ended(directory)
