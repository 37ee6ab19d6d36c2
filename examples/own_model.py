"""A model of one's own: any torch module whose trained weights are all there is to it.

fedpriv run examples/own_model.toml
"""

from __future__ import annotations

import torch
from torch import nn


class Bottleneck(nn.Module):
    """Digits through a few numbers and back to ten scores."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.down = nn.Linear(64, width)
        self.up = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes, a row a record."""
        found: torch.Tensor = self.up(torch.tanh(self.down(x.flatten(1))))
        return found
