"""Gradients of single records of modules without an engine by hand: one by one, as they are had, and by torch's vmap.

`python -m benchmarks.vmapped`, one thread, the best of three turns. Beside the times: whether vmap gives a record the
same bits at another place of a block of 64, and in a block of three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, max_pool2d

from clients.models._autograd import Autograd
from clients.models.gradients import Net

RECORDS, CLASSES, TURNS = 64, 10, 3


class SmallCnn(nn.Module):
    """Two convolutions, as somebody writes them who calls functions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.last = nn.Linear(32 * 7 * 7, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = max_pool2d(torch.relu(self.first(x)), 2)
        return self.last(max_pool2d(torch.relu(self.second(x)), 2).flatten(1))


class Transformer(nn.Module):
    """Two layers of attention, 32 wide, over 16 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.last = nn.Linear(8, 32), nn.Linear(32, CLASSES)
        sizes = {"asked": (32, 96), "given": (32, 32), "wide": (32, 128), "back": (128, 32)}
        layers = [{name: nn.Linear(*size) for name, size in sizes.items()} for _ in range(2)]
        norms: list[dict[str, nn.Module]] = [{"before": nn.LayerNorm(32), "between": nn.LayerNorm(32)} for _ in layers]
        self.layers = nn.ModuleList(nn.ModuleDict({**own, **norm}) for own, norm in zip(layers, norms, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        for layer in self.layers:
            query, key, value = layer["asked"](layer["before"](x)).chunk(3, -1)
            x = x + layer["given"](torch.softmax(query @ key.transpose(-1, -2) / 32**0.5, -1) @ value)
            x = x + layer["back"](torch.relu(layer["wide"](layer["between"](x))))
        return self.last(x.mean(-2))


def normed() -> nn.Module:
    """A dense network with a group norm."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.GroupNorm(8, 128), nn.ReLU(), nn.Linear(128, CLASSES))


def best(act: Callable[[], object]) -> float:
    """Milliseconds a record."""
    times = []
    for _ in range(1 + TURNS):
        begun = perf_counter()
        act()
        times.append(perf_counter() - begun)
    return min(times[1:]) / RECORDS * 1e3


def rows() -> Iterator[str]:
    """A line for each network."""
    cases: list[tuple[str, Callable[[], nn.Module], tuple[int, ...]]] = [
        ("CNN", SmallCnn, (1, 28, 28)), ("transformer", Transformer, (16, 8)), ("dense, group norm", normed, (28, 28)),
    ]  # fmt: skip
    for name, make, shape in cases:
        torch.manual_seed(1)
        engine, rng = Autograd(make()), np.random.default_rng(1)
        net = Net(shape, CLASSES, engine.start(), engine)
        x, y = rng.normal(size=(RECORDS, *shape)).astype(np.float32), rng.integers(CLASSES, size=RECORDS)
        weights, out = net.initial(), np.empty((RECORDS, net.dimension), np.float32)
        one = best(lambda net=net, weights=weights, x=x, y=y, out=out: net.each(weights, x, y, out))
        together = vmapped(net.module(weights))
        inputs, labels, moved = torch.tensor(x)[:, None], torch.tensor(y)[:, None], rng.permutation(RECORDS)
        whole = together(inputs, labels)
        assert torch.allclose(whole, torch.from_numpy(out), rtol=1e-3, atol=1e-5)
        other = best(lambda together=together, inputs=inputs, labels=labels: together(inputs, labels))
        same = torch.equal(together(inputs[moved], labels[moved]), whole[moved])
        few = torch.equal(together(inputs[:3], labels[:3]), whole[:3])
        yield f"{name}: one by one {one:.2f} ms a record, vmap {other:.2f}; same bits elsewhere {same}, of three {few}"


def vmapped(network: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Records' gradients (records, d) by vmap."""
    weights = {name: own.detach() for name, own in network.named_parameters()}

    def loss(own: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(network, own, (x,)), y)

    found = vmap(grad(loss), in_dims=(None, 0, 0))
    return lambda x, y: torch.cat([each.reshape(len(x), -1) for each in found(weights, x, y).values()], 1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for row in rows():
        print(row)
