"""The gradient of every record alone, of a network that is a row of layers: once forward, once back, products by hand.

Autograd gives the errors at the outputs of convolutions and dense layers and no gradient of a weight; a record's own is
errors · inputsᵀ, batched over records into the caller's rows. Records go in blocks of one size, filled up, so that a
record's bits do not depend on how many others there are: else one record more would change the others' gradients too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.modules.batchnorm import _BatchNorm

from clients.models._training_noise import TrainingNoise
from clients.models.first_layer import FirstLayer
from clients.models.losses import Loss, record_losses

BLOCK = 64
_FEW = 16  # of them at once, of which a convolution's windows are copied
WEIGHTS = 2**26  # of all their rows: 256 MB
_WITH_WEIGHTS = (nn.Conv2d, nn.Linear, FirstLayer)


_ALONE = (
    nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Tanh, nn.Sigmoid,
    nn.ZeroPad2d, nn.MaxPool2d, nn.AvgPool2d, TrainingNoise,
)  # fmt: skip


def in_a_row(module: nn.Module) -> list[nn.Module]:
    """A network's layers, where they are called one after the other and nothing else is done; else itself, alone.

    >>> [type(layer).__name__ for layer in in_a_row(nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Tanh()))]
    ['Linear', 'Tanh']
    """
    if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward or is_hooked(module):
        return [module]
    return [layer for part in module for layer in in_a_row(part)]


def is_hooked(module: nn.Module) -> bool:
    """Whether something else runs when a module is called, or in its place: then by-hand gradients would be wrong."""
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    of_weights = any(own._backward_hooks for own in module.parameters())
    return bool(hooks) or of_weights or "forward" in vars(module)


def block_size(dimension: int) -> int:
    """How many records' gradients are computed at once, of a network with so many weights.

    >>> block_size(26_010), block_size(5_000_000)
    (64, 13)
    """
    return max(min(BLOCK, WEIGHTS // dimension), 1)


def rows_together(dimension: int) -> int:
    """How many records' gradients a release holds at once, of so many weights: some blocks, where weights are few.

    >>> rows_together(26_010), rows_together(317_024), rows_together(5_000_000)
    (1280, 64, 13)
    """
    own = block_size(dimension)
    return own * max(WEIGHTS // 2 // (dimension * own), 1)


def _is_known(layer: nn.Module) -> bool:
    """Whether a layer's records do not meet, and have the same bits in any place: gradients may be had in blocks."""
    if type(layer) in (nn.Flatten, nn.Unflatten):
        first = layer.start_dim if isinstance(layer, nn.Flatten) else layer.dim
        return isinstance(first, int) and first >= 1
    if type(layer) in _WITH_WEIGHTS and isinstance(layer, nn.Conv2d):
        plain = layer.groups == 1 and layer.padding_mode == "zeros" and isinstance(layer.padding, tuple)
        return plain and layer.out_channels >= 4
    if type(layer) in _WITH_WEIGHTS and isinstance(layer, nn.Linear):
        return layer.in_features % 4 == 0
    return type(layer) in _ALONE


def has_record_gradients(network: nn.Module) -> bool:
    """Whether each record's gradient can be had in blocks: a row of layers that are known, with weights of their own.

    A layer that is not known may do anything: with what the records of a block have in common, even. Without weights,
    what comes of a record must depend on that record alone. With weights, which must all be trained and in one group,
    sizes must be such that products had the same bits for any place in a block. Measured (MKL 2024.2, AVX-512): rows of
    a product that do not begin at multiples of 16 bytes differ by where they stand, and so do batched products of fewer
    than 4 channels.
    """
    layers = in_a_row(network)
    weights = [parameter for layer in layers for parameter in layer.parameters()]
    if len({id(own) for own in weights}) < len(weights) or not all(own.requires_grad for own in weights):
        return False
    return all(_is_known(layer) and not is_hooked(layer) for layer in layers)


