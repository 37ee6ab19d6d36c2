"""What an axis of a sweep means, and how its values are called where people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

Role = Literal["defence", "attack", "privacy", "attackers", "setting"]
ROLES: tuple[Role, ...] = get_args(Role)
DEFENCES = (  # paths, or tables of them, that make up a defence
    "defence", "aggregation", "server.decoder", "privacy.norm", "privacy.peak", "privacy.mechanism.peak",
)  # fmt: skip
ATTACKERS = "clients.byzantine"
BEGINNINGS: dict[str, Role] = {"attack": "attack", ATTACKERS: "attackers", "privacy": "privacy"}  # of other paths
SYMBOLS = {"epsilon": "ε", "delta": "δ"}
NAMED = 4  # words in a sentence, before the rest is counted


def role(path: str) -> Role:
    """What varying a setting does in a sweep: it is of the defence, attack, privacy, attackers or a mere setting.

    A small peak disarms poisoners, so it is a defence; the rest of privacy is not.

    >>> role("aggregation.kind"), role("privacy.mechanism.peak"), role("privacy.mechanism.trials")
    ('defence', 'defence', 'privacy')
    >>> role("attack"), role("clients.byzantine"), role("clients.split"), role("training.batch")
    ('attack', 'attackers', 'setting', 'setting')

    An axis that is no setting but a name for several that change together means what its name says.

    >>> role("defence"), role("budgets")
    ('defence', 'setting')
    """
    if path in ROLES:
        return path
    if any(_within(path, beginning) for beginning in DEFENCES):
        return "defence"
    return next((found for beginning, found in BEGINNINGS.items() if _within(path, beginning)), "setting")


def _within(path: str, table: str) -> bool:
    """Whether a setting's dotted path is a table's path or below it, to tell an axis's role."""
    return path == table or path.startswith(f"{table}.")


def phrase(path: str, value: str) -> str:
    """A value of a sweep's axis as its figures and sentences call it: "ε 4", "10% attackers".

    >>> phrase("privacy.epsilon", "4.0"), phrase("privacy.mechanism.peak", "0.2"), phrase("aggregation", "Median")
    ('ε 4', 'peak 0.2', 'Median')
    >>> phrase("clients.byzantine", "0.1"), phrase("clients.byzantine", "143"), phrase("clients.byzantine", "0")
    ('10% attackers', '143 attackers', 'no attackers')
    >>> phrase("attack", "Ipm factor=2.0"), phrase("aggregation.before", "none"), phrase("privacy.norm", "clip")
    ('Ipm factor=2', 'no before', 'clip')
    """
    name = path.rpartition(".")[2]
    count = number(value)
    if path == ATTACKERS and count is not None:
        return f"{amount(value)} attacker{'s' * (count != 1)}" if count else "no attackers"
    name, short = SYMBOLS.get(name, name.replace("_", " ")), re.sub(r"(?<=\d)\.0\b", "", value)
    if value == "none":
        return f"no {name}"
    return short if count is None and value not in ("true", "false") else f"{name} {short}"


def amount(value: str) -> str:
    """A number of attackers in a sweep's words: a share, as TOML writes it with a point, becomes a percentage.

    >>> amount("0.25"), amount("1")
    ('25%', '1')
    """
    return f"{100 * float(value):.10g}%" if not value.lstrip("-").isdigit() else value


def number(value: str) -> float | None:
    """The number that an axis's value is, to draw a sweep's lines along; None where it is none."""
    try:
        return float(value)
    except ValueError:
        return None


def first_few(words: Sequence[str], between: str) -> str:
    """The first few of some words in a sweep's sentence, and how many more there are.

    >>> first_few(["a", "b"], ", "), first_few(list("abcdef"), "; ")
    ('a, b', 'a; b; c; d; and 2 more')
    """
    return between.join(words[:NAMED]) + (f"{between}and {len(words) - NAMED} more" if len(words) > NAMED else "")
