"""Draws whose probabilities are exactly the numbers given: no rounding stands between a proof and the noise.

`rng.random() < p` knows multiples of 2⁻⁵³ only, and a rounded Gaussian betrays its input by the numbers it can never
be. Everything here draws the digits of a uniform number U, as many as the comparison needs, from any generator.
"""

from fedpriv.randomness._chosen import Chosen
from fedpriv.randomness._inversion import binomial_fixed, discrete_gaussian, discrete_laplace, poisson, skellam
from fedpriv.randomness.binomial import binomial
from fedpriv.randomness.bits import bernoulli, ternary

__all__ = [
    "Chosen",
    "bernoulli",
    "binomial",
    "binomial_fixed",
    "discrete_gaussian",
    "discrete_laplace",
    "poisson",
    "skellam",
    "ternary",
]
