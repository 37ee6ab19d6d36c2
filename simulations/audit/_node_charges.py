"""What a node is charged, held against what leaves it: ledger, budget, and the noise that its settings show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtr

from fedpriv._base.arrays import Rows
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event, event_of
from fedpriv.node.asks import Ask as Line
from fedpriv.releases import AdaptiveDpSgd
from fedpriv.studies.study import Study
from simulations.audit._node_asks import Ask, drawn, heard
from simulations.audit._node_home import Copy
from simulations.audit._node_trials import Asked, World

ENOUGH = 1.001  # times what one message costs: rounding aside, what a second one does not fit in
UNLIKELY = 1e-6  # that honest counts spread as little
MANY = (2, 3, 4, 6, 8, 12, 16)  # messages that a budget of one is tried with


class Fault(NamedTuple):
    """Something that tells two neighbours apart for certain, or that was not charged."""

    about: str  # a question, or what is wrong beside all questions
    words: str


def uncharged(left: dict[int, set[bytes]], lines: list[dict[str, Any]]) -> Fault | None:
    """A fault where more messages of a client left the node than its ledger's lines charge; the worst client's."""
    charged = Counter(number for line in lines for number in Line.of_line(line).clients.tolist())
    more = {number: len(some) - charged[number] for number, some in left.items() if len(some) > charged[number]}
    if not more:
        return None
    worst = max(more, key=lambda number: (more[number], -number))
    words = f"{len(left[worst]):,} different messages of client {worst} left, and {charged[worst]:,} are charged"
    return Fault("the ledger", words)


def other_price(copy: Copy, ask: Ask, line: dict[str, Any]) -> Fault | None:
    """A fault where a line of the node's ledger charges other events than what draws this study's messages."""
    found, due = tuple(map(event_of, line["events"])), drawn(copy, ask.study, ask.weights.size)
    if found == due:
        return None
    return Fault("the ledger", f"{ask.about} is charged as {_short(found)}, where {_short(due)} is drawn")


def _short(events: tuple[Event, ...]) -> str:
    """Events in a few words, for a fault of the node's ledger: mechanism and trust of each."""
    return " and ".join(f"{each.mechanism} of {each.trust}" for each in events)


def overspent(copy: Copy, world: World, asked: Asked, weights: Rows) -> Fault | None:
    """A fault where a node whose budget holds one message answers rounds that surely cost more; None if it refuses."""
    (event,), delta = drawn(copy, asked.study, weights.size), copy.home.policy.budget.delta
    budget = Account((event,)).upper_epsilon(delta) * ENOUGH
    many = next((n for n in MANY if _at_least(event, n, delta) > budget), None)
    if many is None:
        return None
    with world.at(copy, budget):
        copy.begin()
        answers = sum(bool(heard(copy, asked.ask(n, weights, asked.first)).content) for n in range(1, many + 1))
    words = f"all {many} messages of a client leave, whose ε is at least {_at_least(event, many, delta):.4g}, with a "
    return Fault("the budget", f"{words}budget of {budget:.4g}") if answers == many else None


def _at_least(event: Event, messages: int, delta: float) -> float:
    """The lower bound of ε at δ for so many messages of one event: by it a budget is surely overspent."""
    return Account((replace(event, rounds=event.rounds * messages),)).epsilon(delta).bounds.lower


def still(study: Study, counts: Sequence[list[float]]) -> Fault | None:
    """A fault where noisy counts behind clip norms, a row for those asked alike, spread less than their noise alone.

    Whatever else they depend on adds to their spread, so Σ(count − mean)²/σ_b² is no less than χ² but by chance.
    """
    own = study.privacy.private_sum
    if not isinstance(own, AdaptiveDpSgd):
        return None
    many = sum(len(row) - 1 for row in counts)
    squares = sum(float(np.var(row)) * len(row) for row in counts)
    variance = own.count_noise**2 * study.training.local_steps
    if not many or chdtr(many, squares / variance) > UNLIKELY:
        return None
    spread = (squares / many / study.training.local_steps) ** 0.5
    words = f"the count behind its clip norm spreads by {spread:.3g}, and {own.count_noise:g} is charged"
    return Fault("the settings", words)
