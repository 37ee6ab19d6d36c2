"""What Byzantine clients do, placed where it acts, with the knowledge that a study gives them.

An attack on the *data* changes a client's records before it trains, one on the *update* what it computed, before an
honest clip and mechanism. One on the *message* skips the mechanism and sends symbols of its own choice inside the
alphabet; a *residue* lies outside it, which only secure aggregation hides; the *bytes* may be anything. A *backdoor*
acts in two places, and is tried on held-out records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Annotated, Any, Protocol, get_args

from numpy.random import Generator

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.attacks._backdoor import Backdoor
from fedpriv.attacks._crafted import Alie, Ipm, OptAlie, OptIpm
from fedpriv.attacks._data import FeatureNoise, LabelFlip, RandomLabel, TargetedFlip
from fedpriv.attacks._fang import FangKrum, FangTrim
from fedpriv.attacks._hidden import Mimic, MinMax, MinSum
from fedpriv.attacks._messages import OutputPoisoning, Residue
from fedpriv.attacks._updates import BitFlip, NonFinite, PoisonedFl, RandomNoise, SignFlip, Zero
from fedpriv.attacks._view import Knowledge, Silent, View
from fedpriv.attacks._votes import OmniscientVote, VoteAgainst
from fedpriv.errors import FedprivError, one_of
from fedpriv.registry import Registry, kind_of
from fedpriv.trust import Word, curated, sums_only

METHODS = ("on_data", "on_updates", "on_messages", "on_residues", "on_bytes")
_BACKDOOR = ("informed", "on_test")  # what a backdoor has besides
_SHIPPED = (
    LabelFlip, RandomLabel, TargetedFlip, FeatureNoise, Backdoor,
    SignFlip, RandomNoise, BitFlip, PoisonedFl, NonFinite, Zero,
    Ipm, Alie, OptIpm, OptAlie, MinMax, MinSum, Mimic, FangTrim, FangKrum,
    OutputPoisoning, VoteAgainst, OmniscientVote, Residue,
)  # fmt: skip
_LEVELS: tuple[Knowledge, ...] = get_args(Knowledge)

__all__ = [
    "ATTACKS", "Attack", "Knowledge", "SignFlip", "Silent", "View", "VoteAgainst",
    "attack_of", "check_attack", "knowledge_of", "places_of", "settled_attack",
    *(kind.__name__ for kind in _SHIPPED if kind not in (SignFlip, VoteAgainst)),
]  # fmt: skip


class Attack(Protocol):
    """Each attack has some of METHODS, which are called for one attacker after the other: who fails, fails alone.

    `places`, where a class has it, are those of them by which it acts with its settings; without, all that it has. A
    backdoor has `on_test`, and `target`, the class that the model is to give for every record from there.
    An attack that raises was not carried out, and one that never is was not tried; to send nothing, raise `Silent`.
    `knowledge`, where a class has it, lists what it can work with, the default first; without, any, by default "own".
    """


class Acts(Attack, Protocol):
    """The methods that an attack may have: each is a place where it acts."""

    def on_data(self, x: Vector, y: Vector, classes: int, generators: Sequence[Generator]) -> tuple[Vector, Vector]:
        """Features (attackers, batch, …) and labels (attackers, batch) that attackers train on instead of their own."""

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The rows that attackers have in the place of their updates, before the honest bound and mechanism."""

    def on_messages(self, updates: Vector, view: View) -> Symbols:
        """Rows of symbols that attackers send in the place of what the mechanism would have drawn."""

    def on_residues(self, updates: Vector, view: View) -> Symbols:
        """Rows of any whole numbers that attackers add to a sum of messages, where nobody sees the parts."""

    def on_bytes(self, frame: bytes) -> bytes:
        """The bytes that one attacker sends in the place of its frame."""

    def informed(self, records: Vector) -> Acts:
        """The attack of those who have all records (records, *shape) of its `source` class to train on."""

    def on_test(self, x: Vector, y: Vector) -> Vector:
        """The records, of these held-out ones, that a backdoor is tried on, as its attackers would show them."""


@dataclass(frozen=True, kw_only=True)
class BesideAttack:
    """What an attack's table says besides its own settings."""

    knowledge: Annotated[Knowledge | None, "whose updates the attackers know; the first that it can work with"] = None


ATTACKS: Registry[Attack] = Registry("attack", Acts, _SHIPPED, optional=METHODS + _BACKDOOR, beside=BesideAttack)


