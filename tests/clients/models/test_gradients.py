"""Each client's gradient is what autograd finds, is its own to the last bit, and fails alone."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from torch import Tensor, nn

from clients.models import Cnn, Logistic, Mlp, Model, Module
from clients.models._autograd import Autograd
from clients.models.gradients import Net, torch_on_one_thread
from fedpriv.errors import FedprivError

ROOT = Path(__file__).resolve().parents[3]
Arrays = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]  # weights, x, y


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch_on_one_thread()
    yield
    torch.set_num_threads(before)


class Forgetful(nn.Module):
    """A dense layer behind a batch norm and a dropout: with buffers, and random."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.norm, self.drop, self.dense = nn.BatchNorm1d(inputs), nn.Dropout(0.5), nn.Linear(inputs, classes)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs shifted by how often this module was called: what a leak would show."""
        self.seen = self.seen + 1
        return self.dense(self.drop(self.norm(x))) * self.seen


class Touchy(nn.Module):
    """Raises, is interrupted or gives nan for what the first input says."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        first = float(x[0, 0])
        if first == 7:
            raise RuntimeError("seven is\ntoo much")
        if first == 8:
            raise KeyboardInterrupt
        return self.dense(x) * (torch.nan if first == 9 else 1)


def forgetful() -> Net:
    """A study would refuse it, for its buffers move and nobody sends them; engines keep clients apart all the same."""
    torch.manual_seed(5)
    engine = Autograd(Forgetful(6, 3))
    return Net((6,), 3, engine.start(), engine)


def module(cls: type[nn.Module], inputs: int, classes: int) -> Net:
    settings = {"inputs": inputs, "classes": classes}
    return Module(path=f"{__name__}:{cls.__name__}", settings=settings).build((inputs,), classes, seed=5)


def inputs_for(net: Net, clients: int, records: int, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    weights = net.initial() + rng.normal(0, 0.05, net.dimension).astype(np.float32)
    x = rng.normal(size=(clients, records, *net.shape)).astype(np.float32)
    return weights, x, rng.integers(net.classes, size=(clients, records))


def found(net: Net, weights: NDArray[np.float32], x: NDArray[np.float32], y: NDArray[np.int64]) -> list[NDArray]:
    out = np.full((len(x), net.dimension), 7, np.float32)
    return [net.gradients(weights, x, y, out), out]


# --- against autograd ---------------------------------------------------------------------------------------------


def plain(shape: tuple[int, ...], classes: int, *hidden: int) -> nn.Module:
    """The same dense network in torch's own layers."""
    layers: list[nn.Module] = [nn.Flatten()]
    before = int(np.prod(shape))
    for width in hidden:
        layers += [nn.Linear(before, width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.Linear(before, classes))


def plain_cnn(channels: int, side: int, classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (channels, side, side)),
        *(nn.Conv2d(channels, 16, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, classes)),
    )


CASES: list[tuple[Model, tuple[int, ...], int, nn.Module]] = [
    (Logistic(), (64,), 10, plain((64,), 10)),
    (Logistic(), (5,), 2, plain((5,), 2)),
    (Logistic(), (785,), 3, plain((785,), 3)),
    (Mlp(hidden=(32,)), (4, 4), 10, plain((4, 4), 10, 32)),
    (Mlp(hidden=(7, 19, 4)), (13,), 3, plain((13,), 3, 7, 19, 4)),
    (Cnn(), (64,), 10, plain_cnn(1, 8, 10)),
    (Cnn(), (300,), 4, plain_cnn(3, 10, 4)),
]
NAMES = [f"{model}-{shape}" for model, shape, _, _ in CASES]


def set_weights(network: nn.Module, weights: NDArray[np.float32]) -> None:
    nn.utils.vector_to_parameters(torch.tensor(weights), network.parameters())


def plain_gradient(network: nn.Module, x: NDArray[np.float32], y: NDArray[np.int64]) -> tuple[float, NDArray]:
    network.zero_grad()
    loss = nn.functional.cross_entropy(network(torch.tensor(x)), torch.tensor(y))
    loss.backward()
    return loss.item(), torch.cat([p.grad.reshape(-1) for p in network.parameters()]).numpy()


