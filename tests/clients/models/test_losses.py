"""A loss of one's choice: gradients by two routes, each client's its own to the last bit, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor, nn
from torch.nn import functional

from clients.models import Cnn, Logistic, Mlp, Model
from clients.models.gradients import Net, torch_on_one_thread
from clients.models.losses import LOSSES, fitting_loss
from fedpriv.errors import FedprivError
from fedpriv.registry import Kind

HERE = __name__
Plain = Callable[[Tensor, Tensor], Tensor]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch_on_one_thread()
    yield
    torch.set_num_threads(before)


class Quartic:
    """Somebody's own: (ŷ − y)⁴."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return self.factor * (outputs - labels) ** 4


class Focal:
    """Somebody's own, of classes: (1 − p)²·−log p."""

    labels: ClassVar = "classes"

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        own = functional.log_softmax(outputs, 1).gather(1, labels[:, None])[:, 0]
        return -((1 - own.exp()) ** 2) * own


class Centred:
    """Somebody's own, whose records meet: that is its client's affair."""

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        away = outputs - labels
        return (away - away.mean()) ** 2 + away**2


class Touchy:
    """Raises where a label is seven."""

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        if (labels == 7).any():
            raise RuntimeError("seven is\ntoo much")
        return (outputs - labels) ** 2


class Mean:
    """One number of all records."""

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return ((outputs - labels) ** 2).mean()


class Classed:
    """Says that it is of classes, whatever it is."""

    labels = "classes"

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return outputs


def smoothed(outputs: Tensor, labels: Tensor) -> Tensor:
    wanted = 0.8 * functional.one_hot(labels, outputs.shape[1]) + 0.2 / outputs.shape[1]
    return -(wanted * functional.log_softmax(outputs, 1)).sum(1).mean()


CASES: dict[str, tuple[Kind, bool, Plain]] = {
    "CrossEntropy": (Kind("CrossEntropy"), False, functional.cross_entropy),
    "smoothed": (Kind("CrossEntropy", {"smoothing": 0.2}), False, smoothed),
    "Hinge": (
        Kind("Hinge", {"margin": 0.7}),
        False,
        lambda outputs, labels: functional.multi_margin_loss(outputs, labels, margin=0.7),
    ),
    "SquaredError": (Kind("SquaredError"), True, functional.mse_loss),
    "Huber": (
        Kind("Huber", {"delta": 0.5}),
        True,
        lambda outputs, labels: functional.huber_loss(outputs, labels, delta=0.5),
    ),
    "own of numbers": (
        Kind(f"{HERE}:Quartic", {"factor": 2.0}),
        True,
        lambda outputs, labels: 2 * ((outputs - labels) ** 4).mean(),
    ),
    "own of classes": (
        Kind(f"{HERE}:Focal"),
        False,
        lambda outputs, labels: Focal()(outputs, labels).mean(),
    ),
    "own that mixes": (Kind(f"{HERE}:Centred"), True, lambda outputs, labels: Centred()(outputs, labels).mean()),
    "torch's own": (Kind("torch.nn:L1Loss", {"reduction": "none"}), True, functional.l1_loss),
}
MODELS: dict[str, tuple[Model, tuple[int, ...]]] = {
    "Logistic": (Logistic(), (5,)),
    "Mlp": (Mlp(hidden=(7, 16)), (13,)),
    "Cnn": (Cnn(), (64,)),
}


def net_for(loss: Kind, numbers: bool, model: str = "Mlp") -> Net:
    made, shape = MODELS[model]
    classes = 0 if numbers else 4
    return made.build(shape, classes or 1, seed=1).learning(fitting_loss(loss, classes), numbers)


