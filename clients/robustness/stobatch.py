"""A network of StoBatch as the randomised one of its certificate: noise on its input, and on its first layer."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from clients.models.first_layer import OUTWARD, FirstLayer
from clients.models.per_record import is_hooked
from clients.models.randomised import Noised
from clients.models.stobatch import Encoded
from fedpriv.certified import StoBatchSmoothing
from fedpriv.errors import FedprivError


def smoothed_network(
    network: nn.Module, shape: tuple[int, ...], noise: float, divided: float
) -> tuple[nn.Module, StoBatchSmoothing]:
    """A trained StoBatch network to certify, training's law of noise on x, twice that on θ₁ᵀx, over ψ; its smoothing.

    [S] Algorithm 3 and Appendix N, but for the noise kept from training: it is each record's own, so none belongs to a
    new input.
    """
    prepared, own = network if isinstance(network, nn.Sequential) and len(network) == 2 else (network, None)
    if type(own) is not Encoded or type(own.first) is not FirstLayer or is_hooked(own) or is_hooked(own.first):
        raise FedprivError("law stobatch needs a network whose first layer is an auto-encoder's: EncodedCnn")
    with torch.no_grad():
        hidden: Tensor = own.first(prepared(torch.zeros(1, *shape)))
        row = float(own.first.theta.abs().sum((1, 2, 3)).max())
    kind = StoBatchSmoothing(
        noise=noise, divided=divided, dimension=int(np.prod(shape)), hidden=hidden.numel(), maps=hidden.shape[1],
        row=row * OUTWARD,
    )  # fmt: skip
    first, second = (Noised("laplace", scale) for scale in kind.drawn)
    return nn.Sequential(first, prepared, own.first, second, own.rest, own.last).eval(), kind