@pytest.mark.parametrize("records", [1, 3, 16])
@pytest.mark.parametrize(("model", "shape", "classes", "network"), CASES, ids=NAMES)
def test_gradients_and_losses_are_those_of_autograd(
    model: Model, shape: tuple[int, ...], classes: int, network: nn.Module, records: int
) -> None:
    net = model.build(shape, classes, seed=1)
    weights, x, y = inputs_for(net, 5, records)
    losses, rows = found(net, weights, x, y)
    set_weights(network, weights)
    for client in range(5):
        loss, row = plain_gradient(network, x[client], y[client])
        assert losses[client] == pytest.approx(loss, rel=1e-5)
        assert_allclose(rows[client], row, rtol=1e-4, atol=1e-6)
    assert net.failures == {}


@pytest.mark.parametrize(("model", "shape", "classes", "network"), CASES, ids=NAMES)
def test_local_steps_are_those_of_plain_sgd(
    model: Model, shape: tuple[int, ...], classes: int, network: nn.Module
) -> None:
    net = model.build(shape, classes, seed=1)
    weights, *_ = inputs_for(net, 1, 1)
    batches = [inputs_for(net, 3, records, seed)[1:] for seed, records in enumerate([4, 4, 2])]
    out = np.empty((3, net.dimension), np.float32)
    losses = net.updates(weights, iter(batches), 0.2, out)
    for client in range(3):
        set_weights(network, weights)
        optimiser, seen = torch.optim.SGD(network.parameters(), lr=0.2), []
        for x, y in batches:
            seen.append(plain_gradient(network, x[client], y[client])[0])
            optimiser.step()
        end = nn.utils.parameters_to_vector(network.parameters()).detach().numpy()
        assert_allclose(weights - 0.2 * out[client], end, rtol=1e-4, atol=1e-6)
        assert losses[client] == pytest.approx(np.mean(seen), rel=1e-5)


@pytest.mark.parametrize("records", [1, 32, 45, 1100])
@pytest.mark.parametrize(("model", "shape", "classes", "network"), CASES, ids=NAMES)
def test_evaluation_is_that_of_torch(
    model: Model, shape: tuple[int, ...], classes: int, network: nn.Module, records: int
) -> None:
    net = model.build(shape, classes, seed=1)
    weights, (x,), (y,) = inputs_for(net, 1, records)
    accuracy, loss = net.evaluate(weights, x, y)
    set_weights(network, weights)
    assert net.evaluate(weights, x, y) == (accuracy, loss)
    outputs = network(torch.tensor(x)).detach()
    assert accuracy == pytest.approx((outputs.argmax(1).numpy() == y).mean(), abs=1.5 / records * (records == 1100))
    assert loss == pytest.approx(nn.functional.cross_entropy(outputs, torch.tensor(y)).item(), rel=1e-5)


def test_one_step_of_an_update_is_the_gradient() -> None:
    net = Mlp(hidden=(8,)).build((6,), 3, seed=1)
    weights, x, y = inputs_for(net, 4, 5)
    out = np.empty((4, net.dimension), np.float32)
    losses = net.updates(weights, [(x, y)], 0.1, out)
    expected = found(net, weights, x, y)
    assert_array_equal(losses, expected[0])
    assert_array_equal(out, expected[1])


# --- bits ---------------------------------------------------------------------------------------------------------

SHIPPED = [(Logistic(), (784,), 10), (Logistic(), (64,), 10), (Mlp(hidden=(128,)), (784,), 10)]
ODD = [(Logistic(), (64,), 3), (Logistic(), (63,), 9), (Mlp(hidden=(100, 7)), (50,), 2), (Mlp(hidden=(8,)), (8,), 9)]
SLOW = [(Cnn(), (64,), 10)]
EVERY = [*SHIPPED, *ODD, *SLOW]
EVERY_NAME = [f"{model}-{shape[0]}-{classes}" for model, shape, classes in EVERY]


def moved(x: NDArray, floats: int) -> NDArray:
    """The same values, beginning so many floats past a cache line."""
    memory = np.empty(x.size * x.itemsize + 256, np.uint8)
    start = -memory.ctypes.data % 64 + 4 * floats
    there = memory[start : start + x.size * x.itemsize].view(x.dtype).reshape(x.shape)
    there[...] = x
    return there


