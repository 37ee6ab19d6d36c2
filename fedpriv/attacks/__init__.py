"""What Byzantine clients do, placed where it acts.

An *update* attack changes what the client computed, before an honest mechanism. A *message* attack skips the mechanism
and sends symbols of its own choice inside the alphabet. A *wire* attack sends whatever bytes it likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fedpriv.attacks.messages import OutputPoisoning
from fedpriv.attacks.updates import RandomNoise, SignFlip
from fedpriv.errors import FedprivError
from fedpriv.kinds import made

__all__ = ["KINDS", "Attack", "OutputPoisoning", "RandomNoise", "SignFlip", "check_attack", "make_attack"]


METHODS = ("on_updates", "on_messages", "on_bytes")


class Attack(Protocol):
    """Each attack has one of METHODS. `updates` has a row for each attacker among the clients at hand.

    `on_updates(updates, generators)` gives the rows it has instead, each attacker having a generator of its own.
    `on_messages(updates, mechanism, shared)` gives rows of symbols; `shared` is the same generator for all, always.
    `on_bytes(frame)` gives the bytes that one attacker sends in the place of its frame.
    """


def check_attack(attack: Attack | None) -> None:
    """Refuse what would never act."""
    if attack is not None and not any(hasattr(attack, name) for name in METHODS):
        raise FedprivError(f"attack: {type(attack).__name__} has none of the methods {', '.join(METHODS)}")


KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (SignFlip, RandomNoise, OutputPoisoning)}


def make_attack(kind: str, settings: Mapping[str, Any]) -> Attack:
    """The attack of that kind, or one line that says what is wrong.

    >>> make_attack("SignFlip", {"factor": 2})
    SignFlip(factor=2)
    """
    attack: Attack = made("attack", KINDS, kind, settings)
    return attack
