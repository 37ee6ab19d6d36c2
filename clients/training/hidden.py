"""What a client does where only the last of its noisy local steps is to leave it: penalised logistic regression.

Every step is computed in float64 from a model held within a ball, ends on a grid, and gets exact noise on that grid;
how far floats may move it is counted in what is charged (docs/proofs/hidden.md). A client is worked on alone, so its
message is the same bits whoever else is asked. Nothing a record can do makes it fail: one that is no record, its
numbers not finite or its label no class, counts as a record of zeros.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import NamedTuple

import numpy as np

from clients.data.pool import Pool
from clients.data.splits import Division, records_of
from clients.models.gradients import Net
from clients.models.memory import Scratch
from clients.training._batches import read
from clients.training.byzantine import Byzantine
from clients.training.corrupting import Corrupting
from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.bounds.clipping import clip_factors
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.streams import stream
from fedpriv.releases.hidden import Walk
from fedpriv.studies.study import Study
from fedpriv.studies.tables import Noise


class Places(NamedTuple):
    """One fixed batch of a client, a place for each record: of an empty one everything is 0."""

    records: Vector  # (places, inputs + 1), of norm at most X for certain
    labels: Numbers

    @staticmethod
    def of(x: Rows, y: Numbers, radius: float, classes: int) -> Places:
        """A batch's records with a 1 for the bias, each shortened to norm `radius` where it is longer, for steps.

        >>> Places.of(np.array([[3, 4], [np.nan, 0]], np.float32), np.array([1, 0]), 1.0, 2).records.round(2)
        array([[0.59, 0.78, 0.2 ],
               [0.  , 0.  , 0.  ]])
        """
        flat = x.reshape(len(x), prod(x.shape[1:]))
        rows = np.concatenate([flat, np.ones((len(x), 1), np.float32)], axis=1)
        factors = clip_factors(rows, radius, "clip")
        usable = np.isfinite(factors) & (y >= 0) & (y < classes)
        own = np.where(usable[:, None], rows, 0).astype(np.float64) * np.where(usable, factors, 0)[:, None]
        return Places(own, np.where(usable, y, 0))

    def mean_gradient(self, model: Vector, places: int) -> Vector:
        """The records' gradients of the cross entropy, added up and divided by so many places: (classes, inputs + 1).

        >>> batch = Places(np.array([[1.0, 0.0]]), np.array([0]))
        >>> batch.mean_gradient(np.zeros((2, 2)), 2)
        array([[-0.25,  0.  ],
               [ 0.25,  0.  ]])
        """
        chances = self.records @ model.T
        chances -= chances.max(axis=1, keepdims=True, initial=-np.inf)
        np.exp(chances, out=chances)
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(self.labels)), self.labels] -= 1
        return np.asarray(chances.T @ self.records) / places


class Hiding:
    """The hidden local steps of a study's clients: of each, only where its last step ends."""

    def __init__(
        self, study: Study, walk: Walk, pool: Pool, net: Net, division: Division,
        byzantine: Byzantine, corrupting: Corrupting, source: Noise,
    ) -> None:  # fmt: skip
        self._study, self._walk, self._pool, self._net, self._division = study, walk, pool, net, division
        self._byzantine, self._corrupting, self._source, self._scratch = byzantine, corrupting, source, Scratch()

    def updates(self, weights: Rows, round: int, clients: Numbers, out: Rows) -> dict[int, str]:
        """Each client's update into `out`, from where its last hidden step ends; whose attack failed, and why."""
        failures: dict[int, str] = {}
        for row, client in enumerate(clients.tolist()):
            why: dict[int, str] = {}
            batches = self._batches(round, client, why)
            if self._source == "cryptographic":  # who knows what noise is drawn from can undo what it hides
                rng = cryptographic_generator()
            else:
                rng = stream(self._study.run.seed, "hidden steps", round, client)
            with one_thread():
                out[row] = hidden_update(self._walk, weights, batches, rng)
            failures |= dict.fromkeys([row] if why else [], "; ".join(why.values()))
        return failures

    def _batches(self, round: int, client: int, why: dict[int, str]) -> list[Places]:
        """One client's fixed batches: its first records, as many as there are places, in their order."""
        own = records_of(self._division, client)[: self._walk.records]
        clean = read(iter([own[None]]), self._pool, self._corrupting, self._scratch)
        ((x, y),) = self._byzantine.poisoned(clean, round, np.array([client]), None, self._pool.classes, why)
        size, radius, classes = self._walk.batch, self._walk.release.radius, self._net.classes
        return [
            Places.of(x[0, start : start + size], y[0, start : start + size], radius, classes)
            for start in range(0, self._walk.records, size)
        ]


def hidden_update(walk: Walk, weights: Rows, batches: list[Places], rng: np.random.Generator) -> Vector:
    """A client's update from its hidden steps: (w₀ − w_K)/η, of the model received and the one the last step ends at.

    >>> from fedpriv.releases.hidden import HiddenState
    >>> walk = Walk(release=HiddenState(radius=1, penalty=0.1, noise=1e-6), records=1, rate=1, steps=1, dimension=4)
    >>> batch = Places(np.array([[1.0, 0.0]]), np.array([0]))
    >>> hidden_update(walk, np.zeros(4, np.float32), [batch], np.random.default_rng(1)).round(4) + 0.0
    array([-0.5,  0.5,  0. ,  0. ])
    """
    step, penalty, start = walk.grid.step, walk.release.penalty, weights.astype(np.float64)
    law, ball = walk.grid.law(walk.deviation, 2), walk.ball
    biases = start.size // batches[0].records.shape[1]  # as many as classes, and behind all weights
    model = np.column_stack([start[:-biases].reshape(biases, -1), start[-biases:]])
    for number in range(walk.steps):
        model = model * (ball / max(sqrt(float((model * model).sum())), ball))
        slope = batches[number % walk.batches].mean_gradient(model, walk.batch) + penalty * model
        whole = np.rint((model - walk.rate * slope) / step)
        model = (whole + law.draw(whole.shape, rng)) * step
    return np.asarray((start - np.concatenate([model[:, :-1].ravel(), model[:, -1]])) / walk.rate)