def inputs_for(net: Net, clients: int, records: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    weights = net.initial() + rng.normal(0, 0.3, net.dimension).astype(np.float32)
    x = rng.normal(size=(clients, records, *net.shape)).astype(np.float32)
    if net.numbers:
        return weights, x, rng.normal(size=(clients, records)).astype(np.float32)
    return weights, x, rng.integers(net.classes, size=(clients, records))


def plain_gradient(net: Net, plain: Plain, weights: Any, x: Any, y: Any) -> tuple[float, Any]:
    network = net.module(weights)
    outputs = network(net.prepare(torch.tensor(x)))
    loss = plain(outputs[:, 0] if net.numbers else outputs, torch.tensor(y))
    found = torch.autograd.grad(loss, list(network.parameters()))
    return loss.item(), torch.cat([each.reshape(-1) for each in found]).numpy()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", CASES)
def test_gradients_and_losses_are_those_that_torch_s_own_loss_has(case: str, model: str) -> None:
    kind, numbers, plain = CASES[case]
    net = net_for(kind, numbers, model)
    weights, x, y = inputs_for(net, 4, 6)
    counts = np.array([6, 1, 0, 4])
    out = np.full((4, net.dimension), 7, np.float32)
    for own in (None, counts):
        losses = net.gradients(weights, x, y, out, None, own)
        for client in range(4):
            count = 6 if own is None else int(own[client])
            if not count:
                assert losses[client] == 0
                assert not out[client].any()
                continue
            loss, row = plain_gradient(net, plain, weights, x[client, :count], y[client, :count])
            assert losses[client] == pytest.approx(loss, rel=1e-4)
            assert_allclose(out[client], row, rtol=1e-3, atol=1e-5)
    assert net.failures == {}


@pytest.mark.parametrize("records", [1, 3, 16])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", CASES)
def test_a_row_is_the_same_bits_whoever_shares_its_block(case: str, model: str, records: int) -> None:
    kind, numbers, _ = CASES[case]
    net = net_for(kind, numbers, model)
    weights, x, y = inputs_for(net, 9, records, seed=records)
    together, alone = (np.empty((9, net.dimension), np.float32) for _ in range(2))
    net.gradients(weights, x, y, together)
    for some in ([0], [1, 2, 3], [4, 5], [8, 7, 6]):
        found = np.empty((len(some), net.dimension), np.float32)
        net.gradients(weights, x[some], y[some], found)
        alone[some] = found
    assert_array_equal(together, alone)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", CASES)
def test_a_record_s_gradient_is_that_of_a_client_who_has_it_alone(case: str, model: str) -> None:
    kind, numbers, _ = CASES[case]
    net = net_for(kind, numbers, model)
    weights, x, y = inputs_for(net, 7, 1)
    rows, each, one = (np.empty((7, net.dimension), np.float32) for _ in range(3))
    net.gradients(weights, x, y, rows)
    net.each(weights, x[:, 0], y[:, 0], each)
    assert_allclose(each, rows, rtol=1e-4, atol=1e-6)
    for record in range(7):
        net.each(weights, x[record], y[record], one[record : record + 1])
    assert_array_equal(each, one)


def test_r2_and_the_mean_loss_are_what_their_formulas_say() -> None:
    net = net_for(Kind("Huber", {"delta": 0.5}), True, "Logistic")
    weights, x, y = inputs_for(net, 1, 1300)
    r2, loss = net.evaluate(weights, x[0], y[0])
    guessed = net.module(weights)(torch.tensor(x[0])).detach().numpy()[:, 0].astype(float)
    away = guessed - y[0]
    assert r2 == pytest.approx(1 - (away**2).sum() / ((y[0] - y[0].mean(dtype=float)) ** 2).sum(), rel=1e-5)
    assert loss == pytest.approx(float(functional.huber_loss(torch.tensor(guessed), torch.tensor(y[0]), delta=0.5)))
    assert np.isnan(net.evaluate(weights, x[0], np.ones_like(y[0]))[0])  # numbers that are all alike have no R²


def test_a_loss_that_raises_costs_its_client_alone() -> None:
    for model in MODELS:
        net = net_for(Kind(f"{HERE}:Touchy"), True, model)
        weights, x, y = inputs_for(net, 3, 4)
        y[1, 2] = 7
        out = np.empty((3, net.dimension), np.float32)
        losses = net.gradients(weights, x, y, out)
        assert net.failures == {1: "RuntimeError: seven is too much"}
        assert np.isnan(losses).tolist() == [False, True, False]
        assert np.isnan(out).all(axis=1).tolist() == [False, True, False]


def test_a_number_that_is_not_finite_costs_its_client_alone() -> None:
    net = net_for(Kind("SquaredError"), True)
    weights, x, y = inputs_for(net, 3, 4)
    y[2, 1] = np.inf
    out = np.empty((3, net.dimension), np.float32)
    net.gradients(weights, x, y, out)
    assert net.failures == {2: "its label inf is not finite"}
    net.each(weights, x[2], y[2], wide := np.empty((4, net.dimension), np.float32))
    assert np.isnan(wide).all(axis=1).tolist() == [False, True, False, False]


REFUSED: list[tuple[Kind, int, str]] = [
    (
        Kind("SquaredError"),
        4,
        "SquaredError is of labels that are numbers, and those of the data are classes: CrossEnt",
    ),
    (Kind("CrossEntropy"), 0, "CrossEntropy is of labels that are classes, and those of the data are numbers: Squared"),
    (Kind("CrossEntropy", {"smoothing": 1.0}), 4, r"smoothing must be in \[0, 1\), got 1"),
    (Kind("Hinge", {"margin": 0.0}), 4, "margin must be positive"),
    (Kind("Huber", {"delta": np.nan}), 0, "delta must be"),
    (Kind("Hubr"), 0, "unknown loss 'Hubr'.*did you mean 'Huber'"),
    (Kind(f"{HERE}:Classed"), 0, "Classed is of labels that are classes"),
    (
        Kind(f"{HERE}:Mean"),
        0,
        r"must give each of 2 records a number, got shape \(\): of torch's own, reduction = 'none'",
    ),
    (Kind("torch.nn:MSELoss"), 0, r"got shape \(\): of torch's own, reduction = 'none'"),
    (Kind(f"{HERE}:nobody"), 0, "cannot be imported"),
]


@pytest.mark.parametrize(("kind", "classes", "message"), REFUSED)
def test_a_loss_that_does_not_fit_is_refused_in_one_line(kind: Kind, classes: int, message: str) -> None:
    with pytest.raises(FedprivError, match=message) as error:
        fitting_loss(kind, classes)
    assert "\n" not in str(error.value)


def test_every_loss_that_ships_is_tried() -> None:
    assert {kind.kind for kind, _, _ in CASES.values()} >= set(LOSSES)


def test_a_module_of_one_s_own_learns_numbers() -> None:
    net = Mlp(hidden=(4,)).build((3,), 1, seed=1).learning(fitting_loss(Kind("SquaredError"), 0), True)
    assert isinstance(net.module(net.initial()), nn.Sequential)
    with pytest.raises(FedprivError, match="y must be float32 of shape"):
        net.evaluate(net.initial(), np.zeros((2, 3), np.float32), np.zeros(2, np.int64))
