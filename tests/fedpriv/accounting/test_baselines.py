"""Baselines of certified robustness: large models, noise in training, and accuracy under attack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from torch import nn

from clients.models import MODELS, CifarCnn, Randomised, ResNet18
from clients.models._training_noise import TrainingNoise
from clients.models.gradients import Net
from clients.models.randomised import Noised, as_trained, layer_stretch, network_of, noised_network
from clients.robustness.attacked import Attacked, accuracies_under, attacked_images
from clients.robustness.certifying import Terms, verdicts_of
from fedpriv.certified import GaussianSmoothing, LayerSmoothing
from fedpriv.certified.smoothing import in_linf
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies import promise as guarantee

INNER: list[dict[str, Any]] = [
    {"kind": "Mlp", "hidden": [12]},
    {"kind": "TutorialCnn"},
    {"kind": "EncodedCnn", "maps": [4], "units": 8},
]
PLACES = ("input", "first layer")


def images(count: int, side: int = 14, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (count, side, side)).astype(np.float32), rng.integers(0, 5, count)


def each(net: Net, x: Any, y: Any, weights: Any = None) -> Any:
    out = np.empty((len(x), net.dimension), np.float32)
    net.each(net.initial() if weights is None else weights, x, y, out)
    return out


# --- noise in training --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("inner", INNER, ids=lambda own: own["kind"])
def test_noise_in_training_leaves_the_weights_and_what_is_in_use_as_they_are(inner: dict[str, Any], at: Any) -> None:
    x, y = images(6)
    plain = MODELS.made(inner["kind"], {k: v for k, v in inner.items() if k != "kind"}).build((14, 14), 5, seed=3)
    net = Randomised(network=inner, noise=0.5, at=at).build((14, 14), 5, seed=3)
    assert_array_equal(net.initial(), plain.initial())
    start = plain.initial() + np.float32(0.01)
    assert net.evaluate(start, x, y) == pytest.approx(plain.evaluate(start, x, y), rel=1e-5)
    assert np.abs(each(net, x, y) - each(plain, x, y)).max() > 1e-4


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("inner", INNER, ids=lambda own: own["kind"])
def test_a_records_noisy_gradient_is_its_own_whoever_else_is_in_the_batch(inner: dict[str, Any], at: Any) -> None:
    """So one record more or less changes the sum by one clipped gradient, and DP-SGD's promise stays as it is."""
    x, y = images(66 if inner["kind"] == "TutorialCnn" else 5)
    net = Randomised(network=inner, noise=0.5, at=at).build((14, 14), 5, seed=3)
    both = each(net, x, y)
    assert_array_equal(np.delete(both, 3, axis=0), each(net, np.delete(x, 3, axis=0), np.delete(y, 3)))
    assert_array_equal(both[::-1], each(net, x[::-1].copy(), y[::-1].copy()))


def test_noise_is_fresh_in_every_step_for_every_record_and_client() -> None:
    x, y = images(1)
    net = Randomised(network=INNER[0], noise=0.5).build((14, 14), 5, seed=3)
    twins = np.repeat(x, 2, axis=0) + np.array([0, 1e-6], np.float32)[:, None, None]
    first, other = each(net, twins, np.repeat(y, 2))
    assert np.abs(first - other).max() > 1e-3
    bare = MODELS.made("Mlp", {"hidden": [12]}).build((14, 14), 5, seed=3)
    step = net.initial() + np.float32(1e-6)
    assert np.abs(each(bare, x, y, step) - each(bare, x, y)).max() < 1e-4
    assert np.abs(each(net, x, y, step) - each(net, x, y)).max() > 1e-3
    out = np.empty((2, net.dimension), np.float32)
    net.gradients(net.initial(), np.stack([x, x]), np.stack([y, y]), out, keys=np.array([1, 2]))
    assert np.abs(out[0] - out[1]).max() > 1e-3