@pytest.mark.parametrize("records", [1, 10, 16, 32, 48])
@pytest.mark.parametrize(("model", "shape", "classes"), EVERY, ids=EVERY_NAME)
def test_a_row_is_the_same_bits_in_every_block_and_place(
    model: Model, shape: tuple[int, ...], classes: int, records: int
) -> None:
    net = model.build(shape, classes, seed=1)
    weights, x, y = inputs_for(net, 33, records)
    losses, rows = found(net, weights, x, y)
    for clients in (1, 2, 3, 5, 7, 16, 32):
        for start in {0, 1, 33 - clients}:
            part = slice(start, start + clients)
            some_losses, some = found(net, weights, x[part], y[part])
            assert_array_equal(some, rows[part])
            assert_array_equal(some_losses, losses[part])
    order = np.random.default_rng(1).permutation(33)
    shuffled_losses, shuffled = found(net, weights, x[order], y[order])
    assert_array_equal(shuffled, rows[order])
    assert_array_equal(shuffled_losses, losses[order])


DENSE = [*SHIPPED, *ODD, (Mlp(hidden=(100,)), (784,), 10)]


@pytest.mark.parametrize("records", [10, 16, 32, 48, 64])
@pytest.mark.parametrize(("model", "shape", "classes"), DENSE, ids=str)
def test_a_row_is_the_same_bits_beside_any_neighbours(
    model: Model, shape: tuple[int, ...], classes: int, records: int
) -> None:
    net = model.build(shape, classes, seed=1)
    weights, x, y = inputs_for(net, 18, records)
    alone = found(net, weights, x[:1], y[:1])
    for scale in (0.0, 1e-38, 1e-6, 1e30, np.nan):
        for place in (0, 1, 8, 17):
            crowd, labels = x * np.float32(scale), y.copy()
            crowd[place], labels[place] = x[0], y[0]
            losses, rows = found(net, weights, crowd, labels)
            assert losses[place] == alone[0][0]
            assert_array_equal(rows[place], alone[1][0])


@pytest.mark.parametrize("records", [1, 3, 10, 32])
@pytest.mark.parametrize(("model", "shape", "classes"), EVERY, ids=EVERY_NAME)
def test_a_row_is_the_same_bits_wherever_the_arrays_lie(
    model: Model, shape: tuple[int, ...], classes: int, records: int
) -> None:
    net = model.build(shape, classes, seed=1)
    weights, x, y = inputs_for(net, 4, records)
    losses, rows = found(net, weights, x, y)
    scores = net.evaluate(weights, x[0], y[0])
    for floats in (1, 2, 3, 4, 5):
        fresh = model.build(shape, classes, seed=1)
        at = moved(weights, floats), moved(x, floats), y
        out = moved(rows * 0, floats)
        assert_array_equal(fresh.gradients(*at, out), losses)
        assert_array_equal(out, rows)
        assert fresh.evaluate(at[0], at[1][0], y[0]) == scores


@pytest.mark.parametrize(("model", "shape", "classes"), EVERY, ids=EVERY_NAME)
def test_local_steps_are_the_same_bits_in_every_block(model: Model, shape: tuple[int, ...], classes: int) -> None:
    net = model.build(shape, classes, seed=1)
    weights, *_ = inputs_for(net, 1, 1)
    batches = [inputs_for(net, 18, records, seed)[1:] for seed, records in enumerate([10, 10, 3])]
    whole = np.empty((18, net.dimension), np.float32)
    losses = net.updates(weights, batches, 0.1, whole)
    for part in (slice(0, 1), slice(17, 18), slice(3, 8), slice(1, 18)):
        out = np.empty((part.stop - part.start, net.dimension), np.float32)
        assert_array_equal(net.updates(weights, [(x[part], y[part]) for x, y in batches], 0.1, out), losses[part])
        assert_array_equal(out, whole[part])


@pytest.mark.parametrize("records", [1, 16])
def test_blocks_beyond_the_chunk_are_the_same_bits(records: int) -> None:
    net = Logistic().build((64,), 10, seed=1)
    weights, x, y = inputs_for(net, 2 * net.chunk + 3, records)
    _, rows = found(net, weights, x, y)
    for client in (0, net.chunk - 1, net.chunk, 2 * net.chunk + 2):
        one = slice(client, client + 1)
        assert_array_equal(found(net, weights, x[one], y[one])[1], rows[one])


# --- uneven clients -----------------------------------------------------------------------------------------------

COUNTS = np.array([1, 12, 3, 12, 7, 1, 11, 5, 2, 12, 9, 4, 6, 8, 10, 1, 12, 3])


