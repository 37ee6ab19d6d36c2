"""What exact encoding costs beside numpy's rounded one, for ten million coordinates on one core.

The ratio is numpy's time over ours; every time is the best of several repeats, the two taking turns in one process with
the same generator. Numpy's probabilities are multiples of 2⁻⁵³ and its binomial is computed in floating point; ours are
exact. Two rows have another ours for theirs, or a normal draw rounded to whole numbers, as their titles say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.random import PCG64, SFC64, Generator, Philox

from fedpriv.mechanisms import StochasticSign, Ternary
from fedpriv.randomness.exact import bernoulli, binomial, binomial_fixed, discrete_gaussian, skellam, ternary

COORDINATES = 10_000_000
REPEATS = 5
TRIALS = (1, 4, 16, 32, 64, 100, 256, 512, 1000, 10_000)
SIGN = StochasticSign(clip=0.1, scale=0.25)
TERNARY = Ternary(clip=0.1, spread=0.25, scale=0.5)


class Pair(NamedTuple):
    """One draw, theirs and ours."""

    title: str
    theirs: Callable[[], object]
    ours: Callable[[], object]
    repeats: int = REPEATS


def rows() -> list[dict[str, str]]:
    """One row a draw: nanoseconds a coordinate, theirs and ours, and how many times faster ours is."""
    return [row(pair) for pair in pairs(COORDINATES)]


def row(pair: Pair) -> dict[str, str]:
    theirs, ours = best(pair)
    return {
        "draw": pair.title,
        "theirs, ns": f"{theirs / COORDINATES * 1e9:.2f}",
        "fedpriv, ns": f"{ours / COORDINATES * 1e9:.2f}",
        "ratio": f"{theirs / ours:.2f}",
    }


def best(pair: Pair) -> tuple[float, float]:
    """The best time of each, taking turns; our tables are built before."""
    pair.ours()
    turns = [(seconds(pair.theirs), seconds(pair.ours)) for _ in range(pair.repeats)]
    return min(theirs for theirs, _ in turns), min(ours for _, ours in turns)


def seconds(act: Callable[[], object]) -> float:
    start = perf_counter()
    act()
    return perf_counter() - start


def pairs(n: int) -> Iterator[Pair]:
    p = np.random.default_rng(1).random(n)
    yield from coins(p)
    rng = Generator(Philox(2))
    for trials in TRIALS:
        yield Pair(
            f"binomial, {trials} trials", lambda m=trials: rng.binomial(m, p), lambda m=trials: binomial(m, p, rng), 2
        )
    for sigma in (1.0, 100.0, 1e4):
        yield Pair(
            f"discrete Gaussian, σ = {sigma:g} (theirs: rounded normal)",
            lambda s=sigma: np.rint(rng.normal(0, s, n)),
            lambda s=sigma: discrete_gaussian(s, n, rng),
        )
    yield Pair(
        "Skellam, variance 100", lambda: rng.poisson(50, n) - rng.poisson(50, n), lambda: skellam(100, n, rng), 2
    )
    yield Pair(
        "Bin(1000, 1/2), one p", lambda: rng.binomial(1000, 0.5, n), lambda: binomial_fixed(1000, 0.5, n, rng), 2
    )


def coins(p: np.ndarray) -> Iterator[Pair]:
    for kind in (Philox, PCG64, SFC64):
        rng = Generator(kind(2))
        yield Pair(f"bernoulli, {kind.__name__}", lambda r=rng: r.random(p.size) < p, lambda r=rng: bernoulli(p, r))
    for kind in (np.float64, np.float32):
        x = ((2 * p - 1) * SIGN.peak).astype(kind)
        name = np.dtype(kind).name
        yield Pair(
            f"StochasticSign.encode of {name} (theirs: rng.random(n) < (A + x)/2A)",
            lambda x=x: rng.random(p.size) < (SIGN.scale + np.clip(x, -SIGN.peak, SIGN.peak)) / (2 * SIGN.scale),
            lambda x=x: SIGN.encode(x, rng),
        )
        yield Pair(
            f"Ternary.encode of {name} (theirs: our own StochasticSign.encode; 0.67 is asked for)",
            lambda x=x: SIGN.encode(x, rng),
            lambda x=x: TERNARY.encode(x, rng),
        )
    plus, minus = p / 2, (1 - p) / 2
    yield Pair(
        "ternary (theirs: the same by one comparison each)",
        lambda: compared(plus, minus, rng),
        lambda: ternary(plus, minus, rng),
    )


def compared(plus: np.ndarray, minus: np.ndarray, rng: Generator) -> np.ndarray:
    u = rng.random(plus.size)
    return (u < plus).view(np.int8) - (u > 1 - minus).view(np.int8)


if __name__ == "__main__":
    for line in rows():
        print(
            " | ".join(f"{value:>12}" if key != "draw" else f"{value:<52}" for key, value in line.items()), flush=True
        )
