"""The small network for images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clients.autograd import Autograd


def two_convolutions(channels: int, side: int, classes: int, *, channels_last: bool) -> tuple[nn.Module, Autograd]:
    """16 and 32 channels of 3 × 3, each with ReLU and halved by maxima, then a dense layer; and the engine for it."""
    with torch.random.fork_rng(devices=[]):  # torch draws weights, which nobody uses
        first = [nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        network = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, classes))

    def images(x: Tensor) -> Tensor:
        if channels_last:
            return x.reshape(-1, side, side, channels).movedim(3, 1).contiguous()
        return x.reshape(-1, channels, side, side)

    return network, Autograd(network, images)