def filled(net: Net) -> tuple[Arrays, NDArray[np.int64]]:
    """Eighteen clients of 1 to 12 records, filled up to 12 with copies of the first."""
    weights, x, y = inputs_for(net, 18, 12)
    for client, count in enumerate(COUNTS):
        x[client, count:], y[client, count:] = x[client, 0], y[client, 0]
    return (weights, x, y), COUNTS


def found_uneven(
    net: Net, weights: NDArray[np.float32], x: NDArray[np.float32], y: NDArray[np.int64], counts: NDArray[np.int64]
) -> list[NDArray]:
    out = np.full((len(x), net.dimension), 7, np.float32)
    return [net.gradients(weights, x, y, out, counts=counts), out]


@pytest.mark.parametrize(("model", "shape", "classes", "network"), CASES, ids=NAMES)
def test_an_uneven_clients_gradient_is_the_mean_over_its_own_records(
    model: Model, shape: tuple[int, ...], classes: int, network: nn.Module
) -> None:
    net = model.build(shape, classes, seed=1)
    (weights, x, y), counts = filled(net)
    losses, rows = found_uneven(net, weights, x, y, counts)
    set_weights(network, weights)
    for client, count in enumerate(counts):
        loss, row = plain_gradient(network, x[client, :count], y[client, :count])
        assert losses[client] == pytest.approx(loss, rel=1e-5)
        assert_allclose(rows[client], row, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("model", "shape", "classes"), EVERY, ids=EVERY_NAME)
def test_an_uneven_clients_row_is_the_same_bits_in_every_block_and_beside_any_neighbours(
    model: Model, shape: tuple[int, ...], classes: int
) -> None:
    net = model.build(shape, classes, seed=1)
    (weights, x, y), counts = filled(net)
    losses, rows = found_uneven(net, weights, x, y, counts)
    for clients in (1, 2, 3, 7):
        for start in (0, 5, 18 - clients):
            part = slice(start, start + clients)
            some_losses, some = found_uneven(net, weights, x[part], y[part], counts[part])
            assert_array_equal(some, rows[part])
            assert_array_equal(some_losses, losses[part])
    for client in (0, 1, 4):
        crowd, others = np.full_like(x, np.nan), counts[::-1].copy()
        crowd[client], others[client] = x[client], counts[client]
        assert_array_equal(found_uneven(net, weights, crowd, y, others)[1][client], rows[client])


@pytest.mark.parametrize(("model", "shape", "classes"), EVERY, ids=EVERY_NAME)
def test_what_fills_an_uneven_client_up_does_not_show(model: Model, shape: tuple[int, ...], classes: int) -> None:
    net = model.build(shape, classes, seed=1)
    (weights, x, y), counts = filled(net)
    losses, rows = found_uneven(net, weights, x, y, counts)
    _, other, labels = inputs_for(net, 18, 12, seed=9)
    for client, count in enumerate(counts):
        x[client, count:], y[client, count:] = other[client, count:], labels[client, count:]
    assert_array_equal(found_uneven(net, weights, x, y, counts)[1], rows)
    assert_array_equal(found_uneven(net, weights, x, y, counts)[0], losses)


@pytest.mark.parametrize(("model", "shape", "classes"), EVERY, ids=EVERY_NAME)
def test_clients_that_are_full_are_the_same_bits_with_or_without_counts(
    model: Model, shape: tuple[int, ...], classes: int
) -> None:
    net = model.build(shape, classes, seed=1)
    (weights, x, y), counts = filled(net)
    full = counts == 12
    assert_array_equal(found(net, weights, x, y)[1][full], found_uneven(net, weights, x, y, counts)[1][full])


def test_a_module_sees_an_uneven_clients_own_records_alone() -> None:
    net = forgetful()  # a batch norm, which would mix what fills it up into the rest
    (weights, x, y), counts = filled(net)
    kept = counts > 1
    _, rows = found_uneven(net, weights, x[kept], y[kept], counts[kept])
    for row, (client, count) in zip(rows, [each for each in enumerate(counts) if each[1] > 1], strict=True):
        own = slice(client, client + 1), slice(count)
        assert_array_equal(found(net, weights, x[own], y[own])[1][0], row)


