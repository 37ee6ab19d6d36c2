"""A mechanism of one's own, from its worst pair to ε: two votes a coordinate, of which one counts twice.

    python examples/own_mechanism.py

    fedpriv account own_mechanism:TwoVotes clip=1 peak=0.5 scale=5 --rounds 10 --delta 1e-5   # from this folder
    fedpriv run examples/own_mechanism.toml

A mechanism is costed by its worst pair, so that comes first. Each of the two coins shows +1 with probability
(A + x)/2A. For |x|, |y| ≤ r the coins of x and y are those of r and −r after a coin of one's own has been thrown in
(the probabilities are straight lines in x), and so are both coins together: no pair says more than r against −r.

Studies and ledgers take it by its name, own_mechanism:TwoVotes, and say that its worst pair is its author's word:
`proof` is shown beside every ε. Before anything is drawn or charged it is tried: its probabilities, curves and messages
must be of one law, and no pair on a grid of inputs worse than the worst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedpriv.channel import Channel
from fedpriv.channel.encoding import Fresh
from fedpriv.curves.compose import compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import above, positive
from fedpriv.packed.symbols import packing_of
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.exact import bernoulli
from fedpriv.trust import Adjacency


@dataclass(frozen=True, kw_only=True)
class TwoVotes:
    """A vote that counts once and one that counts twice: −3, −1, 1 or 3."""

    clip: float  # c, the ℓ2 norm
    peak: float  # r, the largest |coordinate|
    scale: float  # A > r, how little one vote says

    proof: ClassVar = "both coins are mixtures of those of the peak and its opposite, by one channel for both inputs"
    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "peak": +1, "scale": -1}
    alphabet: ClassVar = range(-3, 4, 2)
    centre: ClassVar = Fraction(0)
    entropy: ClassVar = 2.0
    bits: ClassVar = 2.0

    def __post_init__(self) -> None:
        positive(clip=self.clip, peak=self.peak)
        above("peak", self.peak, scale=self.scale)

    def chance(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        """The probability of +1, |x| ≤ r."""
        return 0.5 + x * (0.5 / self.scale)

    def encode(self, x: ArrayLike, rng: Generator) -> NDArray[np.int8]:
        """The symbols of a vector, drawn exactly."""
        once, twice = (bernoulli(self.chance, rng, at=x, within=self.peak).astype(np.int8) for _ in range(2))
        return np.asarray(2 * once - 1 + 2 * (2 * twice - 1), np.int8)

    def decode(self, total: ArrayLike, n: int) -> NDArray[np.float64]:
        """The unbiased mean of n inputs from the sum of their messages: a symbol's mean is 3x/A."""
        return np.asarray(total, np.float64) * (self.scale / (3 * n))

    def symbol_law(self, x: float) -> NDArray[np.float64]:
        """The probabilities of −3, −1, 1 and 3: of the coin that counts twice, then of the other."""
        plus = float(self.chance(np.clip(np.array(x), -self.peak, self.peak)))
        return np.outer([1 - plus, plus], [1 - plus, plus]).ravel()

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate."""
        return Tradeoff.between(self.symbol_law(x), self.symbol_law(y))

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair."""
        return self.between(self.peak, -self.peak)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """Nothing bounds whole vectors yet: every coordinate is charged by its worst pair."""


def main() -> None:
    """Means of 50,000 clients from their votes, and what ten rounds of them cost each client."""
    clients, dimension, rounds = 50_000, 5, 10
    channel = Channel.of("coordinates", TwoVotes(clip=1.0, peak=0.5, scale=5.0))
    updates = np.random.default_rng(1).normal(0.25, 0.05, (clients, dimension))
    messages = channel.messages(updates, Fresh(cryptographic_generator(), rows=clients))
    total = packing_of(channel.mechanism).unpack(messages, dimension).sum(axis=0, dtype=np.int64)
    low, high = compose([(channel.mechanism.tradeoff("replace"), dimension * rounds)]).epsilon(1e-5)
    print(f"true means {updates.mean(axis=0).round(2)}, from votes {channel.mechanism.decode(total, clients).round(2)}")
    print(f"{messages.shape[1]} bytes a message; {rounds} rounds cost ε = {low:.4f} … {high:.4f} at δ = 1e-5")


if __name__ == "__main__":
    main()
