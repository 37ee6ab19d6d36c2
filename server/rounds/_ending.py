"""The last line of a run's records: why it ended, and what it gave away."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedpriv.population.participation import byzantine_clients, rounds_of_each
from fedpriv.studies.plan import Plan
from server.directory.journal import Journal
from server.directory.results import EARLY, Totals


def end_of(plan: Plan, journal: Journal, totals: Totals, done: int, why: str) -> dict[str, Any]:
    """The last line of a run's records: why it ended, after how many rounds, and the worst client's ε."""
    counts = journal.counts()
    made = charged = int(counts.max(initial=0))
    if plan.kept is not None:
        counts = counts.clip(max=1)  # of what is kept, all rounds are one release
        made = min(made, 1)
    line: dict[str, Any] = {
        "kind": "end", "why": why, "rounds": done, "worst_client": int(counts.argmax()) if counts.any() else None,
        "releases_of_worst": made, **spent_after(plan, charged),
    }  # fmt: skip
    most = _possible(plan, journal, done) if why in EARLY and plan.study.privacy.promises else made
    units = plan.epsilons(most)
    if most > made:
        line |= {"of_rounds_done": spent_after(plan, charged), "releases_possible": most}
        line |= _at_most(spent_after(plan, most))
        units = {unit: own | _at_most({"epsilon": own["epsilon"]}) for unit, own in units.items()}
    if units:
        line["units"] = units
    if totals.why_no_attack is not None and not totals.acted:
        own, seed = plan.study.clients, plan.study.run.seed
        byzantine = byzantine_clients(own.count, own.attackers, seed)
        if not any(np.isin(own.schedule.asked(own.count, seed, each), byzantine).any() for each in totals.others):
            line["not_tried"] = totals.why_no_attack  # by any Byzantine client in any round
    return line


def spent_after(plan: Plan, most: int) -> dict[str, Any]:
    """ε, μ and β of a run's client that has made so many releases, for the records."""
    return {"epsilon": plan.epsilon(most)._asdict(), **plan.tracked(most).lines()}


def _possible(plan: Plan, journal: Journal, done: int) -> int:
    """How many releases the client that makes most would have made at the end of all rounds planned.

    Of a run that ends early: when it does may tell of what was sent, so what it gives away is bounded by what all its
    rounds would have (docs/proofs/composition.md, section 13).
    """
    own, run = plan.study.clients, plan.study.run
    of_all, of_done = (rounds_of_each(own.schedule, own.count, run.seed, last) for last in (run.rounds, done))
    counts = journal.counts(done) if journal.paid(done + 1) else journal.counts()  # the next is asked again for nothing
    most = int((counts + of_all - of_done).max(initial=0))
    if plan.study.privacy.budget is not None:
        most = min(most, max(plan.affordable, int(counts.max(initial=0))))
    return most if plan.kept is None else min(most, 1)


def _at_most(spent: dict[str, Any]) -> dict[str, Any]:
    """ε, μ and β as upper bounds alone: what a run gives away at least that somebody stops depends on how they do."""
    found: dict[str, Any] = {"epsilon": spent["epsilon"] | {"lower": 0.0, "clt": None}}
    if "mu" in spent:
        found["mu"] = spent["mu"] | {"lower": 0.0}
        found["beta"] = {level: own | {"upper": 1 - float(level)} for level, own in spent["beta"].items()}
    return found
