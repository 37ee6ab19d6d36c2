"""What a study promises each of its honest clients, before its first round and after any of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import Any, assert_never

from fedpriv.accounting.account import Account
from fedpriv.accounting.course import LEVELS, UP_TO, Course
from fedpriv.accounting.event import Event
from fedpriv.accounting.published.comparisons import clt_epsilon
from fedpriv.channel import Channel
from fedpriv.curves.compose import FINE, QUICK, Band, Mu
from fedpriv.releases import event_of_sum, events_in_turn, in_turn, release_in
from fedpriv.releases.hidden import HIDDEN, HiddenState, Walk
from fedpriv.releases.kept import NORM, mechanism_of
from fedpriv.studies.evaluating import asking_study
from fedpriv.studies.observers import trust_in
from fedpriv.studies.spending import (
    LEFT,
    NOTHING,
    UNTOUCHED,
    Epsilon,
    Tracked,
    given_by_each,
    given_in_all,
    worst_epsilon,
)
from fedpriv.studies.study import Study
from fedpriv.trust import Central, Local, Sums, Unit


def releases_of_worst(study: Study) -> int:
    """How many of a study's rounds the client with most is charged for: the schedule is public, or all count."""
    return int(given_by_each(study)[0].max())


def releases_in_message(study: Study) -> int:
    """How many releases of a client's records one message of a study holds: one for each local step that is seen."""
    release = study.privacy.release
    return 1 if release is None or release.kind in HIDDEN else study.training.local_steps


def walk_of(study: Study, release: HiddenState, dimension: int) -> Walk:
    """The hidden steps of a study's clients with this release, in public numbers: what they make and what they cost."""
    own = study.training
    return Walk(
        release=release, records=study.clients.records, rate=own.learning_rate, steps=own.local_steps,
        dimension=dimension,
    )  # fmt: skip


def event_of_hidden(study: Study, release: HiddenState, dimension: int, rounds: int) -> Event:
    """The event of so many rounds of a client's hidden steps: a record in the place of another, unless a study says."""
    return walk_of(study, release, dimension).event(study.privacy.adjacency or "replace", rounds)


def units_of(study: Study) -> tuple[Unit, ...]:
    """The units that the study's messages can be costed for, the one that is promised first.

    Messages that promise a record something through their batches hide their client too. Not the other way round: of a
    study that promises clients nobody has checked what a record's promise needs. A release is of records alone.
    """
    own = study.privacy.protected
    return ("record", "client") if own == "record" and study.privacy.release is None else (own,)


def promised_events(study: Study, dimension: int, rounds: int = 1, unit: Unit | None = None) -> tuple[Event, ...]:
    """The events of `rounds` messages of one client of a study, as its ε counts them for a unit.

    That which is promised if none is given. Of a release whose noise changes they are those of the first so many
    rounds, which all clients are asked in. Of kept noise they are the same however many messages there are.
    """
    kept, private = study.privacy.kept, study.privacy.private_sum
    if private is not None and in_turn(private):
        return events_in_turn(private, dimension, rounds, study.run.rounds, releases_in_message(study))
    if kept is None:
        return (promised_event(study, dimension, rounds, unit),)
    return mechanism_of(kept).events if rounds else ()


def promised_event(study: Study, dimension: int, rounds: int = 1, unit: Unit | None = None) -> Event:
    """The event of `rounds` messages of one client, as a ledger is charged; each has a release for each local step.

    Of what is kept only the coordinates, without the labels, and of noise that changes the first round's: for what a
    release is called, not for what it costs.
    """
    if (kept := study.privacy.kept) is not None:
        return mechanism_of(kept).events[0]
    if (hidden := study.privacy.hidden) is not None:
        return event_of_hidden(study, hidden, dimension, rounds)
    if (private := study.privacy.private_sum) is not None:
        return event_of_sum(private, dimension, rounds * releases_in_message(study))
    match trust_in(study):
        case Central():
            assert study.curator is not None  # under this trust
            return study.curator.event(dimension, rounds)
        case Local() | Sums():
            return event_of_messages(study, study.privacy.channel, dimension, rounds, unit)
        case _ as never:
            assert_never(never)


def events_of_message(study: Study, dimension: int, round: int, unit: Unit | None = None) -> tuple[Event, ...]:
    """The events that a client of a study is charged for its message of one round, in its own ledger."""
    private = study.privacy.private_sum
    if private is None or not in_turn(private):
        return promised_events(study, dimension, unit=unit)
    return (event_of_sum(release_in(private, round, study.run.rounds), dimension, releases_in_message(study)),)


