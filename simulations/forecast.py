"""What a study promises, what it sends and about how long it takes, before it is run."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from clients.cohort import Cohort
from clients.gradients import one_thread
from fedpriv import guarantee
from fedpriv.participation import Numbers, rounds_of_each
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
    """From one chunk and from several: what a reply takes whoever is in it is not a client's."""
    cohort, weights, chunk = Cohort(plan.study), plan.net.initial(), plan.net.chunk
    clients = plan.study.clients.chosen.asked(plan.study.clients.count, plan.study.run.seed, 1)[: 4 * chunk]
    if not clients.size:
        return 0.0
    cohort.reply(weights, 1, clients[:chunk])  # the first one builds tables

    def seconds(some: Numbers) -> float:
        return min(_timed(lambda: cohort.reply(weights, 1, some)) for _ in range(3))

    more = len(clients) - chunk
    if more <= 0:
        return seconds(clients) / len(clients)
    return max(seconds(clients) - seconds(clients[:chunk]), 0.0) / more


def _timed(act: Callable[[], object]) -> float:
    begun = perf_counter()
    act()
    return perf_counter() - begun
