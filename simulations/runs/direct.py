"""The round's functions called directly, in this process or in Ray's: for sweeps, large cohorts and debuggers.

The same bits as through Flower. In this process there is no time-out: a client that hangs, hangs the run.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.models.gradients import torch_on_one_thread
from clients.training import cohort
from fedpriv import given
from fedpriv._base.arrays import Numbers
from fedpriv._base.own_modules import MODULES, look_for_modules
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.studies.evaluating import Question
from server.rounds.driver import Answer, Task
from simulations.flower.surroundings import reach_ray, usable_cores


def cohort_parts(clients: Numbers, cohorts: int) -> list[Numbers]:
    """The clients of a round divided into so many cohorts, contiguous and even, for the direct driver.

    >>> [part.tolist() for part in cohort_parts(np.arange(5), 2)]
    [[0, 1], [2, 3, 4]]
    """
    bounds = [place * len(clients) // cohorts for place in range(cohorts + 1)]
    return [clients[low:high] for low, high in itertools.pairwise(bounds) if high > low]


class Here:
    """All cohorts one after the other, in this process."""

    def __init__(self, cohorts: int = 1) -> None:
        """Make the direct driver of this process, which divides a round's clients into so many cohorts."""
        self._cohorts = cohorts
        torch_on_one_thread()

    def ask(self, task: Task) -> Iterator[Answer]:
        """Answer a round's task in this process: each cohort's reply as it is made, or why it failed."""
        for part in cohort_parts(task.clients, self._cohorts):
            try:
                asked = task.settings_of(part), task.asks
                yield _answer(part, cohort.cohort_reply(task.study, task.weights, task.round, part, *asked), task)
            except FAULTS as error:
                yield Answer(part, None, f"raised: {reason(error)}")

    def close(self) -> None:
        """Nothing, for this driver of a run holds neither workers nor Ray."""


class OnRay:
    """Cohorts spread over worker processes of Ray, one a core unless said; a worker that dies is started again.

    An address is of a cluster that is there already, whose machines have fedpriv and see the study's data.
    """

    def __init__(
        self,
        workers: int | None,
        cohorts: int | None = None,  # that the clients of a round are divided into: one a worker unless said
        address: str | None = None,
    ) -> None:
        """Start Ray or join a cluster, and start the workers that answer for the cohorts of a run."""
        self._mine = "ray" not in sys.modules or not sys.modules["ray"].is_initialized()
        if self._mine:
            self._end = reach_ray(
                workers or usable_cores(), address
            )  # which sets Ray's environment before it is imported
        import ray

        self._ray: Any = ray  # whose types know nothing of what is called remotely
        workers = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._cohorts = cohorts or workers
        worker: Any = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=1)(_Worker)
        told = {name: os.environ[name] for name in (MODULES, given.FILE) if name in os.environ}
        self._workers: list[Any] = [worker.remote(os.getcwd(), told) for _ in range(workers)]
        if given.FILE in told:
            try:
                self._ray.get(self._workers[0].ready.remote())
            except self._ray.exceptions.RayTaskError as error:
                self.close()
                raise FedprivError(str(error.cause)) from None

    def ask(self, task: Task) -> Iterator[Answer]:
        """Have a round's task answered by Ray's workers: each cohort's answer as it comes, or why there is none."""
        weights = self._ray.put(task.weights)
        owing: dict[Any, Numbers] = {}
        for place, part in enumerate(cohort_parts(task.clients, self._cohorts)):
            worker = self._workers[place % len(self._workers)]
            asked = task.settings_of(part), task.asks
            owing[worker.answer.remote(task.study, weights, task.round, part, *asked)] = part
        until = monotonic() + task.timeout  # of the whole round, as under Flower
        while owing:
            ready, _ = self._ray.wait(list(owing), timeout=max(until - monotonic(), 0.0))
            if not ready:
                break
            for done in ready:
                part = owing.pop(done)
                try:
                    answer = _answer(part, self._ray.get(done), task)
                except self._ray.exceptions.RayTaskError as error:
                    answer = Answer(part, None, f"raised: {reason(error.cause)}")
                except self._ray.exceptions.RayError as error:
                    answer = Answer(part, None, f"lost: {type(error).__name__}")
                yield answer
        for late, part in owing.items():
            self._ray.cancel(late)
            yield Answer(part, None, f"late: no answer within {task.timeout:g} s")

    def close(self) -> None:
        """End the workers of a run, and Ray where it was started here."""
        for worker in self._workers:
            self._ray.kill(worker)
        if self._mine:
            self._end()


class _Worker:
    """One process of Ray's, in the directory that the run was started from."""

    def __init__(self, home: str, told: dict[str, str]) -> None:
        """Begin a Ray worker: in the run's directory, its study's own modules found, torch on one thread."""
        os.environ.update(told)
        if Path(home).is_dir():  # which another machine may lack; then a study's own paths are full ones
            os.chdir(home)
        if MODULES in told:
            look_for_modules(Path(told[MODULES]))
        torch_on_one_thread()

    def ready(self) -> None:
        """Refuse to begin, in a line, where this worker cannot make what fp.run was given."""
        given.load_given()

    def answer(
        self,
        study: str,  # as TOML
        weights: NDArray[np.float32],
        round: int,
        clients: Numbers,
        settings: NDArray[np.float64] | None,  # of their releases that adapt, a row each
        asks: Question | None,
    ) -> bytes:
        """A cohort's reply to a round in this Ray worker, as bytes: what a node of the study would send."""
        return cohort.cohort_reply(study, weights, round, clients, settings, asks)


def _answer(part: Numbers, content: bytes, task: Task) -> Answer:
    """A cohort's reply as the server's rounds take it: for whom, its bytes, and how many bytes the call moved."""
    return Answer(part, content, "", len(content) + task.weights.nbytes + part.nbytes)
