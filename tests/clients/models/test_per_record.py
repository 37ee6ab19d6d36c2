"""The gradient of every record alone: what one record's gradient is, the same bits in any batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from clients.models import MODELS as KINDS
from clients.models import per_record
from clients.models.gradients import Net
from clients.models.stobatch import small_network
from fedpriv.errors import FedprivError

MODELS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "Logistic": ("Logistic", {}, (784,)),
    "Mlp": ("Mlp", {"hidden": [24, 16]}, (64,)),
    "Cnn": ("Cnn", {}, (8, 8)),
    "Cnn of colours": ("Cnn", {}, (12, 12, 3)),
    "TutorialCnn": ("TutorialCnn", {}, (28, 28)),
    "TutorialCnn of an odd side": ("TutorialCnn", {}, (15, 15)),
    "EncodedCnn": ("EncodedCnn", {"maps": [8, 12], "units": 16}, (12, 12)),
    "EncodedCnn of long columns and short": ("Module", {"path": "test_per_record:encoded"}, (8, 8)),
    "EncodedCnn behind noise": (
        "Randomised",
        {"network": {"kind": "EncodedCnn", "maps": [4], "units": 8}, "noise": 1e-7, "at": "first layer"},
        (8, 8),
    ),
    "a module in a row": ("Module", {"path": "test_per_record:row"}, (6, 6)),
    "a module with a layer at many places": ("Module", {"path": "test_per_record:places"}, (6, 8)),
    "a module that works in place": ("Module", {"path": "test_per_record:in_place"}, (6, 6)),
    "a module that is no row": ("Module", {"path": "test_per_record:Twice"}, (6, 6)),
    "a module whose records would meet": ("Module", {"path": "test_per_record:meeting"}, (6, 6)),
    "a module with a layer of its own": ("Module", {"path": "test_per_record:scaled"}, (6, 6)),
    "a module that does more than its layers": ("Module", {"path": "test_per_record:louder"}, (6, 6)),
    "a module with one layer in two places": ("Module", {"path": "test_per_record:again"}, (6, 6)),
    "a module with hooks": ("Module", {"path": "test_per_record:hooked"}, (6, 6)),
    "a module with a hook on a weight": ("Module", {"path": "test_per_record:caught"}, (6, 6)),
    "a module of odd sizes": ("Module", {"path": "test_per_record:narrow"}, (6, 6)),
    "a module that shares weights over groups": ("Module", {"path": "test_per_record:groups"}, (6, 6)),
}


class Row(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Unflatten(1, (1, 6)), nn.Conv2d(1, 4, (2, 3), (1, 2), (1, 0), (1, 2)), nn.Tanh(),
                         nn.Flatten(), nn.Linear(28, 4))  # fmt: skip


row = Row


class Twice(nn.Module):
    """The same layer twice: no row."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(36, 36), nn.Linear(36, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.inner(self.inner(x.flatten(1)).relu()).relu())


class Groups(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Unflatten(1, (2, 3)), nn.Conv2d(2, 4, 2, groups=2), nn.Flatten(), nn.Linear(40, 4))


groups = Groups


class Narrow(nn.Sequential):
    """Of sizes at which the bits of a product depend on where its operands stand."""

    def __init__(self) -> None:
        super().__init__(nn.Unflatten(1, (1, 6)), nn.Conv2d(1, 3, (2, 3)), nn.Flatten(), nn.Linear(60, 21),
                         nn.Tanh(), nn.Linear(21, 4))  # fmt: skip


narrow = Narrow


def meeting() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), Evened(), nn.Linear(8, 4))


class Evened(nn.Module):
    """No weights, and records meet."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.detach().mean(0) / 2


def places() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Unflatten(1, (2, 3)), nn.Linear(4, 4), nn.Flatten(),
                         nn.Linear(24, 4))  # fmt: skip


def in_place() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.LeakyReLU(0.1, inplace=True), nn.Linear(36, 8), nn.ReLU(inplace=True),
                         nn.Linear(8, 4))  # fmt: skip


def dropping() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(36, 4))


class Scaled(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight / self.weight.norm(), self.bias)


def scaled() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), Scaled(36, 4))


class Louder(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 3


def louder() -> nn.Sequential:
    return Louder(nn.Flatten(), nn.Linear(36, 4))


def again() -> nn.Sequential:
    twice = nn.Linear(36, 36)
    return nn.Sequential(nn.Flatten(), twice, nn.Tanh(), twice, nn.Linear(36, 4))


def hooked() -> nn.Sequential:
    first = nn.Linear(36, 8)
    first.register_forward_hook(lambda layer, seen, found: found * 2)
    return nn.Sequential(nn.Flatten(), first, nn.Linear(8, 4))


def caught() -> nn.Sequential:
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))
    network[1].weight.register_hook(lambda gradient: gradient / 2)
    return network


def encoded() -> nn.Module:
    """An auto-encoder's layer whose columns lie on either side of ℓ1 norm 1."""
    network = small_network(1, 8, 4, (4,), 3, 8)
    with torch.no_grad():
        network.first.weight.mul_(torch.tensor([0.01, 0.1, 10, 100])[:, None, None, None])
    return nn.Sequential(nn.Unflatten(1, (1, 8)), network)