@pytest.mark.parametrize("model", [Mlp(hidden=(7,)), Logistic()], ids=str)
def test_local_steps_of_uneven_clients_are_those_of_each_alone(model: Model) -> None:
    net = model.build((16,), 4, seed=1)
    (weights, x, y), counts = filled(net)
    out = np.empty((18, net.dimension), np.float32)
    losses = net.updates(weights, [(x, y)] * 3, 0.2, out, counts=np.tile(counts, (3, 1)))
    for client, count in enumerate(counts):
        own, alone = (slice(client, client + 1), slice(count)), np.empty((1, net.dimension), np.float32)
        assert net.updates(weights, [(x[own], y[own])] * 3, 0.2, alone)[0] == pytest.approx(losses[client], rel=1e-5)
        assert_allclose(out[client], alone[0], rtol=1e-4, atol=1e-6)


SCRIPT = """
import hashlib, sys
import numpy as np
import torch
sys.path.insert(0, "tests/clients/models")
from test_gradients import EVERY, digest
torch.set_num_threads(1)
junk = [np.empty(17 * size, np.uint8) for size in range(1, 99)]  # other addresses
print(*[digest(*case) for case in reversed(EVERY)])
"""


def digest(model: Model, shape: tuple[int, ...], classes: int) -> str:
    net = model.build(shape, classes, seed=1)
    parts = [net.initial()]
    for records in (1, 10, 32):
        parts += found(net, *inputs_for(net, 3, records))
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def test_another_process_finds_the_same_bits() -> None:
    outcome = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert outcome.stdout.split() == [digest(*case) for case in reversed(EVERY)], outcome.stderr


# --- modules that remember, draw, or fail -------------------------------------------------------------------------


def test_buffers_of_one_client_do_not_reach_the_next() -> None:
    net = forgetful()
    weights, x, y = inputs_for(net, 4, 5)
    _, rows = found(net, weights, np.stack([x[0]] * 3), np.stack([y[0]] * 3))
    assert_array_equal(rows[1], rows[0])
    assert_array_equal(rows[2], rows[0])
    before = net.evaluate(weights, x[0], y[0])
    found(net, weights, x, y)
    assert net.evaluate(weights, x[0], y[0]) == before


def test_randomness_follows_the_key_not_the_place() -> None:
    net = forgetful()
    weights, x, y = inputs_for(net, 4, 5)
    keys = np.array([5, -1, 2**62, 7])
    out, back = (np.empty((4, net.dimension), np.float32) for _ in range(2))
    losses = net.gradients(weights, x, y, out, keys)
    assert_array_equal(net.gradients(weights, x[::-1], y[::-1], back, keys[::-1])[::-1], losses)
    assert_array_equal(back[::-1], out)
    net.gradients(weights, x, y, back, keys + 1)
    assert not (back == out).all(axis=1).any()


def test_every_local_step_draws_anew() -> None:
    net = forgetful()
    weights, x, y = inputs_for(net, 2, 5)
    keys, tiny = np.array([1, 2]), 1e-30  # so small a step that the weights stay
    once, twice = (np.empty((2, net.dimension), np.float32) for _ in range(2))
    net.gradients(weights, x, y, once, keys)
    net.updates(weights, [(x, y)] * 2, tiny, twice, keys)
    assert not np.isclose(twice, 2 * once, atol=1e-6).all(axis=1).any()


def test_torchs_own_generator_is_left_alone() -> None:
    net = forgetful()
    before = torch.get_rng_state()
    found(net, *inputs_for(net, 2, 5))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_parameter_that_is_frozen_or_unused_is_no_trouble() -> None:
    net = forgetful()
    assert net.dimension == 6 + 6 + 18 + 3


def test_a_client_that_fails_fails_alone() -> None:
    net = module(Touchy, 4, 3)
    weights, x, y = inputs_for(net, 6, 2)
    expected_losses, expected = found(net, weights, x, y)
    x[1, 0, 0], x[4, 0, 0] = 7, 9
    losses, rows = found(net, weights, x, y)
    fine = [0, 2, 3, 5]
    assert_array_equal(rows[fine], expected[fine])
    assert_array_equal(losses[fine], expected_losses[fine])
    assert np.isnan(rows[[1, 4]]).all()
    assert np.isnan(losses[[1, 4]]).all()
    assert net.failures == {1: "RuntimeError: seven is too much", 4: "its gradient is not finite"}
    found(net, weights, x[fine], y[fine])
    assert net.failures == {}


