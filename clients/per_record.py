"""The gradient of every record alone, of a network that is a row of layers: once forward, once back, products by hand.

Autograd gives the errors at the outputs of convolutions and dense layers and no gradient of a weight; a record's own is
errors · inputsᵀ, batched over records into the caller's rows. Records go in blocks of one size, filled up, so that a
record's bits do not depend on how many others there are: else one record more would change the others' gradients too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad, unfold

BLOCK = 64  # records at once: what is in between stays in cache
_WITH_WEIGHTS = (nn.Conv2d, nn.Linear)


class Maxima(torch.autograd.Function):
    """The largest of every 2 × 2, a step of one: as MaxPool2d(2, 1), which takes four times as long on a CPU.

    Of equal ones an error goes back to the first either way; after a ReLU those are zeros, which lose it anyway.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Rows first, then columns."""
        upper, lower = x[..., :-1, :], x[..., 1:, :]
        rows = torch.maximum(upper, lower)
        left, right = rows[..., :-1], rows[..., 1:]
        ctx.save_for_backward(upper >= lower, left >= right)
        return torch.maximum(left, right)

    @staticmethod
    def backward(ctx: Any, errors: Tensor) -> Tensor:
        """Each error to where its largest stood."""
        above, first = ctx.saved_tensors
        rows = _parted(errors, first, -1)
        return _parted(rows, above, -2)


def _parted(errors: Tensor, first: Tensor, axis: int) -> Tensor:
    """Errors of pairs of neighbours, to the first of each or to the second."""
    shape = list(errors.shape)
    shape[axis] += 1
    found, size = errors.new_zeros(shape), errors.shape[axis]
    chosen = errors * first  # three times as fast as torch.where
    found.narrow(axis, 0, size).copy_(chosen)
    found.narrow(axis, 1, size).add_(errors - chosen)
    return found


class MaxOfFour(nn.Module):
    """`Maxima` as a layer."""

    def forward(self, x: Tensor) -> Tensor:
        """The largest of every 2 × 2."""
        found: Tensor = Maxima.apply(x)  # type: ignore[no-untyped-call]
        return found


def can(network: nn.Module) -> bool:
    """Whether the gradients of its records can be had so: a row of layers whose weights are of two kinds."""
    return isinstance(network, nn.Sequential) and all(
        (isinstance(layer, _WITH_WEIGHTS) and _is_simple(layer)) or not list(layer.parameters()) for layer in network
    )


def _is_simple(layer: nn.Module) -> bool:
    """Trained, with a bias, without groups; and of sizes at which products had the same bits for any place in a block.

    Measured (MKL 2024.2, AVX-512): rows of a product that do not begin at multiples of 16 bytes differ by where they
    stand, and so do batched products of fewer than 4 channels.
    """
    if layer.bias is None or not all(parameter.requires_grad for parameter in layer.parameters()):
        return False
    if isinstance(layer, nn.Conv2d):
        plain = layer.groups == 1 and layer.padding_mode == "zeros" and isinstance(layer.padding, tuple)
        return plain and layer.out_channels >= 4
    return isinstance(layer, nn.Linear) and layer.in_features % 4 == 0


def gradients(network: nn.Module, x: Tensor, y: Tensor, out: Tensor) -> None:
    """The gradients of the records x (records, …) with labels y, a row each of out, in the order of parameters."""
    assert isinstance(network, nn.Sequential)  # as `can` says
    inputs, outputs, now = [], [], x
    with torch.enable_grad():
        for layer in network:
            if isinstance(layer, _WITH_WEIGHTS):
                inputs.append(now.detach())
                outputs.append(now := layer(now))
            else:
                now = layer(now)
        loss = cross_entropy(now, y, reduction="sum")
        errors = torch.autograd.grad(loss, outputs)
    start, layers = 0, [layer for layer in network if isinstance(layer, _WITH_WEIGHTS)]
    for layer, seen, error in zip(layers, inputs, errors, strict=True):
        start = _write(layer, seen, error, out, start)


def _write(layer: nn.Conv2d | nn.Linear, seen: Tensor, error: Tensor, out: Tensor, start: int) -> int:
    """One layer's part of every row; where the next one's begins."""
    middle = start + layer.weight.numel()
    weights = out[:, start:middle].view(len(out), layer.weight.shape[0], -1)
    biases = out[:, middle : middle + layer.weight.shape[0]]
    if isinstance(layer, nn.Linear):
        torch.mul(error[:, :, None], seen[:, None], out=weights)
        biases.copy_(error)
    else:
        places = error.flatten(2)
        weights.copy_(torch.bmm(places, _patches(layer, seen)))
        torch.sum(places, 2, out=biases)
    return middle + layer.weight.shape[0]


def _patches(layer: nn.Conv2d, seen: Tensor) -> Tensor:
    """What every output of a convolution has seen: (records, outputs, inputs). `unfold` is slow for one channel."""
    assert isinstance(layer.padding, tuple)
    if layer.in_channels > 1 or layer.dilation != (1, 1):
        return unfold(seen, layer.kernel_size, layer.dilation, layer.padding, layer.stride).transpose(1, 2)
    (high, wide), (down, along), (above, beside) = layer.kernel_size, layer.stride, layer.padding
    zeros = pad(seen, (beside, beside, above, above)) if above or beside else seen
    windows = zeros.unfold(2, high, down).unfold(3, wide, along)
    return windows.reshape(len(seen), -1, high * wide)
