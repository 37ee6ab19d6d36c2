"""Every model by its kind: the class name is the name in studies, in tests and in docs.

Nothing here loads torch until a model is built, so that a study can be read, checked and listed without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import numpy as np

from clients.models._large_models import CifarCnn, ResNet18, net_of
from clients.models._shapes import Place, check_sizes, image_of, kaiming_uniform
from fedpriv.errors import FedprivError, positive, whole
from fedpriv.registry import Registry
from fedpriv.settings import check_fields

if TYPE_CHECKING:
    from torch import nn

    from clients.models.gradients import Engine, Net


class Model(Protocol):
    """What every model can do."""

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The net of a study for its records' shape; equal arguments give equal first weights in every process."""


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """Logistic regression: one dense layer with biases, from zero."""

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The net of logistic regression for a study's records of that shape, taken flat, from zero weights.

        >>> Logistic().build((64,), 10, seed=1).dimension
        650
        """
        return _perceptron(shape, (), classes, seed)


@dataclass(frozen=True, kw_only=True)
class Mlp:
    """Dense layers with ReLU between them."""

    hidden: Annotated[tuple[int, ...], "units of each hidden layer"] = (128,)

    def __post_init__(self) -> None:
        if not isinstance(self.hidden, (list, tuple)) or not self.hidden:
            raise FedprivError(f"hidden must be a list of at least one width, got {self.hidden!r}; none is Logistic")
        for width in self.hidden:
            whole(hidden=width)
        object.__setattr__(self, "hidden", tuple(int(width) for width in self.hidden))

    @property
    def widths(self) -> tuple[int, ...]:
        """Units of layers, in order: by products of neighbours a node refuses too large a model before it is built."""
        return self.hidden

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The net of dense layers for a study's records of that shape, taken flat, from weights drawn by the seed.

        >>> Mlp(hidden=(128,)).build((784,), 10, seed=1).dimension
        101770
        """
        return _perceptron(shape, self.hidden, classes, seed)


@dataclass(frozen=True, kw_only=True)
class Cnn:
    """Two convolutions (16 and 32 channels of 3 × 3, ReLU, halved by maxima) and a dense layer, for square images.

    Images of 1 or 3 channels: flat or (channels, side, side), or (side, side), or (side, side, channels).
    """

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The net of two convolutions for a study's images of that shape, from weights drawn by the seed.

        >>> Cnn().build((784,), 10, seed=1).dimension
        20490
        """
        channels, side, last = image_of(shape, classes, seed)
        from clients.models._convolutional import two_convolutions

        network, engine = two_convolutions(channels, side, classes, channels_last=last)
        return _started(network, engine, shape, classes, seed)


@dataclass(frozen=True, kw_only=True)
class TutorialCnn:
    """The small CNN of tensorflow/privacy's tutorial, which [P] trains: for square images of a side of at least 13.

    16 channels of 8 × 8 in steps of 2 ("same"), 32 of 4 × 4 in steps of 2, each with ReLU and the largest of every
    2 × 2 in steps of 1; then 32 units with ReLU, and the classes.
    """

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The net of tensorflow/privacy's tutorial for a study's images of that shape, from weights drawn by the seed.

        >>> TutorialCnn().build((28, 28), 10, seed=1).dimension
        26010
        """
        channels, side, last = image_of(shape, classes, seed)
        if not side >= 13:
            raise FedprivError(f"TutorialCnn needs images of a side of at least 13, got the shape {shape}")
        from clients.models._convolutional import of_tutorial

        network, engine = of_tutorial(channels, side, classes, channels_last=last)
        return _started(network, engine, shape, classes, seed)