def where_records_meet(network: nn.Module) -> str:
    """A network's first layer with statistics of a batch, in words, for which a release is refused; "" if none.

    >>> where_records_meet(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)))
    '1 (BatchNorm1d)'
    """
    norms = [(name, layer) for name, layer in network.named_modules() if isinstance(layer, _BatchNorm)]
    return next((f"{name} ({type(layer).__name__})" for name, layer in norms), "")


def record_gradients(network: nn.Module, loss: Loss, x: Tensor, y: Tensor, out: Tensor) -> None:
    """A network's gradient of each record of x with label y, a row each of `out`, for a release: one pass back."""
    layers, inputs, outputs, now = list[Any](), list[Tensor](), list[Tensor](), x
    with torch.enable_grad():
        for layer in in_a_row(network):
            if type(layer) in _WITH_WEIGHTS:
                layers.append(layer)
                inputs.append(now.detach())
                now = layer(now)
                if now.ndim == 4:  # all channels of a pixel together in memory: a CPU pools and convolves twice as fast
                    now = now.contiguous(memory_format=torch.channels_last)
                outputs.append(now)
            else:  # one that works in place would put its own output where errors are asked for
                now = layer(now.clone() if getattr(layer, "inplace", False) else now)
        errors = torch.autograd.grad(record_losses(loss, now, y).sum(), outputs)
    start = 0
    for layer, seen, error in zip(layers, inputs, errors, strict=True):
        start = _write(layer, seen, error, out, start)


def _write(layer: nn.Conv2d | nn.Linear, seen: Tensor, error: Tensor, out: Tensor, start: int) -> int:
    """One layer's part of every record's gradient, into the rows of `out` from `start`; where the next begins."""
    middle = start + layer.weight.numel()
    weights = out[:, start:middle].view(len(out), len(layer.weight), -1)
    if isinstance(layer, nn.Conv2d):  # places first, as its maps lie
        error = error.permute(0, 2, 3, 1).flatten(1, 2).transpose(1, 2)
        _of_convolution(layer, seen, error, weights)
    elif seen.ndim == 2:
        torch.mul(error[:, :, None], seen[:, None], out=weights)
    else:  # at many places, the last axis of each
        error = error.flatten(1, -2).transpose(1, 2)
        weights.copy_(torch.bmm(error, seen.flatten(1, -2)))
    if layer.bias is None:
        return middle
    end = middle + len(layer.bias)
    out[:, middle:end] = error if error.ndim == 2 else error.sum(2)
    return end


def _of_convolution(layer: nn.Conv2d, seen: Tensor, error: Tensor, weights: Tensor) -> None:
    """A convolution's errors (records, channels, places) times what it saw at each place, into its part of all rows.

    A few records at a time: what it saw overlaps, so it is many times its input, and is used while it is in cache.
    """
    assert isinstance(layer.padding, tuple)  # or its records' gradients were not had so
    (above, beside), (down, along) = layer.padding, layer.stride
    (high, wide), (far, aside) = layer.kernel_size, layer.dilation
    x = (pad(seen, (beside, beside, above, above)) if above or beside else seen).permute(0, 2, 3, 1)
    windows = x.unfold(1, far * (high - 1) + 1, down).unfold(2, aside * (wide - 1) + 1, along)
    windows = windows[..., ::far, ::aside].permute(0, 1, 2, 4, 5, 3)
    parts = weights.view(*weights.shape[:2], layer.in_channels, -1).transpose(
        2, 3
    )  # as windows: a pixel's channels together
    for own in (slice(start, start + _FEW) for start in range(0, len(x), _FEW)):
        found = torch.bmm(error[own], windows[own].flatten(3).flatten(1, 2))
        parts[own] = found.view(*found.shape[:2], -1, layer.in_channels)
    if isinstance(layer, FirstLayer):
        weights.copy_(layer.of_weights(weights))
