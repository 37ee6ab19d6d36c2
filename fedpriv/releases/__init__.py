"""What a client can release of its own records in a step: a private sum of their gradients, on a Poisson batch.

The kinds of `[privacy.release]`. Each record takes part with probability `sampling`, its gradient is brought within the
norm `clip`, and what is released is the noisy sum divided by the batch *expected*: the size drawn is not private.
Neighbours differ by one record that is there or not. What a release costs is what its `mechanism` costs on that sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from math import isfinite
from typing import Any, ClassVar, Protocol, TypeGuard

from numpy.random import Generator

from fedpriv.accounting.event import Event
from fedpriv.bounds import Norm
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import COSTED, Mechanism, settings_of
from fedpriv.mechanisms import Ptr as PtrMechanism
from fedpriv.randomness.grid import FineGrid
from fedpriv.registry import UNPROVED, Registry
from fedpriv.releases._adaptive import AdaptiveDpSgd
from fedpriv.releases._batch import Batch, Blocks, Bound, Released
from fedpriv.releases._settings import number_of
from fedpriv.releases._sums import DpSgd, TrimmedGaussian, ellipsoid_axes
from fedpriv.releases._tested import Ptr
from fedpriv.releases.hidden import check_hidden
from fedpriv.releases.schedules import noise_factor, noise_stairs
from fedpriv.trust import Local

__all__ = [
    "SUMS",
    "AdaptiveDpSgd",
    "Batch",
    "Blocks",
    "DpSgd",
    "PrivateSum",
    "Ptr",
    "Released",
    "TrimmedGaussian",
    "calibrated_sum",
    "check_hidden",
    "cost_mechanism",
    "ellipsoid_axes",
    "event_of_records",
    "event_of_sum",
    "events_in_turn",
    "first_settings",
    "free_setting",
    "in_turn",
    "release_at",
    "release_in",
    "settled_sum",
]  # fmt: skip


class PrivateSum(Protocol):
    """What every release of a sum has; all of it is public."""

    kind_of_cost: ClassVar[str]  # the mechanism it costs as much as, whose settings have the same names
    adapts: ClassVar[tuple[str, ...]]  # settings that move from step to step, each client's its own
    orders: ClassVar[bool]  # gradients, so it needs the whole batch at once

    @property
    def clip(self) -> float:
        """R, the ℓ2 norm that one record's gradient is held to in a client's private sum."""

    @property
    def norm(self) -> Bound:
        """How a record's gradient is held to the norm: longer ones shortened, or all brought to it."""

    @property
    def sampling(self) -> float:
        """q, the probability of each record of a client to take part in a step."""

    @property
    def unit(self) -> float:
        """What a client divides its private sum by: a public number, so it says the same in any unit."""

    @property
    def mechanism(self) -> Mechanism | PtrMechanism:
        """The mechanism that a private sum costs as much as, for the ledger, in units of the clip norm."""

    @property
    def fine(self) -> FineGrid:
        """The grid of a private sum's clipped gradients and of its noise, so that what leaves is exact."""

    def check(self, expected: float) -> None:
        """Refuse a study whose batches of records, so many expected, this private sum cannot work on."""

    def released(self, batch: Any, rng: Generator) -> Released:
        """What a client releases of a step's batch: the noisy sum of gradients, and the settings that have moved."""


SUMS = Registry("release", PrivateSum, (DpSgd, TrimmedGaussian, Ptr, AdaptiveDpSgd), proof=UNPROVED)


def event_of_records(mechanism: Mechanism | PtrMechanism, dimension: int, sampling: float, rounds: int) -> Event:
    """The ledger's event of `rounds` releases with a mechanism's noise, at a record's sensitivity of 1.

    Neighbours differ by one record that is there or not; of a test only its branch is seen, by the sum that follows.
    """
    return Event(
        mechanism=mechanism, bound=Norm(1.0), dimension=dimension, trust=Local(), unit="record",
        adjacency="add-remove", sampling=sampling, rounds=rounds,
        seen="branch" if isinstance(mechanism, PtrMechanism) else None,
    )  # fmt: skip


def event_of_sum(release: PrivateSum, dimension: int, rounds: int) -> Event:
    """The ledger's event of `rounds` private sums of a client's records, on the batches that they draw."""
    return event_of_records(release.mechanism, dimension, float(release.sampling), rounds)