def event_of_messages(study: Study, channel: Channel, dimension: int, rounds: int, unit: Unit | None = None) -> Event:
    """The event of `rounds` messages that a client of a study draws by this channel, as it counts for one unit.

    A record has a part in a message with the chance `Training.met`, and else the message is what it would be without:
    the pair that a client's messages are costed by, on a Poisson sample (docs/proofs/messages.md).
    """
    own, seen = study.privacy, trust_in(study)
    if (unit or own.protected) == "client":
        return channel.event(dimension, seen, rounds=rounds)
    adjacency, sampling = own.adjacency or "replace", study.training.met
    return channel.event(dimension, seen, unit="record", adjacency=adjacency, sampling=sampling, rounds=rounds)


def rounds_compose(study: Study) -> bool:
    """Whether each of a study's rounds is a release of its own; else they share their noise, and are one release."""
    return study.curator is None or study.curator.composes


def both_epsilons(study: Study) -> dict[str, Any] | None:
    """Of a study's kept release the published ε and the example-level one, never one alone; else None."""
    kept = study.privacy.kept
    return None if kept is None else mechanism_of(kept).guarantees(NORM, study.privacy.delta)


def affordable_rounds(study: Study, dimension: int) -> int:
    """How many rounds of one client a study's budget pays for, of those it plans: there a run stops."""
    most, budget = releases_of_worst(study), study.privacy.budget
    if budget is None or not study.privacy.promises:
        return most
    spent = epsilon_by_rounds(study, dimension)
    low, high = 0, most + 1
    while high - low > 1:
        middle = most if (low, high) == (0, most + 1) else (low + high) // 2
        low, high = (middle, high) if spent(middle).upper <= budget else (low, middle)
    return low


def epsilon_after(study: Study, dimension: int, rounds: int, answers: int = 0, labels: int = 0) -> Epsilon:
    """The certified ε at a study's δ of a client's messages, answers and labels, and the central limit's."""
    return epsilon_by_rounds(study, dimension)(rounds, answers, labels)


def epsilon_in_all(study: Study, dimension: int) -> Epsilon:
    """The certified ε at a study's δ of the client that gives most away in all of its rounds, before the first."""
    after = epsilon_by_rounds(study, dimension)
    return worst_epsilon(after(*each) for each in given_in_all(study))


def events_in_all(study: Study, dimension: int) -> tuple[tuple[Event, ...], ...]:
    """All that a whole run of a study gives away of one client, for whatever costs several runs together.

    Of each of the clients that give most, where no one client gives most of everything.
    """
    return tuple(
        (*promised_events(study, dimension, messages), *answer_events(study, *beside))
        for messages, *beside in given_in_all(study)
    )


def answer_events(study: Study, answers: int = 1, labels: int = 1) -> tuple[Event, ...]:
    """The events of a client's answers, and of its labels, in a study's evaluations; none of what is not asked."""
    asked = ((asking_study(study, "right"), answers), (asking_study(study, "labels"), labels))
    return tuple(promised_event(asking, 1, times) for asking, times in asked if asking is not None and times)


def epsilon_by_rounds(study: Study, dimension: int, unit: Unit | None = None) -> Callable[..., Epsilon]:
    """A study's ε(δ) of a unit as a function of the messages, answers, labels one client has given: prepared once."""
    own, delta = study.privacy, study.privacy.delta
    if not own.promises:
        return lambda rounds, *_: Epsilon(inf, inf, None) if rounds else NOTHING
    each, steps = _repeated(study, dimension, unit)
    if own.kept is not None:  # what explicit data show of a record noised is not left in gradients
        return lambda rounds, *_: Epsilon(0.0, _upper_of_all(each, delta), None) if rounds else NOTHING
    ways = [(each, steps)]
    if own.private_sum is not None and not own.private_sum.adapts and not own.is_plain:
        # What the messages prove by themselves bounds all that is seen, where nothing travels beside them: one record
        # more or less is some other update in the channel, so what it proves of a client it proves of a record.
        ways.append(((own.channel.event(dimension, Local(), unit="record"),), None))
    shown = own.release is None or own.is_plain  # what explicit data show of a release may not be left in a message
    separate = rounds_compose(study)
    calibrated = own.epsilon is not None and unit in (None, own.protected)
    most = releases_of_worst(study) if calibrated else 0

    def after(rounds: int, answers: int = 0, labels: int = 0) -> Epsilon:
        """The ε at the study's δ of one client's messages, answers and labels, the best of the ways to a bound."""
        if answers or labels or (rounds and not separate):
            both = (*promised_events(study, dimension, rounds, unit), *answer_events(study, answers, labels))
            found = _of_all(both, delta)
            if own.epsilon is not None and found.upper > own.epsilon:  # which a calibration may have met by this
                found = found._replace(upper=min(found.upper, _upper_of_all(both, delta, QUICK)))
            return found
        if not rounds:
            return NOTHING
        if shown:
            found = _of_messages(each, steps, delta, rounds)
        else:
            found = Epsilon(0.0, min(_course(*way, delta).upper(rounds) for way in ways), None)
        if own.epsilon is not None and found.upper > own.epsilon and rounds <= most:
            # The setting was calibrated to these rounds alone, whose bound is tighter than one prepared for all.
            alone = _upper_of_all(promised_events(study, dimension, rounds), delta)
            found = found._replace(upper=min(found.upper, alone))
        return found

    return after


