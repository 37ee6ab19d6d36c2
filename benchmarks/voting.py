"""What adding up and sorting messages costs, on one core, beside the shortest way there is in numpy.

The first rows set a vote over packed messages against *reading them into an accumulator*: the fastest of
`np.bitwise_xor.reduce`, `np.add.reduce` and the same row by row into an accumulator of the packed width, which gives no
vote at all but moves the same bytes. Where numpy's way gives the same result it says so. Ours is `Tally` from the first
message to the result, or a rule called with a matrix. The ratio is our time over numpy's; times are the best of several
turns, taken one after the other in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np

from fedpriv.aggregation import Mean, Median, TrimmedMean
from fedpriv.mechanisms import Binomial, StochasticSign, Ternary
from fedpriv.packed.symbols import packing_of
from fedpriv.packed.tally import Tally

TURNS = 15
SIGN = StochasticSign(clip=1, scale=2)
FIVE = Binomial(clip=1, scale=2, trials=4)
TERNARY = Ternary(clip=1, spread=1.5, scale=4)

Act = Callable[[], object]


class Case(NamedTuple):
    """One piece of work, numpy's ways to it, of which the fastest counts, and ours."""

    title: str
    theirs: dict[str, Act]
    ours: Act


def rows() -> list[dict[str, str]]:
    """One row a case: milliseconds of numpy's best way and of ours, and how many times as long ours takes."""
    return [row(case) for case in cases()]


def row(case: Case) -> dict[str, str]:
    turns = [[seconds(act) for act in (*case.theirs.values(), case.ours)] for _ in range(TURNS)]
    *theirs, ours = (min(times) for times in zip(*turns, strict=True))
    best = min(theirs)
    return {
        "work": case.title,
        "numpy": list(case.theirs)[theirs.index(best)],
        "numpy, ms": f"{best * 1e3:.3g}",
        "fedpriv, ms": f"{ours * 1e3:.3g}",
        "ratio": f"{ours / best:.2f}",
    }


def seconds(act: Act) -> float:
    start = perf_counter()
    act()
    return perf_counter() - start


def cases() -> Iterator[Case]:
    yield from votes(1000, 1_000_000)
    yield from votes(1000, 100_000)
    yield small_messages(1000, 32, 7850)
    yield symbols()
    yield ternary()
    yield from sorting()


def votes(clients: int, dimension: int) -> Iterator[Case]:
    packed = np.random.default_rng(1).integers(0, 256, (clients, dimension // 8), np.uint8)
    size = f"{clients:,} × {dimension:,} one-bit coordinates"
    reading: dict[str, Act] = {
        "xor.reduce": lambda: np.bitwise_xor.reduce(packed, axis=0),
        "add.reduce": lambda: np.add.reduce(packed, axis=0, dtype=np.uint8),
        "xor, row by row": lambda: one_by_one(np.bitwise_xor, packed),
        "add, row by row": lambda: one_by_one(np.add, packed),
    }
    yield Case(
        f"majority vote of {size}, against reading them", reading, lambda: tallied(SIGN, packed, dimension).signs()
    )
    yield Case(f"sum of {size}, against reading them", reading, lambda: tallied(SIGN, packed, dimension).total())
    unpacking = {"unpackbits, then sum": lambda: unpacked(packed)}
    yield Case(f"sum of {size}, the same result", unpacking, lambda: tallied(SIGN, packed, dimension).total())


def one_by_one(add: np.ufunc, packed: np.ndarray) -> np.ndarray:
    total = np.zeros(packed.shape[1], np.uint8)
    for message in packed:
        add(total, message, total)
    return total


def unpacked(packed: np.ndarray) -> np.ndarray:
    total = np.zeros(8 * packed.shape[1], np.int64)
    for start in range(0, len(packed), 100):
        total += np.unpackbits(packed[start : start + 100], axis=1).sum(axis=0, dtype=np.uint8)
    return total


def tallied(mechanism: object, packed: np.ndarray, dimension: int) -> Tally:
    tally = Tally(mechanism, dimension)
    tally.add(packed)
    return tally


def small_messages(calls: int, clients: int, dimension: int) -> Case:
    packed = np.random.default_rng(1).integers(0, 256, (clients, -(-dimension // 8)), np.uint8)

    def ours() -> object:
        tally = Tally(SIGN, dimension)
        for _ in range(calls):
            tally.add(packed)
        return tally.signs()

    title = f"majority vote of {calls:,} cohorts of {clients} × {dimension:,} one-bit coordinates, against reading them"
    return Case(title, {"xor.reduce": lambda: [np.bitwise_xor.reduce(packed, axis=0) for _ in range(calls)]}, ours)


def symbols() -> Case:
    counts = np.random.default_rng(1).integers(0, 5, (1437, 650)).astype(np.uint8)
    packed = packing_of(FIVE).pack(counts)
    theirs = {"sum of unpacked symbols": lambda: counts.sum(axis=0, dtype=np.uint16)}
    return Case("sum of 1,437 × 650 three-bit symbols", theirs, lambda: tallied(FIVE, packed, 650).total())


def ternary() -> Case:
    packed = np.random.default_rng(1).integers(0, 243, (1000, 20_000), np.uint8)
    loose = packing_of(TERNARY).unpack(packed, 100_000)
    theirs = {"sum of unpacked symbols": lambda: loose.sum(axis=0, dtype=np.int16)}
    return Case("sum of 1,000 × 100,000 ternary symbols", theirs, lambda: tallied(TERNARY, packed, 100_000).total())


def sorting() -> Iterator[Case]:
    matrix = np.random.default_rng(1).normal(size=(100, 100_000)).astype(np.float32)
    size = "100 × 100,000 float32"
    yield Case(
        f"median of {size}",
        {
            "np.median": lambda: np.median(matrix, axis=0),
            "np.sort": lambda: np.sort(matrix, axis=0)[49:51].mean(axis=0),
        },
        lambda: Median()(matrix),
    )
    yield Case(
        f"trimmed mean of {size}, 20 at either end",
        {"np.sort": lambda: np.sort(matrix, axis=0)[20:80].mean(axis=0, dtype=np.float64)},
        lambda: TrimmedMean(dropped=20)(matrix),
    )
    yield Case(
        f"mean of {size}, finite rows only",
        {"mean, all rows": lambda: matrix.mean(axis=0, dtype=np.float64)},
        lambda: Mean()(matrix),
    )


if __name__ == "__main__":
    for line in rows():
        print(
            " | ".join(f"{value:<24}" if key == "numpy" else f"{value:>12}" for key, value in line.items()), flush=True
        )
