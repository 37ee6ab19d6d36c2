"""Attacks on the update that need no arithmetic of other updates; the honest clip and mechanism come after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.attacks._view import OWN, Knowledge, View
from fedpriv.errors import FedprivError, positive, probability, whole
from fedpriv.settings import check_fields

Bad = Literal["nan", "inf"]


@dataclass(frozen=True, kw_only=True)
class SignFlip:
    """−factor·x, the attacker's own gradient upside down ([F] section 5); with more knowledge −factor·μ."""

    factor: Annotated[float, positive, "how much longer than the update it is"] = 1.0

    knowledge: ClassVar[tuple[Knowledge, ...]] = ("own", "byzantine", "everything")

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a factor that is not positive."""
        check_fields(self)

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The attackers' updates: −factor times their own or, if they know others', times the mean."""
        flipped = updates if view.knowledge == "own" else np.broadcast_to(view.mean, updates.shape)
        return np.asarray(-self.factor * flipped)


@dataclass(frozen=True, kw_only=True)
class RandomNoise:
    """N(0, deviation²) in the place of the update (the Gaussian attack), or added to it (gradient noise).

    Every attacker draws its own in every round. Xie et al. 2018 (Generalized Byzantine-tolerant SGD) take 200.
    """

    deviation: Annotated[float, positive, "the noise's standard deviation"] = 1.0
    added: Annotated[bool, "whether it is added to the update, not in its place"] = False

    knowledge: ClassVar = OWN

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a deviation that is not positive."""
        check_fields(self)

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The attackers' updates, a row of drawn noise each, or their own with noise added."""
        noise = np.stack([rng.normal(0, self.deviation, updates.shape[1]) for rng in view.generators()])
        return updates + noise if self.added else noise


@dataclass(frozen=True, kw_only=True)
class BitFlip:
    """The given bits of each coordinate's float32 are flipped, 1 the lowest and 32 the sign.

    Bits 22, 30, 31 and 32 are those of Xie et al. 2018 (Generalized Byzantine-tolerant SGD): of most coordinates below
    2 in size they make huge numbers of the wrong sign. `share` is the part of the coordinates hit, which each attacker
    draws for itself.
    """

    bits: Annotated[Sequence[int], "which bits are flipped, from 1, the lowest, to 32, the sign"] = (22, 30, 31, 32)
    share: Annotated[float, probability, "the part of the coordinates hit, which each attacker draws for itself"] = 1.0

    knowledge: ClassVar = OWN

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a share not from 0 to 1, or bits not different from 1 to 32."""
        check_fields(self)
        if not isinstance(self.bits, list | tuple):
            raise FedprivError(f"bits must be a list of numbers from 1 to 32, got {self.bits!r}")
        object.__setattr__(self, "bits", tuple(self.bits))
        for bit in self.bits:
            whole(bits=bit)
        if not 0 < len(set(self.bits)) == len(self.bits) or not max(self.bits) <= 32:
            raise FedprivError(f"bits must be different numbers from 1 to 32, got {list(self.bits)}")

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The attackers' updates, their own with bits of the coordinates' float32 flipped."""
        mask = np.uint32(sum(1 << (bit - 1) for bit in self.bits))
        words = np.array(updates, np.float32)
        for row, rng in zip(words.view(np.uint32), view.generators(), strict=True):
            hit = np.ones(row.size, bool) if self.share == 1 else rng.random(row.size) < self.share
            row[hit] ^= mask
        return words


@dataclass(frozen=True, kw_only=True)
class PoisonedFl:
    """factor·‖x‖·v ⊙ s: one random direction s ∈ {−1, +1}ᵈ for all attackers in all rounds, so that it adds up.

    Xie, Fang and Gong 2025 (PoisonedFL). v is a unit vector of sizes: |u − s·⟨u, s⟩/d|, u the way the model has come:
    coordinates are pushed as far as honest clients move them. It needs nobody's update but its own, of norm ‖x‖. Where
    the paper takes its own last update off the last step, and that step's norm, this takes the projection on s off the
    whole way, and its own norm; and the paper lowers its factor from 8 when it sees it fail, this one keeps it.
    """

    factor: Annotated[float, positive, "how much longer than the own update it is"] = 8.0

    knowledge: ClassVar = OWN

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a factor that is not positive."""
        check_fields(self)

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The attackers' updates along their common direction s, each `factor` times as long as its own."""
        direction = np.where(view.shared().random(updates.shape[1]) < 0.5, -1.0, 1.0)
        way = np.asarray(view.progress, np.float64)
        sizes = np.abs(way - direction * (way * direction).mean())
        sizes = sizes / sizes.max() if sizes.any() else np.ones(len(sizes))
        own = np.sqrt((np.asarray(updates, np.float64) ** 2).sum(axis=1, keepdims=True))
        return np.asarray(self.factor * own * (direction * sizes / np.sqrt((sizes * sizes).sum())))


@dataclass(frozen=True, kw_only=True)
class NonFinite:
    """Not a number, or infinity, in every coordinate: an honest clip refuses it, and the client sends nothing."""

    value: Annotated[Bad, "what every coordinate is"] = "nan"

    knowledge: ClassVar = OWN

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a value that is neither nan nor inf."""
        check_fields(self)

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The attackers' updates, nan or infinity in every coordinate, which the honest bound refuses."""
        return np.full_like(updates, float(self.value))


@dataclass(frozen=True, kw_only=True)
class Zero:
    """0 in every coordinate: a message of noise alone, as of a client that does not work."""

    knowledge: ClassVar = OWN

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The attackers' updates, 0 in every coordinate, in the place of their own."""
        return np.zeros_like(updates)
