"""What a study promises, what it sends and about how long it takes, before it is run.

The time is measured, on few clients: training, encoding and aggregation as a multiple of theirs, and what a look costs
(accuracy, and ε, which may cost more than the round). A rule whose work grows faster than its rows takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

from clients.cohort import Cohort
from clients.data_identity import identity
from clients.gradients import one_thread
from fedpriv import guarantee
from fedpriv.errors import FedprivError
from fedpriv.participation import Numbers, rounds_of_each
from fedpriv.study import Study
from server.driver import Answer
from server.inbox import Inbox
from server.made_on import where
from server.rounds import Plan
from server.words import named

START = 6.0  # seconds Flower and Ray take, measured on two cores


def forecast(study: Study) -> dict[str, Any]:
    """The guarantee is what the run will report; the time is that of a few clients, multiplied."""
    one_thread()
    plan = Plan.of(study)
    study = plan.study
    asked = int(rounds_of_each(study.clients.chosen, study.clients.count, study.run.seed, study.run.rounds).sum())
    own = study.privacy
    carried = [named(each.table()) for each in (own.release, own.mechanism) if each is not None]
    event = guarantee.event(study, plan.net.dimension) if study.privacy.promises else None
    looks = -(-study.run.rounds // study.run.evaluate_every)
    return {
        "name": study.name, "data": identity(study.data.kind, plan.pool) | {"path": where(study)},
        "clients": study.clients.count, "byzantine": study.clients.attackers,
        "rounds": study.run.rounds, "dimension": plan.net.dimension, "mechanism": ", then ".join(carried),
        "epsilon": guarantee.epsilon(study, plan.net.dimension, guarantee.releases_of_worst(study))._asdict(),
        "epsilons": guarantee.both_epsilons(study),
        "delta": study.privacy.delta, "unit": event.unit if event else "client", "trust": study.privacy.trust,
        "adjacency": event.adjacency if event else None, "seen": event.seen if event else None,
        "client_bytes": plan.size.whole, "client_bytes_are": plan.size.word, "bytes_up": round(asked * plan.size.bytes),
        "seconds": asked * _seconds_a_client(plan) + looks * _seconds_a_look(plan), "start_seconds": START,
    }  # fmt: skip


def _seconds_a_client(plan: Plan) -> float:
    """From one chunk and from several: what a reply takes whoever is in it is not a client's."""
    cohort, weights, chunk = Cohort(plan.study), plan.net.initial(), plan.net.chunk
    dimension = plan.net.dimension
    asked = plan.study.clients.chosen.asked(plan.study.clients.count, plan.study.run.seed, 1)
    clients = asked[:: max(1, len(asked) // (4 * chunk))][: 4 * chunk]  # their sizes may grow with their number
    if not clients.size:
        return 0.0

    def round(some: Numbers) -> None:
        inbox = Inbox(plan.study, dimension, 1, some)
        inbox.take(Answer(some, cohort.reply(weights, 1, some)))
        with suppress(FedprivError):  # too few for the rule
            if inbox.answered:  # or all have failed
                inbox.direction()

    def seconds(some: Numbers) -> float:
        return min(_timed(lambda: round(some)) for _ in range(3))

    few = clients[::4]
    round(few)  # the first one builds tables
    if len(clients) <= chunk:
        return seconds(clients) / len(clients)
    return max(seconds(clients) - seconds(few), 0.0) / (len(clients) - len(few))


def _seconds_a_look(plan: Plan) -> float:
    """What is looked at after a round, half-way through the run."""
    study, net, pool = plan.study, plan.net, plan.pool
    releases = max(guarantee.releases_of_worst(study) // 2, 1)
    seconds = _timed(lambda: guarantee.epsilon(study, net.dimension, releases))
    if len(pool.y_test):
        seconds += _timed(lambda: net.evaluate(net.initial(), pool.x_test, pool.y_test))
    return seconds


def _timed(act: Callable[[], object]) -> float:
    begun = perf_counter()
    act()
    return perf_counter() - begun