def release_in(release: PrivateSum, round: int, rounds: int) -> PrivateSum:
    """A private sum as a round of so many has it: with the noise that its schedule comes to, which stays.

    Refused of a round that there is not: a schedule may end in less noise.

    >>> release_in(DpSgd(clip=1, noise=4, sampling=1, schedule="linear", to=0.5), 3, 3).noise
    2.0
    """
    if not in_turn(release):
        return release
    if not 1 <= round <= rounds:
        raise FedprivError(f"the noise of {rounds} rounds goes by a schedule: round {round} is none of them")
    factor = noise_factor(release.schedule, release.to, round, rounds)
    return replace(release, noise=release.noise * factor, schedule="constant", to=1.0)


def in_turn(release: PrivateSum) -> TypeGuard[DpSgd]:
    """Whether a private sum's noise is not that of every round, so that its events come one after the other."""
    return isinstance(release, DpSgd) and release.schedule != "constant"


def events_in_turn(release: PrivateSum, dimension: int, rounds: int, of: int, steps: int) -> tuple[Event, ...]:
    """The ledger's events of the first so many rounds `of` all, of so many `steps` each, in their order.

    >>> [event.rounds for event in events_in_turn(DpSgd(clip=1, noise=4, sampling=1), 10, 7, 20, 2)]
    [14]
    """
    if not in_turn(release):
        return (event_of_sum(release, dimension, rounds * steps),)
    return tuple(
        event_of_sum(release_in(release, first, of), dimension, count * steps)
        for first, count in noise_stairs(rounds, of)
    )


def first_settings(release: PrivateSum, expected: float) -> tuple[float, ...]:
    """The settings of a private sum that adapt, such as a clip norm, as a study's first round has them.

    >>> first_settings(AdaptiveDpSgd(clip=0.5, noise=1, sampling=0.1, count_noise=5), expected=100)
    (0.5,)
    """
    given = [getattr(release, name) for name in release.adapts]
    return tuple(
        float(number_of(value, expected) if name == "trimmed" else value)
        for name, value in zip(release.adapts, given, strict=True)
    )


def release_at(release: PrivateSum, settings: Sequence[float]) -> PrivateSum:
    """A private sum with these settings in the place of those that adapt, as a round asks; refused if impossible."""
    values = [float(value) for value in settings]
    if len(values) != len(release.adapts) or not all(isfinite(value) and abs(value) < 2**53 for value in values):
        raise FedprivError(f"what adapts is {', '.join(release.adapts) or 'nothing'}, got {values}")
    moved: dict[str, Any] = {
        name: int(value) if name == "trimmed" else value for name, value in zip(release.adapts, values, strict=True)
    }
    return replace(release, **moved) if moved else release  # type: ignore[type-var]


def settled_sum(kind: str, settings: Mapping[str, Any], records: int) -> dict[str, Any]:
    """A private sum's settings in a study, where clients have so many records: with numbers for shares that need them.

    >>> settled_sum("DpSgd", {"clip": 0.5, "sampling": 0.1}, 100)
    {'clip': 0.5, 'sampling': 0.1}
    """
    own = getattr(SUMS[kind], "of_records", None)
    return dict(settings) if own is None else own(settings, records)


def cost_mechanism(kind: str, settings: Mapping[str, Any], free: str) -> tuple[str, dict[str, Any]]:
    """The mechanism whose cost a private sum has, to calibrate a study by: its name and settings but the free one.

    >>> cost_mechanism("DpSgd", {"clip": 0.5, "sampling": 0.1}, "noise")
    ('Gaussian', {'clip': 1.0})
    """
    found = settings_of(SUMS.made(kind, {**settings, free: 1.0}).mechanism)
    return SUMS[kind].kind_of_cost, {name: value for name, value in found.items() if name != free}


def free_setting(kind: str, settings: Mapping[str, Any]) -> str:
    """The one setting that a study's private sum leaves out, to be calibrated; refused where none can be.

    >>> free_setting("DpSgd", {"clip": 0.5, "sampling": 0.1})
    'noise'
    """
    cls = SUMS[kind]
    missing = [each.name for each in fields(cls) if each.default is MISSING and each.name not in settings]
    missing += ["test_noise"] if settings.get("test") == "laplace" and settings.get("test_noise") is None else []
    can = [name for name in missing if name in COSTED.named(cls.kind_of_cost).effects and name != "clip"]
    SUMS.made(kind, {**settings, **({can[0]: 1.0} if can else {})})
    if not can:
        raise FedprivError(f"all settings of {kind} are given: leave out the one to calibrate, such as noise")
    return can[0]


def calibrated_sum(kind: str, settings: Mapping[str, Any], free: str, value: float) -> dict[str, Any]:
    """A private sum's settings with the free one filled in, from its calibrated value in the mechanism of its cost."""
    own = getattr(SUMS[kind], "from_cost", None)
    return {**settings, free: value if own is None else own(settings, value)}