def test_a_client_that_fails_in_a_later_step_keeps_its_first_reason() -> None:
    net = module(Touchy, 4, 3)
    weights, x, y = inputs_for(net, 3, 2)
    bad = x.copy()
    bad[1, 0, 0] = 7
    out = np.empty((3, net.dimension), np.float32)
    losses = net.updates(weights, [(x, y), (bad, y), (x, y)], 0.1, out)
    assert net.failures == {1: "RuntimeError: seven is too much"}
    assert_array_equal(np.isnan(out).all(axis=1), [False, True, False])
    assert_array_equal(np.isfinite(out).all(axis=1), [True, False, True])
    assert_array_equal(np.isnan(losses), [False, True, False])


def test_an_interrupt_passes() -> None:
    net = module(Touchy, 4, 3)
    weights, x, y = inputs_for(net, 3, 2)
    x[1, 0, 0] = 8
    with pytest.raises(KeyboardInterrupt):
        found(net, weights, x, y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("model", "shape", "classes"), EVERY, ids=EVERY_NAME)
def test_inputs_that_are_not_finite_cost_their_own_client_only(
    model: Model, shape: tuple[int, ...], classes: int, value: float
) -> None:
    net = model.build(shape, classes, seed=1)
    weights, x, y = inputs_for(net, 4, 3)
    expected = found(net, weights, x, y)[1]
    x[2, 1, 3] = value
    rows = found(net, weights, x, y)[1]
    assert net.failures == {2: "its gradient is not finite"}
    assert np.isnan(rows[2]).all()
    assert_array_equal(rows[[0, 1, 3]], expected[[0, 1, 3]])


def test_an_infinite_input_behind_a_closed_relu_is_found() -> None:
    net = Mlp(hidden=(2,)).build((3,), 2, seed=1)
    weights = -np.abs(net.initial())  # every hidden unit is closed: the loss is finite, zero times infinity is not
    x = np.ones((2, 1, 3), np.float32)
    x[0, 0, 0] = np.inf
    rows = found(net, weights, x, np.zeros((2, 1), np.int64))[1]
    assert net.failures == {0: "its gradient is not finite"}
    assert np.isfinite(rows[1]).all()


@pytest.mark.parametrize("label", [-1, 3, -(2**63)])
@pytest.mark.parametrize("model", [Logistic(), Mlp(hidden=(4,))], ids=str)
def test_a_label_beyond_the_classes_costs_its_own_client_only(model: Model, label: int) -> None:
    net = model.build((5,), 3, seed=1)
    weights, x, y = inputs_for(net, 3, 4)
    expected = found(net, weights, x, y)[1]
    y[1, 2] = label
    rows = found(net, weights, x, y)[1]
    assert net.failures == {1: f"its label {label} is not one of the classes 0 to 2"}
    assert np.isnan(rows[1]).all()
    assert_array_equal(rows[[0, 2]], expected[[0, 2]])


# --- what goes in -------------------------------------------------------------------------------------------------


def test_inputs_may_be_read_only_and_strided_and_are_not_changed() -> None:
    net = Mlp(hidden=(8,)).build((6,), 3, seed=1)
    weights, x, y = inputs_for(net, 4, 5)
    expected = found(net, weights, x, y)[1]
    wide = np.zeros((4, 10, 6), np.float32)
    wide[:, ::2] = x
    copies = [weights.copy(), wide[:, ::2], y.copy()]
    for array in copies:
        array.flags.writeable = False
    out = np.empty((8, net.dimension), np.float32)
    net.gradients(*copies, out[::2])  # type: ignore[call-arg,arg-type]
    assert_array_equal(out[::2], expected)
    net.updates(copies[0], [(copies[1], copies[2])] * 2, 0.1, out[::2])
    net.evaluate(copies[0], copies[1][0], copies[2][0])
    assert_array_equal(copies[1], x)


