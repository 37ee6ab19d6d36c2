"""Attacks on inputs: they stay where they may, raise the loss, and on linear models find the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from clients.robustness.input_attacks import INPUT_ATTACKS, Ensemble, Fgsm, IFgsm, Mim, Pgd
from fedpriv.errors import FedprivError

NORMS = ("linf", "l2")


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3))


def records(seed: int = 0, count: int = 20) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 3, 4, generator=rng) * 2 - 1
    return x, torch.randint(0, 3, (count,), generator=rng)


def losses(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        return cross_entropy(model(x), y, reduction="none")


def attacks(size: float, norm: Any) -> list[Any]:
    single = [kind(size=size, norm=norm) for kind in INPUT_ATTACKS.values()]
    return [*single, Pgd(size=size, steps=3, restarts=3, norm=norm), Ensemble(attacks=tuple(single))]


@pytest.mark.parametrize("norm", NORMS)
@settings(max_examples=12, deadline=None)
@given(size=st.floats(0.01, 3.0), seed=st.integers(0, 50))
def test_every_attack_stays_in_the_ball_and_in_the_box_and_never_lowers_a_loss(
    norm: str, size: float, seed: int
) -> None:
    model, (x, y) = network(seed), records(seed)
    before = losses(model, x, y)
    for attack in attacks(size, norm):
        found = attack(model, x, y, torch.Generator().manual_seed(seed))
        moved = (found - x).flatten(1)
        reach = moved.abs().amax(1) if norm == "linf" else moved.norm(dim=1)
        assert float(reach.max()) <= size * (1 + 1e-5) + 1e-6
        assert float(found.abs().max()) <= 1
        assert bool((losses(model, found, y) >= before - 1e-6).all())


@pytest.mark.parametrize("norm", NORMS)
def test_every_attack_raises_the_mean_loss_clearly(norm: str) -> None:
    model, (x, y) = network(), records()
    before = losses(model, x, y).mean()
    for attack in attacks(0.3, norm):
        assert losses(model, attack(model, x, y, torch.Generator().manual_seed(1)), y).mean() > before + 0.01


@pytest.mark.parametrize("kind", [Fgsm, IFgsm, Mim, Pgd])
def test_on_a_linear_model_the_corner_of_the_cube_and_box_is_found(kind: Any) -> None:
    rng = np.random.default_rng(3)
    weights, x = rng.normal(size=6), rng.uniform(-1, 1, (30, 6))
    y, model = rng.integers(0, 2, 30), linear(weights)
    best = np.clip(x - 0.4 * np.where(y[:, None] == 1, 1, -1) * np.sign(weights), -1, 1)
    steps = {} if kind is Fgsm else {"steps": 40}
    found = kind(size=0.4, **steps)(model, torch.tensor(x), torch.tensor(y), torch.Generator().manual_seed(1))
    assert torch.allclose(found, torch.tensor(best), atol=1e-9)


@pytest.mark.parametrize("kind", [Fgsm, IFgsm, Mim, Pgd])
def test_on_a_linear_model_the_point_of_the_ball_is_found(kind: Any) -> None:
    rng = np.random.default_rng(4)
    weights, x = rng.normal(size=6), rng.uniform(-0.4, 0.4, (30, 6))
    y, model = rng.integers(0, 2, 30), linear(weights)
    best = x - 0.5 * np.where(y[:, None] == 1, 1, -1) * weights / np.linalg.norm(weights)
    steps = {} if kind is Fgsm else {"steps": 200}
    attack = kind(size=0.5, norm="l2", **steps)
    found = attack(model, torch.tensor(x), torch.tensor(y), torch.Generator().manual_seed(1))
    gained = losses(model, found, torch.tensor(y)) - losses(model, torch.tensor(best), torch.tensor(y))
    assert float(gained.max()) < 1e-6
    assert float(gained.min()) > (-0.05 if kind is Pgd else -1e-4)  # whose random start is turned so far and no further


def test_more_restarts_and_an_ensemble_find_no_less() -> None:
    model, (x, y) = network(), records()
    rng = torch.Generator
    one = losses(model, Pgd(size=0.3, steps=4)(model, x, y, rng().manual_seed(5)), y)
    many = losses(model, Pgd(size=0.3, steps=4, restarts=5)(model, x, y, rng().manual_seed(5)), y)
    both = Ensemble(attacks=(Fgsm(size=0.3), Pgd(size=0.3, steps=4)))
    assert bool((many >= one - 1e-6).all())
    assert bool((losses(model, both(model, x, y, rng().manual_seed(5)), y) >= one - 1e-6).all())


def test_an_attack_with_momentum_zero_is_iterated_fgsm() -> None:
    model, (x, y) = network(), records()
    assert torch.equal(Mim(size=0.3, decay=0.0)(model, x, y), IFgsm(size=0.3)(model, x, y))


def test_a_record_is_attacked_alike_in_any_batch() -> None:
    model, (x, y) = network(), records()
    together = IFgsm(size=0.2)(model, x, y)
    alone = torch.cat([IFgsm(size=0.2)(model, x[row : row + 1], y[row : row + 1]) for row in range(len(x))])
    assert torch.allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "wrong", "words"),
    [
        ("Fgsm", {"size": float("nan")}, "size must be finite"),
        ("IFgsm", {"size": 0.1, "steps": 0}, "steps must be at least 1"),
        ("Mim", {"size": 0.1, "norm": "l1"}, "norm 'l1' is unknown"),
        ("Pgd", {"size": 0.1, "restart": 2}, "did you mean 'restarts'"),
        ("Pdg", {"size": 0.1}, "did you mean 'Pgd'"),
    ],
)
def test_wrong_settings_are_named(kind: str, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(FedprivError, match=words):
        INPUT_ATTACKS.made(kind, wrong)


@pytest.mark.parametrize("value", [1.5, float("nan")])
def test_an_input_outside_the_box_is_refused_by_number(value: float) -> None:
    x, y = records()
    x[7, 1, 1] = value
    with pytest.raises(FedprivError, match=r"inputs must be in \[-1, 1\], input 7 is not"):
        Fgsm(size=0.1)(network(), x, y)


def linear(weights: np.ndarray) -> nn.Module:
    """Two classes: the logit of the second is w·x."""
    model = nn.Linear(weights.size, 2, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor(np.stack([np.zeros_like(weights), weights])))
    return model
