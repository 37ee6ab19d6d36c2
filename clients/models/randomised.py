"""Networks that add noise to what goes through them, and the models of studies as such networks."""

from __future__ import annotations

from copy import deepcopy
from typing import Literal, cast, get_args

import numpy as np
import torch
from numpy.random import Generator
from scipy.linalg import eigvalsh
from torch import Tensor, nn

from clients.models._autograd import Autograd
from clients.models._shapes import Place
from clients.models._training_noise import TrainingNoise, noisy_layers
from clients.models.arrays import Floats
from clients.models.first_layer import FirstLayer
from clients.models.gradients import Net, Prepare
from clients.models.per_record import in_a_row, is_hooked
from fedpriv.certified.smoothing import GaussianSmoothing, LaplaceSmoothing, LayerSmoothing, Smoothing
from fedpriv.errors import FedprivError, at_least_zero, one_of

Law = Literal["gaussian", "laplace"]
AFFINE = (nn.Conv2d, nn.Linear, FirstLayer)
LINEAR = (nn.Identity, nn.Flatten, nn.Unflatten, nn.ZeroPad2d, nn.AvgPool2d)  # and without weights
OUTWARD = 1 + 1e-9  # far more than rounding in the largest eigenvalue


class Noised(nn.Module):
    """Adds noise, fresh for every row; one row becomes as many as there are draws."""

    def __init__(self, law: Law, scale: float) -> None:
        """`scale` is the standard deviation of a Gaussian, the b of a Laplace distribution."""
        super().__init__()
        one_of(get_args(Law), law=law)
        at_least_zero(scale=scale)
        self.law, self.scale, self.rows = law, scale, 1
        self.rng: Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """x + fresh noise, (rows, …), one record as many rows as draws: what certificates are counted on."""
        if self.rng is None:
            raise FedprivError("a Noised layer has no generator: call it through verdicts or averaged")
        rows = self.rows if len(x) == 1 else len(x)
        shape = (rows, *x.shape[1:])
        drawn = (
            self.rng.standard_normal(shape, np.float32) if self.law == "gaussian" else laplace_noise(shape, self.rng)
        )
        noise = torch.from_numpy(drawn).to(x.dtype).mul_(self.scale)
        return noise + x


def laplace_noise(shape: tuple[int, ...], rng: Generator) -> Floats:
    """Laplace noise of scale 1, for certificates and StoBatch: two exponentials' difference, with no short tail."""
    drawn = rng.standard_exponential(shape, np.float32)
    drawn -= rng.standard_exponential(shape, np.float32)
    return drawn


def noised_network(network: nn.Module, smoothing: GaussianSmoothing | LaplaceSmoothing) -> nn.Module:
    """A trained network behind the smoothing's noise on its inputs, as `fedpriv certify` draws from it."""
    law: Law = "gaussian" if isinstance(smoothing, GaussianSmoothing) else "laplace"
    return nn.Sequential(Noised(law, smoothing.noise), network).eval()


def network_of(net: Net, weights: Floats) -> nn.Module:
    """A run's model with weights as a module in evaluation mode, from records to logits: to certify or attack."""
    return nn.Sequential(_Prepared(net.prepare), net.module(weights)).eval()


class _Prepared(nn.Module):
    """Records as the module behind takes them."""

    def __init__(self, prepare: Prepare) -> None:
        super().__init__()
        self._prepare = prepare

    def forward(self, x: Tensor) -> Tensor:
        """A study's records x in the form that the network behind takes: the first layer of each `network_of`."""
        return self._prepare(x)


def behind_noise(net: Net, noise: float, at: Place) -> Net:
    """`Randomised`'s net: a model's with noise in training, on its input or behind its first layer; its start stays."""
    layers, place = in_a_row(net.module(net.initial())), 0
    if at == "first layer":
        place = 1 + next(place for place, layer in enumerate(layers) if list(layer.parameters()))
        if (other := _not_affine(layers[:place])) is not None:
            raise FedprivError(
                "noise behind the first layer needs a dense or convolutional one, with nothing but shapes before it; "
                f"got {other}"
            )
    network = nn.Sequential(*layers[:place], TrainingNoise(noise), *layers[place:])
    return Net(net.shape, net.classes, net.initial(), Autograd(network, net.prepare))


def _not_affine(layers: list[nn.Module]) -> nn.Module | None:
    """The first layer before the noise that may be other than affine, so no factor bounds its moves; None if none."""
    kinds = [LINEAR] * (len(layers) - 1) + [AFFINE] * bool(layers)
    return next(
        (own for own, known in zip(layers, kinds, strict=True) if type(own) not in known or is_hooked(own)), None
    )


def as_trained(network: nn.Module, shape: tuple[int, ...]) -> tuple[nn.Module, Smoothing] | None:
    """A trained network of `Randomised` with its noise in use too, and the smoothing that certifies it; else None."""
    if not noisy_layers(network):
        return None
    prepared, own = network.children()
    layers = in_a_row(own)
    place = next((at for at, layer in enumerate(layers) if isinstance(layer, TrainingNoise)), None)
    if place is None or _not_affine(layers[:place]) is not None:
        return None  # a module's own noise: what it certifies is not known
    noise = cast(TrainingNoise, layers[place]).noise
    noised = nn.Sequential(prepared, *layers[:place], Noised("gaussian", noise), *layers[place + 1 :]).eval()
    if not place:
        return noised, GaussianSmoothing(noise=noise)
    return noised, LayerSmoothing(noise=noise, stretch=layer_stretch(nn.Sequential(prepared, *layers[:place]), shape))


def layer_stretch(affine: nn.Module, shape: tuple[int, ...]) -> float:
    """The largest factor by which layers before noise stretch an ℓ2 move, for a radius: spectral norm, never below it.

    >>> layer = nn.Linear(3, 2)
    >>> bool(abs(layer_stretch(layer, (3,)) - torch.linalg.matrix_norm(layer.weight.detach(), 2)) < 1e-6)
    True
    """
    linear = deepcopy(affine)
    for layer in linear.modules():
        if isinstance(layer, AFFINE) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    size = int(np.prod(shape))
    with torch.inference_mode():
        moves = linear(torch.eye(size).view(size, *shape)).flatten(1).numpy()  # exact: each entry is a weight or 0
    gram = np.zeros((size, size))
    for part in np.array_split(moves, 16, axis=1):
        gram += part.astype(np.float64) @ part.astype(np.float64).T
    return float(np.sqrt(eigvalsh(gram)[-1]) * OUTWARD)


def check_network(network: nn.Module) -> None:
    """Refuse to certify or attack a network in training mode, above all where batch statistics make inputs meet."""
    modules = list(network.named_modules())
    for name, module in modules:
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and (module.training or module.running_mean is None):
            raise FedprivError(
                f"layer {name} ({type(module).__name__}) takes its statistics from the batch, so inputs meet: "
                "certify in evaluation mode, with running statistics"
            )
    for name, module in modules:
        if module.training:
            raise FedprivError(f"layer {name or 'network'} is in training mode: certify after network.eval()")


def draw_from(network: nn.Module, rng: Generator, rows: int = 1) -> None:
    """Hand a generator to the noise layers of a network to be certified, and how many draws a single record gets."""
    layers = [module for module in network.modules() if isinstance(module, Noised)]
    if not layers:
        raise FedprivError("the network has no Noised layer: nothing is random, so nothing can be certified")
    for layer in layers:
        layer.rng, layer.rows = rng, rows
