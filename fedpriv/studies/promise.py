"""What a study promises each of its honest clients, before its first round and after any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache
from math import ceil, inf
from typing import Any, NamedTuple, assert_never

from fedpriv.accounting.account import Account
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.course import Course
from fedpriv.accounting.event import Event
from fedpriv.accounting.published.comparisons import clt_epsilon
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism, settings_of
from fedpriv.population.participation import rounds_of_each
from fedpriv.releases import calibrated as sum_calibrated
from fedpriv.releases import costed, event_of_records, event_of_sum, free_setting
from fedpriv.releases.kept import NORM, mechanism_of
from fedpriv.releases.kept import calibrated as kept_calibrated
from fedpriv.releases.kept import settings_of as kept_settings
from fedpriv.studies.study import Kind, Study
from fedpriv.studies.tables import Privacy
from fedpriv.trust import Central, Local, Sums, Trust, curated, sums_only

NEVER = "delta = 0: no finite ε is certified for these messages without a δ: give one, such as 1e-5"


class Epsilon(NamedTuple):
    """ε at the study's δ: certified from both sides, and the central limit's estimate, which certifies nothing."""

    lower: float
    upper: float
    clt: float | None


NOTHING = Epsilon(0.0, 0.0, 0.0)


def fewest(study: Study) -> int:
    """The answers without which a round does not count: under secure aggregation those the certificate is made for.

    Masks (`clients.masking`) give no sum of fewer, so they are counted before anything leaves, whoever answers then.
    """
    if study.server.fewest is not None:
        return study.server.fewest
    match study.privacy.trust:
        case "central":
            return 0  # who does not answer counts as one that sends 0, lest it show
        case "local":
            return 1
        case "secure-aggregation":
            return _fewest_summed(study)
        case _ as never:
            assert_never(never)


def _fewest_summed(study: Study) -> int:
    surely = study.clients.chosen.surely(study.clients.count)
    threshold = study.masking.threshold if study.masking else None
    if isinstance(threshold, int):
        return threshold
    if not surely:
        raise FedprivError(
            "server.fewest must be given under secure aggregation: Poisson participation asks any number"
        )
    return surely - study.privacy.dropouts if threshold is None else ceil(threshold * surely * (1 - 1e-12))


def trust(study: Study) -> Trust:
    """Who sees what of a message: of sums, how many of a round's messages are certain to hold honest noise."""
    match study.privacy.trust:
        case "local":
            return Local()
        case "central":
            return Central()
        case "secure-aggregation":
            return Local() if study.privacy.kept is not None else Sums(_certain(study))  # kept noise is a client's own
        case _ as never:
            assert_never(never)


def _certain(study: Study) -> int:
    least, byzantine, colluding = fewest(study), study.clients.attackers, study.privacy.colluding
    certain = least - byzantine - colluding
    if certain < 1:
        raise FedprivError(
            f"no guarantee under secure aggregation: of {least} answers a round may rest on, {byzantine} may be "
            f"Byzantine and {colluding} colluding, which leaves none certain to have drawn noise"
        )
    return certain


def releases_of_worst(study: Study) -> int:
    """In how many rounds the client that is asked most often takes part: the schedule is public."""
    rounds = study.run.rounds
    return int(rounds_of_each(study.clients.chosen, study.clients.count, study.run.seed, rounds).max())


def events(study: Study, dimension: int, rounds: int = 1) -> tuple[Event, ...]:
    """What `rounds` messages of one client give away; of what is kept, the same however many there are."""
    kept = study.privacy.kept
    if kept is None:
        return (event(study, dimension, rounds),)
    return mechanism_of(kept).events if rounds else ()


def event(study: Study, dimension: int, rounds: int = 1) -> Event:
    """`rounds` messages of one client, as what draws them has it; each is as many releases as it makes steps.

    Of what is kept only the coordinates, without the labels: for what a release is called, not for what it costs.
    """
    if (kept := study.privacy.kept) is not None:
        return mechanism_of(kept).events[0]
    if (private := study.privacy.private_sum) is not None:
        return event_of_sum(private, dimension, rounds * steps(study))
    seen = trust(study)
    match seen:
        case Central():
            rule: Any = study.rule  # a PrivateMean, or the study were refused
            found: Event = rule.event(dimension, rounds)
            return found
        case Local() | Sums():
            return study.privacy.channel.event(dimension, seen, rounds=rounds)
        case _ as never:
            assert_never(never)


def steps(study: Study) -> int:
    """How many releases a message holds."""
    return 1 if study.privacy.release is None else study.training.local_steps


def both_epsilons(study: Study) -> dict[str, Any] | None:
    """Of a kept release the published ε and the example-level one, never one alone; None where there is none."""
    kept = study.privacy.kept
    return None if kept is None else mechanism_of(kept).guarantees(NORM, study.privacy.delta)


