"""Any finite mechanism, as the table of its probabilities: [F] Theorem 1 for whatever one can write down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import ceil, fsum, log2
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Symbols, Vector, finite_floats
from fedpriv.curves.atoms import ROUNDING, Atoms
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, at_most, finite_inputs, positive, probability, real
from fedpriv.mechanisms._table_file import read_table
from fedpriv.mechanisms._table_values import SAME, Numbered, fitted_values, numbered_values
from fedpriv.randomness import exact as sampling_exact
from fedpriv.settings import Option, Setting, check_fields
from fedpriv.trust import Adjacency

MOST_LEVELS, MOST_SYMBOLS = 64, 256
OFF = 1e-9  # by how much a row may miss 1; it is divided by its sum
LOOKED_AT = 9  # values of ε at which the worst pair of levels is looked up


@dataclass(frozen=True, kw_only=True)
class Table:
    """P(symbol | input) as numbers, a row at each of some levels, linear between two of them. [F] Theorem 1."""

    levels: Annotated[tuple[float, ...], "inputs, rising: between two of them chances are linear, beyond them constant"]
    chances: Annotated[tuple[tuple[float, ...], ...], "P(symbol | level), a row a level"]
    values: Annotated[tuple[float, ...], "what each symbol stands for in a mean; by least squares if not given"] = None  # type: ignore[assignment]  # filled in
    clip: Annotated[float, positive, "c, the ℓ2 norm of an input; the largest |level| if not given"] = None  # type: ignore[assignment]  # filled in

    effects: ClassVar[Mapping[str, int]] = {}
    read_once: ClassVar = (
        Setting("file", "a CSV with levels, values and chances, read in their place", (Option(str),), None),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _checked_levels(self.levels))
        object.__setattr__(self, "chances", _checked_rows(self.chances, len(self.levels)))
        given = fitted_values(self._rows, np.array(self.levels)) if self.values is None else self.values
        object.__setattr__(self, "values", _numbers_of("values", given))
        if len(self.values) != len(self.chances[0]):
            raise FedprivError(f"values must be one for each of {len(self.chances[0])} symbols, got {len(self.values)}")
        object.__setattr__(self, "clip", self.peak if self.clip is None else self.clip)
        check_fields(self)
        at_most("clip", self.clip, peak=self.peak)
        _ = self.numbered  # refuses values that cannot be told apart

    @staticmethod
    def filled(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings with the numbers of a file in the place of its name, which nothing keeps; all of them floats."""
        if "file" not in settings:
            return {name: _as_floats(value) if isinstance(value, list) else value for name, value in settings.items()}
        if both := [name for name in ("levels", "chances", "values") if name in settings]:
            raise FedprivError(f"give a file, or {' and '.join(both)}, not both")
        return {name: value for name, value in settings.items() if name != "file"} | read_table(settings["file"])

    @property
    def peak(self) -> float:
        """The largest |level|."""
        return max(map(abs, self.levels))

    @cached_property
    def _rows(self) -> Vector:
        """The chances, each row divided by its sum."""
        return np.array([[chance / fsum(row) for chance in row] for row in self.chances])

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """The symbols by rising value."""
        return np.argsort(self.values, kind="stable")

    @cached_property
    def numbered(self) -> Numbered:
        """What is sent for each symbol, by rising value: a whole number, so that sums are exact."""
        return numbered_values(np.array(self.values)[self._order])

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the alphabet that are ever sent."""
        return tuple(self.numbered.numbers.tolist())

    @property
    def alphabet(self) -> range:
        """The numbers from the lowest that is sent to the highest."""
        return range(self.numbers[-1] + 1)

    @property
    def centre(self) -> Fraction:
        """The number that stands for 0."""
        zero = -self.numbered.low / self.numbered.step
        return Fraction(round(2 * zero), 2) if abs(2 * zero - round(2 * zero)) < SAME else Fraction(zero)

    @property
    def bits(self) -> float:
        """Bits one coordinate takes on the wire."""
        return float(ceil(log2(len(self.numbers))))

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate, at the input that has most."""
        return max(_most_entropy(*pair) for pair in zip(self._rows[:-1], self._rows[1:], strict=True))

    @cached_property
    def _drawn(self) -> sampling_exact.Chosen:
        """What a Table's symbols are drawn from: the probabilities of each level, in the order of the values."""
        return sampling_exact.Chosen.of([[row[symbol] for symbol in self._order] for row in self.chances])

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """Numbers of symbols: of one of the two levels around x, by a coin that says which; both draws exact."""
        below, share = self._place(finite_floats(x).ravel())
        drawn = self._drawn.draw(below + sampling_exact.bernoulli(share, rng), rng)
        numbers = self.numbered.numbers.astype(np.min_scalar_type(self.numbers[-1]))
        return np.asarray(numbers[drawn].reshape(np.shape(x)))

    def _place(self, x: Vector) -> tuple[NDArray[np.intp], Vector]:
        """The level below each input, by its number, and how far it is on the way to the next."""
        levels = np.array(self.levels)
        below = np.clip(np.searchsorted(levels, x, side="right") - 1, 0, len(levels) - 2)
        share = (np.clip(x, levels[0], levels[-1]) - levels[below]) / (levels[below + 1] - levels[below])
        return below, np.clip(share, 0.0, 1.0)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The mean of the values of n symbols, from the sum of their numbers: unbiased where the table allows it."""
        return np.asarray(self.numbered.low + self.numbered.step * (np.asarray(total, dtype=float) / n))

    def _law(self, x: float) -> Vector:
        """P(symbol | x), of symbols by rising value."""
        below, share = self._place(np.array([float(x)]))
        row, following = self._rows[below[0]], self._rows[below[0] + 1]
        return np.asarray(((1 - share[0]) * row + share[0] * following)[self._order])

    def symbol_law(self, x: float) -> Vector:
        """P(symbol | x) of each number of the alphabet, in its order; 0 of those that are never sent."""
        law = np.zeros(len(self.alphabet))
        law[self.numbered.numbers] = self._law(x)
        return law

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate."""
        finite_inputs(x, y)
        return Tradeoff(Atoms.of_masses(self._law(x), self._law(y), 4 * ROUNDING))

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """What any two inputs give away at most: the hull over all pairs of levels, both ways round.

        The hockey stick of (P, Q) is convex in both together, so that no mixture of levels is worse than all of them.

        >>> ternary = Table(levels=(-0.1, 0.1), chances=((0.35, 0.5, 0.15), (0.15, 0.5, 0.35)))
        >>> round(ternary.tradeoff().delta(np.log(2)), 12)
        0.05
        """
        return self._worst

    @cached_property
    def _pairs(self) -> dict[tuple[float, float], Tradeoff]:
        """The curve of every two levels, those that are told apart best first."""
        found = {pair: self.between(*pair) for pair in combinations(self.levels, 2)}
        return dict(sorted(found.items(), key=lambda each: -each[1].advantage))

    @cached_property
    def _worst(self) -> Tradeoff:
        """The certified curve of a Table: the hull of those of every pair of levels, both ways round."""
        curves = list(self._pairs.values())
        while len(curves) > 1:  # by twos, so that rounding adds up little
            pairs = zip(curves[::2], curves[1::2], strict=False)
            curves = [one.hull(two) for one, two in pairs] + curves[len(curves) // 2 * 2 :]
        return curves[0] if curves[0].symmetric else curves[0].hull(curves[0].inverse)

    @cached_property
    def worst_inputs(self) -> list[tuple[float, float]]:
        """Pairs of levels that are told apart best, each at some ε: explicit data of lower bounds."""
        reach = min(max(curve.above.finite.largest_loss for curve in self._pairs.values()), 50.0)
        at = reach * np.arange(LOOKED_AT) / LOOKED_AT
        most = [max(self._pairs.items(), key=lambda each: each[1].delta(epsilon))[0] for epsilon in at]
        return list(dict.fromkeys(most))

    @property
    def proof(self) -> str:
        """Why the curve holds; and, in words, where no ε does: of a symbol that not all levels send."""
        proof = "exact pairs of all levels, their hull"
        rows = self._rows[:, self._order]
        for symbol in np.flatnonzero(((rows > 0).any(axis=0)) & ((rows == 0).any(axis=0))):
            sent, never = np.argmax(rows[:, symbol] > 0), np.argmax(rows[:, symbol] == 0)
            value = self.numbered.low + self.numbered.step * self.numbers[symbol]
            told = f"level {self.levels[sent]:g} sends {value:.6g} and level {self.levels[never]:g} never does"
            return (
                f"{proof} ({told}: no ε holds but with δ ≥ {self._worst.above.impossible:.6g} a coordinate and round)"
            )
        return proof

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """No bound for vectors but that of every coordinate at its largest."""
        return


def _as_floats(given: Any) -> Any:
    """Whole numbers as floats, in lists of any depth: what is equal is written alike."""
    if isinstance(given, list):
        return [_as_floats(own) for own in given]
    return float(given) if type(given) is int and abs(given) < 2**1000 else given


def _numbers_of(name: str, given: Any) -> tuple[float, ...]:
    """A list of finite numbers as a tuple of floats."""
    if not isinstance(given, list | tuple):
        raise FedprivError(f"{name} must be a list of numbers, got {str(given)[:40]!r}")
    for at, own in enumerate(given):
        real(**{f"{name}[{at}]": own})
    return tuple(float(own) for own in given)


def _checked_levels(given: Any) -> tuple[float, ...]:
    """At least two numbers, rising."""
    levels = _numbers_of("levels", given)
    if not 2 <= len(levels) <= MOST_LEVELS:
        raise FedprivError(f"levels must be 2 to {MOST_LEVELS} inputs, got {len(levels)}")
    for before, here in pairwise(levels):
        if not before < here:
            raise FedprivError(f"levels must rise, each once: {here:g} stands behind {before:g}")
    return levels


def _checked_rows(given: Any, levels: int) -> tuple[tuple[float, ...], ...]:
    """A row of probabilities for each level, all of one length, each adding up to one."""
    if not isinstance(given, list | tuple) or len(given) != levels:
        raise FedprivError(f"chances must be {levels} rows, one for each level, got {str(given)[:40]!r}")
    rows = []
    for at, row in enumerate(given, 1):
        if not isinstance(row, list | tuple) or not 2 <= len(row) <= MOST_SYMBOLS or len(row) != len(given[0]):
            size = len(row) if isinstance(row, list | tuple) else repr(row)[:40]
            raise FedprivError(
                f"chances: each row must be of the same 2 to {MOST_SYMBOLS} symbols, row {at} has {size}"
            )
        for symbol, chance in enumerate(row, 1):
            probability(**{f"chances: row {at}, symbol {symbol}": chance})
        if not abs((total := fsum(row)) - 1) <= OFF:
            raise FedprivError(f"chances: row {at} adds up to {total:.12g}, not to 1")
        rows.append(tuple(float(chance) for chance in row))
    return tuple(rows)


def _most_entropy(row: Vector, following: Vector) -> float:
    """The entropy in bits of the mixture of two laws that has most: it is concave, so by thirds."""
    low, high = 0.0, 1.0

    def bits(share: float) -> float:
        """The entropy of a Table's symbol that far between two levels, negated for the search of the most."""
        mass = (1 - share) * row + share * following
        mass = mass[mass > 0]
        return float(-(mass * np.log2(mass)).sum())

    for _ in range(80):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if bits(left) >= bits(right) else (left, high)
    return max(bits(0.0), bits(1.0), bits(low))