def test_robust_noise_buys_no_privacy_and_costs_none() -> None:
    text = """
    data.kind = "Digits"
    clients = { count = 1, records = 100 }
    privacy.release = { kind = "DpSgd", clip = 1.0, noise = 1.0, sampling = 0.1 }
    run.rounds = 10
    """
    models = ["kind = 'Logistic'", "kind = 'Randomised', noise = 0.5, network = { kind = 'Logistic' }"]
    plain, noisy = (study_file.parsed_study(f"{text}\ntraining.model = {{ {own} }}") for own in models)
    assert guarantee.epsilon_after(noisy, 650, 10) == guarantee.epsilon_after(plain, 650, 10)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"noise": 0.0}, "noise must be positive"),
        ({"noise": float("nan")}, "noise must be finite"),
        ({"noise": 1.0, "at": "last"}, "at 'last' is unknown"),
        ({"noise": 1.0, "network": {"hidden": [3]}}, "network must be a table with a kind"),
        ({"noise": 1.0, "network": {"kind": "Mpl"}}, "did you mean 'Mlp'"),
    ],
)
def test_wrong_settings_of_noise_are_named(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(FedprivError, match=words):
        MODELS.made("Randomised", {"network": INNER[0], **wrong}).build((14, 14), 5, 1)


# --- its certificates ---------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_no_move_is_stretched_by_more_than_the_stretch_and_one_is_by_as_much(seed: int) -> None:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        layer = nn.Conv2d(1, 3, 3, 2, 1)
        at = torch.randn(1, 1, 6, 6)
        columns = (layer(at + torch.eye(36).view(36, 1, 6, 6)) - layer(at)).flatten(1)
    _, _, directions = torch.linalg.svd(columns.T.double())
    with torch.no_grad():
        ratios = (layer(at + directions.float().view(36, 1, 6, 6)) - layer(at)).flatten(1).norm(dim=1)
    most = layer_stretch(layer, (1, 6, 6))
    assert float(ratios.max()) == pytest.approx(most, rel=1e-4)


def test_noise_in_use_is_that_of_training_in_its_place() -> None:
    places: list[tuple[Any, Any]] = [("input", GaussianSmoothing), ("first layer", LayerSmoothing)]
    for at, smoothing in places:
        net = Randomised(network=INNER[2], noise=0.3, at=at).build((14, 14), 5, seed=3)
        found = as_trained(network_of(net, net.initial()), (14, 14))
        assert found is not None
        network, own = found
        assert isinstance(own, smoothing)
        assert own.noise == 0.3
        assert [layer.scale for layer in network.modules() if isinstance(layer, Noised)] == [0.3]
    plain = MODELS.made("Logistic", {}).build((14, 14), 5, seed=3)
    assert as_trained(network_of(plain, plain.initial()), (14, 14)) is None


def bent(before: bool) -> nn.Sequential:
    first = nn.Linear(196, 8)
    return nn.Sequential(nn.Flatten(), nn.Hardtanh(), first) if before else nn.Sequential(nn.Flatten(), Bent(196, 8))


class Bent(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(10 * x.tanh())


@pytest.mark.parametrize("before", [True, False])
def test_noise_behind_a_layer_that_may_bend_certifies_nothing_and_is_refused(before: bool) -> None:
    """No spectral norm bounds how far it moves: one computed from a few of its answers would be too small."""
    inner = {"kind": "Module", "path": "test_baselines:bent", "settings": {"before": before}}
    with pytest.raises(FedprivError, match="needs a dense or convolutional one, with nothing but shapes before it"):
        Randomised(network=inner, noise=0.3, at="first layer").build((14, 14), 8, seed=3)
    within = nn.Sequential(*bent(before), TrainingNoise(0.3), nn.Linear(8, 8))
    assert as_trained(nn.Sequential(nn.Identity(), within).eval(), (14, 14)) is None


def test_behind_a_layer_the_radius_is_that_of_the_noised_output_divided_by_the_stretch() -> None:
    """One direction, two classes: the noised layer is a Gaussian, and Φ says where the prediction changes."""
    from scipy.special import ndtr

    kind, gain, at = LayerSmoothing(noise=0.5, stretch=4.0), 4.0, 0.2
    chance = float(ndtr(gain * at / 0.5))  # of the first class at the input `at`, of 1/2 at 0
    assert kind.radius(chance, 1 - chance) == pytest.approx(at, rel=1e-9)
    assert kind.radius(chance, 1 - chance) <= at


# --- large models -------------------------------------------------------------------------------------------------

LARGE = [(CifarCnn(), (8, 8, 3)), (ResNet18(), (16, 16, 3))]


@pytest.mark.parametrize(("model", "shape"), LARGE, ids=["CifarCnn", "ResNet18"])
def test_records_never_meet_in_a_large_model_in_training_or_in_use(model: Any, shape: tuple[int, ...]) -> None:
    net = model.build(shape, 4, seed=1)
    x, y = np.random.default_rng(1).uniform(-1, 1, (2, *shape)).astype(np.float32), np.arange(2)
    network = network_of(net, net.initial())
    with torch.inference_mode():
        assert torch.allclose(network(torch.tensor(x))[:1], network(torch.tensor(x[:1])), atol=1e-5)
    both, *alone = (np.empty((1, net.dimension), np.float32) for _ in range(3))
    net.gradients(net.initial(), x[None], y[None], both)
    for row, one in zip(alone, (slice(0, 1), slice(1, 2)), strict=True):
        net.gradients(net.initial(), x[None, one], y[None, one], row)
    assert np.abs(2 * both - alone[0] - alone[1]).max() < 1e-3 < np.abs(alone[0]).max()


# --- accuracy under attack ----------------------------------------------------------------------------------------


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 3)).eval()


