"""A choice among candidates that do not depend on the data: McSherry and Talwar 2007. Costed, never sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import positive, probability
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency


@dataclass(frozen=True, kw_only=True)
class Exponential:
    """A candidate drawn with weight e^{ε·score/2Δ}, where neighbours' scores differ by Δ at most: ε-DP.

    `failure` is the chance that a test let through data whose scores may differ by more.
    """

    epsilon: Annotated[float, positive, "ε of one draw"]
    failure: Annotated[float, probability, "the chance that a test let through data whose scores differ by more"] = 0.0

    effects: ClassVar[Mapping[str, int]] = {"epsilon": +1, "failure": +1}
    alphabet: ClassVar = None
    bits: ClassVar = 32.0
    entropy: ClassVar = 32.0
    clip: ClassVar[float] = 1.0
    peak: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve of a lower bound on ε: none, as no data are known that its choice tells apart for certain."""
        return Tradeoff.pure(0.0)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The curve of (ε, failure) that an estimator's draw of a candidate is charged at.

        >>> Exponential(epsilon=0.5).tradeoff().epsilon(0.0)
        0.5
        """
        return Tradeoff.pure(self.epsilon, self.failure)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """None: an estimator's choice of a candidate is one release, not a vector for the accountant to bound."""
        return
