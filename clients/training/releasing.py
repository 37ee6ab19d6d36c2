"""What a client does where a study asks for a release of its records: every step a private sum on a batch of its own.

A client is worked on alone, so its message is the same bits whoever else is asked. Nothing a record can do makes it
fail: a gradient that is not finite is left out, and an empty batch is a sum of nothing, noise like any other.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from clients.data.pool import Pool
from clients.data.splits import Division, records_of
from clients.models.gradients import Net, block_slices
from clients.models.memory import Scratch
from clients.models.per_record import rows_together
from clients.training._batches import read
from clients.training.byzantine import Byzantine
from clients.training.corrupting import Corrupting
from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv.errors import FedprivError
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.exact import bernoulli
from fedpriv.randomness.streams import stream
from fedpriv.releases import SUMS, Batch, Blocks, DpSgd, PrivateSum, ellipsoid_axes, release_at, release_in
from fedpriv.studies.clients import Training
from fedpriv.studies.study import Study
from fedpriv.studies.tables import Noise


class Releasing:
    """The releases of a study's clients. `dropped` counts records left out, by client: nothing of it is sent."""

    def __init__(
        self, study: Study, private: PrivateSum, pool: Pool, net: Net, division: Division,
        byzantine: Byzantine, corrupting: Corrupting, source: Noise,
    ) -> None:  # fmt: skip
        self.dropped: Counter[int] = Counter()
        self._study, self._sum, self._pool, self._net, self._division = study, private, pool, net, division
        self._byzantine, self._corrupting, self._scratch = byzantine, corrupting, Scratch()
        self._source = source
        self._expected = private.sampling * study.clients.records  # public, whatever a client really has
        self._first = study.first_settings
        self.adapted: dict[int, tuple[float, ...]] = {}  # settings after this reply's releases, by client
        self._settings: dict[int, tuple[float, ...]] = {}  # settings before them, by client

    def begin(self, clients: Numbers, settings: NDArray[np.float64] | None) -> None:
        """Take the settings that these clients' releases have come to so far, a row each; None: the first ones."""
        self.adapted = {}
        rows = [] if settings is None else [tuple(row) for row in settings.tolist()]
        self._settings = dict(zip(clients.tolist(), rows, strict=bool(rows)))

    def moved(self) -> tuple[Numbers, NDArray[np.float64]]:
        """Clients in order, and the settings their releases have come to in this reply, a row each, for the server."""
        clients = sorted(self.adapted)
        return np.array(clients, np.int64), np.array([self.adapted[client] for client in clients])

    def updates(self, weights: Rows, round: int, clients: Numbers, out: Rows) -> dict[int, str]:
        """Each client's update, the private sums along its steps added up, into `out`; whose attack failed, why."""
        failures: dict[int, str] = {}
        for row, client in enumerate(clients.tolist()):
            why: dict[int, str] = {}
            out[row] = self._update(weights, round, client, why)
            failures |= dict.fromkeys([row] if why else [], "; ".join(why.values()))
        return failures

    def _update(self, weights: Rows, round: int, client: int, why: dict[int, str]) -> Vector:
        """One client's update (d,): a private sum of its gradients on a sampled batch, at every local step."""
        if self._source == "cryptographic":  # who knows what batches and noise are drawn from can undo what they hide
            rng = cryptographic_generator()
        else:
            rng = stream(self._study.run.seed, "release", round, client)
        training, own = self._study.training, records_of(self._division, client)
        chances = np.full(len(own), self._sum.sampling)
        samples = [own[bernoulli(chances, rng).astype(bool)] for _ in range(training.local_steps)]
        clean = read((chosen[None] for chosen in samples), self._pool, self._corrupting, self._scratch)
        batches = self._byzantine.poisoned(clean, round, np.array([client]), None, self._pool.classes, why)
        total, now, settings = np.zeros(self._net.dimension), weights, self._settings.get(client, self._first)
        for step, (chosen, (x, y)) in enumerate(zip(samples, batches, strict=True)):
            release = release_in(release_at(self._sum, settings), round, self._study.run.rounds)
            axes: Vector = np.ones(1)  # by what a gradient is divided before it is clipped, and the sum multiplied
            if isinstance(release, DpSgd) and release.shape == "ellipsoid":
                axes = ellipsoid_axes(now.astype(np.float64) - self._net.initial())  # which everybody has seen
            batch = self._batch(release, axes, now, x[0], y[0], chosen, round, step)
            self.dropped[client] += int((~batch.usable).sum())
            found = release.released(batch, rng)
            total = total + found.total * axes / (release.unit * self._expected)
            settings = found.settings
            now = (weights - training.learning_rate * total).astype(np.float32)
        if settings:
            self.adapted[client] = settings
        return total

    def _batch(
        self, release: PrivateSum, axes: Vector, now: Rows, x: Rows, y: Numbers, chosen: Numbers, round: int, step: int
    ) -> Batch | Blocks:
        """The gradients of a batch's records for a release, corrupted or not: all at once where it orders them."""
        gathered = None if release.orders else Blocks(release, self._net.dimension, self._expected)
        rows = np.zeros((0, self._net.dimension), np.float32)
        size = max(len(chosen), 1) if gathered is None else rows_together(self._net.dimension)
        for part in block_slices(len(chosen), size):
            rows = self._scratch("rows", len(chosen[part]), self._net.dimension).numpy()
            self._net.each(now, x[part], y[part], rows)
            self._corrupting.gradients(rows, chosen[part], round, step, self._net, now)
            if axes.size > 1:
                np.divide(rows, axes, out=rows, casting="same_kind")
            if gathered is not None:
                gathered.add(rows)
        return Batch.of(release, rows, chosen, self._expected) if gathered is None else gathered


