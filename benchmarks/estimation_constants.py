"""How the constants that [M] leaves open were chosen: C, T₁·T₂, sharpness of the weights, shares of the budget.

    python -m benchmarks.estimation_constants [--n 100000] [--seeds 3] [--dimensions 10 50] [--only NAME]

One constant is moved at a time, the others at their defaults. Each row shows, for every kind of corruption, the largest
error over seeds, in units of what theory promises up to a constant: α·√ln(1/α), and √α for heavy tails. Two budgets:
one where noise hardly counts, one where it does. A failed or refused run is nan.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from fedpriv.errors import FedprivError
from fedpriv.estimation import DpFilter, Prime, PrimeHeavyTailed, moments, plan, prime
from fedpriv.randomness.streams import stream

Rows = Any
Draw = Callable[[Generator, tuple[int, int]], Rows]
Attack = Callable[[Rows, Generator], Rows]

ALPHA, CENTRE = 0.05, 17.3
BUDGETS = {"plenty": {"epsilon": 20.0, "delta": 0.01}, "scarce": {"epsilon": 1.0, "delta": 1e-5}}
WHERE = {"LIFT": (moments,), "CLIPPED": (plan,), "RANGE_SHARE": (plan,), "SCORES_SHARE": (plan, prime)}
MOVED = {
    Prime: {
        "constant": (0.25, 0.5, 1, 2, 4), "steps": (1, 2, 4, 8, 16), "sharpness": (0.01, 0.1, 1, 10),
        "recentrings": (0, 1, 2), "LIFT": (0.25, 0.5, 1, 2), "CLIPPED": (1e-6, 0.001, 0.01, 0.1),
        "RANGE_SHARE": (0.05, 0.1, 0.2), "SCORES_SHARE": (0.05, 0.1, 0.2),
    },
    PrimeHeavyTailed: {"constant": (1.2, 1.5, 2, 4), "reach": (0.5, 1, 2), "groups": (1, 9, 25), "recentrings": (0, 1)},
    DpFilter: {"constant": (0.25, 0.5, 1, 2), "steps": (10, 20, 40, 80), "recentrings": (0, 1, 2)},
}  # fmt: skip


def light(rng: Generator, size: tuple[int, int]) -> Rows:
    """Standard normal."""
    return rng.normal(size=size)


def heavy(rng: Generator, size: tuple[int, int]) -> Rows:
    """Student's t with 3 degrees of freedom, of variance 1: its fourth moment is infinite."""
    return rng.standard_t(3, size) / sqrt(3)


def cluster(bad: Rows, rng: Generator) -> Rows:
    """[M] Figure 1: everything moved by 1.5 in every coordinate."""
    return bad + 1.5


def near(bad: Rows, rng: Generator) -> Rows:
    """All at 2.5 deviations along the diagonal, where honest records still are."""
    return 0 * bad + 2.5 / sqrt(bad.shape[1])


def directions(bad: Rows, rng: Generator) -> Rows:
    """Each moved by 6 along one of d axes."""
    return bad + 6 * np.eye(bad.shape[1])[rng.integers(bad.shape[1], size=len(bad))]


def distances(bad: Rows, rng: Generator) -> Rows:
    """Along one axis, at distances from 2 to 32 deviations."""
    return bad + 2.0 ** rng.uniform(1, 5, len(bad))[:, None] * np.eye(bad.shape[1])[0]


def infinite(bad: Rows, rng: Generator) -> Rows:
    """Not numbers at all: half of them nan, half infinite."""
    return np.where(rng.random(len(bad))[:, None] < 0.5, np.nan, np.inf) + 0 * bad


ATTACKS: tuple[Attack, ...] = (cluster, near, directions, distances, infinite)


class Trial(NamedTuple):
    """Honest records of a law, so many, and the unit of errors."""

    draw: Draw
    n: int
    d: int
    seeds: int
    unit: float

    def error(self, method: Any, attack: Attack, seed: int) -> float:
        """The error in units, nan where the run failed or was refused."""
        rng = stream(seed, f"data {attack.__name__}")
        data = self.draw(rng, (self.n, self.d))
        bad = int(ALPHA * self.n)
        data[:bad] = attack(data[:bad], rng)
        try:
            found = method.estimate(data + CENTRE, stream(seed, "estimate"))
        except FedprivError:
            return float("nan")
        return float("nan") if found.mean is None else float(np.linalg.norm(found.mean - CENTRE)) / self.unit

    def row(self, label: str, method: Any) -> None:
        """One line of the table."""
        worst = [np.max([self.error(method, attack, seed) for seed in range(self.seeds)]) for attack in ATTACKS]
        print(f"{label:>24}  " + "  ".join(f"{value:10.3f}" for value in worst), flush=True)


@contextmanager
def changed(name: str, value: float) -> Iterator[None]:
    """A constant of the library at another value."""
    before = [getattr(module, name) for module in WHERE[name]]
    for module in WHERE[name]:
        setattr(module, name, value)
    yield
    for module, old in zip(WHERE[name], before, strict=True):
        setattr(module, name, old)


def table(method: Any, moved: Mapping[str, tuple[float, ...]], trial: Trial) -> None:
    """Every constant in turn."""
    print(" " * 26 + "  ".join(f"{attack.__name__:>10}" for attack in ATTACKS))
    trial.row("defaults", method)
    for name, values in moved.items():
        for value in values:
            if name in WHERE:
                with changed(name, value):
                    trial.row(f"{name} = {value:g}", method)
            else:
                trial.row(f"{name} = {value:g}", replace(method, **{name: value}))


def main() -> None:
    """Every estimator at every budget."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--only", metavar="NAME", help="this constant alone")
    given = parser.parse_args()
    for kind, moved in MOVED.items():
        moved = {name: values for name, values in moved.items() if given.only in (None, name)}
        draw, unit = (heavy, sqrt(ALPHA)) if kind is PrimeHeavyTailed else (light, ALPHA * sqrt(log(1 / ALPHA)))
        for name, budget in BUDGETS.items():
            for d in given.dimensions:
                print(f"\n{kind.__name__}, {name}: {budget}, n = {given.n:,}, d = {d}, α = {ALPHA}")
                table(kind(corruption=ALPHA, **budget), moved, Trial(draw, given.n, d, given.seeds, unit))


if __name__ == "__main__":
    main()