@dataclass(frozen=True, kw_only=True)
class EncodedCnn:
    """The MNIST network of [S], its first convolution an auto-encoder's: what StoBatch and AdLm train.

    Convolutions in steps of 2, the first without bias, means of 2 × 2 between them; a dense layer;
    tanh behind each; and the classes, without bias. No statistics of batches.
    """

    maps: Annotated[tuple[int, ...], "feature maps of one convolution or of two"] = (32, 64)
    kernel: Annotated[int, whole, "the side of a convolution's kernel: odd"] = 5
    units: Annotated[int, whole, "|h_π|, units of the dense layer"] = 256

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.maps, (list, tuple)) or not 1 <= len(self.maps) <= 2:
            raise FedprivError(f"maps must be a list of one or two numbers of feature maps, got {self.maps!r}")
        for own in self.maps:
            whole(maps=own)
        if not self.kernel % 2:
            raise FedprivError(f"kernel must be odd, got {self.kernel}")
        object.__setattr__(self, "maps", tuple(int(own) for own in self.maps))

    @property
    def widths(self) -> tuple[int, ...]:
        """Units of layers, in order: by products of neighbours a node refuses too large a model before it is built."""
        return *(own * self.kernel for own in self.maps), self.units

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The net that StoBatch and AdLm train, for a study's images of that shape, from weights drawn by the seed.

        >>> EncodedCnn().build((28, 28), 10, seed=1).dimension
        317024
        """
        image = image_of(shape, classes, seed)
        from clients.models.stobatch import small_network, start_of

        network = small_network(*image[:2], classes, self.maps, self.kernel, self.units)
        return net_of(network, shape, image, classes, start_of(network, seed))


@dataclass(frozen=True, kw_only=True)
class Module:
    """Any `torch.nn.Module` by its import path, called with settings; it gives (records, classes) before the softmax.

    Trained parameters travel, buffers do not: a batch norm, whose running statistics nobody would send, is refused, and
    so is any buffer that training moves and use needs. A group norm looks at one record.
    """

    path: Annotated[str, "where the class is: package.module:Class"]
    settings: Annotated[Mapping[str, Any], "what it is called with"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not re.fullmatch(r"[\w.]+:\w+", self.path):
            raise FedprivError(f"path must look like 'package.module:Class', got {self.path!r}")
        if not isinstance(self.settings, Mapping):
            raise FedprivError(f"settings must be a table of the class's arguments, got {self.settings!r}")

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The net of the imported torch module, tried on a study's records of that shape; refused in one line else."""
        check_sizes(shape, classes, seed)
        from clients.models._imported import imported_net

        return imported_net(self.path, self.settings, shape, classes, seed)


@dataclass(frozen=True, kw_only=True)
class Randomised:
    """Any model with Gaussian noise in training, on its input (PixelDP) or behind its first layer (SecureSGD).

    `fedpriv certify` adds the same noise in the same place. It protects no training data.
    """

    network: Annotated[Mapping[str, Any], "the model, as in [training.model]"]
    noise: Annotated[float, positive, "σ, the noise's standard deviation, in the units of what it is added to"]
    at: Annotated[Place, "what the noise is added to: the input, or what the first layer gives"] = "input"

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.network, Mapping) or "kind" not in self.network:
            raise FedprivError(f"network must be a table with a kind, such as {{ kind = 'Cnn' }}, got {self.network!r}")

    @property
    def model(self) -> Model:
        """The study's model that training noise is added to, as the table `network` names it."""
        return MODELS.made(self.network["kind"], {name: own for name, own in self.network.items() if name != "kind"})

    @property
    def widths(self) -> tuple[int, ...]:
        """Units of the layers of the model within, in order, by which a node refuses one that is too large."""
        found: tuple[int, ...] = getattr(self.model, "widths", ())
        return found

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The net of the model within for a study's records of that shape, noised in training; no more weights.

        >>> Randomised(network={"kind": "Mlp", "hidden": [32]}, noise=0.5).build((64,), 10, seed=1).dimension
        2410
        """
        from clients.models.randomised import behind_noise

        return behind_noise(self.model.build(shape, classes, seed), self.noise, self.at)


MODELS = Registry(
    "model",
    Model,
    (Logistic, Mlp, Cnn, TutorialCnn, EncodedCnn, CifarCnn, ResNet18, Module, Randomised),
)


def _started(network: nn.Module, engine: Engine, shape: tuple[int, ...], classes: int, seed: int) -> Net:
    """A net of a torch network and its engine, its weights as torch's own layers start: for `Cnn`, `TutorialCnn`."""
    from clients.models.gradients import Net

    sizes = [tuple(parameter.shape) for parameter in network.parameters()]
    return Net(shape, classes, kaiming_uniform(sizes, seed), engine)


def _perceptron(shape: tuple[int, ...], hidden: tuple[int, ...], classes: int, seed: int) -> Net:
    """The net of `Logistic` or `Mlp`: from zero where no hidden layer's symmetry is to be broken, else drawn."""
    check_sizes(shape, classes, seed)
    from clients.models._dense import Dense, layers_of
    from clients.models.gradients import Net

    layers = layers_of(prod(shape), hidden, classes)
    sizes = [size for layer in layers for size in ((layer.outputs, layer.inputs), (layer.outputs,))]
    start = kaiming_uniform(sizes, seed) if hidden else np.zeros(layers[-1].bias.stop, np.float32)
    return Net(shape, classes, start, Dense(layers))
