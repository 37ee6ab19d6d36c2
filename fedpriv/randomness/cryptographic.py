"""Noise that nobody can replay: what a deployed client draws from."""

from __future__ import annotations

import secrets

from numpy.random import Generator
from randomgen import ChaCha

KEY_BYTES = 32  # of the generator: 256 bits


def cryptographic_generator() -> Generator:
    """A ChaCha20 generator under 256 bits of key from the operating system, for a deployed client's noise.

    The streams of a simulation are reproducible, hence not private: who knows the seed can subtract the noise, and
    the output of an ordinary generator reveals its state. Deployed noise must be neither, whatever it costs.

    >>> cryptographic_generator().bytes(16) == cryptographic_generator().bytes(16)
    False
    """
    return Generator(ChaCha(key=secrets.randbits(8 * KEY_BYTES), rounds=20))
