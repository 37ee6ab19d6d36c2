"""Records that are wrong, at every client alike: a share of all records, each corrupted as an attacker's would be. [P].

The kinds of `[corruption]`: what an attack does to an attacker's data or update, done to a record's data or gradient.
Which records it strikes, and what becomes of their data, is a function of the seed and the record alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedpriv import attacks
from fedpriv.attacks import Attack
from fedpriv.errors import FedprivError, one_of, probability
from fedpriv.kinds import built

KINDS = ("LabelFlip", "RandomLabel", "TargetedFlip", "FeatureNoise", "RandomNoise", "SignFlip", "BitFlip", "NonFinite")


@dataclass(frozen=True)
class Corruption:
    """A share of the records, and what is done to each of them."""

    share: float
    act: Attack

    @property
    def of_gradients(self) -> bool:
        """Whether it acts on a record's gradient, not on its data."""
        return hasattr(self.act, "on_updates")


def make_corruption(kind: str, settings: Mapping[str, Any]) -> Corruption:
    """The corruption of that kind, or one line that says what is wrong.

    >>> make_corruption("FeatureNoise", {"share": 0.1, "deviation": 10})
    Corruption(share=0.1, act=FeatureNoise(deviation=10.0))
    """
    one_of(KINDS, kind=kind)
    own = dict(settings)
    if "share" not in own:
        raise FedprivError(f"{kind} needs share, the part of the records that is corrupted")
    share = own.pop("share")
    probability(share=share)
    act: Attack = built(kind, attacks.KINDS[kind], own)
    return Corruption(float(share), act)


def settled(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, what is left out written out.

    >>> settled("RandomNoise", {"share": 0.1, "deviation": 10})
    {'share': 0.1, 'deviation': 10.0, 'added': True}
    """
    written = {"added": True, **settings} if kind == "RandomNoise" else settings  # noise on the true gradient
    found = make_corruption(kind, written)
    return {"share": found.share, **asdict(found.act)}  # type: ignore[call-overload]
