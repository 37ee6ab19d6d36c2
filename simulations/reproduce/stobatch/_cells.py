"""[S] Figures 2, 4 and 6 as trainings: each a study on the data that are there, as large as the minutes allow."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np

from clients.data import DATA_SETS, Arrays, Digits, Idx
from clients.data.identity import data_digest, data_title
from clients.data.pool import Pool
from fedpriv._base.tables import Table
from fedpriv.errors import FedprivError
from simulations.reproduce.stobatch.published import (
    ADLM,
    DPSGD,
    EACH,
    FIGURES,
    HONEST,
    PIXELDP,
    PLAIN,
    PRINTED,
    SECURE,
    STOBATCH,
)

NOISE = {
    PIXELDP: 0.5,  # σ on the input, in its units
    SECURE: 0.25,  # σ behind the first layer, whose outputs are in [−1, 1]
}
DELTA = 1e-5  # δ of what is certified
LABELS = 0.1  # ε₂, of the noise on labels
BATCH = 2499  # m, of MNIST
PAIRS = 12  # how often 2m goes into MNIST's 60,000 records
TRAVEL = 0.3  # the sum of all steps' lengths
LONGEST = 0.02  # of one step
RELEASED = {STOBATCH: "StoBatch", ADLM: "AdLm"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training: a method, where it has an ε that one, and how its noise is drawn where that can be asked."""

    method: str  # of METHODS
    epsilon: float | None = None  # the one that is published
    draw: str = ""  # of DRAWS
    seed: int = 1

    @property
    def title(self) -> str:
        """A training of [S]'s figures in words: its method, how its noise is drawn, its ε.

        >>> Cell(method="StoBatch", epsilon=0.2, draw="noise for each").title
        'StoBatch (noise for each), ε = 0.2'
        """
        name = self.method + (f" ({self.draw})" if self.draw else "")
        return name if self.epsilon is None else f"{name}, ε = {self.epsilon:g}"


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    data: Table
    model: Table
    clients: int  # trainers of one pair of batches
    batch: int  # m
    steps: int
    inner: int  # steps of an attack in training
    images: int  # held out, that are attacked and certified
    draws: int  # of noise, for each image's verdict

    @property
    def step(self) -> float:
        """How long Adam's steps are in all trainings: as far in all as [S]'s 1e-4 over its epochs.

        Further, and noise as printed is what is learnt.
        """
        return min(TRAVEL / self.steps, LONGEST)

    @property
    def records(self) -> int:
        """How many records the trainers of a training have together: a pair of batches each."""
        return 2 * self.batch * self.clients

    def pool(self) -> Pool:
        """Load the data that the trainings of [S]'s figures are on, checked."""
        return DATA_SETS.made(self.data["kind"], _settings(self.data)).load()

    def trained(self, cell: Cell) -> str:
        """The name of the directory of a cell's training: another where its study or noise is another.

        What is asked of the network afterwards does not change it.
        """
        return _digest(cell.draw, study(cell, self))

    def name(self, cell: Cell) -> str:
        """The name of the file in which a cell's accuracies are kept: another where cell, scale or study is."""
        return _digest(asdict(cell), asdict(self), self.trained(cell))


def _digest(*known: object) -> str:
    """A hash of plain values as a file's name, by which what is trained or found already is known."""
    return blake2b(dumps(known, sort_keys=True).encode(), digest_size=6).hexdigest()


def cells(name: str, seed: int) -> list[Cell]:
    """The trainings of a figure of [S] with one seed, the most telling first, for when time runs out."""
    figure, found = FIGURES[name], list[Cell]()
    for epsilon in figure.epsilons:
        found += [Cell(method=STOBATCH, epsilon=epsilon, draw=draw, seed=seed) for draw in (EACH, PRINTED)]
        if not figure.certified:
            found += [Cell(method=DPSGD, epsilon=epsilon, seed=seed)]
            found += [Cell(method=ADLM, epsilon=epsilon, draw=draw, seed=seed) for draw in (EACH, PRINTED)]
        found += [Cell(method=SECURE, epsilon=epsilon, seed=seed)]
        if epsilon > 1:  # at less nothing is learnt
            found += [Cell(method=STOBATCH, epsilon=epsilon, draw=HONEST, seed=seed)]
        if epsilon == figure.epsilons[0]:
            found += [Cell(method=PIXELDP, seed=seed)] + [Cell(method=PLAIN, seed=seed)] * (not figure.certified)
    return found


