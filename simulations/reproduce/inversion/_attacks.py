"""Inversions: labels, and records, from what a server reads of one client's message and knows beforehand.

It knows the model, its weights, and public records of the same kind: those held out, which nobody trains on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from clients.models.arrays import Labels
from clients.models.gradients import Net
from fedpriv._base.arrays import Numbers, Rows, Vector

RIDGES = 10.0 ** np.arange(-6, 5)  # shrinkages tried, as multiples of the number of public records
STEP, SMOOTH = 0.1, 0.01  # of Adam on pixels, and the weight of total variation


@dataclass(frozen=True, eq=False)
class Attacker:
    """Who knows a net's weights and public records, and reads one client's message."""

    net: Net
    x: Rows  # public records, as the model sees them
    y: Labels

    def gradients(self, x: Rows, y: Labels) -> Rows:
        """The update of a client with each of these records alone, a row each: what its message is made of."""
        out = np.empty((len(x), self.net.dimension), np.float32)
        self.net.gradients(self.net.initial(), x[:, None], y[:, None], out)
        return out

    @cached_property
    def module(self) -> nn.Module:
        """The net as a torch module with the weights of the first round, whose gradients are those of `gradients`."""
        return self.net.module(self.net.initial()).requires_grad_()

    @cached_property
    def means(self) -> Rows:
        """The mean public record of each class."""
        return np.stack([self.x[self.y == label].mean(axis=0) for label in range(self.net.classes)])

    @cached_property
    def expected(self) -> Vector:
        """The update of each class's mean record, of norm 1: a class a row."""
        rows = self.gradients(self.means, np.arange(self.net.classes)).astype(np.float64)
        return np.asarray(rows / np.linalg.norm(rows, axis=1)[:, None])

    def scores(self, messages: Vector) -> Vector:
        """How far each message points to what each class's mean record would send."""
        return np.asarray(messages @ self.expected.T)

    def labels(self, messages: Vector) -> Numbers:
        """The class of each message's record: the one whose mean record would send the likest."""
        return np.asarray(np.argmax(self.scores(messages), axis=1), np.int64)

    @cached_property
    def first(self) -> tuple[int, int]:
        """Units and inputs of the first layer, whose weights stand first among the net's, then its biases."""
        weights = next(iter(self.module.parameters()))
        return weights.shape[0], weights[0].numel()

    def through_first_layer(self, messages: Vector) -> tuple[Vector, Vector]:
        """Each record, taken flat, times a number, and that number: exact of a dense first layer's own gradient.

        That gradient is δxᵀ of weights and δ of biases, of one record x (Zhu, Blaschko 2021; Geiping et al. 2020): so
        any weights u give (uᵀδ)x and uᵀδ. u is the δ of the mean record of the class, which noise blurs least.
        """
        units, inputs = self.first
        u = self.expected[self.labels(messages), units * inputs : units * (inputs + 1)]
        own = messages[:, : units * inputs].reshape(-1, units, inputs)
        scale = (u * messages[:, units * inputs : units * (inputs + 1)]).sum(axis=1)
        return np.einsum("nu,nui->ni", u, own), scale

    def told(self, messages: Vector) -> Vector:
        """What a learnt inversion is given of each message: the record times a number, and what says its class."""
        record, _ = self.through_first_layer(messages)
        scores = self.scores(messages)
        return np.hstack((record, scores, scores == scores.max(axis=1, keepdims=True)))

    def matched(self, message: Vector, label: int, steps: int) -> Vector:
        """The record whose gradient points the way of the message, smoothed: Geiping et al. 2020.

        1 − cosine and `SMOOTH` times total variation, by Adam on signs of gradients, from the mean public record on; a
        coordinate stays in the public records' range. To first order the cosine with a decoded message is the
        likelihood of symbols whose noise is far larger than a coordinate.
        """
        target, y = torch.from_numpy(message / np.linalg.norm(message)).float(), torch.tensor([label])
        x = torch.from_numpy(self.x.mean(axis=0, keepdims=True)).requires_grad_()
        low, high = float(self.x.min()), float(self.x.max())
        optimiser = torch.optim.Adam([x], lr=STEP * (high - low))
        shorter = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, steps)
        for _ in range(steps):
            rough = torch.stack([x.diff(dim=axis).abs().mean() for axis in (1, 2)]).sum() / (high - low)
            (x.grad,) = torch.autograd.grad(1 - self.cosine(x, y, target) + SMOOTH * rough, x)
            x.grad.sign_()
            optimiser.step()
            shorter.step()
            x.data.clamp_(low, high)
        return np.asarray(x.detach().numpy()[0], np.float64)

    def cosine(self, x: Tensor, y: Tensor, target: Tensor) -> Tensor:
        """The cosine between the gradient of a record and a message of norm 1, to be differentiated by the record."""
        loss = torch.nn.functional.cross_entropy(self.module(self.net.prepare(x)), y)
        parts = torch.autograd.grad(loss, list(self.module.parameters()), create_graph=True)
        found = torch.cat([part.reshape(-1) for part in parts])
        cosine: Tensor = found @ target / found.norm().clamp(min=1e-12)
        return cosine


def learnt_map(told: Vector, records: Vector, asked: Vector) -> Vector:
    """Records as a linear map sees them in `asked`, learnt from public pairs of what is told and the record.

    Ridge regression, shrunk by what leaves the least error on each public record when the others are learnt from: of
    messages that tell nothing the map gives the mean record. After Wu et al. 2023 (UAI, Learning to Invert).
    """
    middle, spread = told.mean(axis=0), told.std(axis=0) + 1e-12
    mean = records.mean(axis=0)
    left, sizes, right = np.linalg.svd((told - middle) / spread, full_matrices=False)
    along = left.T @ (records - mean)

    def shrunk(ridge: float) -> Vector:
        """How much of each direction of what is told is kept."""
        return np.asarray(sizes**2 / (sizes**2 + ridge * len(told)))

    def error(ridge: float) -> float:
        """The mean squared error on public records, each left out in turn."""
        leverage = 1 / len(told) + left**2 @ shrunk(ridge)
        missed = records - mean - left @ (shrunk(ridge)[:, None] * along)
        return float(((missed / (1 - leverage)[:, None]) ** 2).mean())

    best = min(RIDGES, key=error)
    weights = right.T @ ((shrunk(best) / np.maximum(sizes, 1e-12))[:, None] * along)
    return np.asarray((asked - middle) / spread @ weights + mean)
