"""Records that are wrong, at every client alike: a share of all records, each corrupted as an attacker's would be. [P].

The kinds of `[corruption]`: what an attack does to an attacker's data or update, done to a record's data or gradient.
Which records it strikes, and what becomes of their data, is a function of the seed and the record alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Annotated, Any

from fedpriv.attacks import METHODS, Acts, Attack
from fedpriv.attacks._data import FeatureNoise, LabelFlip, RandomLabel, TargetedFlip
from fedpriv.attacks._updates import BitFlip, NonFinite, RandomNoise, SignFlip
from fedpriv.errors import FedprivError, probability
from fedpriv.registry import Registry


@dataclass(frozen=True, kw_only=True)
class BesideCorruption:
    """What a corruption's table says besides its own settings."""

    share: Annotated[float, probability, "the part of the records that is corrupted"]


CORRUPTIONS: Registry[Attack] = Registry(
    "corruption",
    Acts,
    (LabelFlip, RandomLabel, TargetedFlip, FeatureNoise, RandomNoise, SignFlip, BitFlip, NonFinite),
    optional=METHODS,
    beside=BesideCorruption,
)


@dataclass(frozen=True)
class Corruption:
    """A share of the records, and what is done to each of them."""

    share: float  # of all records, 0 to 1
    act: Attack  # with a method on_data or on_updates

    @property
    def of_gradients(self) -> bool:
        """Whether the corruption acts on a record's gradient, which a release must have, not on its data."""
        return hasattr(self.act, "on_updates")


def corruption_of(kind: str, settings: Mapping[str, Any]) -> Corruption:
    """The corruption of records that a study's table names: a share, and the attack on each; errors say what is wrong.

    >>> corruption_of("FeatureNoise", {"share": 0.1, "deviation": 10})
    Corruption(share=0.1, act=FeatureNoise(deviation=10.0))
    """
    if not any(hasattr(CORRUPTIONS.named(kind), method) for method in ("on_data", "on_updates")):
        raise FedprivError(f"{kind} has none of the methods on_data, on_updates")
    own = dict(settings)
    if "share" not in own:
        raise FedprivError(f"{kind} needs share, the part of the records that is corrupted")
    share = own.pop("share")
    probability(share=share)
    return Corruption(float(share), CORRUPTIONS.made(kind, own))


def settled_corruption(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A study's settings of its corruption of records, what is left out filled in.

    >>> settled_corruption("RandomNoise", {"share": 0.1, "deviation": 10})
    {'share': 0.1, 'deviation': 10.0, 'added': True}
    """
    written = {"added": True, **settings} if kind == "RandomNoise" else settings  # noise on the true gradient
    found = corruption_of(kind, written)
    act = found.act
    own = asdict(act) if is_dataclass(act) and not isinstance(act, type) else {**written}
    return {"share": found.share, **{name: value for name, value in own.items() if name != "share"}}