def places_of(attack: object) -> tuple[str, ...]:
    """Where an attack acts, by its methods, such as on_data: as its own `places` say, or all of METHODS that it has.

    >>> places_of(SignFlip()), places_of(Backdoor(skips=True))
    (('on_updates',), ('on_data', 'on_messages'))
    """
    own: tuple[str, ...] | None = getattr(attack, "places", None)
    return tuple(method for method in METHODS if hasattr(attack, method)) if own is None else own


def attack_of(kind: str, settings: Mapping[str, Any]) -> Attack:
    """The attack that a study's table names, its `knowledge` left aside; an error says what is wrong.

    >>> attack_of("SignFlip", {"factor": 2, "knowledge": "own"})
    SignFlip(factor=2.0)
    """
    return ATTACKS.made(kind, {name: value for name, value in settings.items() if name != "knowledge"})


def settled_attack(
    attack: Attack,
    settings: Mapping[str, Any],  # as the study has them, `knowledge` among them if it says so
    *,
    trust: Word,  # who sees each message: a local server, nobody, a trusted one
    seeded: bool,  # whether the study's seed decides the noise, so that it can be foreseen
    plain: bool,  # whether updates are sent as they are, by no mechanism
) -> dict[str, Any]:
    """A study's settings of its attack, all written out but those of None; refused where attack or knowledge cannot be.

    >>> settled_attack(Alie(), {}, trust="local", seeded=True, plain=True)
    {'knowledge': 'byzantine', 'factor': 1.0}
    """
    knowledge = knowledge_of(attack, settings.get("knowledge"))
    check_attack(attack, knowledge, trust=trust, seeded=seeded, plain=plain)
    own = asdict(attack) if is_dataclass(attack) and not isinstance(attack, type) else {}
    return {**settings, "knowledge": knowledge, **{name: value for name, value in own.items() if value is not None}}


def knowledge_of(attack: Attack, wanted: Any) -> Knowledge:
    """Whose updates a study's attackers know: as `wanted`, or the attack's default; refused where it cannot use that.

    >>> knowledge_of(Alie(), None)
    'byzantine'
    >>> knowledge_of(OptAlie(), "byzantine")
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: OptAlie works with knowledge 'everything', not with 'byzantine'
    """
    can: tuple[Knowledge, ...] = getattr(attack, "knowledge", _LEVELS)
    if not isinstance(can, tuple) or not can or not set(can) <= set(_LEVELS):
        raise FedprivError(
            f"{kind_of(attack)}.knowledge must be a tuple of {', '.join(_LEVELS)}, such as ('everything',), got {can!r}"
        )
    if wanted is None:
        return can[0]
    one_of(_LEVELS, knowledge=wanted)
    if wanted not in can:
        known = " or ".join(f"'{level}'" for level in can)
        raise FedprivError(f"{kind_of(attack)} works with knowledge {known}, not with '{wanted}'")
    found: Knowledge = wanted
    return found


def check_attack(attack: Attack, knowledge: Knowledge, *, trust: Word, seeded: bool, plain: bool) -> None:
    """Refuse a study's attack that never acts, or that nobody could do under its trust, noise and mechanism."""
    name, methods = kind_of(attack), places_of(attack)
    if not methods:
        raise FedprivError(f"{name} has none of the methods {', '.join(METHODS)}")
    if knowledge == "everything" and curated(trust):
        raise FedprivError(
            f"{name} with knowledge = 'everything': a trusted server shows nobody an update without noise, and ε holds "
            "for whoever sees none; knowledge = 'own' or 'byzantine', or an attack that needs no more"
        )
    if knowledge == "everything" and sums_only(trust):
        raise FedprivError(
            f"{name} with knowledge = 'everything': under secure aggregation nobody sees another client's message; "
            "privacy.trust = 'local', or an attack that needs less"
        )
    if knowledge == "everything" and not seeded:
        raise FedprivError(
            f"{name} with knowledge = 'everything': what honest clients will send cannot be foreseen where their noise "
            "is cryptographic; privacy.noise = 'seeded'"
        )
    if plain and "on_messages" in methods:
        raise FedprivError(f"{name} chooses among a mechanism's symbols, and Plain has none: an attack on updates")
    if "on_residues" in methods and not sums_only(trust):
        raise FedprivError(
            f"{name} hides in a sum, and under local trust each message is seen: privacy.trust = 'secure-aggregation'"
        )
