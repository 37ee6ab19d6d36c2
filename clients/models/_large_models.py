"""The kinds of large networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clients.models._shapes import image_of
from clients.models.arrays import Floats

if TYPE_CHECKING:
    from clients.models.gradients import Net
    from clients.models.stobatch import Encoded


@dataclass(frozen=True, kw_only=True)
class CifarCnn:
    """The CNN of [S] for CIFAR-10: three convolutions of 128, 128 and 256 channels, 256 units, no batch statistics."""

    def build(self, shape: tuple[int, ...], classes: int, seed: int) -> Net:
        """The net of [S]'s CNN for CIFAR-10, for a study's images of that shape, from weights drawn by the seed.

        >>> CifarCnn().build((32, 32, 3), 10, seed=1).dimension
        5432448
        """
        from clients.models._large_networks import start_of, three_convolutions

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
        """The net of a ResNet-18 with group norms, for a study's images of that shape, from weights drawn by the seed.

        >>> ResNet18().build((64, 64, 3), 30, seed=1).dimension
        11191872
        """
        from clients.models._large_networks import residual, start_of

        image = image_of(shape, classes, seed)
        network = residual(image[0], classes)
        return net_of(network, shape, image, classes, start_of(network, seed))


def net_of(network: Encoded, shape: tuple[int, ...], image: tuple[int, int, bool], classes: int, start: Floats) -> Net:
    """The net of a study's image network with an auto-encoder's first layer, by autograd, from weights `start`."""
    from clients.models._autograd import Autograd
    from clients.models._convolutional import Images
    from clients.models.gradients import Net

    return Net(shape, classes, start, Autograd(network, Images(*image)))
