"""What a model is built of: the shape of its records, weights to start from, and where it may bear noise."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import Literal

import numpy as np

from clients.models.arrays import Floats
from fedpriv.errors import FedprivError, natural, whole
from fedpriv.randomness.streams import stream

Place = Literal["input", "first layer"]  # where noise is added in training


def image(shape: tuple[int, ...]) -> tuple[int, int, bool]:
    """Channels, side, and whether channels come last, of records that are square images; other shapes are refused.

    >>> image((784,)), image((32, 32, 3)), image((3072,))
    ((1, 28, False), (3, 32, True), (3, 32, False))
    """
    for channels in (1, 3):
        side = isqrt(prod(shape) // channels)
        if side >= 4 and shape in [(channels * side * side,), (channels, side, side), (side, side, channels)]:
            return channels, side, shape[-1] == channels and len(shape) == 3
        if side >= 4 and channels == 1 and shape == (side, side):
            return 1, side, False
    raise FedprivError(f"Cnn needs square images of 1 or 3 channels and a side of at least 4, got the shape {shape}")


def image_of(shape: tuple[int, ...], classes: int, seed: int) -> tuple[int, int, bool]:
    """Channels, side, and whether channels come last, of the images a study's convolutional model is built for."""
    check_sizes(shape, classes, seed)
    return image(shape)


def kaiming_uniform(sizes: Sequence[tuple[int, ...]], seed: int) -> Floats:
    """Weights and biases a model starts from, uniform within ±1/√inputs as torch's layers, from a stream of ours.

    Sizes alternate: a layer's weights (outputs, inputs, …), then its biases.
    """
    rng, parts = stream(seed, "initial weights"), []
    for weights, biases in zip(sizes[::2], sizes[1::2], strict=True):
        bound = prod(weights[1:]) ** -0.5
        parts.append(rng.uniform(-bound, bound, prod(weights) + prod(biases)))
    return np.concatenate(parts).astype(np.float32)


def check_sizes(shape: tuple[int, ...], classes: int, seed: int) -> None:
    """Refuse a shape of records, a number of classes (1 for a number) or a seed that no model is built from."""
    if not isinstance(shape, tuple) or not shape:
        raise FedprivError(f"shape must be a tuple of at least one size, got {shape!r}")
    for size in shape:
        whole(shape=size)
    whole(classes=classes)
    natural(seed=seed)