def calibrated(study: Study, dimension: int) -> Study:
    """The study with its free setting calibrated, all promises checked; refused where one cannot be kept."""
    _check_numbers(study)
    trust(study)
    if not study.privacy.delta < 1:
        raise FedprivError("privacy: delta must be below 1: whatever is sent is (0, 1)-private")
    if not study.privacy.promises:
        study.privacy.chosen  # noqa: B018  – its settings are checked
        if study.privacy.epsilon is not None or study.privacy.budget is not None:
            raise FedprivError("privacy: Plain promises nothing: no epsilon and no budget, or another mechanism")
        return study
    try:
        return _workable(_within_budget(_bounded(_calibrated(study, dimension), dimension), dimension), dimension)
    except FedprivError as error:
        raise FedprivError(f"privacy: {error}") from None


def _check_numbers(study: Study) -> None:
    """Refuse numbers of clients that no round can have, or that would count for nothing."""
    dropouts, count = study.privacy.dropouts, study.clients.count
    if not sums_only(study.privacy.trust) and (dropouts or study.privacy.colluding):
        raise FedprivError("privacy: dropouts and colluding count only under secure-aggregation trust")
    if dropouts >= count:
        raise FedprivError(f"privacy: dropouts = {dropouts} of {count} clients leave none")
    asked = study.clients.chosen.surely(count) or count
    if fewest(study) > asked:
        name = "server.fewest" if study.server.fewest is not None else "masking.threshold"
        raise FedprivError(f"{name} = {fewest(study)}, but a round asks {asked} clients at most")
    if study.masking and not 2 * fewest(study) > asked + study.privacy.colluding:
        raise FedprivError(
            f"masking: a sum of {fewest(study)} clients must be more than half of the {asked} asked and the "
            f"{study.privacy.colluding} colluding: else a server could open two sums of one round"
        )


def _calibrated(study: Study, dimension: int) -> Study:
    target, most = study.privacy.epsilon, releases_of_worst(study)
    study = replace(study, privacy=_kept_filled(study.privacy))
    try:
        privacy = _completed(study.privacy)
    except FedprivError:
        if target is None or study.privacy.kept is not None:
            raise
        try:
            privacy = _completed(_filled(study, dimension, most, target))
        except FedprivError as error:
            if study.privacy.delta:
                raise
            raise FedprivError(f"{NEVER} ({error})") from None
    study = replace(study, privacy=privacy)
    if target is not None and not (found := _in_all(study, dimension, most)) <= target:
        remedy = "leave one of them out to have it calibrated"
        if curated(study.privacy.trust):
            remedy = "a smaller aggregation.epsilon"
        raise FedprivError(f"epsilon = {target:g} is promised, but these settings give {found:.6g}: {remedy}")
    return study


def _in_all(study: Study, dimension: int, rounds: int) -> float:
    """ε of a whole run: of the bounds of all rounds prepared together and of these rounds alone the smaller."""
    together = epsilon(study, dimension, rounds).upper
    if not rounds or not study.privacy.epsilon or together <= study.privacy.epsilon:
        return together
    return min(together, Account(events(study, dimension, rounds)).upper_epsilon(study.privacy.delta))


def _kept_filled(privacy: Privacy) -> Privacy:
    """With the ε₁ of a kept release that meets the target, where neither it nor a published total is given."""
    kept, target = privacy.kept, privacy.epsilon
    if privacy.release is None or kept is None or target is None or (kept.epsilon, kept.epsilon_1) != (None, None):
        return privacy
    try:
        found = kept_calibrated(kept, target, privacy.delta)
    except FedprivError as error:
        raise FedprivError(f"release: {error}") from None
    return replace(privacy, release=Kind(privacy.release.kind, kept_settings(found)))


def _completed(privacy: Privacy) -> Privacy:
    """With every setting written out; refused where one is missing."""
    mechanism = Kind(privacy.mechanism.kind, settings_of(privacy.chosen))
    if privacy.is_plain:
        mechanism = privacy.mechanism  # whose clip may be infinite, for which TOML has a word that nobody needs
    if privacy.release is None:
        return replace(privacy, mechanism=mechanism)
    if (kept := privacy.kept) is not None:
        release = Kind(privacy.release.kind, kept_settings(kept))
    else:
        release = Kind(privacy.release.kind, asdict(privacy.private_sum))  # type: ignore[call-overload]
    return replace(privacy, mechanism=mechanism, release=release)


def _filled(study: Study, dimension: int, rounds: int, target: float) -> Privacy:
    """With the setting that is missing, of the release where there is one: that at which so many rounds cost ε."""
    privacy, delta = study.privacy, study.privacy.delta
    if privacy.release is None:
        how, seen = privacy.norm, trust(study)
        mechanism = _sought(
            privacy.mechanism, (how, seen, dimension, rounds), target, delta,
            lambda own: Channel.of(how, own).event(dimension, seen, rounds=rounds),
        )  # fmt: skip
        return replace(privacy, mechanism=Kind(privacy.mechanism.kind, settings_of(mechanism)))
    privacy.chosen  # noqa: B018  – the release is what is calibrated, so the mechanism must be whole
    kind, settings, count = privacy.release.kind, privacy.release.settings, rounds * steps(study)
    sampling = float(settings.get("sampling", 1))
    try:
        free = free_setting(kind, settings)
        mechanism = _sought(
            Kind(*costed(kind, settings)), (free, sampling, dimension, count), target, delta,
            lambda own: event_of_records(own, dimension, sampling, count), free,
        )  # fmt: skip
        whole = sum_calibrated(kind, settings, free, settings_of(mechanism)[free])
    except FedprivError as error:
        raise FedprivError(f"release: {error}") from None
    return replace(privacy, release=Kind(kind, whole))


