"""The process in which Flower's simulation runs, started by `simulations.flower.launch`: the leader of a group of its
own.

Whatever happens, this process is what ends the group: when the run has ended and its outcome is on disk, when Ray
cannot start, and (after the round's records) when the process that started it is gone. Flower's own way to end takes
two seconds, and for ever behind a hung client.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from queue import Queue
from threading import Thread

from fedpriv.records import Line, record_bytes
from fedpriv.studies import file as study_file
from server.directory import KEPT
from server.directory.outcome import STOP, Job, fail_job
from server.progress.listening import OnRound
from simulations.flower.surroundings import init_ray, kill_what_it_started


def main() -> None:
    """The simulation's process: run the job in standard input's first line; stop it where its starter is gone."""
    told = json.loads(sys.stdin.readline())
    for kept in (int(os.environ[KEPT]), told["heard"]):
        os.set_inheritable(kept, False)  # what Ray starts keeps nothing
    directory = Path(told["job"]["directory"])
    answers = Queue[str]()
    Thread(target=_hear_whoever_started_this, args=(directory, answers), daemon=True).start()
    try:
        # The screen is progress's alone: it stays Python's standard error, and the descriptors 1 and 2, where Ray and
        # Flower write, become a log.
        screen = os.fdopen(os.dup(2), "w", buffering=1, errors="replace")
        with Path(told["log"]).open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        logging.captureWarnings(True)
        logging.getLogger("py.warnings").addHandler(logging.FileHandler(told["log"]))
        import_module("flwr.supercore.logger")  # it keeps the standard error that it finds
        sys.stderr = screen
        _simulate(Job(**told["job"]), told["cohorts"], told["workers"], partial(_ask, told["heard"], answers))
    except BaseException as error:
        first = error  # what went wrong before all else
        while first.__cause__ is not None:
            first = first.__cause__
        fail_job(directory, first)
    finally:
        _end()


def _simulate(job: Job, cohorts: int, workers: int, on_round: OnRound) -> None:
    """Start Ray, and on it Flower's simulation of the job's study: one node a cohort, its server in this process."""
    loading = Thread(target=import_module, args=("server.app",))  # torch, while Ray's processes start
    loading.start()
    init_ray(workers)  # before Flower would, which takes it as it is
    loading.join()
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation

    import clients.app
    from server.app import serve_study

    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        """What Flower calls in a thread of its own: serve all rounds of the study, then end the process."""
        try:
            serve_study(grid, job, restarted=True, on_round=on_round)
        finally:
            _end()

    # Ray's own settings travel with the resources of a worker: one that dies is started anew, and its message redone.
    # Flower by itself keeps a dead worker in its pool, where it attracts every message and fails it.
    from clients.models.devices import gpus_each

    gpus = gpus_each(study_file.parsed_study(job.study).training.device, workers)
    worker = {"num_cpus": 1, "num_gpus": gpus, "max_restarts": -1, "max_task_retries": 1}
    # Deprecated, but see `simulations.flower.launch` for why not `flwr run`.
    run_simulation(server, clients.app.app, cohorts, backend_config={"client_resources": {**worker}})


def _ask(heard: int, answers: Queue[str], line: Line) -> bool:
    """Hand a round's line to the process that started the simulation, and wait for it; whether it ends the run."""
    with suppress(BrokenPipeError), os.fdopen(heard, "wb", closefd=False) as pipe:
        pipe.write(record_bytes(line))
    return answers.get() == STOP


def _hear_whoever_started_this(directory: Path, answers: Queue[str]) -> None:
    """Pass on what the process that started the simulation says of each round; at its end, ask the run to stop."""
    for answer in sys.stdin:
        answers.put(answer.strip())
    (directory / STOP).touch()  # nobody holds the other end
    answers.put("")


def _end() -> None:
    """End the simulation's process and all it started, and remove its scratch directory: nobody else may be left."""
    sys.stderr.flush()
    kill_what_it_started(os.getpid())
    shutil.rmtree(os.environ["RAY_TMPDIR"], ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
