"""A mechanism that somebody else wrote, by `module:Class`: tried on a small case before anything is drawn or charged.

Its worst pair is its author's word, and every bound that rests on it says so. What can be looked at is: that its
probabilities are some, that its curves are theirs, that no pair on a grid of inputs is worse than its worst, and that
its messages follow them. A trial refuses what is wrong where it was looked at, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import is_dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import isfinite
from typing import Any, get_args

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.registry import kind_of
from fedpriv.trust import Adjacency

INPUTS = (-1.0, -0.7, -0.25, 0.0, 0.25, 0.6, 1.0)  # in peaks
DRAWS = 4000  # of each
LOSSES = (0.0, 0.1, 0.3, 1.0, 2.0, 4.0)  # at which curves are compared
NEAR = 1e-9
MOST = 1 << 16  # symbols
HAS = {  # what is read from it beside its methods, and what that must be
    "proof": (str, "a sentence: why no two inputs within the peak are told apart better than its tradeoff says"),
    "effects": (Mapping, "which way each setting moves ε, +1 or −1"),
    "alphabet": (range, "the range of the whole numbers it may send"),
    "centre": (Fraction, "the mean symbol of an input of 0, a Fraction"),
    "entropy": (float | int, "bits of information in one coordinate"),
    "bits": (float | int, "bits one coordinate takes on the wire"),
    "clip": (float | int, "the ℓ2 norm of an input"),
    "peak": (float | int, "the largest coordinate of an input, at most the clip"),
}  # fmt: skip


def is_own(mechanism: object) -> bool:
    """Whether its class is somebody's own, none that ships."""
    return ":" in kind_of(mechanism)


def try_own(mechanism: Any) -> None:
    """Refuse somebody's own mechanism that is not as it says; those that ship are left alone."""
    if not is_own(mechanism):
        return
    kind = kind_of(mechanism)
    if not (is_dataclass(mechanism) and isinstance(mechanism, Hashable) and "<" not in kind):
        raise FedprivError(f"mechanism {kind} must be a frozen dataclass at the top of its module: {mechanism!r:.80}")
    try:
        fault = _fault(mechanism)
    except FAULTS as error:
        raise FedprivError(f"mechanism {kind} fails when it is tried: {reason(error)}") from None
    if fault:
        raise FedprivError(f"mechanism {kind} {fault}")


@lru_cache(maxsize=64)
def _fault(own: Any) -> str:
    """What is wrong with it; empty where nothing was found."""
    ours = [each.__name__ for each in type(own).__mro__[1:] if each.__module__.startswith("fedpriv.")]
    if ours:
        return f"inherits from {ours[0]}, whose proofs are not its own: hold one in a field instead"
    for name, (kind, what) in HAS.items():
        if not isinstance(getattr(own, name, None), kind) or getattr(own, name) == "":
            return f"has no {name}: {what}"
    if not callable(getattr(own, "symbol_law", None)):
        return "has no symbol_law(x): P(symbol | x) of each symbol of the alphabet, in its order"
    if not (0 < own.peak <= own.clip and isfinite(own.clip) and 2 <= len(own.alphabet) <= MOST):
        return f"must have 0 < peak ≤ clip and 2 to {MOST} symbols, got {own.peak}, {own.clip} and {own.alphabet}"
    if own.vector(3, "replace") is not None:
        return "bounds whole vectors, of which nothing is proved here: vector must give None"
    inputs = [share * float(own.peak) for share in INPUTS]
    laws = [np.asarray(own.symbol_law(x), float) for x in inputs]
    for x, law in zip(inputs, laws, strict=True):
        if law.shape != (len(own.alphabet),) or not (law >= 0).all() or not abs(law.sum() - 1) <= NEAR:
            return f"has no {len(own.alphabet)} probabilities that add up to 1 at x = {x:g}: {law.tolist()!s:.80}"
    return _fault_of_curves(own, inputs, laws) or _fault_of_messages(own, inputs, laws)


def _fault_of_curves(own: Any, inputs: list[float], laws: list[Vector]) -> str:
    """Where a curve is not that of the probabilities, or a pair is worse than the worst."""
    worst = [side for word in get_args(Adjacency) for side in (own.tradeoff(word), own.tradeoff(word).inverse)]
    most = {epsilon: min(side.delta(epsilon) for side in worst) for epsilon in LOSSES}
    for (x, p), (y, q) in combinations(zip(inputs, laws, strict=True), 2):
        told, found = Tradeoff.between(p, q), own.between(x, y)
        for one, other in ((told, found), (told.inverse, found.inverse)):
            for epsilon in LOSSES:
                if not abs(one.delta(epsilon) - other.delta(epsilon)) <= NEAR:
                    return f"has a curve between {x:g} and {y:g} that is not that of its symbol_law"
                if not one.delta(epsilon) <= most[epsilon] + NEAR:
                    return f"tells {x:g} and {y:g} apart better, at ε = {epsilon:g}, than its tradeoff says of any two"
    return ""


def _fault_of_messages(own: Any, inputs: list[float], laws: list[Vector]) -> str:
    """Where messages are not those of the probabilities, or depend on more than the input and the generator."""
    for x, law in zip(inputs, laws, strict=True):
        values = np.full((DRAWS // 40, 40), x)
        sent, again = (np.asarray(own.encode(values, Generator(PCG64(7)))) for _ in range(2))
        if sent.shape != values.shape or sent.dtype.kind not in "iu" or not np.isin(sent, own.alphabet).all():
            return f"sends at x = {x:g} what is no whole number of {own.alphabet} for each coordinate"
        if not np.array_equal(sent, again):
            return "draws from something else than the generator it is given: the same one gave other messages"
        place = (sent.ravel().astype(np.int64) - own.alphabet[0]) // own.alphabet.step
        if not _likely(np.bincount(place, minlength=len(law)), law):
            return f"sends at x = {x:g} other symbols than its symbol_law says"
    for end in (-1, 1):
        far, edge = (own.encode(np.full(400, end * times * own.peak), Generator(PCG64(8))) for times in (3.0, 1.0))
        if not np.array_equal(far, edge):
            return "does not hold inputs within ±peak: what lies beyond must count as the peak"
    return ""


def _likely(seen: NDArray[np.integer], law: Vector) -> bool:
    """Whether counts are those of a law, by χ²: six standard deviations and ten; rare symbols count together."""
    expected = law * seen.sum()
    often = expected >= 5
    if seen[law == 0].any():
        return False
    counts, means = (np.append(own[often], own[~often].sum()) for own in (seen, expected))
    return bool(((counts - means) ** 2 / np.maximum(means, 1.0)).sum() <= len(means) + 6 * (2 * len(means)) ** 0.5 + 10)