def check_release(study: Study, net: Net, division: Division) -> None:
    """Refuse a study that promises anything to records which several clients hold, or which meet within the model."""
    release, model, loss = study.privacy.release, study.training.model.kind, study.training.loss.kind
    own = ":" in model + loss + study.training.optimiser.kind or model == "Module"
    if study.privacy.promises and release is None and own:
        _check_apart(net, study.training)
    if study.privacy.protected != "record":
        return
    if not division.disjoint:
        raise FedprivError(
            "clients.split: a record may be at several clients, each of which would tell of it: what protects records "
            "(privacy.release, or privacy.unit = 'record') needs a split that gives it to one"
        )
    if release is not None and release.kind not in SUMS:
        return
    if layer := net.where_records_meet():
        why = "privacy.unit = 'record' draws them one by one" if release is None else f"{release.kind} releases "
        why += "" if release is None else "gradients of single ones"
        raise FedprivError(
            f"training.model: layer {layer} takes its statistics from the batch, so records meet, and {why}: GroupNorm "
            "looks at one record"
        )
    if release is not None:
        _check_alone(net)


def _check_apart(net: Net, training: Training) -> None:
    """Refuse, for `check_release`, what of one's own lets a client's update depend on the clients before it."""
    x = np.random.default_rng(2).random((2, 2, *net.shape)).astype(np.float32)
    y, weights = np.array([[0, 0], [0, 1]], net.label_type), net.initial()
    rows, last = np.empty((2, net.dimension), np.float32), np.empty((1, net.dimension), np.float32)
    for some, out in ((slice(None), rows), (slice(1, None), last)):
        batches = [(x[some], y[some])] * training.local_steps
        stepping, proximal = training.stepping, training.proximal
        net.updates(weights, batches, training.learning_rate, out, optimiser=stepping, proximal=proximal)
    if not np.array_equal(rows[1:], last, equal_nan=True):
        raise FedprivError(
            "training.model: a client's gradient depends on the clients before it: no ε would hold. A module must keep "
            "nothing between calls but buffers, a loss or an optimiser nothing outside the object"
        )


def _check_alone(net: Net) -> None:
    """Refuse, for `check_release`, a model whose gradient of one record fails or depends on records seen before."""
    x = np.stack([np.zeros(net.shape), np.random.default_rng(1).random(net.shape)]).astype(np.float32)
    y, weights = np.arange(2).astype(net.label_type), net.initial()
    rows, last = np.empty((2, net.dimension), np.float32), np.empty((1, net.dimension), np.float32)
    net.gradients(weights, x[:, None], y[:, None], rows)
    for why in net.failures.values():
        raise FedprivError(f"training.model: the gradient of a single record cannot be had: {why}")
    net.each(weights, x, y, rows)
    net.each(weights, x[1:], y[1:], last)
    if not np.array_equal(rows[1:], last):
        raise FedprivError(
            "training.model: the gradient of a record depends on the records before it: no ε would hold. A module must "
            "keep nothing between calls but buffers, and a loss nothing outside the object"
        )
