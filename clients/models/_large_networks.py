"""The networks of [S] for colour images: three convolutions for CIFAR-10, a residual network for Tiny ImageNet.

Their first layers are an auto-encoder's, as `clients.models.stobatch` has it: StoBatch and AdLm train them too.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import torch
from torch import Tensor, nn

from clients.models.arrays import Floats
from clients.models.first_layer import FirstLayer
from clients.models.stobatch import Encoded
from fedpriv.randomness.streams import stream

WIDTHS = (64, 128, 256, 512)  # channels of each stage of a ResNet-18
BLOCKS = 2  # of each stage
GROUPS = 32  # of a group norm


def three_convolutions(channels: int, side: int, classes: int) -> Encoded:
    """`CifarCnn`'s network: 128 channels of 4 × 4 in steps of 2, 128 and 256 of 5 × 5, means of 2 × 2, 256 tanh."""
    with torch.random.fork_rng(devices=[]):  # torch draws weights, which nobody uses
        first = FirstLayer(channels, 128, 4)
        first.padding = (1, 1)  # half as many places as pixels
        rest = [nn.ReLU(), nn.Conv2d(128, 128, 5, 1, 2), nn.ReLU(), nn.Conv2d(128, 256, 5, 1, 2), nn.ReLU()]
        rest += [nn.AvgPool2d(2), nn.Flatten(), nn.Linear(256 * (side // 4) ** 2, 256), nn.Tanh()]
        return Encoded(first, nn.Sequential(*rest), nn.Linear(256, classes, bias=False))


class Block(nn.Module):
    """Two convolutions of 3 × 3 around which the input is led: x + f(x). He, Zhang, Ren and Sun 2016."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        """Where the shape changes, the way around is a convolution of 1 × 1."""
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(GROUPS, outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(GROUPS, outputs),
        )  # fmt: skip
        around: list[nn.Module] = []
        if stride != 1 or inputs != outputs:
            around = [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(GROUPS, outputs)]
        self.around = nn.Sequential(*around)

    def forward(self, x: Tensor) -> Tensor:
        """A residual block's output for feature maps x: both ways added up, then ReLU."""
        both: Tensor = self.way(x) + self.around(x)
        return both.relu()


def residual(channels: int, classes: int) -> Encoded:
    """`ResNet18`'s network: batch norms are group norms, and its last features go through tanh."""
    with torch.random.fork_rng(devices=[]):
        rest: list[nn.Module] = [nn.GroupNorm(GROUPS, WIDTHS[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        inputs = WIDTHS[0]
        for stage, width in enumerate(WIDTHS):
            for place in range(BLOCKS):
                rest.append(Block(inputs, width, 2 if stage and not place else 1))
                inputs = width
        rest += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Tanh()]
        last = nn.Linear(WIDTHS[-1], classes, bias=False)
        return Encoded(FirstLayer(channels, WIDTHS[0], 7), nn.Sequential(*rest), last)


def start_of(network: nn.Module, seed: int) -> Floats:
    """Weights that `CifarCnn` or `ResNet18` starts from, in the order of parameters, from a stream of ours.

    Convolutions are normal of variance 2/inputs (He et al. 2015), norms are 1 and 0, dense layers uniform.
    """
    rng, parts = stream(seed, "initial weights"), []
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            size, biases = layer.weight.numel(), 0 if layer.bias is None else layer.out_channels
            parts += [rng.normal(0.0, sqrt(2 * layer.out_channels / size), size), np.zeros(biases)]
        elif isinstance(layer, nn.GroupNorm):
            parts.append(np.repeat([1.0, 0.0], layer.num_channels))
        elif isinstance(layer, nn.Linear):
            bound, biases = layer.in_features**-0.5, 0 if layer.bias is None else layer.out_features
            parts.append(rng.uniform(-bound, bound, layer.weight.numel() + biases))
    return np.concatenate(parts).astype(np.float32)
