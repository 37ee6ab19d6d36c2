"""Every model by its kind: the class name is the name in studies, in tests and in docs.

Nothing here loads torch until a model is built, so that a study can be read, checked and listed without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt, prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from clients.arrays import Floats
from clients.large_models import CifarCnn, Randomised, ResNet18, net_of
from fedpriv.errors import FedprivError, nearest, whole
from fedpriv.kinds import built
from fedpriv.random_streams import stream

if TYPE_CHECKING:
    from clients.gradients import Net


class Model(Protocol):
    """What every model can do."""

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape; equal arguments give equal weights in every process."""


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """Logistic regression: one dense layer with biases, from zero."""

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape.

        >>> Logistic().build((64,), 10, seed=1).dimension
        650
        """
        return _dense(shape, (), classes, seed)


@dataclass(frozen=True, kw_only=True)
class Mlp:
    """Dense layers with ReLU between them."""

    hidden: tuple[int, ...] = (128,)  # units of each hidden layer

    def __post_init__(self) -> None:
        if not isinstance(self.hidden, (list, tuple)) or not self.hidden:
            raise FedprivError(f"hidden must be a list of at least one width, got {self.hidden!r}; none is Logistic")
        for width in self.hidden:
            whole(hidden=width)
        object.__setattr__(self, "hidden", tuple(int(width) for width in self.hidden))

    @property
    def widths(self) -> tuple[int, ...]:
        """Of layers, one after the other: neighbours' product is how many weights there are at least."""
        return self.hidden

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape.

        >>> Mlp(hidden=(128,)).build((784,), 10, seed=1).dimension
        101770
        """
        return _dense(shape, self.hidden, classes, seed)


@dataclass(frozen=True, kw_only=True)
class Cnn:
    """Two convolutions (16 and 32 channels of 3 × 3, ReLU, halved by maxima) and a dense layer, for square images.

    Images of 1 or 3 channels: flat or (channels, side, side), or (side, side), or (side, side, channels).
    """

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape.

        >>> Cnn().build((784,), 10, seed=1).dimension
        20490
        """
        channels, side, last = image_of(shape, classes, seed)
        from clients.convolutional import two_convolutions
        from clients.gradients import Net

        network, engine = two_convolutions(channels, side, classes, channels_last=last)
        sizes = [tuple(parameter.shape) for parameter in network.parameters()]
        return Net(shape, classes, kaiming_uniform(sizes, seed), engine)


@dataclass(frozen=True, kw_only=True)
class TutorialCnn:
    """The small CNN of tensorflow/privacy's tutorial, which [P] trains: for square images of a side of at least 13.

    16 channels of 8 × 8 in steps of 2 ("same"), 32 of 4 × 4 in steps of 2, each with ReLU and the largest of every
    2 × 2 in steps of 1; then 32 units with ReLU, and the classes.
    """

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape.

        >>> TutorialCnn().build((28, 28), 10, seed=1).dimension
        26010
        """
        channels, side, last = image_of(shape, classes, seed)
        if not side >= 13:
            raise FedprivError(f"TutorialCnn needs images of a side of at least 13, got the shape {shape}")
        from clients.convolutional import of_tutorial
        from clients.gradients import Net

        network, engine = of_tutorial(channels, side, classes, channels_last=last)
        sizes = [tuple(parameter.shape) for parameter in network.parameters()]
        return Net(shape, classes, kaiming_uniform(sizes, seed), engine)


@dataclass(frozen=True, kw_only=True)
class EncodedCnn:
    """The MNIST network of [S], its first convolution an auto-encoder's: what StoBatch and AdLm train.

    Convolutions in steps of 2, the first without bias, means of 2 × 2 between them; a dense layer;
    tanh behind each; and the classes, without bias. No statistics of batches.
    """

    maps: tuple[int, ...] = (32, 64)  # feature maps of one convolution or of two
    kernel: int = 5
    units: int = 256  # |h_π|

    def __post_init__(self) -> None:
        if not isinstance(self.maps, (list, tuple)) or not 1 <= len(self.maps) <= 2:
            raise FedprivError(f"maps must be a list of one or two numbers of feature maps, got {self.maps!r}")
        for own in self.maps:
            whole(maps=own)
        whole(kernel=self.kernel, units=self.units)
        if not self.kernel % 2:
            raise FedprivError(f"kernel must be odd, got {self.kernel}")
        object.__setattr__(self, "maps", tuple(int(own) for own in self.maps))

    @property
    def widths(self) -> tuple[int, ...]:
        """Of layers, as `Mlp.widths`."""
        return *(own * self.kernel for own in self.maps), self.units

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape.

        >>> EncodedCnn().build((28, 28), 10, seed=1).dimension
        317024
        """
        image = image_of(shape, classes, seed)
        from clients.stobatch_network import small, start_of

        network = small(*image[:2], classes, self.maps, self.kernel, self.units)
        return net_of(network, shape, image, classes, start_of(network, seed))


