"""The one strategy: Flower brings the nodes, `server.rounds` runs the rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedpriv.errors import FedprivError
from fedpriv.studies.study import Study
from fedpriv.trust import curated
from server import rounds
from server.nodes import GridDriver
from server.progress.listening import OnRound
from server.rounds.masked_sums import MaskedSums, masks_sums

PATIENCE = 120.0  # seconds until every node must be there


class PrivateStrategy(Strategy):
    """A whole private run on Flower's nodes.

    `start` is its own. Flower's would start before the nodes are there, draw them by the global generator, wait for
    all or none of the replies, give up at the first malformed one, and believe what clients claim to weigh.
    """

    def __init__(
        self,
        study: Study,
        directory: Path,
        *,
        resume: bool = False,  # go on with the run in the directory
        quiet: bool = False,  # show nothing of its progress
        restarted: bool = False,  # a process of a node that ends is started again at once
        stop: Callable[[], bool] = lambda: False,  # whether somebody wants the run to end
        on_round: OnRound | None = None,  # who listens to its rounds
    ) -> None:
        self.outcome: dict[str, Any] = {}  # what result.json says, when `start` has returned
        self._study = study
        self._directory = directory
        self._resume = resume
        self._quiet = quiet
        self._restarted = restarted
        self._stop = stop
        self._on_round = on_round

    def start(self, grid: Grid, *_: Any, **__: Any) -> Result:
        """What Flower's server calls: meet the nodes and run every round, all by the study's own settings."""
        driver = GridDriver(grid, self._study.clients.count, restarted=self._restarted, stop=self._stop)
        driver.meet(PATIENCE)
        if driver.deployed and curated(self._study.privacy.trust):
            raise FedprivError("privacy.trust = 'central' is for simulations: deployed nodes show nobody their updates")
        if driver.deployed and self._study.run.measure_votes:
            raise FedprivError("run.measure_votes is for simulations: a deployed server knows no client's gradient")
        masked = masks_sums(self._study, driver.deployed)
        self.outcome = rounds.run_rounds(
            self._study, self._directory, MaskedSums(driver) if masked else driver,
            resume=self._resume, quiet=self._quiet, masked=masked, on_round=self._on_round,
        )  # fmt: skip
        return Result()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """No messages, if Flower asks: the rounds ask through `server.nodes`."""
        return []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Nothing, if Flower asks: the rounds aggregate what has passed the wire's checks."""
        return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """No messages, if Flower asks: the server evaluates on data of its own, and clients give no more."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """None, if Flower asks: no client was asked to evaluate."""
        return None

    def summary(self) -> None:
        """Say nothing of the strategy in Flower's log: the study file says it all."""