def tracked_by_rounds(study: Study, dimension: int) -> Callable[..., Tracked]:
    """μ and β as a function of the messages, answers, labels one client has given: what they need is made once."""
    own, delta = study.privacy, study.privacy.delta
    if not own.promises:
        gone = Tracked(Mu(inf, inf, 0.0), Band(0 * LEFT, 0 * LEFT))
        return lambda rounds, *_: gone if rounds else UNTOUCHED
    each, steps = _repeated(study, dimension)
    if own.kept is not None:
        once = Account(each)
        beta, mu = once.tradeoff(LEVELS), once.mu_between(UP_TO * delta)
        kept = Tracked(mu._replace(lower=0.0), beta._replace(upper=LEFT))
        return lambda rounds, *_: kept if rounds else UNTOUCHED
    course, shown = _course(each, steps, delta), own.release is None or own.is_plain
    separate = rounds_compose(study)

    def after(rounds: int, answers: int = 0, labels: int = 0) -> Tracked:
        """μ and β of one client's messages, answers and labels, for a run's records."""
        if answers or labels or (rounds and not separate):
            both = Account((*promised_events(study, dimension, rounds), *answer_events(study, answers, labels)))
            return Tracked(both.mu_between(UP_TO * delta, QUICK), both.tradeoff(LEVELS, QUICK))
        if not rounds:
            return UNTOUCHED
        beta = course.tradeoff(rounds) if shown else Band(course.type_two(rounds), LEFT)
        return Tracked(course.mu(rounds, beta.upper), beta)

    return after


def _repeated(study: Study, dimension: int, unit: Unit | None = None) -> tuple[tuple[Event, ...], int | None]:
    """What a `Course` of a study's messages is of: events of every round; or those of all, and how many a round has."""
    if (private := study.privacy.private_sum) is not None and in_turn(private):
        return promised_events(study, dimension, study.run.rounds), releases_in_message(study)
    return promised_events(study, dimension, unit=unit), None


@lru_cache(maxsize=16)
def _upper_of_all(events: tuple[Event, ...], delta: float, tolerance: float = FINE) -> float:
    """The upper bound of a study's ε at δ for these events, kept for the next question."""
    return Account(events).epsilon(delta, tolerance).bounds.upper


@lru_cache(maxsize=4096)
def _of_all(events: tuple[Event, ...], delta: float) -> Epsilon:
    """The ε at δ of a client's messages and answers together: both bounds, and the central limit's estimate."""
    account = Account(events)
    return Epsilon(*account.epsilon(delta).bounds, clt_epsilon(account.witnesses, delta))


@lru_cache(maxsize=16)  # a course holds its transforms
def _course(events: tuple[Event, ...], steps: int | None, delta: float) -> Course:
    """The course that answers a study's ε at δ after any number of rounds of these events, kept."""
    return Course(events, delta, steps)


@lru_cache(maxsize=4096)
def _of_messages(events: tuple[Event, ...], steps: int | None, delta: float, rounds: int) -> Epsilon:
    """The ε at δ of so many rounds of a client's messages: both bounds, and the central limit's estimate."""
    own = _course(events, steps, delta)
    return Epsilon(*own.epsilon(rounds), clt_epsilon(own.witnesses(rounds), delta))
