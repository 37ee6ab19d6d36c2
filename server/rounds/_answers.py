"""What clients' answers come to, for a round's record line: an accuracy, and once their labels; how far off each is."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedpriv.mechanisms import RandomisedResponse
from fedpriv.population.participation import byzantine_clients
from fedpriv.studies.evaluating import accuracy_found, labels_found
from fedpriv.studies.plan import Plan
from server.rounds._planning import size_of
from server.rounds.inbox import Inbox


def evaluated_line(plan: Plan, answers: Inbox | None, labels: Inbox | None, sent: int) -> dict[str, Any]:
    """What a round's line says of its evaluation, if any: what was found, unless too few answered; bytes in all."""
    line: dict[str, Any] = {"evaluated": None}
    for name, inbox, asking in (("evaluated", answers, plan.asking), ("labels", labels, plan.asking_labels)):
        if inbox is None or asking is None:
            continue
        sent += inbox.sent(size_of(asking).whole)
        line[name] = None
        if inbox.answered < asking.fewest:
            continue
        own = asking.study.clients
        liars = int(np.isin(inbox.who, byzantine_clients(own.count, own.attackers, asking.study.run.seed)).sum())
        if isinstance(asking.mechanism, RandomisedResponse) and name == "labels":
            line[name] = labels_found(asking.mechanism, inbox.symbols_told(), liars)
        else:
            line[name] = accuracy_found(asking.mechanism, float(inbox.direction()[0]), inbox.answered, liars)
    return line | {"bytes_up": sent}
