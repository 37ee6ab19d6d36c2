"""What a study promises, what it sends and about how long it takes, before it is run.

The time is measured, on few clients: training, encoding and aggregation as a multiple of theirs, and what a look costs
(accuracy, and ε, which may cost more than the round). A rule whose work grows faster than its rows takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from math import ceil, inf, sqrt
from time import perf_counter
from typing import Any

from clients.data.identity import data_identity, in_words
from clients.models.gradients import torch_on_one_thread
from clients.training.cohort import Cohort
from clients.training.prepared import Prepared
from fedpriv._base.arrays import Numbers
from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.errors import FedprivError
from fedpriv.population.participation import rounds_of_each
from fedpriv.studies.judged import judged_attackers
from fedpriv.studies.plan import Plan
from fedpriv.studies.spending import given_by_each, given_in_all
from fedpriv.studies.study import Study
from fedpriv.tolerance import is_mirrored, least_mean
from fedpriv.tolerance.ballots import is_polled
from server.directory.made_on import where_data_lie
from server.progress.accuracy_words import asked_words, public_words
from server.progress.words import (
    bytes_words,
    duration_words,
    epsilons_in_words,
    finding_words,
    kind_with_settings,
    unit_and_trust,
    units_in_words,
    word_of_author,
)
from server.rounds import planned, size_of
from server.rounds.driver import Answer
from server.rounds.inbox import Inbox

MOST_VOTES = 0.5  # of a model's coordinates: where fewer can survive the study's own attackers, it is said as a warning
START = 6.0  # seconds Flower and Ray take, measured on two cores


def run_forecast(study: Study) -> dict[str, Any]:
    """What `fedpriv run --dry-run` finds: the study's ε, bytes and time, this by timing a few clients."""
    torch_on_one_thread()
    ready = planned(study)
    plan, study, size = ready.plan, ready.study, size_of(ready.plan)
    evaluation = study.table().get("evaluation")
    answers, labels = (int(own.sum()) for own in given_by_each(study)[1:])
    clients = study.clients  # of whom a curator may charge all, whoever sends a message
    sending = rounds_of_each(clients.schedule, clients.count, study.run.seed, study.run.rounds)
    given = [int(sending.sum()), answers, labels]
    own = study.privacy
    carried = [kind_with_settings(each.table()) for each in (own.release, own.mechanism) if each is not None]
    event = plan.event() if study.privacy.promises else None
    plans = plan, plan.asking, plan.asking_labels
    sent = sum(times * size_of(own).bytes for times, own in zip(given, plans, strict=True) if own is not None)
    seconds = given[0] * _seconds_a_client(ready)
    # what is looked at after a round: of ε, all that is prepared for many rounds is ready by the end of the run
    spent = plan.spent(given_in_all(study))
    look = _timed(lambda: plan.epsilon(max(plan.releases_of_worst - 1, 0)))
    if len(ready.pool.y_test):
        look += _timed(lambda: ready.net.evaluate(ready.net.initial(), ready.pool.x_test, ready.pool.y_test))
    looks = -(-study.run.rounds // study.run.evaluate_every)
    return {
        "name": study.name, "data": data_identity(study.data.kind, ready.pool) | {"path": where_data_lie(study)},
        "clients": study.clients.count, "byzantine": study.clients.attackers,
        "rounds": study.run.rounds, "dimension": plan.dimension, "mechanism": ", then ".join(carried),
        "mechanisms": [each.kind for each in (own.release, own.mechanism) if each is not None],
        **spent,
        "epsilons": plan.both_epsilons, "units": plan.epsilons(plan.releases_of_worst),
        "delta": study.privacy.delta, "unit": event.unit if event else "client", "trust": study.privacy.trust,
        "adjacency": event.adjacency if event else None, "seen": event.seen if event else None,
        "votes": _votes_survived(plan),
        "accuracy_is": public_words(len(ready.pool.y_test), evaluation),
        **({"evaluation": evaluation} if evaluation else {}),
        **({"left_out": ready.left_out} if ready.left_out else {}),
        "client_bytes": size.whole, "client_bytes_are": size.word, "bytes_up": round(sent),
        "seconds": seconds + looks * look, "start_seconds": START,
    }  # fmt: skip


def run_forecast_table(found: Mapping[str, Any]) -> str:
    """What `fedpriv run --dry-run` prints for people of what it found."""
    bytes_are = {"exact": "", "expected": " (expected)", "at most": " (expected, at most)"}
    seconds, start = found["seconds"], found["start_seconds"]
    sent = f"{bytes_words(found['client_bytes'])} a round, {bytes_words(found['bytes_up'])} all clients in all"
    kept = zip(("records kept", ""), epsilons_in_words(found["epsilons"]), strict=True) if found["epsilons"] else ()
    words = finding_words(found["beta"], found["unit"]) if found["adjacency"] else None
    return "\n".join([
        f"{found['name']}: {found['clients']} clients, {found['byzantine']} Byzantine, {found['rounds']} rounds",
        f"  {in_words(found['data'], found['data']['path'])}",
        *([f"  left out          {found['left_out']}"] if "left_out" in found else []),
        f"  {found['mechanism']}",
        *_promise_words(found),
        *(f"  {name:<18}{text}" for name, text in kept),
        *(f"  {name:<18}{text}" for name, text in units_in_words(found["units"], found["unit"])),
        *([f"  in words          {words}"] if words else []),
        *[f"                    {word_of_author(own)}" for own in found["mechanisms"] if ":" in own],
        f"  accuracy          {found['accuracy_is']}",
        *([f"  evaluation        {asked_words(found['evaluation'])}"] if "evaluation" in found else []),
        f"  a client sends    {sent}{bytes_are[found['client_bytes_are']]}",
        f"  expected time     roughly {duration_words(seconds)} on one core, and {start:.0f} s for Flower to start",
        *_vote_words(found["votes"], found["dimension"]),
    ])  # fmt: skip


def _promise_words(found: Mapping[str, Any]) -> list[str]:
    """A forecast's ε and the guarantee it is of; that there is none, where updates travel as they are."""
    if found["adjacency"] is None:
        return ["  privacy           none: updates are sent as they are"]
    epsilon = found["epsilon"]
    return [
        f"  ε at δ = {short_number(found['delta']):<9}at most {rounded_up(epsilon['upper'], 7)}, "
        f"at least {rounded_down(epsilon['lower'], 7)}",
        f"  guarantee         {unit_and_trust(found['trust'], found['unit'], found['adjacency'])}",
    ]


def _votes_survived(plan: Plan) -> dict[str, Any] | None:
    """From which honest mean on a coordinate's vote survives the study's own attackers; None where nothing is voted.

    Of coordinates with such a mean there are few: an honest mean is no longer than an input may be.
    """
    study, mechanism = plan.study, plan.mechanism
    counted = study.decoder == "vote" and not study.rule.needs_rows and is_polled(study.privacy.mechanism.kind)
    if not (counted and study.clients.attackers and is_mirrored(mechanism)):
        return None
    asked = len(plan.participation.asked(study.clients.count, study.run.seed, 1))
    byzantine = ceil(study.clients.attackers * asked / study.clients.count)
    judged = judged_attackers(study)
    least = inf
    if asked > byzantine:
        least = least_mean(mechanism, asked - byzantine, byzantine, *judged)  # type: ignore[arg-type] # hashable
    longest = mechanism.peak * sqrt(plan.dimension)
    if study.privacy.norm != "coordinates":
        longest = min(longest, mechanism.clip)
    most = int(min(plan.dimension, longest**2 / least**2)) if least <= mechanism.peak else 0
    return {
        "judged": judged.words, "asked": asked, "byzantine": byzantine,
        "least_mean": least, "most_covered": most / plan.dimension,
    }  # fmt: skip


def _vote_words(votes: Mapping[str, Any] | None, dimension: int) -> list[str]:
    """What the votes survive, and a warning where their own attackers are more than that."""
    if votes is None:
        return []
    who = f"{votes['byzantine']:,} Byzantine of {votes['asked']:,} asked ({votes['judged']})"
    if votes["least_mean"] == inf:
        return [f"  warning           {who} are more than any vote survives, whatever the honest clients hold"]
    covered = f"at most {votes['most_covered']:.0%} of {dimension:,} coordinates can have that"
    name = "votes" if votes["most_covered"] >= MOST_VOTES else "warning"
    return [f"  {name:<18}a vote survives {who} from an honest mean of {votes['least_mean']:.4g} on: {covered}"]


def _seconds_a_client(ready: Prepared) -> float:
    """The seconds one client of a study takes in a round, by timing few and several; fixed costs left out."""
    cohort, weights, chunk = Cohort(ready), ready.net.initial(), ready.net.chunk
    study, plan = ready.study, ready.plan
    asked = plan.participation.asked(study.clients.count, study.run.seed, 1)
    clients = asked[:: max(1, len(asked) // (4 * chunk))][: 4 * chunk]  # their sizes may grow with their number
    if not clients.size:
        return 0.0

    def round(some: Numbers) -> None:
        """One round of some clients, from gradients to the direction, to be timed for a forecast."""
        inbox = Inbox(study, plan.dimension, 1, some)
        inbox.take(Answer(some, cohort.reply(weights, 1, some)))
        with suppress(FedprivError):  # too few for the rule
            if inbox.answered:  # or all have failed
                inbox.direction()

    def seconds(some: Numbers) -> float:
        """The least seconds of three rounds of some clients."""
        return min(_timed(lambda: round(some)) for _ in range(3))

    few = clients[::4]
    round(few)  # the first one builds tables
    if len(clients) <= chunk:
        return seconds(clients) / len(clients)
    return max(seconds(clients) - seconds(few), 0.0) / (len(clients) - len(few))


def _timed(act: Callable[[], object]) -> float:
    """The seconds that one call takes, for a run's forecast."""
    begun = perf_counter()
    act()
    return perf_counter() - begun
