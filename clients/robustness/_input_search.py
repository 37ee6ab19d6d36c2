"""What attacks on inputs share: steps that stay in the ball and in the box, and the worst points seen on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedpriv.certified.functional import EDGE
from fedpriv.errors import FedprivError

Norm = Literal["linf", "l2"]
Network = Callable[[Tensor], Tensor]
TINY = 1e-30  # in the place of a norm that is 0


class Search:
    """The worst points seen so far around records, and how to step from one to the next."""

    def __init__(self, network: Network, x: Tensor, y: Tensor, size: float, norm: Norm) -> None:
        """Records in the box, a label for each."""
        if x.ndim < 2 or y.shape != x.shape[:1] or not len(x):
            raise FedprivError(
                f"records must be (records, …) with a label for each, got {tuple(x.shape)} and {tuple(y.shape)}"
            )
        if not float(x.abs().max()) <= EDGE:
            row = int((~(x.flatten(1).abs().amax(1) <= EDGE)).nonzero()[0])
            raise FedprivError(f"inputs must be in [-1, 1], input {row} is not")
        self._network, self._x, self._y, self._size = network, x, y, size
        self._norm: Norm = norm
        self.worst = x.clone()
        self._highest = losses_of(network, x, y)

    def walked(self, start: Tensor, steps: int, length: float, decay: float = 0.0) -> Tensor:
        """The worst points an attack has seen around each record, after so many more gradient steps from `start`."""
        now, momentum = start, torch.zeros_like(start)
        for step in range(steps):
            with torch.enable_grad():  # records do not meet, so the gradient of the losses' sum is that of each
                moved = now.detach().requires_grad_()
                losses = cross_entropy(self._network(moved), self._y, reduction="none")
                (gradient,) = torch.autograd.grad(losses.sum(), moved)
            if step or start is not self._x:
                self._see(now, losses.detach())
            if decay:
                momentum = decay * momentum + gradient / norms(gradient, 1)
            along = momentum if decay else gradient
            now = self.inside(now + length * (along.sign() if self._norm == "linf" else along / norms(along, 2)))
        self._see(now, losses_of(self._network, now, self._y))
        return self.worst

    def inside(self, moved: Tensor) -> Tensor:
        """An attack's points put back into the ball, then the box: as the record is in the box, they are in both."""
        if self._norm == "linf":
            return moved.clamp(self._x - self._size, self._x + self._size).clamp(-1, 1)
        by = moved - self._x
        return (self._x + by * (self._size / norms(by, 2)).clamp(max=1)).clamp(-1, 1)

    def _see(self, points: Tensor, losses: Tensor) -> None:
        """Keep an attack's points where their loss is the highest yet around their record."""
        keep(losses > self._highest, points, self.worst)
        self._highest = torch.maximum(losses, self._highest)


def keep(better: Tensor, points: Tensor, worst: Tensor) -> None:
    """Put an attack's points, where they are better, in the place of the worst ones seen so far, record by record."""
    worst[better] = points[better]


def losses_of(network: Network, x: Tensor, y: Tensor) -> Tensor:
    """The network's cross-entropy for every record, by which attacks on inputs compare points."""
    with torch.no_grad():
        return cross_entropy(network(x), y, reduction="none")


def norms(x: Tensor, power: int) -> Tensor:
    """The norm of every record of x, never zero, in a shape that divides x: for the steps of attacks on inputs."""
    norms: Tensor = torch.linalg.vector_norm(x.flatten(1), power, dim=1).clamp(min=TINY)
    return norms.view(-1, *[1] * (x.ndim - 1))
