"""The mean of vectors, one a client, each sent once to a server that nobody trusts: [F] section 3.1.

What leaves a client is a channel's message, and what a ledger is charged for it is that channel's event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.aggregation import Aid, GivesSigns, GivesSum, Mean, NeedsReference, Rule, rule_alone
from fedpriv.bounds import Box
from fedpriv.channel import Channel
from fedpriv.channel.encoding import Fresh
from fedpriv.errors import FedprivError, at_most, natural, one_of, whole
from fedpriv.estimation.rotation import Rotation
from fedpriv.mechanisms.variance import message_spread
from fedpriv.packed.symbols import packing_of
from fedpriv.trust import Local, Sums, Word

SENT: tuple[Word, ...] = ("local", "secure-aggregation")  # trusts under which a client draws the noise itself
BLOCK = 1 << 22  # numbers encoded at once


class StandardErrors(NamedTuple):
    """Of the plain mean of all messages: noise alone, known without the data."""

    coordinate: float  # of one coordinate, at most
    vector: float  # ℓ2 norm of all, at most
    on_sphere: float  # the same where every client's vector is as long as it may be


@dataclass(frozen=True, kw_only=True)
class OneShot:
    """How N clients' vectors become one mean: a channel, who sees what, a rule, attackers among the clients.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> shot = OneShot(channel=Channel.of("clip", StochasticSign(clip=1.0, scale=2.0)), clients=400, dimension=3)
    >>> round(shot.errors.coordinate, 3), round(shot.errors.vector, 4)  # A/√N, and √3 of it
    (0.1, 0.1732)
    """

    channel: Channel
    clients: int  # N, the attackers among them
    dimension: int  # d
    trust: Word = "local"
    rule: Rule = field(default_factory=Mean)
    byzantine: int = 0  # K, blind: each sends what an honest client with its vector turned round would
    rotation: Rotation | None = None

    def __post_init__(self) -> None:
        whole(clients=self.clients, dimension=self.dimension)
        natural(byzantine=self.byzantine)
        at_most("clients - 1", self.clients - 1, byzantine=self.byzantine)
        self.channel.mechanism.decode(0.0, 1)  # what has no unbiased decoder says so
        own = rule_alone(self.rule)
        asked = (GivesSigns, "votes"), (GivesSum, "sums"), (NeedsReference, "needs_reference")
        if any(isinstance(own, kind) and getattr(own, name) for kind, name in asked):
            raise FedprivError(f"{type(own).__name__} gives no mean of messages alone: choose another rule")
        if self.trust == "secure-aggregation" and not isinstance(self.rule, Mean):
            raise FedprivError(f"{self.rule} needs each message, and secure-aggregation shows sums alone: leave it out")
        if self.rotation is not None and self.rotation.dimension != self.dimension:
            raise FedprivError(f"the rotation is of {self.rotation.dimension} coordinates, not of {self.dimension}")
        one_of(SENT, trust=self.trust)
        _ = self.event  # refused where there is no proof

    @property
    def width(self) -> int:
        """Coordinates of a message."""
        return self.dimension if self.rotation is None else self.rotation.width

    @property
    def event(self) -> Event:
        """What each client gives away, all of whose data are replaced: one message."""
        trust = Sums(self.clients - self.byzantine) if self.trust == "secure-aggregation" else Local()
        return self.channel.event(self.width, trust)

    @property
    def errors(self) -> StandardErrors | None:
        """Of the mean of all messages, by the mechanism's variance; None where it is not known.

        A rotation undone spreads the noise evenly, for the squares of its entries are 1/D, and leaves d/D of it.
        """
        own, wide = self.channel.mechanism, self.width
        spread = message_spread(own)
        if spread is None:
            return None
        most = own.peak * sqrt(wide)
        length = most if isinstance(self.channel.bound, Box) else min(own.clip, most)
        share = self.dimension / (wide * self.clients)
        largest, sphere = spread.total(wide, length) * share, spread.total(wide, length, at_length=True) * share
        one = spread.largest(own.peak) / self.clients if self.rotation is None else largest / self.dimension
        return StandardErrors(sqrt(one), sqrt(largest), sqrt(sphere))

    @property
    def reach(self) -> float:
        """How far the attackers move the mean of the bounded vectors, in ℓ2, at most: 2K/N of the longest."""
        own = self.channel.mechanism
        most = own.peak * sqrt(self.width)
        longest = most if isinstance(self.channel.bound, Box) else min(own.clip, most)
        return 2 * self.byzantine / self.clients * longest

    def sent(self, vectors: Vector) -> Vector:
        """The vectors as they go to the channel: what is not finite sends 0, as one who does not answer; rotated."""
        finite = np.isfinite(vectors).all(axis=1, keepdims=True)
        rows = np.where(finite, vectors, 0.0)
        if self.rotation is None:
            return rows
        largest = np.abs(rows).max(axis=1, keepdims=True)  # nothing overflows in a rotation
        long = largest > 1e100
        return self.rotation.turned(rows / np.where(long, largest / 1e100, 1.0))

    def bounded(self, vectors: Vector) -> Vector:
        """The vectors as the noise meets them, the rotation undone: of each client's own data, private."""
        held = self.channel.bounded(self.sent(vectors)).applied
        peak = self.channel.mechanism.peak
        held = np.clip(held, -peak, peak)
        return held if self.rotation is None else self.rotation.undone(held)

    def estimate(self, vectors: Vector, rng: Generator) -> Vector:
        """The mean that the server makes of the messages of these clients; attackers are drawn by lot."""
        if vectors.shape != (self.clients, self.dimension):
            raise FedprivError(f"vectors must be {self.clients} rows of {self.dimension}, got {vectors.shape}")
        attackers = rng.choice(self.clients, self.byzantine, replace=False)
        sign = np.ones((self.clients, 1))
        sign[attackers] = -1
        messages = self._messages(vectors * sign, rng)
        own = self.channel.mechanism
        if isinstance(self.rule, Mean):
            wide = (block.astype(np.float64 if block.dtype.kind == "f" else np.int64) for block in messages)
            found = own.decode(sum(block.sum(axis=0) for block in wide), self.clients)
        else:
            found = self.rule(np.concatenate([own.decode(block, 1) for block in messages]), Aid(rng=rng))
        return found if self.rotation is None else self.rotation.undone(found[None])[0]

    def _messages(self, vectors: Vector, rng: Generator) -> Iterator[NDArray[Any]]:
        """Symbols, some clients at a time."""
        step = max(1, BLOCK // self.width)
        for start in range(0, self.clients, step):
            rows = self.sent(vectors[start : start + step])
            messages = self.channel.messages(rows, Fresh(rng, rows=len(rows)))
            yield packing_of(self.channel.mechanism).unpack(messages, self.width)
