"""Networks that add noise to what goes through them, and the models of studies as such networks."""

from __future__ import annotations

from copy import deepcopy
from typing import Literal, get_args

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor, nn

from clients.arrays import Floats
from clients.autograd import Autograd
from clients.dense import Dense
from clients.gradients import Net
from fedpriv.certified.smoothing import GaussianSmoothing, LaplaceSmoothing
from fedpriv.errors import FedprivError, at_least_zero, one_of

Law = Literal["gaussian", "laplace"]


class Noised(nn.Module):
    """Adds noise, fresh for every row; one row becomes as many as there are draws. `kept` is added to all of them."""

    def __init__(self, law: Law, scale: float, kept: Tensor | None = None) -> None:
        """`scale` is the standard deviation of a Gaussian, the b of a Laplace distribution."""
        super().__init__()
        one_of(get_args(Law), law=law)
        at_least_zero(scale=scale)
        self.law, self.scale, self.rows = law, scale, 1
        self.rng: Generator | None = None
        self.register_buffer("_kept", kept)

    def forward(self, x: Tensor) -> Tensor:
        """x + kept + noise, (rows, …)."""
        if self.rng is None:
            raise FedprivError("a Noised layer has no generator: call it through verdicts or averaged")
        rows = self.rows if len(x) == 1 else len(x)
        noise = torch.from_numpy(self._drawn((rows, *x.shape[1:]))).to(x.dtype).mul_(self.scale)
        kept: Tensor | None = self._buffers["_kept"]
        return noise + (x if kept is None else x + kept)

    def _drawn(self, shape: tuple[int, ...]) -> Floats:
        """Of scale 1. A Laplace variable is the difference of two exponential ones: no logarithm, and no short tail."""
        assert self.rng is not None
        if self.law == "gaussian":
            return self.rng.standard_normal(shape, np.float32)
        drawn = self.rng.standard_exponential(shape, np.float32)
        drawn -= self.rng.standard_exponential(shape, np.float32)
        return drawn


def noised(network: nn.Module, smoothing: GaussianSmoothing | LaplaceSmoothing) -> nn.Module:
    """A network behind noise on its inputs."""
    law: Law = "gaussian" if isinstance(smoothing, GaussianSmoothing) else "laplace"
    return nn.Sequential(Noised(law, smoothing.noise), network).eval()


def network_of(net: Net, weights: Floats) -> nn.Module:
    """A study's model as a module in evaluation mode, whose inputs can be differentiated by."""
    engine = net._engine
    if isinstance(engine, Dense):
        return _dense(engine, torch.tensor(weights))
    if not isinstance(engine, Autograd):
        raise FedprivError(f"a model of {type(engine).__name__} cannot be certified")
    engine.load(torch.tensor(weights)[None])
    engine._reset(engine._weights[0], train=False)
    return nn.Sequential(_Prepared(engine), deepcopy(engine._module)).eval()


class _Prepared(nn.Module):
    """Records as the module behind takes them."""

    def __init__(self, engine: Autograd) -> None:
        super().__init__()
        self._prepare = engine._prepare

    def forward(self, x: Tensor) -> Tensor:
        """As they come, in another shape."""
        return self._prepare(x)


def _dense(engine: Dense, weights: Tensor) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for place, own in enumerate(engine._layers):
        with torch.random.fork_rng(devices=[]):  # torch draws weights, which nobody uses
            layer = nn.Linear(own.inputs, own.outputs)
        with torch.no_grad():
            layer.weight.copy_(weights[own.weights].view(own.outputs, own.inputs))
            layer.bias.copy_(weights[own.bias])
        layers += [nn.ReLU(), layer] if place else [layer]
    return nn.Sequential(*layers).eval()


def check_network(network: nn.Module) -> None:
    """Refuse a network in training mode, above all one whose batch statistics make inputs meet."""
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
    """Hand a generator to every layer that adds noise, and say how many draws a single record gets."""
    layers = [module for module in network.modules() if isinstance(module, Noised)]
    if not layers:
        raise FedprivError("the network has no Noised layer: nothing is random, so nothing can be certified")
    for layer in layers:
        layer.rng, layer.rows = rng, rows
