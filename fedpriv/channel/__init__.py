"""From an update to a message: the bound that is applied, the mechanism that draws, what a ledger is charged for it.

One value holds all three, so that nothing can be sent which was not charged, and nothing charged which was not sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never, get_args

import numpy as np
from numpy.typing import NDArray

from fedpriv.accounting.event import Event
from fedpriv.bounds import Bound, Bounded, Box, Norm, Normalised, check_same
from fedpriv.bounds.clipping import Matrix
from fedpriv.channel.encoding import Noise, encoded_packed
from fedpriv.errors import FedprivError, one_of
from fedpriv.mechanisms import Gaussian, Laplace, Mechanism
from fedpriv.mechanisms.own import try_own
from fedpriv.trust import Adjacency, Trust, Unit

How = Literal["clip", "normalise", "coordinates"]


@dataclass(frozen=True, kw_only=True)
class Channel:
    """A bound that is applied and the mechanism that then draws: both of the same clip or peak.

    >>> from fedpriv.channel.encoding import Seeded
    >>> from fedpriv.mechanisms import StochasticSign
    >>> channel = Channel.of("clip", StochasticSign(clip=1.0, peak=0.2, scale=0.5))
    >>> channel.messages(np.ones((1, 5)), Seeded(seed=1, round=1, clients=np.array([7])))  # five signs in a byte
    array([[200]], dtype=uint8)
    >>> from fedpriv.trust import Local
    >>> channel.event(5, Local()).bound
    Norm(clip=1.0)
    """

    bound: Bound
    mechanism: Mechanism

    def __post_init__(self) -> None:
        """Refuse a bound of another number than the mechanism's clip or peak, which is what is charged."""
        try_own(self.mechanism)
        check_same(self.bound, self.mechanism)

    @staticmethod
    def of(how: How, mechanism: Mechanism) -> Channel:
        """The channel that a study's `privacy.norm` names: a bound of the mechanism's clip or peak; the mechanism."""
        one_of(get_args(How), norm=how)
        match how:
            case "clip":
                bound: Bound = Norm(mechanism.clip)
            case "normalise":
                bound = Normalised(mechanism.clip)
            case "coordinates":
                bound = Box(mechanism.peak)
            case _ as never:
                assert_never(never)
        return Channel(bound=bound, mechanism=mechanism)

    def bounded(self, updates: Matrix) -> Bounded:
        """A cohort's updates, a row each, with the factors that hold them to the bound, and which can be sent."""
        return Bounded.of(self.bound, updates)

    def messages(self, updates: Matrix | Bounded, noise: Noise) -> NDArray[np.uint8]:
        """The packed message of each client, a row of bytes for each update; refused where one is not finite."""
        bounded = updates if isinstance(updates, Bounded) else self.bounded(np.asarray(updates))
        if bounded.bound != self.bound:
            raise FedprivError(f"the updates were held to {bounded.bound}, and this channel's bound is {self.bound}")
        if not bounded.finite.all():
            raise FedprivError(f"row {int(np.flatnonzero(~bounded.finite)[0])} of the updates is not finite")
        return encoded_packed(self.mechanism, bounded.rows, bounded.factors, noise)

    def event(
        self, dimension: int, trust: Trust, *, unit: Unit = "client", adjacency: Adjacency = "replace",
        sampling: float = 1.0, rounds: int = 1,
    ) -> Event:  # fmt: skip
        """The event that a ledger is charged for `rounds` messages of so many coordinates through this channel.

        Of a record that is there or not, real noise would be costed as a curator's on a sum, in which an absent record
        is 0. A message without it may be any other one: that is what replacing a record costs, which covers both.
        """
        if adjacency == "add-remove" and isinstance(self.mechanism, Gaussian | Laplace):
            raise FedprivError(
                f"a message through {type(self.mechanism).__name__} noise is costed by replacement, which covers a "
                "record added or removed: adjacency 'replace', or none given"
            )
        return Event(
            mechanism=self.mechanism, bound=self.bound, dimension=dimension, trust=trust, unit=unit,
            adjacency=adjacency, sampling=sampling, rounds=rounds,
        )  # fmt: skip
