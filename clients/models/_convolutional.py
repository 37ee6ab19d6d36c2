"""The small networks for images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clients.models._autograd import Autograd


def two_convolutions(channels: int, side: int, classes: int, *, channels_last: bool) -> tuple[nn.Module, Autograd]:
    """`Cnn`'s network (16 and 32 channels of 3 × 3, ReLU, halved by maxima, a dense layer) and the engine for it."""
    with torch.random.fork_rng(devices=[]):  # torch draws weights, which nobody uses
        first = [nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        network = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, classes))

    return network, Autograd(network, Images(channels, side, channels_last))


def of_tutorial(channels: int, side: int, classes: int, *, channels_last: bool) -> tuple[nn.Module, Autograd]:
    """`TutorialCnn`'s network, that of tensorflow/privacy's tutorial, and the engine for it."""
    half = -(-side // 2)  # "same" puts the odd zero at the end
    zeros = max(2 * (half - 1) + 8 - side, 0)
    after = ((half - 1) - 4) // 2
    with torch.random.fork_rng(devices=[]):
        first = [
            nn.ZeroPad2d((zeros // 2, zeros - zeros // 2) * 2),
            nn.Conv2d(channels, 16, 8, 2),
            nn.ReLU(),
            nn.MaxPool2d(2, 1),
        ]
        second = [nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten()]
        last = [nn.Linear(32 * after**2, 32), nn.ReLU(), nn.Linear(32, classes)]
        network = nn.Sequential(*first, *second, *last)
    return network, Autograd(network, Images(channels, side, channels_last))


class Images(nn.Module):
    """Image records of any layout as a convolution takes them: first layer of a trained model that is handed out."""

    def __init__(self, channels: int, side: int, channels_last: bool) -> None:
        """For records of that many values, flat or not, whose channels stand on the last axis or on the first."""
        super().__init__()
        self.channels, self.side, self.channels_last = channels, side, channels_last

    def forward(self, x: Tensor) -> Tensor:
        """Image records as (records, channels, side, side), whichever axis their channels stand on."""
        if self.channels_last:
            return x.reshape(-1, self.side, self.side, self.channels).movedim(3, 1).contiguous()
        return x.reshape(-1, self.channels, self.side, self.side)