def study(cell: Cell, scale: Scale) -> Table:
    """The study of a cell as a study's tables; where noise is drawn as [S] prints it, only `as_printed` trains it."""
    pairs = {"count": scale.clients, "records": 2 * scale.batch}
    alone = {"count": 1, "records": scale.records}
    asked: Table = {"participation": {"kind": "Fixed", "number": 1}} if scale.clients > 1 else {}
    own: Table = {"clients": alone, "privacy": {"mechanism": {"kind": "Plain"}}, "training": {"batch": scale.batch}}
    if cell.method in RELEASED:
        release: Table = {"kind": RELEASED[cell.method], "batch": scale.batch, "epsilon_2": LABELS}
        release |= {"steps": scale.inner} if cell.method == STOBATCH else {}
        target = {"epsilon": cell.epsilon} if cell.draw == HONEST else {}
        release |= {} if target else {"epsilon": cell.epsilon}
        own = {"clients": pairs | asked, "privacy": {"release": release, "delta": DELTA} | target, "training": {}}
    elif cell.method in (DPSGD, SECURE):
        release = {"kind": "DpSgd", "clip": 1.0, "sampling": min(scale.batch / scale.records, 0.25)}
        own = {
            "clients": alone,
            "privacy": {"release": release, "delta": DELTA, "epsilon": cell.epsilon},
            "training": {},
        }
    model, steps = dict(scale.model), scale.steps
    if cell.method in NOISE:
        at = "input" if cell.method == PIXELDP else "first layer"
        model = {"kind": "Randomised", "network": model, "noise": NOISE[cell.method], "at": at}
    return {
        "name": cell.title, "data": dict(scale.data), **own,
        "training": {**own["training"], "model": model},
        "server": {"step": scale.step, "optimiser": {"kind": "Adam"}},
        "run": {"rounds": steps, "seed": cell.seed, "evaluate_every": steps,
                "checkpoint_every": max(steps // 10, 1)},
    }  # fmt: skip


def data(named: str | None) -> tuple[Table, bool]:
    """The data named, as a study's table, or those there, scaled to [−1, 1] as in [S]; and whether they are digits.

    A directory of idx files or of x.npy and y.npy; else $FEDPRIV_DATA, else Debian's Fashion-MNIST, else the digits.
    """
    digits = {"kind": "Digits", "divide": 8.0, "subtract": 1.0}
    if named == "digits":
        return digits, True
    if named is not None and (Path(named) / "x.npy").is_file():
        return {"kind": "Arrays", **_plain(Arrays(path=named, divide=127.5, subtract=1.0).resolved())}, False
    try:
        return {"kind": "Idx", **_plain(Idx(path=named, divide=127.5, subtract=1.0).resolved())}, False
    except FedprivError:
        if named is not None:
            raise
        return digits, True


def _plain(own: Arrays | Idx) -> Table:
    """A data set's settings as a study's table has them: those that are given."""
    return {name: value for name, value in asdict(own).items() if value is not None}


def called(scale: Scale) -> str:
    """The data of [S]'s trainings here, in words for the figure's page."""
    if scale.data["kind"] == "Digits":
        return "scikit-learn's digits"
    return data_title(data_digest(scale.pool())) or f"the images in {scale.data['path']}"


def full(table: Table, digits: bool) -> Scale:
    """The scale of [S]'s trainings without a budget: as the paper has it, or smaller where the data are the digits.

    Digits are one pair of batches, colour is as CIFAR.
    """
    if digits:
        model: Table = {"kind": "EncodedCnn", "maps": [16], "kernel": 3, "units": 64}
        batch = len(Digits(**_settings(table)).load()) // 2
        return Scale(table, model, clients=1, batch=batch, steps=300, inner=10, images=360, draws=2000)
    if table["kind"] == "Arrays" and np.load(Path(table["path"]) / "x.npy", mmap_mode="r")[0].size % 3 == 0:
        model = {"kind": "CifarCnn"}
        return Scale(table, model, clients=13, batch=1851, steps=7800, inner=3, images=1000, draws=1000)
    model = {"kind": "EncodedCnn", "maps": [32, 64], "kernel": 5, "units": 256}
    return Scale(table, model, clients=PAIRS, batch=BATCH, steps=240, inner=10, images=1000, draws=2000)


def _settings(table: Table) -> dict[str, Any]:
    """The settings in a table of a study, without its kind."""
    return {name: value for name, value in table.items() if name != "kind"}