def test_accuracy_under_attack_is_never_below_certified_accuracy_at_the_same_radius() -> None:
    x = np.random.default_rng(2).uniform(-1, 1, (15, 3, 3)).astype(np.float32)
    kind = GaussianSmoothing(noise=0.4)
    model, terms = noised_network(network(), kind), Terms(smoothing=kind, draws=300, confidence=0.999)
    own = list(verdicts_of(model, x, terms))
    y = np.array([verdict.best for verdict in own])  # as if all were right: most images then have a radius
    reach = np.array([in_linf(verdict.radius, "l2", 9) for verdict in own])
    assert (reach > 0.02).mean() > 0.5
    for size in (0.02, 0.08):
        found = [one for each in attacked_images(model, x, y, terms, size) for one in each]
        under = accuracies_under(found, y)
        assert list(under) == ["FGSM", "I-FGSM", "MIM", "PGD", "all"]
        for accuracy, not_surely in under.values():
            assert (reach >= size).mean() <= not_surely
            assert under["all"][0] <= accuracy <= not_surely
        broken = {one.image for one in found if one.surely and one.best != y[one.image]}
        assert not [image for image in broken if reach[image] >= size]
    far = [one for each in attacked_images(model, x, y, terms, 1.0) for one in each]
    assert accuracies_under(far, y)["PGD"][1] < 0.5  # the attack is one


def test_what_becomes_of_an_image_under_attack_depends_on_nothing_else() -> None:
    x = np.random.default_rng(3).uniform(-1, 1, (6, 3, 3)).astype(np.float32)
    y, kind = np.zeros(6, np.int64), GaussianSmoothing(noise=0.4)
    model, terms = noised_network(network(), kind), Terms(smoothing=kind, draws=50)
    every = list(attacked_images(model, x, y, terms, 0.3))
    assert list(attacked_images(model, x, y, terms, 0.3, images=[4, 1], workers=2)) == [every[4], every[1]]


def test_a_network_without_noise_is_attacked_and_judged_as_it_is() -> None:
    layer, x = nn.Linear(4, 2), np.zeros((1, 2, 2), np.float32)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 1, 1, 1], [-1, -1, -1, -1]]))
        layer.bias.copy_(torch.tensor([0.4, -0.4]))
    model = nn.Sequential(nn.Flatten(), layer).eval()
    terms = Terms(smoothing=GaussianSmoothing(noise=1.0), draws=10)
    y = np.array([0])  # scores 0.4 + Σx against its opposite: broken from 0.1 on
    for size, best in ((0.09, 0), (0.11, 1)):
        (found,) = attacked_images(model, x, y, terms, size)
        assert [one.attack for one in found] == ["FGSM", "I-FGSM", "MIM", "PGD"]
        assert found[0] == Attacked(image=0, attack="FGSM", size=size, best=best, surely=True)
    assert all(parameter.requires_grad for parameter in model.parameters())
