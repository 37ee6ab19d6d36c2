"""The noise of a randomised classifier, and the radius that it certifies: one kind a way of smoothing.

Every radius is in the units and the norm that the kind names, and holds for the noise that was really drawn. What a
paper prints is kept beside it, by name, and never shown alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal, Protocol

from fedpriv.certified._radii import gaussian_radius, laplace_radius, robustness_epsilon, stobatch_published
from fedpriv.errors import at_least_zero, positive, whole

Norm = Literal["l2", "linf"]
By = Literal["votes", "scores"]


class Smoothing(Protocol):
    """What every kind can do."""

    norm: ClassVar[Norm]
    published_by: ClassVar[By]  # what its paper estimates: how often a class has most, or the mean of its scores

    def radius(self, lower: float, upper: float) -> float:
        """How far an input may surely be moved, a class of at least `lower` staying ahead of one of at most `upper`."""

    def published(self, lower: float, upper: float) -> float:
        """The radius that the paper behind this smoothing prints for the same bounds, shown beside ours."""


@dataclass(frozen=True, kw_only=True)
class GaussianSmoothing:
    """Gaussian noise on every input coordinate. Cohen, Rosenfeld and Kolter 2019.

    >>> round(GaussianSmoothing(noise=0.25).radius(0.99, 0.01), 4)
    0.5816
    """

    noise: float  # σ, in the units of the inputs

    norm: ClassVar[Norm] = "l2"
    published_by: ClassVar[By] = "votes"

    def __post_init__(self) -> None:
        """Refuse, for the noise of a certified prediction, a scale that is not positive."""
        positive(noise=self.noise)

    def radius(self, lower: float, upper: float) -> float:
        """The certified ℓ2 radius of a prediction with those bounds of its class and the next.

        An ℓ∞ ball of radius r lies in the ℓ2 ball of radius r√d.
        """
        return gaussian_radius(lower, upper, self.noise)

    def published(self, lower: float, upper: float) -> float:
        """The ℓ2 radius that Cohen et al. print for those bounds: the certified one, their theorem being right."""
        return self.radius(lower, upper)


@dataclass(frozen=True, kw_only=True)
class LaplaceSmoothing:
    """Laplace noise on every input coordinate, against ℓ∞: PixelDP's check with pure ε, and the accountant's curve.

    >>> kind = LaplaceSmoothing(noise=0.25, dimension=784)
    >>> round(kind.published(0.99, 0.01), 5), round(kind.radius(0.99, 0.01), 4)
    (0.00073, 0.021)
    """

    noise: float  # b, in the units of the inputs
    dimension: int  # coordinates of an input

    norm: ClassVar[Norm] = "linf"
    published_by: ClassVar[By] = "scores"

    def __post_init__(self) -> None:
        """Refuse, for the noise of a certified prediction, a scale not positive, a dimension none from 1 on."""
        positive(noise=self.noise)
        whole(dimension=self.dimension)

    def radius(self, lower: float, upper: float) -> float:
        """The certified ℓ∞ radius of a prediction with those bounds: the larger of pure ε's and the accountant's."""
        return laplace_radius(lower, upper, self.noise, self.dimension)

    def published(self, lower: float, upper: float) -> float:
        """The ℓ∞ radius that [S] prints for those bounds, κ = b·ε_r/d of noise on the input alone."""
        return self.noise * robustness_epsilon(lower, upper) / self.dimension


@dataclass(frozen=True, kw_only=True)
class LayerSmoothing:
    """Gaussian noise behind a first affine layer, as in SecureSGD, given how far that layer stretches a move in ℓ2.

    The layer's output moves by `stretch` times as much at the most, and everything after the noise is post-processing.

    >>> round(LayerSmoothing(noise=0.5, stretch=2.0).radius(0.99, 0.01), 4)
    0.5816
    """

    noise: float  # σ, in the units of the layer's output
    stretch: float  # its spectral norm, or more

    norm: ClassVar[Norm] = "l2"
    published_by: ClassVar[By] = "votes"

    def __post_init__(self) -> None:
        """Refuse, for the noise of a certified prediction, a scale or a stretch that is not positive."""
        positive(noise=self.noise, stretch=self.stretch)

    def radius(self, lower: float, upper: float) -> float:
        """The certified ℓ2 radius of the input of a prediction with those bounds, its noise behind a first layer."""
        return gaussian_radius(lower, upper, self.noise) / self.stretch

    def published(self, lower: float, upper: float) -> float:
        """The ℓ2 radius of the input that its paper prints for those bounds: the certified one, which holds."""
        return self.radius(lower, upper)


@dataclass(frozen=True, kw_only=True)
class StoBatchSmoothing:
    """[S]: Laplace noise on the input, and on the first affine transformation, which reads the noised input.

    `noise` is the scale of training, Δ_R/(m·ε₁), and 2·noise that of the transformation. Inference draws both divided
    by ψ around what training kept fixed (its Appendix N); only what is drawn anew certifies. [S] adds the two up to
    κφ/(κ + φ), which is below both: by post-processing the first certifies κ whatever comes after it, and given the
    first noise the second certifies φ, so the larger of them holds.

    >>> kind = StoBatchSmoothing(noise=0.5, divided=2, dimension=784, hidden=6272, maps=32, row=3.0)
    >>> round(kind.published(0.99, 0.01), 6), round(kind.radius(0.99, 0.01), 4)
    (0.001066, 0.021)
    """

    noise: float  # Δ_R/(m·ε₁)
    divided: float = 1.0  # ψ
    dimension: int  # coordinates of an input
    hidden: int  # coordinates of the first affine transformation, of all its feature maps
    maps: int = 1  # its feature maps: [S] counts the neurons of one, hidden / maps, alone
    row: float  # the largest ℓ1 norm of a row of it: how far an ℓ∞ move of 1 takes a hidden coordinate

    norm: ClassVar[Norm] = "linf"
    published_by: ClassVar[By] = "scores"

    def __post_init__(self) -> None:
        """Refuse, for the noise of a certified prediction, scales not positive, sizes none from 1 on, a row below 0."""
        positive(noise=self.noise, divided=self.divided)
        whole(dimension=self.dimension, hidden=self.hidden, maps=self.maps)
        at_least_zero(row=self.row)

    @property
    def drawn(self) -> tuple[float, float]:
        """The Laplace scales drawn anew for a prediction, which alone certify it: of input, of transformation."""
        return self.noise / self.divided, 2 * self.noise / self.divided

    def radius(self, lower: float, upper: float) -> float:
        """The certified ℓ∞ radius of a StoBatch prediction with those bounds: max(κ, φ) of noise drawn anew."""
        first, second = self.drawn
        kappa = laplace_radius(lower, upper, first, self.dimension)
        if self.row == 0:
            return kappa
        return max(kappa, laplace_radius(lower, upper, second, self.hidden) / self.row)

    def published(self, lower: float, upper: float) -> float:
        """The ℓ∞ radius that [S] prints for those bounds, κφ/(κ + φ): equation 13, noise of training undivided."""
        epsilon = robustness_epsilon(lower, upper)
        if self.row == 0:
            return self.noise * epsilon / self.dimension
        one_map = self.hidden / self.maps * self.row
        return stobatch_published(epsilon, noise=self.noise, dimension=self.dimension, hidden=one_map)


def in_linf(radius: float, norm: Norm, dimension: int) -> float:
    """A certified radius as one in ℓ∞, for tables that compare smoothings: the largest cube inside an ℓ2 ball.

    >>> in_linf(1.0, "l2", 100)
    0.1
    """
    return radius / sqrt(dimension) if norm == "l2" else radius
