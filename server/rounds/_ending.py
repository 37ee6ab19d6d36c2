"""The last line of a run's records: why it ended, and what it gave away."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedpriv.population.participation import byzantine_clients
from fedpriv.studies.plan import Plan
from fedpriv.studies.spending import Given, charged_clients, given_in_round, most_given
from server.directory.journal import Journal
from server.directory.results import EARLY, Totals


def end_of(plan: Plan, journal: Journal, totals: Totals, done: int, why: str) -> dict[str, Any]:
    """The last line of a run's records: why it ended, after how many rounds, and the worst client's ε."""
    by_each = journal.given()
    given = most_given(*by_each)
    worst = plan.worst(given)
    who = int((by_each == np.array([worst]).T).all(axis=0).argmax()) if any(worst) else None
    line = {"kind": "end", "why": why, "rounds": done, "worst_client": who,
            "releases_of_worst": _releases(plan, worst), **plan.spent(given)}  # fmt: skip
    if plan.asking is not None:
        line |= {"answers_of_worst": worst.answers, **({"labels_of_worst": worst.labels} if worst.labels else {})}
    possible = _possible(plan, journal, done) if why in EARLY and plan.study.privacy.promises else given
    most = plan.worst(possible)
    units = plan.epsilons(_releases(plan, most))
    if possible != given:
        line |= {"of_rounds_done": plan.spent(given), "releases_possible": _releases(plan, most)}
        line |= {"answers_possible": most.answers} if plan.asking is not None else {}
        line |= {"labels_possible": most.labels} if most.labels else {}
        line |= _at_most(plan.spent(possible))
        units = {unit: own | _at_most({"epsilon": own["epsilon"]}) for unit, own in units.items()}
    if units:
        line["units"] = units
    if totals.why_no_attack is not None and not totals.acted:
        own, seed = plan.study.clients, plan.study.run.seed
        byzantine = byzantine_clients(own.count, own.attackers, seed)
        if not any(np.isin(own.schedule.asked(own.count, seed, each), byzantine).any() for each in totals.others):
            line["not_tried"] = totals.why_no_attack  # by any Byzantine client in any round
    return line


def _releases(plan: Plan, given: Given) -> int:
    """How many releases a client's messages are: of what is kept, all rounds are one."""
    return min(given.messages, 1) if plan.kept is not None else given.messages


def _possible(plan: Plan, journal: Journal, done: int) -> tuple[Given, ...]:
    """What clients would have given at the end of all rounds planned, or at their budget, those who give most.

    Of a run that ends early: when it does may tell of what was sent, so what it gives away is bounded by what all its
    rounds would have (docs/proofs/composition.md, section 13).
    """
    run = plan.study.run
    by_each = journal.given(done if journal.paid(done + 1) else None)  # the next is asked again for nothing
    for round in range(done + 1, run.rounds + 1):
        asked = charged_clients(plan.study, round)
        more = np.array([given_in_round(plan.study, round)]).T
        by_each[:, asked] += more
        if plan.study.privacy.budget is None:
            continue
        if not all(map(plan.affords, most_given(*by_each[:, asked]))):
            by_each[:, asked] -= more
            break
    return most_given(*by_each)


def _at_most(spent: dict[str, Any]) -> dict[str, Any]:
    """ε, μ and β as upper bounds alone: what a run gives away at least that somebody stops depends on how they do."""
    found: dict[str, Any] = {"epsilon": spent["epsilon"] | {"lower": 0.0, "clt": None}}
    if "mu" in spent:
        found["mu"] = spent["mu"] | {"lower": 0.0}
        found["beta"] = {level: own | {"upper": 1 - float(level)} for level, own in spent["beta"].items()}
    return found
