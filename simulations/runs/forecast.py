"""What a study promises, what it sends and about how long it takes, before it is run.

The time is measured, on few clients: training, encoding and aggregation as a multiple of theirs, and what a look costs
(accuracy, and ε, which may cost more than the round). A rule whose work grows faster than its rows takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any

from clients.data.identity import data_identity, in_words
from clients.models.gradients import torch_on_one_thread
from clients.training.cohort import Cohort
from clients.training.prepared import Prepared
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError
from fedpriv.population.participation import rounds_of_each
from fedpriv.studies.study import Study
from server.directory.made_on import where_data_lie
from server.progress.words import epsilons_in_words, finding_words, kind_with_settings
from server.rounds import planned, size_of
from server.rounds.driver import Answer
from server.rounds.inbox import Inbox

START = 6.0  # seconds Flower and Ray take, measured on two cores


def run_forecast(study: Study) -> dict[str, Any]:
    """The guarantee is what the run will report; the time is that of a few clients, multiplied."""
    torch_on_one_thread()
    ready = planned(study)
    plan, study, size = ready.plan, ready.study, size_of(ready.plan)
    asked = int(rounds_of_each(study.clients.schedule, study.clients.count, study.run.seed, study.run.rounds).sum())
    own = study.privacy
    carried = [kind_with_settings(each.table()) for each in (own.release, own.mechanism) if each is not None]
    event = plan.event() if study.privacy.promises else None
    seconds = asked * _seconds_a_client(ready)
    # what is looked at after a round: of ε, all that is prepared for many rounds is ready by the end of the run
    epsilon = plan.epsilon(plan.releases_of_worst)
    look = _timed(lambda: plan.epsilon(max(plan.releases_of_worst - 1, 0)))
    if len(ready.pool.y_test):
        look += _timed(lambda: ready.net.evaluate(ready.net.initial(), ready.pool.x_test, ready.pool.y_test))
    looks = -(-study.run.rounds // study.run.evaluate_every)
    return {
        "name": study.name, "data": data_identity(study.data.kind, ready.pool) | {"path": where_data_lie(study)},
        "clients": study.clients.count, "byzantine": study.clients.attackers,
        "rounds": study.run.rounds, "dimension": plan.dimension, "mechanism": ", then ".join(carried),
        "epsilon": epsilon._asdict(), **plan.tracked(plan.releases_of_worst).lines(),
        "epsilons": plan.both_epsilons,
        "delta": study.privacy.delta, "unit": event.unit if event else "client", "trust": study.privacy.trust,
        "adjacency": event.adjacency if event else None, "seen": event.seen if event else None,
        "client_bytes": size.whole, "client_bytes_are": size.word, "bytes_up": round(asked * size.bytes),
        "seconds": seconds + looks * look, "start_seconds": START,
    }  # fmt: skip


def run_forecast_table(found: Mapping[str, Any]) -> str:
    """What `run_forecast` found, for people."""
    epsilon, bytes_are = found["epsilon"], {"exact": "", "expected": " (expected)", "at most": " (expected, at most)"}
    seconds, start = found["seconds"], found["start_seconds"]
    sent = f"{found['client_bytes']:,} bytes a round, {found['bytes_up']:,} bytes all clients in all"
    kept = zip(("records kept", ""), epsilons_in_words(found["epsilons"]), strict=True) if found["epsilons"] else ()
    words = finding_words(found["beta"], found["unit"]) if found["adjacency"] else None
    return "\n".join([
        f"{found['name']}: {found['clients']} clients, {found['byzantine']} Byzantine, {found['rounds']} rounds",
        f"  {in_words(found['data'], found['data']['path'])}",
        f"  {found['mechanism']}",
        f"  ε at δ = {found['delta']:g}     at most {epsilon['upper']:.7g}, at least {epsilon['lower']:.7g}",
        *(f"  {name:<18}{text}" for name, text in kept),
        *([f"  in words          {words}"] if words else []),
        f"  guarantee         {found['unit']} level, {found['adjacency']}, {found['trust']} trust",
        f"  a client sends    {sent}{bytes_are[found['client_bytes_are']]}",
        f"  expected time     roughly {seconds:.1f} s on one core, and {start:.0f} s for Flower to start",
    ])  # fmt: skip


def _seconds_a_client(ready: Prepared) -> float:
    """How long one client takes, from one chunk and from several: what a reply takes whoever is in it is not its."""
    cohort, weights, chunk = Cohort(ready), ready.net.initial(), ready.net.chunk
    study, plan = ready.study, ready.plan
    asked = plan.participation.asked(study.clients.count, study.run.seed, 1)
    clients = asked[:: max(1, len(asked) // (4 * chunk))][: 4 * chunk]  # their sizes may grow with their number
    if not clients.size:
        return 0.0

    def round(some: Numbers) -> None:
        inbox = Inbox(study, plan.dimension, 1, some)
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


def _timed(act: Callable[[], object]) -> float:
    begun = perf_counter()
    act()
    return perf_counter() - begun
