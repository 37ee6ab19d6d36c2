"""What Byzantine clients do, placed where it acts.

An *update* attack changes what the client computed, before an honest mechanism. A *message* attack skips the mechanism
and sends symbols of its own choice inside the alphabet. A *wire* attack sends whatever bytes it likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fedpriv.attacks.messages import OutputPoisoning
from fedpriv.attacks.updates import RandomNoise, SignFlip
from fedpriv.kinds import made

__all__ = ["KINDS", "Attack", "OutputPoisoning", "RandomNoise", "SignFlip", "make_attack"]


class Attack(Protocol):
    """Each attack has one of three methods: `on_updates`, `on_messages`, `on_bytes`."""


KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (SignFlip, RandomNoise, OutputPoisoning)}


def make_attack(kind: str, settings: Mapping[str, Any]) -> Attack:
    """The attack of that kind, or one line that says what is wrong.

    >>> make_attack("SignFlip", {"factor": 2})
    SignFlip(factor=2)
    """
    attack: Attack = made("attack", KINDS, kind, settings)
    return attack
