"""What a round asks of whoever carries its messages: Flower's simulation or deployment, or a function call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedpriv.studies.evaluating import Question
from fedpriv.wire import Rejected


@dataclass(frozen=True, eq=False)
class Task:
    """One round's question to some clients."""

    round: int  # from 1
    weights: NDArray[np.float32]  # of the model before it
    clients: NDArray[np.int64]  # sorted
    study: str  # as TOML
    timeout: float  # seconds
    settings: NDArray[np.float64] | None = None  # of these clients' releases, where they adapt: a row each
    run: str = ""  # which run of the study, as its directory calls it
    asks: Question | None = None  # what clients are asked in an evaluation, where it is no message

    def settings_of(self, clients: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """The adapting settings of some of a round's clients, a row each, for their node; None where none adapt."""
        return None if self.settings is None else self.settings[np.searchsorted(self.clients, clients)]


@dataclass(frozen=True, eq=False)
class Answer:
    """What came back from one node: its reply, or why there is none."""

    asked: NDArray[np.int64]  # the clients it was asked for
    content: bytes | None  # a reply as `fedpriv.wire` reads it; None where there is none
    error: str = ""  # why there is none
    transport: int = 0  # bytes that travelled, both ways
    rejected: tuple[Rejected, ...] = ()  # what was refused on the way to this content


class Driver(Protocol):
    """Carries a round's messages."""

    def ask(self, task: Task) -> Iterator[Answer]:
        """Ask a round's clients: one answer for each node asked, in any order, within the task's time-out."""

    def close(self) -> None:
        """Let go of the workers or whatever else a driver holds, at a run's end."""
