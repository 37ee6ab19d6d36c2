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
from numpy.typing import NDArray
from torch import Tensor, nn

from clients.models.arrays import Counts, Floats, Keys, Labels
from clients.models.gradients import Engine, Failures, Losses, Prepare, block_slices
from clients.models.losses import CrossEntropy, Loss, is_shipped, record_losses
from clients.models.memory import LINE, Scratch, whole_lines
from fedpriv.errors import FAULTS, reason

_GROUP = 32  # records evaluated in one product


@dataclass(frozen=True)
class Layer:
    """One dense layer, and where its weights (outputs, inputs) and then its biases stand in the flat vector."""

    inputs: int
    outputs: int
    start: int  # in the flat vector
    width: int  # inputs, padded where they are another layer's outputs

    @property
    def weights(self) -> slice:
        """Where this dense layer's weights stand in a net's flat vector."""
        return slice(self.start, self.start + self.inputs * self.outputs)

    @property
    def bias(self) -> slice:
        """Where this dense layer's biases stand in a net's flat vector: behind its weights."""
        return slice(self.weights.stop, self.weights.stop + self.outputs)


def layers_of(inputs: int, hidden: tuple[int, ...], classes: int) -> list[Layer]:
    """The layers of a dense net between inputs and classes, each with its place in the flat vector of weights.

    >>> [(layer.start, layer.bias.stop) for layer in layers_of(64, (128,), 10)]
    [(0, 8320), (8320, 9610)]
    """
    layers: list[Layer] = []
    for before, after in pairwise((inputs, *hidden, classes)):
        start = layers[-1].bias.stop if layers else 0
        layers.append(Layer(before, after, start, whole_lines(before) if layers else before))
    return layers


