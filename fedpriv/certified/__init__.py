"""Certified robustness: how far an input may be moved, and what the noise that certifies it costs its training data.

`confidence` bounds expected scores from draws, `radii` and `smoothing` turn bounds into radii, `functional` is the
functional mechanism of [S] with both of its ε's, `approximation` how far its polynomials are from the losses.
"""

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
]  # fmt: skip
