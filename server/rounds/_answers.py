"""What clients' answers about the model come to: an accuracy, and how far off it may be, for a round's record line."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedpriv.population.participation import byzantine_clients
from fedpriv.studies.evaluating import accuracy_found
from fedpriv.studies.plan import Plan
from server.rounds._planning import size_of
from server.rounds.inbox import Inbox


def evaluated_line(asking: Plan, answers: Inbox | None, sent: int) -> dict[str, Any]:
    """What a round's line says of its evaluation, if any: the accuracy found, unless too few answered; bytes in all."""
    found = None
    if answers is not None:
        sent += answers.sent(size_of(asking).whole)
    if answers is not None and answers.answered >= asking.fewest:
        own = asking.study.clients
        liars = np.isin(answers.who, byzantine_clients(own.count, own.attackers, asking.study.run.seed)).sum()
        mean = float(answers.direction()[0])
        found = accuracy_found(asking.mechanism, mean, answers.answered, int(liars))
    return {"evaluated": found, "bytes_up": sent}
