"""Certified robustness: how far an input may be moved, and what the noise that certifies it costs its training data.

`confidence` bounds expected scores from draws; a curve (`certifies`), a radius or a smoothing makes certificates of
bounds. `FunctionalMechanism` is that of [S] with both of its ε's; the errors are of its polynomials.
"""

from fedpriv.certified._approximation import (
    largest_polynomial_error,
    polynomial_error,
    published_label_error,
    published_reconstruction_error,
)
from fedpriv.certified._radii import (
    certifies,
    gaussian_radius,
    laplace_radius,
    pixeldp_radius,
    robustness_epsilon,
)
from fedpriv.certified.functional import FunctionalMechanism
from fedpriv.certified.smoothing import (
    GaussianSmoothing,
    LaplaceSmoothing,
    LayerSmoothing,
    Smoothing,
    StoBatchSmoothing,
)

__all__ = [
    "FunctionalMechanism", "GaussianSmoothing", "LaplaceSmoothing", "LayerSmoothing", "Smoothing", "StoBatchSmoothing",
    "certifies", "gaussian_radius", "laplace_radius", "largest_polynomial_error", "pixeldp_radius", "polynomial_error",
    "published_label_error", "published_reconstruction_error", "robustness_epsilon",
]  # fmt: skip
