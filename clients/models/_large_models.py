"""The kinds of large networks, and the wrapper that has any model bear noise in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from clients.arrays import Floats
from fedpriv.errors import FedprivError, one_of, positive

if TYPE_CHECKING:
    from clients.gradients import Net
    from clients.models import Model
    from clients.stobatch_network import Encoded

Place = Literal["input", "first layer"]


@dataclass(frozen=True, kw_only=True)
class CifarCnn:
    """The CNN of [S] for CIFAR-10: three convolutions of 128, 128 and 256 channels, 256 units, no batch statistics."""

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape.

        >>> CifarCnn().build((32, 32, 3), 10, seed=1).dimension
        5432448
        """
        from clients.large_networks import start_of, three_convolutions
        from clients.models import image_of

        image = image_of(shape, classes, seed)
        network = three_convolutions(*image[:2], classes)
        return net_of(network, shape, image, classes, start_of(network, seed))


@dataclass(frozen=True, kw_only=True)
class ResNet18:
    """A ResNet-18 (He, Zhang, Ren, Sun 2016) with group norms of 32 groups in the place of batch norms (Wu, He 2018).

    Batch statistics would make records meet: in training one record would change others' gradients, so that clipping
    them bounds nothing; in use a prediction would depend on who else is asked about.
    """

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape.

        >>> ResNet18().build((64, 64, 3), 30, seed=1).dimension
        11191872
        """
        from clients.large_networks import residual, start_of
        from clients.models import image_of

        image = image_of(shape, classes, seed)
        network = residual(image[0], classes)
        return net_of(network, shape, image, classes, start_of(network, seed))


@dataclass(frozen=True, kw_only=True)
class Randomised:
    """Any model with Gaussian noise in training, on its input (PixelDP) or behind its first layer (SecureSGD).

    `fedpriv certify` adds the same noise in the same place. It protects no training data.
    """

    network: Mapping[str, Any]  # the model, as in [training.model]
    noise: float  # σ, in the units of what it is added to
    at: Place = "input"

    def __post_init__(self) -> None:
        positive(noise=self.noise)
        one_of(get_args(Place), at=self.at)
        if not isinstance(self.network, Mapping) or "kind" not in self.network:
            raise FedprivError(f"network must be a table with a kind, such as {{ kind = 'Cnn' }}, got {self.network!r}")

    @property
    def model(self) -> Model:
        """What the noise is added to."""
        from clients.models import make_model

        return make_model(self.network["kind"], {name: own for name, own in self.network.items() if name != "kind"})

    @property
    def widths(self) -> tuple[int, ...]:
        """Of layers, as `Mlp.widths`."""
        found: tuple[int, ...] = getattr(self.model, "widths", ())
        return found

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The network for records of that shape: as many weights as without noise.

        >>> Randomised(network={"kind": "Mlp", "hidden": [32]}, noise=0.5).build((64,), 10, seed=1).dimension
        2410
        """
        from clients.randomised import behind_noise

        return behind_noise(self.model.build(shape, classes, seed), self.noise, self.at)


def net_of(network: Encoded, shape: tuple[int, ...], image: tuple[int, int, bool], classes: int, start: Floats) -> Net:
    """A module for such images, with weights to start from."""
    from clients.autograd import Autograd
    from clients.convolutional import images
    from clients.gradients import Net

    return Net(shape, classes, start, Autograd(network, images(*image)))
