"""Jobs side by side on Ray: a few workers, each of which is given another job when it has done one.

A worker keeps what jobs share: the data, and every ε it has worked out. Ray is started here, or is a cluster that is
there already, whose machines have fedpriv and see the directory that is worked in.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Protocol

from fedpriv._base.own_modules import MODULES, look_for_modules
from fedpriv.errors import FedprivError, reason
from simulations.flower.surroundings import reach_ray, usable_cores

TRIES = 2  # of a job whose worker dies
AHEAD = 4  # jobs a worker that one is chosen from
TICK = 1.0  # seconds without news after which whoever waits is told so


class Job(Protocol):
    """What one worker does at a time, and what is said of it."""

    @property
    def id(self) -> str:
        """What no two jobs of a crew share: by it their tries are counted."""

    @property
    def title(self) -> str:
        """The job in words, for the line in which a crew's user tells that it failed."""

    @property
    def alike(self) -> str:
        """What jobs share that take about as long: the crew begins with those expected to take longest."""

    def call(self) -> Callable[[], str | None]:
        """What a worker of the crew is sent and calls: it does the job and gives None, or in a line why it failed."""

    def died(self, fault: str) -> None:
        """Write down, where the job's results go, that every worker that tried it has died."""


class Done(NamedTuple):
    """A job that has ended, how long that took, and why it failed if it did."""

    job: Job
    seconds: float
    fault: str | None  # in a line


class Crew:
    """Ray, and at most so many workers: one a core, or as many as the cluster has, unless said. They load at once."""

    def __init__(
        self,
        size: int | None,  # workers
        address: str | None,  # of a cluster that is there already; None for Ray on this machine
    ) -> None:
        """Start Ray here, or join a cluster, and hire so many workers, who load at once."""
        self._mine = "ray" not in sys.modules or not sys.modules["ray"].is_initialized()
        if self._mine:
            self._end = reach_ray(size or usable_cores(), address)
        import ray  # its environment must be set before

        self._ray: Any = ray  # whose types know nothing of what is called remotely
        self._class: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Hand)
        self.size: int = size or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._left, self._tries = deque[Job](), Counter[str]()
        self._took: dict[str, float] = {}  # seconds of the last of those that are alike
        self._busy: dict[Any, Busy] = {}  # by the reference through which Ray will tell what became of it
        for _ in range(self.size):
            self._hire()

    def work(self, jobs: Sequence[Job]) -> Iterator[Done | None]:
        """Have the crew do these jobs: each is yielded when it has ended, in any order; None now and then between."""
        self._left.extend(jobs)
        for _ in range(min(self.size, len(jobs)) - len(self._busy)):  # who had no more jobs has left
            self._hire()
        while self._busy:
            told, _ = self._ray.wait(list(self._busy), timeout=TICK)
            yield from (self._heard(each) for each in told or [None])

    def close(self) -> None:
        """End the crew's workers, and Ray where it was started here."""
        if self._mine:
            self._end()
            return
        for hand, _, _ in self._busy.values():
            self._ray.kill(hand)

    def _hire(self) -> None:
        """Start one more worker of the crew; it is given jobs once it is there, for a cluster may be full."""
        hand = self._class.remote(os.getcwd(), os.environ.get(MODULES))
        self._busy[hand.ready.remote()] = Busy(hand, None, monotonic())

    def _heard(self, told: Any) -> Done | None:
        """What became of a job, when Ray tells of its worker, if anything; the worker is given another."""
        if told is None:
            return None
        hand, job, since = self._busy.pop(told)
        try:
            fault = self._ray.get(told)
            if self._left:  # of the next few jobs the one expected to take longest: none ends long after the others
                given = max(islice(self._left, AHEAD * self.size), key=lambda own: self._took.get(own.alike, inf))
                self._left.remove(given)
                self._tries[given.id] += 1
                self._busy[hand.run.remote(given.call())] = Busy(hand, given, monotonic())
            else:
                self._ray.kill(hand)
        except self._ray.exceptions.RayTaskError as error:
            raise FedprivError(f"Ray's workers cannot begin: {reason(error.cause)}") from None
        except self._ray.exceptions.RayError as error:
            if job is None:
                raise FedprivError(f"Ray's workers cannot begin: {reason(error)}") from None
            self._hire()
            if self._tries[job.id] < TRIES:
                self._left.appendleft(job)
                return None
            fault = f"its worker died, {TRIES} times: {reason(error)}"
            job.died(fault)
        if job is None:
            return None
        self._took[job.alike] = seconds = monotonic() - since
        return Done(job, seconds, fault)


class Busy(NamedTuple):
    """A worker, the job it has (none while it loads), and since when."""

    hand: Any  # Ray's handle of a `Hand`
    job: Job | None
    since: float  # of `time.monotonic`


class Hand:
    """A worker: one process of Ray's, in the directory that the work was started from."""

    def __init__(self, home: str, modules: str | None) -> None:
        """A worker's process: `home` is where the work was started from, `modules` where studies' own lie."""
        self._home, self._modules = home, modules

    def ready(self) -> None:
        """Load, in the worker's process, what jobs need before they are given to it, torch above all."""
        if Path(self._home).is_dir():  # where it is not, a job will say so
            os.chdir(self._home)
        if self._modules:
            look_for_modules(Path(self._modules))
        import_module("simulations.sweep._cell")

    def run(self, call: Callable[[], str | None]) -> str | None:
        """Do one job in the worker's process; None, or in a line why it failed."""
        return call()