_FOUND: dict[str, Mechanism] = {}  # many studies of a sweep promise the same


def _sought(
    kind: Kind, facts: tuple[Any, ...], target: float, delta: float, event_of: Callable[[Any], Event],
    free: str | None = None,
) -> Mechanism:  # fmt: skip
    """The mechanism whose free setting meets a target, sought once in a process; `facts` tell events apart."""
    asked = repr((kind, facts, target, delta))
    if asked not in _FOUND:
        _FOUND[asked], _ = calibrate(kind.kind, kind.settings, event_of, epsilon=target, delta=delta, free=free)
    return _FOUND[asked]


def _bounded(study: Study, dimension: int) -> Study:
    """The study, if δ = 0 leaves it any ε."""
    if study.privacy.delta == 0 and epsilon(study, dimension, 1).upper == inf:
        raise FedprivError(NEVER)
    return study


def _workable(study: Study, dimension: int) -> Study:
    """The study, if its release can work on batches as large as are expected, and its rule on as few clients."""
    if curated(study.privacy.trust):
        rule: Any = study.rule
        rule.check(study.clients.chosen.surely(study.clients.count) or study.clients.count, dimension)
    private = study.privacy.private_sum
    if private is not None:
        try:
            private.check(private.sampling * study.clients.records)
        except FedprivError as error:
            raise FedprivError(f"release: {error}") from None
    return study


def _within_budget(study: Study, dimension: int) -> Study:
    budget = study.privacy.budget
    if budget is not None and affordable(study, dimension) < 1:
        first = epsilon(study, dimension, 1).upper
        raise FedprivError(f"budget = {budget:g} does not pay for one round, which costs {first:.6g}")
    return study


def affordable(study: Study, dimension: int) -> int:
    """How many releases of one client the budget pays for, of those the study plans."""
    most, budget = releases_of_worst(study), study.privacy.budget
    if budget is None or not study.privacy.promises:
        return most
    low, high = 0, most + 1
    while high - low > 1:
        middle = most if (low, high) == (0, most + 1) else (low + high) // 2
        low, high = (middle, high) if epsilon(study, dimension, middle).upper <= budget else (low, middle)
    return low


def epsilon(study: Study, dimension: int, rounds: int) -> Epsilon:
    """ε(δ) of `rounds` messages of one client."""
    return spending(study, dimension)(rounds)


def spending(study: Study, dimension: int) -> Callable[[int], Epsilon]:
    """ε(δ) as a function of how many messages one client has sent: what it needs of the study is made once."""
    own, delta = study.privacy, study.privacy.delta
    if not own.promises:
        return lambda rounds: Epsilon(inf, inf, None) if rounds else NOTHING
    each = events(study, dimension)
    if own.kept is not None:  # what explicit data show of a record noised is not left in gradients
        return lambda rounds: Epsilon(0.0, _once(each, delta), None) if rounds else NOTHING
    if own.release is None or own.is_plain:
        return lambda rounds: _of_messages(each, delta, rounds) if rounds else NOTHING
    ways = [each, *((carrier,) for carrier in _carriers(study, dimension))]

    def of_release(rounds: int) -> Epsilon:  # what explicit data show of it is not what is left in a message
        return Epsilon(0.0, min(course(way, delta).upper(rounds) for way in ways), None) if rounds else NOTHING

    return of_release


def _carriers(study: Study, dimension: int) -> list[Event]:
    """The messages that carry a release, by themselves: they bound all that is seen, where nothing travels beside them.

    One record more or less is some other update in the channel, so what it proves of a client it proves of a record.
    """
    private = study.privacy.private_sum
    if private is None or private.adapts:
        return []
    return [study.privacy.channel.event(dimension, Local(), unit="record")]


@lru_cache(maxsize=16)
def _once(events: tuple[Event, ...], delta: float) -> float:
    """The upper bound of what is released once, however many rounds there are."""
    return Account(events).epsilon(delta).bounds.upper


@lru_cache(maxsize=16)  # a course holds its transforms
def course(events: tuple[Event, ...], delta: float) -> Course:
    """What the events of one round cost after any number of them, prepared once in a process."""
    return Course(events, delta)


@lru_cache(maxsize=4096)
def _of_messages(events: tuple[Event, ...], delta: float, rounds: int) -> Epsilon:
    own = course(events, delta)
    return Epsilon(*own.epsilon(rounds), clt_epsilon(own.witnesses(rounds), delta))
