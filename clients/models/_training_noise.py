"""Noise in training alone, that a network may learn to bear it: PixelDP's on the input, SecureSGD's behind a layer.

No privacy comes of it. Where gradients of single records are released, a record's noise is a function of the weights
and of that record, so one record more or less changes nobody else's gradient: what DP-SGD promises stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import torch
from torch import Generator, Tensor, nn

from clients.models.arrays import Floats, Keys
from fedpriv.errors import positive


class TrainingNoise(nn.Module):
    """Adds N(0, σ²) to every coordinate in training, fresh for every record and step; in use it adds nothing.

    >>> layer = TrainingNoise(0.5).train()
    >>> layer.keys = [7, 7]
    >>> noised = layer(torch.zeros(2, 3))
    >>> bool((noised[0] == noised[1]).all()), bool((noised != 0).all()), layer.eval()(torch.zeros(2)).tolist()
    (True, True, [0.0, 0.0])
    """

    keys: Sequence[int] | None = None  # of each record; without, torch's generator, which is seeded for each client

    def __init__(self, noise: float) -> None:
        """`noise` is the standard deviation."""
        super().__init__()
        positive(noise=noise)
        self.noise = noise

    def forward(self, x: Tensor) -> Tensor:
        """x + noise in training, every record's its own; x alone in use: a layer of a `Randomised` model."""
        if not self.training:
            return x
        if self.keys is None:
            return x + self.noise * torch.randn_like(x)
        own = [torch.randn(x.shape[1:], generator=Generator().manual_seed(key)) for key in self.keys]
        return x + self.noise * torch.stack(own).to(x.device)


def noisy_layers(network: nn.Module) -> list[TrainingNoise]:
    """A network's layers of training noise, to give them records' keys, or to find what a certificate stands on."""
    return [layer for layer in network.modules() if isinstance(layer, TrainingNoise)]


def keys_of(weights: Tensor, x: Floats) -> Keys:
    """The key of each record's training noise (records,): another one as soon as the weights or the record are others.

    >>> keys = keys_of(torch.ones(3), np.eye(3, dtype=np.float32)[[0, 1, 0]])
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    step = blake2b(weights.numpy().tobytes(), digest_size=32).digest()
    digests = [blake2b(record.tobytes(), key=step, digest_size=8).digest() for record in x]
    return np.frombuffer(b"".join(digests), np.int64) & np.int64(2**63 - 1)
