"""What a study promises, what it sends and about how long it takes, before it is run."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from clients.cohort import Cohort
from clients.gradients import one_thread
from fedpriv import guarantee
from fedpriv.participation import rounds_of_each
from fedpriv.study import Study
from server.rounds import Plan

START = 6.0  # seconds Flower and Ray take, measured on two cores


def forecast(study: Study) -> dict[str, Any]:
    """The guarantee is what the run will report; the time is that of a few clients, multiplied."""
    one_thread()
    plan = Plan.of(study)
    study = plan.study
    asked = int(rounds_of_each(study.clients.chosen, study.clients.count, study.run.seed, study.run.rounds).sum())
    mechanism = study.privacy.mechanism
    settings = " ".join(f"{name}={value:.7g}" for name, value in mechanism.settings.items())
    release = None if study.privacy.is_plain else guarantee.release(study, plan.net.dimension)
    return {
        "name": study.name, "clients": study.clients.count, "byzantine": study.clients.attackers,
        "rounds": study.run.rounds, "dimension": plan.net.dimension, "mechanism": f"{mechanism.kind} {settings}",
        "epsilon": guarantee.epsilon(study, plan.net.dimension, guarantee.releases_of_worst(study))._asdict(),
        "delta": study.privacy.delta, "unit": "client", "trust": study.privacy.trust,
        "adjacency": release.adjacency if release else None,
        "client_bytes": plan.client_bytes, "bytes_up": asked * plan.client_bytes,
        "seconds": asked * _seconds_a_client(plan), "start_seconds": START,
    }  # fmt: skip


def _seconds_a_client(plan: Plan) -> float:
    cohort, weights = Cohort(plan.study), plan.net.initial()
    clients = plan.study.clients.chosen.asked(plan.study.clients.count, plan.study.run.seed, 1)[: plan.net.chunk]
    if not clients.size:
        return 0.0
    cohort.reply(weights, 1, clients)  # the first one builds tables
    begun = perf_counter()
    cohort.reply(weights, 1, clients)
    return (perf_counter() - begun) / len(clients)
