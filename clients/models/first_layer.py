"""The first layer of an auto-encoder: a convolution whose columns have ℓ1 norm 1 at the most."""

from __future__ import annotations

import torch
from torch import Tensor, nn

OUTWARD = 1 + 1e-6  # a sum of float32 may round down


class FirstLayer(nn.Conv2d):
    """A convolution without bias by `theta`: its weights, the columns whose ℓ1 norm is past 1 brought to it.

    So ‖θ₁‖_{1,1} ≤ 1 whatever the server sends, and |θ₁ᵀx| ≤ 1 for x in [−1, 1], as [S] has it. Longer weights turn θ₁
    more slowly: an optimiser that moves every weight by as much would else have all columns alike after few steps, for
    the reconstruction of each is the same.
    """

    def __init__(self, channels: int, maps: int, kernel: int, stride: int = 2) -> None:
        super().__init__(channels, maps, kernel, stride, kernel // 2, bias=False)

    @property
    def theta(self) -> Tensor:
        """θ₁ (maps, channels, kernel, kernel): the weights, each map's ℓ1 norm past 1 brought to 1, as [S] needs."""
        norms = self.weight.abs().sum((1, 2, 3), keepdim=True)
        return self.weight / (norms * OUTWARD).clamp(min=1)

    def forward(self, x: Tensor) -> Tensor:
        """θ₁ᵀx of every patch of images x: the hidden layer of StoBatch's and AdLm's auto-encoder."""
        return nn.functional.conv2d(x, self.theta, None, self.stride, self.padding)

    def of_weights(self, of_theta: Tensor) -> Tensor:
        """Gradients by θ₁ (records, maps, inputs) as gradients by the weights w: of w/n, n = ‖w‖₁ where that is past 1.

        >>> _ = torch.manual_seed(1)
        >>> layer = FirstLayer(1, 2, 3)
        >>> chosen = torch.arange(18.0).view(2, 1, 3, 3)
        >>> (expected,) = torch.autograd.grad((layer.theta * chosen).sum(), layer.weight)
        >>> bool(torch.allclose(layer.of_weights(chosen.view(1, 2, 9)).view_as(expected), expected, atol=1e-4))
        True
        """
        with torch.no_grad():
            weights = self.weight.flatten(1)
            norms = weights.abs().sum(1, keepdim=True) * OUTWARD
            along = (of_theta * weights).sum(2, keepdim=True) * (weights.sign() * OUTWARD) / norms
            return torch.where(norms < 1, of_theta, (of_theta - along) / norms)
