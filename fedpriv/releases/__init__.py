"""What a client can release of its own records in a step: a private sum of their gradients, on a Poisson batch.

The kinds of `[privacy.release]`. Each record takes part with probability `sampling`, its gradient is brought within the
norm `clip`, and what is released is the noisy sum divided by the batch *expected*: the size drawn is not private.
Neighbours differ by one record that is there or not. What a release costs is what its `mechanism` costs on that sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from math import isfinite
from typing import Any, ClassVar, Protocol

from numpy.random import Generator

from fedpriv.accounting.event import Event
from fedpriv.bounds import Norm
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import COSTED, Mechanism
from fedpriv.mechanisms import Ptr as PtrMechanism
from fedpriv.randomness.grid import FineGrid
from fedpriv.registry import UNPROVED, Registry
from fedpriv.releases._adaptive import AdaptiveDpSgd
from fedpriv.releases._batch import Batch, Blocks, Bound, Released
from fedpriv.releases._settings import number_of
from fedpriv.releases._sums import DpSgd, TrimmedGaussian
from fedpriv.releases._tested import Ptr
from fedpriv.releases.hidden import check_hidden
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
    "event_of_records",
    "event_of_sum",
    "first_settings",
    "free_setting",
    "release_at",
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


def cost_mechanism(kind: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The mechanism whose cost a private sum has, to calibrate a study by: its name and given settings; its clip is 1.

    >>> cost_mechanism("DpSgd", {"clip": 0.5, "sampling": 0.1})
    ('Gaussian', {'clip': 1.0})
    """
    mechanism = SUMS[kind].kind_of_cost
    known = {each.name for each in fields(COSTED.named(mechanism))}
    return mechanism, {name: value for name, value in settings.items() if name in known} | {"clip": 1.0}


def free_setting(kind: str, settings: Mapping[str, Any]) -> str:
    """The one setting that a study's private sum leaves out, to be calibrated; refused where none can be.

    >>> free_setting("DpSgd", {"clip": 0.5, "sampling": 0.1})
    'noise'
    """
    cls = SUMS[kind]
    missing = [each.name for each in fields(cls) if each.default is MISSING and each.name not in settings]
    can = [name for name in missing if name in COSTED.named(cls.kind_of_cost).effects and name != "clip"]
    SUMS.made(kind, {**settings, **({can[0]: 1.0} if can else {})})
    if not can:
        raise FedprivError(f"all settings of {kind} are given: leave out the one to calibrate, such as noise")
    return can[0]


def calibrated_sum(kind: str, settings: Mapping[str, Any], free: str, value: float) -> dict[str, Any]:
    """A private sum's settings with the free one filled in, from its calibrated value in the mechanism of its cost."""
    own = getattr(SUMS[kind], "from_cost", None)
    return {**settings, free: value if own is None else own(settings, value)}
