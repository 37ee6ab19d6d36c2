"""Attacks and models that a study names by import path, which note what they were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator, default_rng
from torch import nn

from fedpriv._base.arrays import Numbers
from fedpriv.attacks import View
from fedpriv.population.participation import Cyclic, Poisson

NOTES: list[Any] = []
STUDY = """
data.kind = "Digits"
clients = { count = 60, byzantine = 12, records = 5 }
attack.kind = "SignFlip"
aggregation = { kind = "TrimmedMean", dropped = 12 }
[privacy.mechanism]
kind = "Binomial"
clip = 1.0
trials = 4
scale = 1.2
peak = 0.2
[run]
rounds = 3
"""


class Looks:
    """Honest updates; notes what the view shows of known updates, or what it refuses."""

    def on_updates(self, updates: Any, view: View) -> Any:
        NOTES.append((view.asked, view.byzantine, np.array(view.known), view.progress))
        return updates


class LooksAtMessages:
    """Honest updates; notes the honest messages."""

    def on_updates(self, updates: Any, view: View) -> Any:
        NOTES.append(np.array(view.messages))
        return updates


@dataclass(frozen=True, kw_only=True)
class Foresees:
    """Sends the mean upside down, and notes what it foresees of that."""

    def on_updates(self, updates: Any, view: View) -> Any:
        row = -3 * view.mean
        NOTES.append(view.once("foreseen", lambda: view.moved(row)))
        return row[None]


class NotesTheStep:
    """Honest updates; notes how far the server goes for one."""

    def on_updates(self, updates: Any, view: View) -> Any:
        NOTES.append(view.step)
        return updates


@dataclass(frozen=True, kw_only=True)
class NoSymbols:
    """Sends symbols that the alphabet lacks."""

    def on_messages(self, updates: Any, view: View) -> Any:
        return np.full(updates.shape, 77)


class Breaks:
    """Fails on every record, and on none."""

    def on_data(self, x: Any, y: Any, classes: int, generators: Any) -> Any:
        raise RuntimeError(f"{x[0, 0]} cannot be changed")


class TurnsTheMean:
    """Turns the mean that all attackers see."""

    def on_updates(self, updates: Any, view: View) -> Any:
        mean = view.mean
        mean *= -1
        return mean[None]


class TurnsTheKnown:
    """Turns the updates that all attackers see."""

    def on_updates(self, updates: Any, view: View) -> Any:
        known = view.known
        known *= -1
        return known[:1]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What gives no direction of as many rows as a round has."""

    answer: str
    needs_rows = True

    def check(self, count: int, dimension: int) -> None:
        """Anything goes."""

    def __call__(self, matrix: Any, aid: Any) -> Any:
        if len(matrix) < 10:  # a rehearsal
            return matrix.mean(axis=0)
        return {"number": lambda: 0.5, "nan": lambda: matrix.mean(0) * np.nan, "raises": lambda: 1 // 0}[self.answer]()


class Counts(nn.Module):
    """A linear model that counts how often it is trained on."""

    trained = 0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Counts.trained += self.training and torch.is_grad_enabled()
        return self.linear(x.flatten(1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """A view's source, given outright."""

    known: Any
    messages: Any = None
    path: Any = None  # what `moved` does

    def moved(self, row: Any) -> Any:
        return self.path(row)


@dataclass(kw_only=True)
class Scene:
    """A view for tests: everything known, unless said otherwise."""

    known: Any
    knowledge: Any = "everything"
    asked: int = 10
    byzantine: int = 3
    mechanism: Any = None
    messages: Any = None
    path: Any = None
    progress: Any = None
    seeds: tuple[int, ...] = (1,)
    shared: int = 9
    step: float = 1.0

    def view(self) -> View:
        source = Known(known=self.known, messages=self.messages, path=self.path)
        generators: list[Generator] = [default_rng(seed) for seed in self.seeds]
        return View(
            knowledge=self.knowledge, seen=source, foresight=source if self.knowledge == "everything" else None,
            generators=lambda: generators, shared=lambda: default_rng(self.shared), mechanism=self.mechanism,
            asked=self.asked, byzantine=self.byzantine, step=self.step,
            progress=np.zeros(np.shape(self.known)[1]) if self.progress is None else self.progress,
        )  # fmt: skip


class HalfAlways(Poisson):
    """Poisson by its rate, but half of the clients are asked in every round: no coin hides them."""

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        return np.arange(count // 2)


class FirstAlways(Cyclic):
    """Cyclic by its blocks, but the first block is asked in every round."""

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        return super().asked(count, seed, 1)
