"""Others in a sum: the law of what their messages come to, and sums in which they are drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.auditing.laws import law_of_sum, symbol_law
from fedpriv.bounds.coins import log_binomial
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism, Ternary

CROWD = 20_000  # others whose sum of three symbols can be worked out
Seen = Callable[[NDArray[Any], Generator], NDArray[Any]]  # what is seen of symbols, others being drawn


def crowd_of(own: Mechanism, level: float, others: int) -> tuple[int, Vector]:
    """What others' messages in an audited sum add up to, votes at −level, ternary at 0: its lowest value and law."""
    if isinstance(own, Ternary):
        if others > CROWD:
            raise FedprivError(f"sums of {others:,} others' three symbols are too many to audit: at most {CROWD:,}")
        return -others, law_of_sum(symbol_law(own, 0.0)[1], others)
    lowest, law = symbol_law(own, -level)
    votes = len(law) - 1 if lowest == 0 else 1
    share = float(law @ np.arange(len(law))) / votes if lowest == 0 else float(law[-1])
    mass = np.exp(log_binomial(votes * others, share, 0, votes * others))
    if lowest == 0:
        return 0, mass
    spread = np.zeros(2 * others + 1)
    spread[::2] = mass
    return -others, spread


def with_crowd(lowest: int, law: Vector) -> Seen:
    """How trials see an audited sum: a function that adds to symbols the others' total, drawn from its law."""
    below = np.cumsum(law / law.sum())
    below[-1] = 1.0
    return lambda symbols, rng: symbols + (lowest + np.searchsorted(below, rng.random(symbols.shape), side="right"))