def test_no_clients_are_no_trouble() -> None:
    net = Logistic().build((6,), 3, seed=1)
    losses, rows = found(net, *inputs_for(net, 0, 5))
    assert losses.shape == (0,)
    assert rows.shape == (0, 21)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"weights": np.zeros(22, np.float32)},
            r"weights must be float32 of shape \(21\), got float32 of shape \(22\)",
        ),
        ({"weights": np.zeros(21)}, r"weights must be float32 .* got float64"),
        ({"weights": [0.0] * 21}, "weights must be .* got a list"),
        ({"x": np.zeros((2, 5, 7), np.float32)}, r"x must be float32 of shape \(clients, records, 6\), got .*5, 7\)"),
        ({"x": np.zeros((2, 5, 6))}, "x must be float32 .* got float64"),
        ({"x": np.zeros((5, 6), np.float32)}, "x must be float32"),
        ({"x": torch.zeros(2, 5, 6)}, "got a Tensor"),
        ({"x": np.zeros((2, 0, 6), np.float32), "y": np.zeros((2, 0), np.int64)}, "at least one record"),
        ({"y": np.zeros((2, 4), np.int64)}, r"y must be int64 of shape \(2, 5\), got int64 of shape \(2, 4\)"),
        ({"y": np.zeros((2, 5), np.int32)}, "y must be int64"),
        ({"out": np.zeros((3, 21), np.float32)}, r"out must be float32 of shape \(2, 21\), got float32 of shape \(3"),
        ({"out": np.zeros((2, 21))}, "out must be float32"),
        ({"out": np.zeros((21, 2), np.float32).T}, "each row in one piece"),
        ({"out": np.broadcast_to(np.float32(0), (2, 21))}, "writable"),
        ({"keys": np.zeros(3, np.int64)}, r"keys must be int64 of shape \(2\)"),
        ({"counts": np.zeros(2)}, r"counts must be int64 of shape \(2\), got float64"),
        ({"counts": np.array([-1, 5])}, "counts must be from 0 to 5, got -1 to 5"),
        ({"counts": np.array([1, 6])}, "counts must be from 0 to 5, got 1 to 6"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_one_line(change: dict[str, object], message: str) -> None:
    net = Logistic().build((6,), 3, seed=1)
    weights, x, y = inputs_for(net, 2, 5)
    given = {"weights": weights, "x": x, "y": y, "out": np.zeros((2, 21), np.float32), "keys": None, "counts": None}
    given |= change
    with pytest.raises(FedprivError, match=message) as error:
        net.gradients(**given)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    counts = None if given["counts"] is None else np.array([given["counts"]])  # of each step
    with pytest.raises(FedprivError, match=message):
        net.updates(given["weights"], [(given["x"], given["y"])], 0.1, given["out"], given["keys"], counts)  # type: ignore[arg-type]


def test_updates_refuse_no_batch_and_no_step() -> None:
    net = Logistic().build((6,), 3, seed=1)
    weights, x, y = inputs_for(net, 2, 5)
    out = np.zeros((2, 21), np.float32)
    with pytest.raises(FedprivError, match="at least one batch"):
        net.updates(weights, [], 0.1, out)
    for rate in (0.0, -1.0, np.nan):
        with pytest.raises(FedprivError, match="learning_rate must be"):
            net.updates(weights, [(x, y)], rate, out)


def test_evaluation_refuses_what_does_not_fit() -> None:
    net = Logistic().build((6,), 3, seed=1)
    weights, (x,), (y,) = inputs_for(net, 1, 5)
    with pytest.raises(FedprivError, match="at least one record"):
        net.evaluate(weights, x[:0], y[:0])
    with pytest.raises(FedprivError, match="y must be in 0 to 2, got 3 to 3"):
        net.evaluate(weights, x, y * 0 + 3)
    with pytest.raises(FedprivError, match=r"x must be float32 of shape \(records, 6\)"):
        net.evaluate(weights, x[None], y)


class Last(nn.Linear):
    """Nobody's block of one record."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).squeeze()


def test_a_module_whose_outputs_have_another_shape_for_some_blocks_says_so_in_one_line() -> None:
    net = module(Last, 4, 3)
    weights, (x,), (y,) = inputs_for(net, 1, 513)
    with pytest.raises(FedprivError, match=r"cannot be evaluated: it gives outputs of shape \(3,\) for 1 records"):
        net.evaluate(weights, x, y)


def test_a_module_that_cannot_be_evaluated_says_so_in_one_line() -> None:
    net = module(Touchy, 4, 3)
    weights, (x,), (y,) = inputs_for(net, 1, 5)
    x[0, 0] = 7
    with pytest.raises(FedprivError, match="cannot be evaluated: RuntimeError: seven is too much"):
        net.evaluate(weights, x, y)