@dataclass(frozen=True, kw_only=True)
class Module:
    """Any `torch.nn.Module` by its import path, called with settings; it gives (records, classes) before the softmax.

    Trained parameters travel, buffers do not: a batch norm, whose running statistics nobody would send, is refused, and
    so is any buffer that training moves and use needs. A group norm looks at one record.
    """

    path: str  # package.module:Class
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not re.fullmatch(r"[\w.]+:\w+", self.path):
            raise FedprivError(f"path must look like 'package.module:Class', got {self.path!r}")
        if not isinstance(self.settings, Mapping):
            raise FedprivError(f"settings must be a table of the class's arguments, got {self.settings!r}")

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape."""
        _check_sizes(shape, classes, seed)
        from clients.imported import imported_net

        return imported_net(self.path, self.settings, shape, classes, seed)


MODELS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (Logistic, Mlp, Cnn, TutorialCnn, EncodedCnn, CifarCnn, ResNet18, Module, Randomised)
}


def make_model(kind: str, settings: Mapping[str, Any]) -> Model:
    """The model of that kind with those settings, or one line that says which setting is wrong.

    >>> make_model("Mlp", {"hiden": [32]})
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: Mlp has no setting 'hiden' (did you mean 'hidden'?); settings: hidden
    """
    if not isinstance(kind, str) or kind not in MODELS:
        raise FedprivError(f"unknown model {kind!r}{nearest(str(kind), MODELS)}; models: {', '.join(MODELS)}")
    model: Model = built(kind, MODELS[kind], settings)
    return model


def image(shape: tuple[int, ...]) -> tuple[int, int, bool]:
    """Channels, side, and whether channels come last.

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
    """The same, what a model is built from being checked."""
    _check_sizes(shape, classes, seed)
    return image(shape)


def kaiming_uniform(sizes: Sequence[tuple[int, ...]], seed: int) -> Floats:
    """Weights and biases uniform within ±1/√inputs, as torch's own layers start, from a stream of ours.

    Sizes alternate: a layer's weights (outputs, inputs, …), then its biases.
    """
    rng, parts = stream(seed, "initial weights"), []
    for weights, biases in zip(sizes[::2], sizes[1::2], strict=True):
        bound = prod(weights[1:]) ** -0.5
        parts.append(rng.uniform(-bound, bound, prod(weights) + prod(biases)))
    return np.concatenate(parts).astype(np.float32)


def _dense(shape: tuple[int, ...], hidden: tuple[int, ...], classes: int, seed: int) -> Net:
    """A dense network, from zero where it has no hidden layer to break the symmetry of."""
    _check_sizes(shape, classes, seed)
    from clients.dense import Dense, layers_of
    from clients.gradients import Net

    layers = layers_of(prod(shape), hidden, classes)
    sizes = [size for layer in layers for size in ((layer.outputs, layer.inputs), (layer.outputs,))]
    start = kaiming_uniform(sizes, seed) if hidden else np.zeros(layers[-1].bias.stop, np.float32)
    return Net(shape, classes, start, Dense(layers))


def _check_sizes(shape: tuple[int, ...], classes: int, seed: int) -> None:
    if not isinstance(shape, tuple) or not shape:
        raise FedprivError(f"shape must be a tuple of at least one size, got {shape!r}")
    for size in shape:
        whole(shape=size)
    whole(at_least=2, classes=classes)
    whole(at_least=0, seed=seed)
