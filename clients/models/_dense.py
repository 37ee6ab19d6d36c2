"""Gradients of dense networks by hand, a block of clients in one batched product a layer.

Inside, a record is a column: activations are (clients, units, records), so that a layer is weights @ inputs and its
gradient errors @ inputsᵀ; with few classes the first is 1.7 times faster than with records as rows. Units are padded
with zeros where a client's matrix would not fill whole cache lines: then all begin on one (see
clients/models/memory.py). Products go through scratch and are copied into the caller's rows, which begin anywhere;
that is also faster than writing there directly, since `bmm` takes its batched kernel only for a contiguous result.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd, lcm

import numpy as np
import torch
from torch import Tensor, nn

from clients.models.arrays import Counts, Floats, Keys, Labels
from clients.models.gradients import Failures, Losses, Prepare, blocks
from clients.models.memory import LINE, Scratch, whole_lines

_GROUP = 32  # records evaluated in one product


@dataclass(frozen=True)
class Layer:
    """One dense layer, and where its weights (outputs, inputs) and then its biases stand in the flat vector."""

    inputs: int
    outputs: int
    start: int
    width: int  # inputs, padded where they are another layer's outputs

    @property
    def weights(self) -> slice:
        """Where the weights stand."""
        return slice(self.start, self.start + self.inputs * self.outputs)

    @property
    def bias(self) -> slice:
        """Where the biases stand."""
        return slice(self.weights.stop, self.weights.stop + self.outputs)


def layers_of(inputs: int, hidden: tuple[int, ...], classes: int) -> list[Layer]:
    """The layers between inputs and classes.

    >>> [(layer.start, layer.bias.stop) for layer in layers_of(64, (128,), 10)]
    [(0, 8320), (8320, 9610)]
    """
    layers: list[Layer] = []
    for before, after in pairwise((inputs, *hidden, classes)):
        start = layers[-1].bias.stop if layers else 0
        layers.append(Layer(before, after, start, whole_lines(before) if layers else before))
    return layers


def fastest_chunk(dimension: int) -> int:
    """Clients at once: enough to hide the cost of a call, few enough that two megabytes of rows stay in cache.

    Measured: 64 for 784-10, 512 for 64-10, 16 for 784-128-10; past that, scratch is kept below eight megabytes.

    >>> [fastest_chunk(dimension) for dimension in (650, 7850, 101770, 10**7)]
    [512, 66, 16, 1]
    """
    return max(1, min(512, 2**19 // dimension), min(16, 2**21 // dimension))


class Dense:
    """Dense layers with ReLU between them, none for a logistic regression. See `clients.models.gradients.Engine`."""

    def __init__(self, layers: list[Layer]) -> None:
        """For records of any shape that, taken flat, fit the first layer."""
        self._layers, self._classes = layers, layers[-1].outputs
        self.prepare: Prepare = lambda x: x
        self._scratch = Scratch()
        self._matrices: list[tuple[Tensor, Tensor]] = []
        self.chunk = fastest_chunk(self._layers[-1].bias.stop)

    def load(self, weights: Tensor) -> None:
        """Each layer's weights (clients, outputs, inputs) and biases, padded with zeros that nobody overwrites."""
        self._matrices = []
        for place, layer in enumerate(self._layers):
            matrix = self._scratch(f"weights {place}", len(weights), whole_lines(layer.outputs), layer.width)
            bias = self._scratch(f"bias {place}", len(weights), whole_lines(layer.outputs), 1)
            matrix[:, : layer.outputs, : layer.inputs] = _matrices_in(weights, layer)
            bias[:, : layer.outputs, 0] = weights[:, layer.bias]
            self._matrices.append((matrix, bias))

    def rows(
        self, x: Floats, y: Labels, out: Tensor, keys: Keys | None, counts: Counts | None
    ) -> tuple[Losses, Failures]:
        """Gradients into `out`; nothing here is random and nothing fails."""
        if len(x) == 1:
            return self._row_of_one(x, y, out, counts)
        seen, logits = self._forward(x)
        chances = torch.log_softmax(logits[:, : self._classes], 1)
        labels = torch.from_numpy(y)[:, None]
        shares = 1 / y.shape[1] if counts is None else _shares(counts, y.shape[1])
        losses = chances.gather(1, labels).double().mul_(shares).sum((1, 2)).neg_()
        errors = logits  # their memory serves again; the padding is zero already
        torch.exp(chances, out=errors[:, : self._classes])
        errors.scatter_add_(1, labels, torch.full((1, 1, 1), -1.0).expand(labels.shape))
        errors.mul_(shares if isinstance(shares, float) else shares.float())
        for place in reversed(range(len(self._layers))):
            self._write(self._layers[place], errors, seen[place], out)
            if place:
                errors = self._back(place, errors, seen[place])
        return losses.numpy(), {}

    def each(self, x: Floats, y: Labels, out: Tensor) -> None:
        """The gradient of every record alone: of as many clients with one record each."""
        for part in blocks(len(x), self.chunk):
            self.rows(x[part, None], y[part, None], out[part], None, None)

    def _row_of_one(self, x: Floats, y: Labels, out: Tensor, counts: Counts | None) -> tuple[Losses, Failures]:
        """A client alone goes twice: a batch of one matrix and one column takes another kernel, with other bits."""
        twice = self._scratch("twice", 2, out.shape[1])
        twice_counts = None if counts is None else counts.repeat(2)
        losses, failures = self.rows(x.repeat(2, 0), y.repeat(2, 0), twice, None, twice_counts)
        out.copy_(twice[:1])
        return losses[:1], failures

    def _forward(self, x: Floats) -> tuple[list[Tensor], Tensor]:
        """What each layer sees (clients, width, records), and the padded outputs of the last."""
        clients, records = x.shape[:2]
        inputs = self._scratch.copy_of("inputs", x).flatten(2).transpose(1, 2)
        seen = []
        for place, layer in enumerate(self._layers):
            seen.append(inputs)
            units = self._units(place, records)
            result = self._scratch(f"outputs {place}", clients, units, records)
            matrix, bias = self._for_each(place, clients, units)
            torch.bmm(matrix, inputs, out=result).add_(bias)
            inputs = result.relu_() if layer is not self._layers[-1] else result
        return seen, inputs

    def _units(self, place: int, records: int) -> int:
        """Outputs of a layer, padded: hidden ones to whole lines, the last so that its matrices fill whole lines."""
        layer = self._layers[place]
        if place < len(self._layers) - 1:
            return whole_lines(layer.outputs)
        step = lcm(LINE // gcd(LINE, records), LINE // gcd(LINE, layer.width))
        return -(-layer.outputs // step) * step

    def _for_each(self, place: int, clients: int, units: int) -> tuple[Tensor, Tensor]:
        matrix, bias = self._matrices[place]
        return matrix[:, :units].expand(clients, -1, -1), bias[:, :units]

    def _write(self, layer: Layer, errors: Tensor, seen: Tensor, out: Tensor) -> None:
        """One layer's gradients, weights and biases, into the rows of `out`."""
        product = self._scratch("product", len(out), errors.shape[1], layer.width)
        torch.bmm(errors, seen.transpose(1, 2), out=product)
        _matrices_in(out, layer).copy_(product[:, : layer.outputs, : layer.inputs])
        torch.sum(errors[:, : layer.outputs], 2, out=out[:, layer.bias])

    def _back(self, place: int, errors: Tensor, seen: Tensor) -> Tensor:
        """The errors of the layer before: through the weights, and nothing where its ReLU was closed."""
        clients, units, records = errors.shape
        matrix, _ = self._for_each(place, clients, units)
        before = self._scratch(f"errors {place}", clients, seen.shape[1], records)
        return torch.bmm(matrix.transpose(1, 2), errors, out=before).mul_(seen.sign())

    def logits(self, x: Floats) -> Tensor:
        """Records go through in groups of a fixed size, each its own product, as if they were clients."""
        groups = len(x) // _GROUP
        parts = [x[: groups * _GROUP].reshape(groups, _GROUP, *x.shape[1:]), x[None, groups * _GROUP :]]
        return torch.cat([self._records(part) for part in parts if part.size])

    def module(self, weights: Tensor) -> nn.Module:
        """The same layers as modules of torch, behind one that takes records flat."""
        layers: list[nn.Module] = [nn.Flatten()]
        for place, own in enumerate(self._layers):
            with torch.random.fork_rng(devices=[]):  # torch draws weights, which nobody uses
                layer = nn.Linear(own.inputs, own.outputs)
            with torch.no_grad():
                layer.weight.copy_(weights[own.weights].view(own.outputs, own.inputs))
                layer.bias.copy_(weights[own.bias])
            layers += [nn.ReLU(), layer] if place else [layer]
        return nn.Sequential(*layers).eval()

    def where_records_meet(self) -> str:
        """Nowhere: each record is a column of its own."""
        return ""

    def _records(self, x: Floats) -> Tensor:
        _, outputs = self._forward(x if len(x) > 1 else x.repeat(2, 0))  # a batch of one: see above
        return (
            outputs[: len(x), : self._classes].transpose(1, 2).reshape(-1, self._classes).clone()
        )  # no view of scratch


def _shares(counts: Counts, records: int) -> Tensor:
    """What each record counts for: 1/n for the first n, which are the client's own, nothing for the rest.

    >>> _shares(np.array([2, 4]), 4).tolist()
    [[[0.5, 0.5, 0.0, 0.0]], [[0.25, 0.25, 0.25, 0.25]]]
    """
    own = np.arange(records) < counts[:, None]
    return torch.from_numpy(own / counts[:, None])[:, None]


def _matrices_in(rows: Tensor, layer: Layer) -> Tensor:
    """The place of one layer's weights in rows of flat vectors (clients, outputs, inputs)."""
    return rows[:, layer.weights].view(len(rows), layer.outputs, layer.inputs)