def fastest_chunk(dimension: int) -> int:
    """How many clients a dense net computes at once: enough to hide a call's cost, two megabytes of rows at most.

    Measured: 64 for 784-10, 512 for 64-10, 16 for 784-128-10; past that, scratch is kept below eight megabytes.

    >>> [fastest_chunk(dimension) for dimension in (650, 7850, 101770, 10**7)]
    [512, 66, 16, 1]
    """
    return max(1, min(512, 2**19 // dimension), min(16, 2**21 // dimension))


class Dense:
    """Dense layers with ReLU between them, none for a logistic regression. See `clients.models.gradients.Engine`."""

    loss: Loss = CrossEntropy()

    def __init__(self, layers: list[Layer]) -> None:
        """For records of any shape that, taken flat, fit the first layer."""
        self._layers, self._classes = layers, layers[-1].outputs
        self.prepare: Prepare = lambda x: x
        self._scratch = Scratch()
        self._matrices: list[tuple[Tensor, Tensor]] = []
        self.chunk = fastest_chunk(self._layers[-1].bias.stop)

    def load(self, weights: Tensor) -> None:
        """Take clients' weights: each layer's (clients, outputs, inputs) and biases, padded with zeros to lines."""
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
        """Clients' gradients of a dense net into the rows of `out`, and losses; only a loss of one's own may fail."""
        if len(x) == 1:  # goes twice: a batch of one matrix and one column takes another kernel, with other bits
            twice = self._scratch("twice", 2, out.shape[1])
            both = None if counts is None else counts.repeat(2)
            pair, failures = self.rows(x.repeat(2, 0), y.repeat(2, 0), twice, None, both)
            out.copy_(twice[:1])
            return pair[:1], {row: why for row, why in failures.items() if row == 0}
        seen, logits = self._forward(x)
        if self.loss != CrossEntropy():
            judged = self._judged(logits, y, counts)
            self._back(logits, seen, out)
            return judged
        chances = torch.log_softmax(logits[:, : self._classes], 1)
        labels = torch.from_numpy(y)[:, None]
        shares: Tensor | float = 1 / y.shape[1]  # what each record counts for
        if counts is not None:
            shares = torch.from_numpy(_shares(y, counts))[:, None]
        losses = chances.gather(1, labels).double().mul_(shares).sum((1, 2)).neg_()
        errors = logits  # their memory serves again; the padding is zero already
        torch.exp(chances, out=errors[:, : self._classes])
        errors.scatter_add_(1, labels, torch.full((1, 1, 1), -1.0).expand(labels.shape))
        errors.mul_(shares if isinstance(shares, float) else shares.float())
        self._back(errors, seen, out)
        return losses.numpy(), {}

    def _judged(self, logits: Tensor, y: Labels, counts: Counts | None) -> tuple[Losses, Failures]:
        """Clients' losses other than the plain cross entropy, by autograd; `logits` become errors, but for padding.

        Somebody's own may do anything, with what the records of several clients have in common even: it sees those of
        one client alone.
        """
        failures, errors = Failures(), logits[:, : self._classes].transpose(1, 2)  # (clients, records, classes)
        outputs, labels = errors.clone(memory_format=torch.contiguous_format).requires_grad_(), torch.from_numpy(y)
        numbers = np.full(len(y), y.shape[1]) if counts is None else counts
        shares, losses = torch.from_numpy(_shares(y, numbers)).float(), np.zeros(len(y))
        with torch.enable_grad():
            if is_shipped(self.loss):
                found = record_losses(self.loss, outputs.flatten(0, 1), labels.flatten()).view(y.shape) * shares
                errors.copy_(torch.autograd.grad(found.sum(), outputs)[0])
                return found.detach().double().sum(1).numpy(), failures
            errors.zero_()
            for row in map(int, np.flatnonzero(numbers)):
                own = slice(int(numbers[row]))
                mine = outputs[row, own].detach().clone().requires_grad_()
                try:
                    loss = record_losses(self.loss, mine, labels[row, own]).mean()
                    errors[row, own] = torch.autograd.grad(loss, mine)[0]
                    losses[row] = loss.item()
                except FAULTS as error:
                    failures[row] = reason(error)
        return losses, failures

    def each(self, x: Floats, y: Labels, out: Tensor) -> None:
        """Every record's own gradient into `out` (records, d), for releases: as of clients with one record each."""
        for part in block_slices(len(x), self.chunk):
            self.rows(x[part, None], y[part, None], out[part], None, None)

    def _forward(self, x: Floats) -> tuple[list[Tensor], Tensor]:
        """The pass forward of a dense net: what each layer sees (clients, width, records), and the last's outputs."""
        clients, records = x.shape[:2]
        inputs = self._scratch.copy_of("inputs", x).flatten(2).transpose(1, 2)
        seen = []
        for place, layer in enumerate(self._layers):
            seen.append(inputs)
            units, last = whole_lines(layer.outputs), layer is self._layers[-1]
            if last:  # as many outputs as let its matrices fill whole lines
                step = lcm(LINE // gcd(LINE, records), LINE // gcd(LINE, layer.width))
                units = -(-layer.outputs // step) * step
            result = self._scratch(f"outputs {place}", clients, units, records)
            matrix, bias = self._for_each(place, clients, units)
            torch.bmm(matrix, inputs, out=result).add_(bias)
            inputs = result if last else result.relu_()
        return seen, inputs

    def _for_each(self, place: int, clients: int, units: int) -> tuple[Tensor, Tensor]:
        """One layer's padded weights and biases for that many clients, shared ones seen as one for each."""
        matrix, bias = self._matrices[place]
        return matrix[:, :units].expand(clients, -1, -1), bias[:, :units]

    def _back(self, errors: Tensor, seen: list[Tensor], out: Tensor) -> None:
        """The pass back of a dense net: from errors at the last outputs to every layer's gradients in rows of `out`."""
        for place in reversed(range(len(self._layers))):
            layer, inputs = self._layers[place], seen[place]
            product = self._scratch("product", len(out), errors.shape[1], layer.width)
            torch.bmm(errors, inputs.transpose(1, 2), out=product)
            _matrices_in(out, layer).copy_(product[:, : layer.outputs, : layer.inputs])
            torch.sum(errors[:, : layer.outputs], 2, out=out[:, layer.bias])
            if place:  # through the weights, and nothing where the ReLU of the layer before was closed
                clients, units, records = errors.shape
                matrix, _ = self._for_each(place, clients, units)
                before = self._scratch(f"errors {place}", clients, inputs.shape[1], records)
                errors = torch.bmm(matrix.transpose(1, 2), errors, out=before).mul_(inputs.sign())

    def logits(self, x: Floats) -> Tensor:
        """Outputs (records, classes), for accuracy: records go in groups of a fixed size, as if they were clients."""
        groups = len(x) // _GROUP
        parts = [x[: groups * _GROUP].reshape(groups, _GROUP, *x.shape[1:]), x[None, groups * _GROUP :]]
        found = []
        for part in parts:
            if part.size:
                _, outputs = self._forward(part if len(part) > 1 else part.repeat(2, 0))  # one goes twice, as in `rows`
                own = outputs[: len(part), : self._classes].transpose(1, 2).reshape(-1, self._classes)
                found.append(own.clone())  # no view of scratch
        return torch.cat(found)

    def module(self, weights: Tensor) -> nn.Module:
        """The dense net with these weights as torch modules, which take records flat: to be certified or attacked."""
        layers: list[nn.Module] = [nn.Flatten()]
        for place, own in enumerate(self._layers):
            with torch.random.fork_rng(devices=[]):  # torch draws weights, which nobody uses
                layer = nn.Linear(own.inputs, own.outputs)
            with torch.no_grad():
                layer.weight.copy_(weights[own.weights].view(own.outputs, own.inputs))
                layer.bias.copy_(weights[own.bias])
            layers += [nn.ReLU(), layer] if place else [layer]
        return nn.Sequential(*layers).eval()

    def on(self, device: torch.device) -> Engine:
        """Itself on the CPU, which its products by hand are for; for any other device the same layers by autograd."""
        if device.type == "cpu":
            return self
        from clients.models._autograd import Autograd

        flat = torch.zeros(self._layers[-1].bias.stop)
        return Autograd(self.module(flat)).on(device)

    def where_records_meet(self) -> str:
        """Nowhere in a dense net, so "": each record is a column of its own, and no release is refused."""
        return ""


def _shares(y: Labels, counts: Counts) -> NDArray[np.float64]:
    """What each record of uneven clients counts for: 1/n of the first n, which are its client's own, 0 of the rest."""
    return (np.arange(y.shape[1]) < counts[:, None]) / np.maximum(counts, 1)[:, None]


def _matrices_in(rows: Tensor, layer: Layer) -> Tensor:
    """One layer's part of rows of flat vectors, seen as (clients, outputs, inputs): weights, or their gradients."""
    return rows[:, layer.weights].view(len(rows), layer.outputs, layer.inputs)
