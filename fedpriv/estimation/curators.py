"""Who adds the noise under central trust: what every curator draws, and declares of it from the same fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.aggregation.rows import Aid
from fedpriv.errors import FedprivError, positive, whole
from fedpriv.population.participation import Participation
from fedpriv.releases import Released
from fedpriv.trust import Adjacency

Multiplier = Annotated[float | None, positive, "σ, in clip norms; calibrated to privacy.epsilon if not given"]
Bound = Annotated[float | None, positive, "the norm that updates are clipped to, which a study fills in"]
Count = Annotated[int | None, whole, "N₀, the public number of clients, which a study fills in"]
Differing = Annotated[Adjacency, "what neighbours differ by, which a study fills in from its privacy.adjacency"]


class Around(NamedTuple):
    """What of a study a curator's fields are filled in from; all of it is public."""

    clip: float | None  # the norm that clients hold updates to; None: they do not
    clients: int  # N₀
    participation: Participation
    rounds: int
    adjacency: Adjacency | None  # None where the study does not say


class Curator(Protocol):
    """A rule of trust 'central': the server's, which reads all updates and gives out none but noisy ones.

    All its fields are public, and what a round gives away is worked out from them alone. Who does not answer counts as
    one that sends 0.
    """

    needs_rows: ClassVar[bool]
    least: ClassVar[int]
    composes: ClassVar[bool]  # each round is a release of its own, so that ε is that of one, so many times

    @property
    def bound(self) -> float | None:
        """The norm that the server clips updates to, in the first round where it adapts."""

    @property
    def charges_all(self) -> bool:
        """Whether a round is charged to every client, asked or not: who is asked is secret, or noise is shared."""

    @property
    def first_settings(self) -> tuple[float, ...]:
        """The settings that adapt from round to round, such as the clip norm, as a study's first round has them."""

    @staticmethod
    def settled(settings: dict[str, Any], around: Around) -> dict[str, Any]:
        """A study's settings of the curator, with those filled in that the study's other tables say; or refused."""

    def calibrated(self, dimension: int, rounds: int, epsilon: float | None, delta: float) -> Curator:
        """The curator with its free setting, where it lacks one, at the study's target; refused without a target."""

    def event(self, dimension: int, rounds: int) -> Event:
        """What the first `rounds` rounds of a run give away of one client, as its ledger has it."""

    def check(self, clients: int, dimension: int) -> None:
        """Refuse a study whose rounds, of so many clients, the curator cannot work on."""

    def released(self, matrix: Vector, aid: Aid) -> Released:
        """A round's direction of updates, a row each, with its noise; and the settings that have moved, by it alone."""

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The direction alone, for whoever foresees a round."""


def filled_settings(settings: Mapping[str, Any], facts: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """A curator's settings with a study's facts filled in, each with its name there; refused where both differ."""
    for name, (source, fact) in facts.items():
        if settings.get(name, fact) != fact:
            raise FedprivError(f"aggregation.{name} must be {source} = {fact}, or left out")
    return {**settings, **{name: fact for name, (_, fact) in facts.items() if fact is not None}}
