"""What Byzantine clients do, placed where it acts, with the knowledge that a study gives them.

An attack on the *data* changes a client's records before it trains, one on the *update* what it computed, before an
honest clip and mechanism. One on the *message* skips the mechanism and sends symbols of its own choice inside the
alphabet; a *residue* lies outside it, which only secure aggregation hides; the *bytes* may be anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Protocol, cast, get_args

from fedpriv.attacks.crafted import Alie, Ipm, OptAlie, OptIpm
from fedpriv.attacks.data import FeatureNoise, LabelFlip, RandomLabel, TargetedFlip
from fedpriv.attacks.fang import FangKrum, FangTrim
from fedpriv.attacks.hidden import Mimic, MinMax, MinSum
from fedpriv.attacks.messages import OutputPoisoning, Residue
from fedpriv.attacks.updates import BitFlip, NonFinite, PoisonedFl, RandomNoise, SignFlip, Zero
from fedpriv.attacks.view import Knowledge, Silent, View
from fedpriv.attacks.votes import OmniscientVote, VoteAgainst
from fedpriv.errors import FedprivError, one_of
from fedpriv.kinds import made

METHODS = ("on_data", "on_updates", "on_messages", "on_residues", "on_bytes")
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        LabelFlip, RandomLabel, TargetedFlip, FeatureNoise,
        SignFlip, RandomNoise, BitFlip, PoisonedFl, NonFinite, Zero,
        Ipm, Alie, OptIpm, OptAlie, MinMax, MinSum, Mimic, FangTrim, FangKrum,
        OutputPoisoning, VoteAgainst, OmniscientVote, Residue,
    )
}  # fmt: skip
_LEVELS: tuple[Knowledge, ...] = get_args(Knowledge)

__all__ = [
    "KINDS", "Attack", "Knowledge", "Silent", "View", "check_attack", "knowledge_of", "make_attack", "settled", *KINDS,
]  # fmt: skip


class Attack(Protocol):
    """Each attack has one of METHODS, which is called for one attacker after the other: who fails, fails alone.

    An attack that raises was not carried out, and one that never is was not tried; to send nothing, raise `Silent`.

    `on_data(x, y, classes, generators)` gives features (attackers, batch, …) and labels (attackers, batch).
    `on_updates(updates, view)` gives the rows that the attackers have in the place of their updates.
    `on_messages(updates, view)` gives rows of symbols; `on_residues(updates, view)` rows of any whole numbers.
    `on_bytes(frame)` gives the bytes that one attacker sends in the place of its frame.
    `knowledge`, where a class has it, lists what it can work with, the default first; without, any, by default "own".
    """


def make_attack(kind: str, settings: Mapping[str, Any]) -> Attack:
    """The attack of that kind, or one line that says what is wrong; what it knows is not for the attack to say.

    >>> make_attack("SignFlip", {"factor": 2, "knowledge": "own"})
    SignFlip(factor=2.0)
    """
    own = {name: value for name, value in settings.items() if name != "knowledge"}
    return cast(Attack, made("attack", KINDS, kind, own))


def settled(kind: str, settings: Mapping[str, Any], *, sums_only: bool, seeded: bool, plain: bool) -> dict[str, Any]:
    """The settings, what is left out written out; refused where the attack, or its knowledge, cannot be.

    >>> settled("Alie", {}, sums_only=False, seeded=True, plain=True)
    {'knowledge': 'byzantine', 'factor': 1.0}
    """
    attack: Any = make_attack(kind, settings)
    knowledge = knowledge_of(attack, settings.get("knowledge"))
    check_attack(attack, knowledge, sums_only=sums_only, seeded=seeded, plain=plain)
    return {**settings, "knowledge": knowledge, **(asdict(attack) if is_dataclass(type(attack)) else {})}


def knowledge_of(attack: Attack, wanted: Any) -> Knowledge:
    """What the attackers know: what is wanted, or the attack's default; refused where it can do nothing with it.

    >>> knowledge_of(Alie(), None)
    'byzantine'
    >>> knowledge_of(OptAlie(), "byzantine")
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: OptAlie works with knowledge 'everything', not with 'byzantine'
    """
    can: tuple[Knowledge, ...] = getattr(attack, "knowledge", _LEVELS)
    if not isinstance(can, tuple) or not can or not set(can) <= set(_LEVELS):
        raise FedprivError(
            f"{type(attack).__name__}.knowledge must be a tuple of {', '.join(_LEVELS)}, such as ('everything',), "
            f"got {can!r}"
        )
    if wanted is None:
        return can[0]
    one_of(_LEVELS, knowledge=wanted)
    if wanted not in can:
        known = " or ".join(f"'{level}'" for level in can)
        raise FedprivError(f"{type(attack).__name__} works with knowledge {known}, not with '{wanted}'")
    found: Knowledge = wanted
    return found


def check_attack(attack: Attack, knowledge: Knowledge, *, sums_only: bool, seeded: bool, plain: bool) -> None:
    """Refuse what would never act, or what nobody could do under that trust, noise and mechanism."""
    name, methods = type(attack).__name__, [method for method in METHODS if hasattr(attack, method)]
    if not methods:
        raise FedprivError(f"{name} has none of the methods {', '.join(METHODS)}")
    if knowledge == "everything" and sums_only:
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
    if "on_residues" in methods and not sums_only:
        raise FedprivError(
            f"{name} hides in a sum, and under local trust each message is seen: privacy.trust = 'secure-aggregation'"
        )
