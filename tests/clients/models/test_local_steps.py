"""Local steps with momentum, Adam, the proximal term or somebody's own: as torch's optimisers, each client's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.nn import functional

from clients.models import Cnn, Logistic, Mlp, Model
from clients.models.gradients import Net, torch_on_one_thread
from fedpriv._base.arrays import Vector
from fedpriv.aggregation.optimisers import Adam, Memory, Optimiser, Sgd

RATE = 0.05
STEPS = 5


class Signs:
    """Somebody's own: along the sign of the gradient."""

    def start(self, dimension: int) -> Memory:
        return Memory(np.zeros(0), np.zeros(0), 0)

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        return memory._replace(steps=memory.steps + 1), np.sign(direction)


class Touchy(Signs):
    """Raises where a gradient ends in zero."""

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        if direction[-1] == 0:
            raise RuntimeError("no\nbias")
        return memory._replace(steps=memory.steps + 1), direction


class Short(Signs):
    """A change of another length."""

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        return memory, direction[:1]


MODELS: dict[str, tuple[Model, tuple[int, ...]]] = {
    "Logistic": (Logistic(), (6,)),
    "Mlp": (Mlp(hidden=(16,)), (6,)),
    "Cnn": (Cnn(), (64,)),
}
WAYS: dict[str, tuple[Optimiser, float]] = {
    "plain": (Sgd(), 0.0),
    "momentum": (Sgd(0.9), 0.0),
    "Adam": (Adam(), 0.0),
    "proximal": (Sgd(), 0.7),
    "momentum and proximal": (Sgd(0.5), 2.0),
    "own": (Signs(), 0.0),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch_on_one_thread()
    yield
    torch.set_num_threads(before)


def inputs_for(net: Net, clients: int, records: int, seed: int = 0) -> tuple[Any, list[Any]]:
    rng = np.random.default_rng(seed)
    shape = (clients, records, *net.shape)
    batches = [
        (rng.normal(size=shape).astype(np.float32), rng.integers(net.classes, size=shape[:2])) for _ in range(STEPS)
    ]
    return net.initial() + rng.normal(0, 0.2, net.dimension).astype(np.float32), batches


def by_torch(net: Net, way: str, weights: Any, batches: list[Any], client: int) -> Vector:
    """(start − end) / rate of one client, by torch's optimiser and FedProx' loss written out."""
    optimiser, proximal = WAYS[way]
    network = net.module(weights).train()
    parameters = list(network.parameters())
    start = [own.detach().clone() for own in parameters]
    makes: dict[type, Any] = {
        Sgd: lambda: torch.optim.SGD(parameters, RATE, momentum=getattr(optimiser, "momentum", 0.0)),
        Adam: lambda: torch.optim.Adam(parameters, RATE),
        Signs: lambda: torch.optim.SGD(parameters, RATE),
    }
    stepping = makes[type(optimiser)]()
    for x, y in batches:
        stepping.zero_grad()
        away = sum(((own - was) ** 2).sum() for own, was in zip(parameters, start, strict=True))
        loss = functional.cross_entropy(network(net.prepare(torch.tensor(x[client]))), torch.tensor(y[client]))
        (loss + proximal / 2 * away).backward()
        if isinstance(optimiser, Signs):
            for own in parameters:
                own.grad = own.grad.sign()
        stepping.step()
    end = torch.cat([own.detach().reshape(-1) for own in parameters]).numpy()
    return (weights.astype(float) - end) / RATE


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_local_steps_are_those_of_torch_s_optimisers(way: str, model: str) -> None:
    made, shape = MODELS[model]
    net = made.build(shape, 3, seed=1)
    weights, batches = inputs_for(net, 3, 4)
    out = np.full((3, net.dimension), 7, np.float32)
    optimiser, proximal = WAYS[way]
    net.updates(weights, batches, RATE, out, optimiser=optimiser, proximal=proximal)
    assert net.failures == {}
    for client in range(3):  # Adam divides by the size of gradients: where one is rounding alone, its steps are too
        apart = np.abs(out[client] - by_torch(net, way, weights, batches, client))
        assert np.mean(apart < 2e-3) > (0.995 if way in ("Adam", "own") else 0.9999)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_a_client_s_local_steps_are_the_same_bits_whoever_else_is_there(way: str, model: str) -> None:
    made, shape = MODELS[model]
    net = made.build(shape, 3, seed=1)
    weights, batches = inputs_for(net, 7, 4)
    counts = np.random.default_rng(5).integers(0, 5, (STEPS, 7))
    optimiser, proximal = WAYS[way]
    for own in (None, counts):
        out = np.empty((7, net.dimension), np.float32)
        net.updates(weights, batches, RATE, out, None, own, optimiser=optimiser, proximal=proximal)
        for client in range(7):
            some = slice(client, client + 1)
            alone = np.empty((1, net.dimension), np.float32)
            mine = [(x[some], y[some]) for x, y in batches]
            few = None if own is None else own[:, some]
            net.updates(weights, mine, RATE, alone, None, few, optimiser=optimiser, proximal=proximal)
            assert_array_equal(alone[0], out[client])


def test_without_momentum_and_proximal_term_not_a_bit_is_another() -> None:
    net = Logistic().build((6,), 3, seed=1)
    weights, batches = inputs_for(net, 3, 4)
    one, other = (np.empty((3, net.dimension), np.float32) for _ in range(2))
    net.updates(weights, batches, RATE, one)
    net.updates(weights, batches, RATE, other, optimiser=Sgd(0.0), proximal=0.0)
    assert_array_equal(one, other)


def test_a_strong_proximal_term_keeps_clients_near_the_round_s_weights() -> None:
    net = Logistic().build((6,), 3, seed=1)
    weights, batches = inputs_for(net, 3, 4)
    ways = []
    for proximal in (0.0, 5.0, 19.0):
        out = np.empty((3, net.dimension), np.float32)
        net.updates(weights, batches, RATE, out, proximal=proximal)
        ways.append(np.linalg.norm(out, axis=1))
    assert (ways[0] > ways[1]).all()
    assert (ways[1] > ways[2]).all()


def test_an_optimiser_that_raises_costs_its_client_alone() -> None:
    net = Logistic().build((6,), 3, seed=1)
    weights, batches = inputs_for(net, 3, 4)
    counts = np.full((STEPS, 3), 4)
    counts[2, 1] = 0  # a gradient of 0
    out, whole = (np.empty((3, net.dimension), np.float32) for _ in range(2))
    net.updates(weights, batches, RATE, out, None, counts, optimiser=Touchy())
    assert net.failures == {1: "optimiser: RuntimeError: no bias"}
    net.updates(weights, batches, RATE, whole, None, np.full((STEPS, 3), 4))
    assert np.isnan(out).all(axis=1).tolist() == [False, True, False]
    assert_allclose(out[[0, 2]], whole[[0, 2]], rtol=1e-5, atol=1e-6)
    net.updates(weights, batches, RATE, out, optimiser=Short())
    assert set(net.failures) == {0, 1, 2}
    assert "a change of shape (1,) of 21 weights" in net.failures[0]