def net(name: str) -> Net:
    kind, settings, shape = MODELS[name]
    return KINDS.made(kind, settings).build(shape, 4, 1)


def some(own: Net, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, *own.shape)).astype(np.float32)
    weights = own.initial() + rng.normal(scale=0.1, size=own.dimension).astype(np.float32)
    return weights, x, rng.integers(0, 4, count)


@pytest.mark.parametrize("name", MODELS)
def test_each_row_is_the_gradient_of_a_client_with_that_record_alone(name: str) -> None:
    own = net(name)
    weights, x, y = some(own, 70)
    rows, alone = (np.empty((70, own.dimension), np.float32) for _ in range(2))
    own.each(weights, x, y, rows)
    own.gradients(weights, x[:, None], y[:, None], alone)
    np.testing.assert_allclose(rows, alone, rtol=1e-4, atol=1e-6)
    assert np.abs(rows).max(axis=1).min() > 0


@pytest.mark.parametrize("name", MODELS)
def test_the_bits_of_a_row_do_not_depend_on_the_batch(name: str) -> None:
    own = net(name)
    weights, x, y = some(own, 150)
    rows = np.empty((150, own.dimension), np.float32)
    own.each(weights, x, y, rows)
    for count in (1, 2, 63, 64, 149):
        chosen = np.random.default_rng(count).permutation(150)[:count]
        found = np.empty((count, own.dimension), np.float32)
        own.each(weights, x[chosen], y[chosen], found)
        assert (found == rows[chosen]).all()


def test_a_module_with_dropout_drops_others_for_every_record_and_step() -> None:
    own = KINDS.made("Module", {"path": "test_per_record:dropping"}).build((6, 6), 4, 1)
    weights, x, y = own.initial(), np.ones((2, 6, 6), np.float32), np.zeros(2, np.int64)
    x[1] *= 2
    rows, again, later = (np.empty((2, own.dimension), np.float32) for _ in range(3))
    own.each(weights, x, y, rows)
    own.each(weights, x[::-1].copy(), y, again)
    own.each(weights * np.float32(1.01), x, y, later)
    assert (again[::-1] == rows).all()
    dropped = [row[: 36 * 4].reshape(4, 36)[0] == 0 for row in (*rows, later[0])]
    assert all((one != other).any() for one, other in zip(dropped, dropped[1:] + dropped[:1], strict=True))


def test_no_records_have_no_rows() -> None:
    for name in ("Logistic", "TutorialCnn", "a module that is no row"):
        own = net(name)
        weights, x, y = some(own, 0)
        own.each(weights, x, y, np.empty((0, own.dimension), np.float32))


@pytest.mark.parametrize("name", ["Logistic", "TutorialCnn", "a module that is no row"])
def test_a_record_without_a_gradient_is_a_row_of_nan_and_nobody_elses(name: str) -> None:
    own = net(name)
    weights, x, y = some(own, 5)
    rows, bad = (np.empty((5, own.dimension), np.float32) for _ in range(2))
    own.each(weights, x, y, rows)
    x[1], y[3] = np.nan, 4
    own.each(weights, x, y, bad)
    assert np.isnan(bad[[1, 3]]).any(axis=1).all()
    assert (bad[[0, 2, 4]] == rows[[0, 2, 4]]).all()


def test_memory_does_not_grow_with_the_steps() -> None:
    own = net("TutorialCnn")
    weights, x, y = some(own, 100)
    rows = np.empty((100, own.dimension), np.float32)
    own.each(weights, x, y, rows)
    held = {name: tensor.data_ptr() for name, tensor in own._engine._scratch._held.items()}  # type: ignore[attr-defined]
    for count in (100, 1, 64, 65):
        own.each(weights, x[:count], y[:count], rows[:count])
    assert {name: tensor.data_ptr() for name, tensor in own._engine._scratch._held.items()} == held  # type: ignore[attr-defined]


def test_only_rows_of_layers_whose_products_are_known_are_done_by_hand() -> None:
    assert per_record.has_record_gradients(Row())
    assert per_record.has_record_gradients(in_place())
    assert per_record.has_record_gradients(small_network(1, 8, 4, (4,), 3, 8))
    assert not per_record.has_record_gradients(Groups())
    assert not per_record.has_record_gradients(Twice())
    assert not per_record.has_record_gradients(nn.Sequential(nn.Linear(4, 2), nn.LayerNorm(2)))
    assert per_record.has_record_gradients(nn.Sequential(nn.Linear(4, 2, bias=False)))
    assert not per_record.has_record_gradients(nn.Sequential(nn.Linear(4, 2), nn.Flatten(0)))
    assert not per_record.has_record_gradients(nn.Sequential(nn.Linear(4, 2), nn.Dropout()))
    assert not per_record.has_record_gradients(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2, affine=False)))
    assert not per_record.has_record_gradients(nn.Sequential(nn.Linear(21, 4)))
    assert not per_record.has_record_gradients(nn.Sequential(nn.Conv2d(1, 3, 2)))


def test_the_tutorials_network_has_the_papers_size_and_names_images_that_are_too_small() -> None:
    assert KINDS.made("TutorialCnn", {}).build((784,), 10, 1).dimension == 26010
    with pytest.raises(FedprivError, match="TutorialCnn needs images of a side of at least 13"):
        KINDS.made("TutorialCnn", {}).build((8, 8), 10, 1)
