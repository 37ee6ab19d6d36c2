"""Networks whose first layer is an auto-encoder's: what StoBatch and AdLM train, and what their certificates read.

    x ─► first: θ₁ᵀx, no bias, every column within ℓ1 norm 1
      ─► rest: up to h_π, each coordinate in [−1, 1]
      ─► last: z = h_π·W

Any module with these three parts, called one after the other, can be trained and certified.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf, prod

import numpy as np
import torch
from torch import nn

from clients.models.arrays import Floats
from clients.models.first_layer import FirstLayer
from clients.models.gradients import Net
from fedpriv.errors import FedprivError
from fedpriv.randomness.streams import stream

LONGER = 10.0  # weights of the first layer to begin with, beside a θ₁ of norm 1


class Encoded(nn.Sequential):
    """The three parts in a row."""

    first: FirstLayer
    rest: nn.Module
    last: nn.Linear

    def __init__(self, first: FirstLayer, rest: nn.Module, last: nn.Linear) -> None:
        """`last` has no bias: h_π is all that it reads."""
        super().__init__(OrderedDict(first=first, rest=rest, last=last))


def small_network(channels: int, side: int, classes: int, maps: tuple[int, ...], kernel: int, units: int) -> Encoded:
    """`EncodedCnn`'s network: one or two convolutions in steps of 2, means of 2 × 2 between, a dense layer; tanh."""
    with torch.random.fork_rng(devices=[]):  # torch draws weights, which nobody uses
        first, side = FirstLayer(channels, maps[0], kernel), -(-side // 2)
        rest: list[nn.Module] = [nn.Tanh()]
        if len(maps) > 1:
            rest += [nn.AvgPool2d(2), nn.Conv2d(maps[0], maps[1], kernel, 2, kernel // 2), nn.Tanh()]
            side = -(-(side // 2) // 2)
        rest += [nn.Flatten(), nn.Linear(maps[-1] * side**2, units), nn.Tanh()]
        return Encoded(first, nn.Sequential(*rest), nn.Linear(units, classes, bias=False))


def encoded_of(net: Net) -> Encoded:
    """A net's module for StoBatch or AdLm, at its first weights; refused without a first layer to reconstruct."""
    module = net.module(net.initial())
    if not isinstance(module, Encoded):
        raise FedprivError(
            "training.model has no first layer to reconstruct, which StoBatch and AdLm train: EncodedCnn has one"
        )
    return module


def sizes_of(net: Net) -> tuple[int, int, int, int]:
    """A net's inputs; d, of a patch; β, neurons of a feature map; |h_π|: what the kept noise of [S] follows from."""
    module = encoded_of(net)
    with torch.no_grad():
        hidden = module.first(net.prepare(torch.zeros(1, *net.shape)))
    return prod(net.shape), module.first.weight[0].numel(), hidden[0, 0].numel(), module.last.in_features


def start_of(network: Encoded, seed: int) -> Floats:
    """Weights that `EncodedCnn` starts from: uniform within ±√(6/inputs), biases 0, θ₁'s longer; by parameters."""
    rng, parts = stream(seed, "initial weights"), []
    for own in network.parameters():
        inputs = own[0].numel() if own.ndim > 1 else inf
        parts.append(rng.uniform(-1, 1, own.numel()) * (6 / inputs) ** 0.5)
    parts[0] *= LONGER
    return np.concatenate(parts).astype(np.float32)
