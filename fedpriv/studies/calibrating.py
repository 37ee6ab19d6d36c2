"""A study whose one free setting is found: the mechanism, or the release, that keeps the ε it promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from math import inf, sqrt
from typing import Any

from fedpriv._base.spelling import rounded_up
from fedpriv.accounting.account import Account
from fedpriv.accounting.calibration import CLOSE, calibrate
from fedpriv.accounting.event import Event
from fedpriv.channel import Channel
from fedpriv.curves.compose import QUICK
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism, settings_of
from fedpriv.releases import SUMS, DpSgd, cost_mechanism, event_of_records, events_in_turn, free_setting, in_turn
from fedpriv.releases import calibrated_sum as sum_calibrated
from fedpriv.releases.hidden import HIDDEN, HiddenState
from fedpriv.releases.kept import calibrated_kept as kept_calibrated
from fedpriv.releases.kept import settings_of as kept_settings
from fedpriv.studies.observers import fewest_answers, trust_in
from fedpriv.studies.promise import (
    affordable_rounds,
    answer_events,
    epsilon_after,
    epsilon_in_all,
    event_of_hidden,
    event_of_messages,
    releases_in_message,
    releases_of_worst,
    walk_of,
)
from fedpriv.studies.spending import given_in_all
from fedpriv.studies.study import Kind, Study
from fedpriv.studies.tables import Privacy
from fedpriv.trust import curated, sums_only

GUESSES = 40  # at a factor of a schedule's noise
NEVER = "delta = 0: no finite ε is certified for these messages without a δ: give one, such as 1e-5"


def calibrated_study(study: Study, dimension: int) -> Study:
    """A study with its free setting calibrated and its promises checked, before a run; refused if one is not kept."""
    _check_numbers(study)
    trust_in(study)
    answer_events(study)
    if not study.privacy.delta < 1:
        raise FedprivError("privacy: delta must be below 1: whatever is sent is (0, 1)-private")
    if not study.privacy.promises:
        study.privacy.check_whole()
        if study.privacy.epsilon is not None or study.privacy.budget is not None:
            raise FedprivError("privacy: Plain promises nothing: no epsilon and no budget, or another mechanism")
        return study
    try:
        study = _with_free_setting(study, dimension)
        _check_promises(study, dimension)
    except FedprivError as error:
        raise FedprivError(f"privacy: {error}") from None
    return study


def _check_numbers(study: Study) -> None:
    """Refuse a study's numbers of clients (dropouts, fewest) that no round can have, or that count for nothing."""
    dropouts, count = study.privacy.dropouts, study.clients.count
    if not sums_only(study.privacy.trust) and (dropouts or study.privacy.colluding):
        raise FedprivError("privacy: dropouts and colluding count only under secure-aggregation trust")
    if dropouts >= count:
        raise FedprivError(f"privacy: dropouts = {dropouts} of {count} clients leave none")
    if (release := study.privacy.release) is not None and release.settings.get("schedule", "constant") != "constant":
        what = f"release: the {release.settings['schedule']} schedule of {release.kind}'s noise is of rounds"
        if study.clients.participation.kind != "All":
            raise FedprivError(f"{what} that all clients are asked in: participation All, or schedule = 'constant'")
        if study.privacy.noise != "seeded":
            raise FedprivError(
                f"{what} that are drawn once: noise = 'seeded' (a deployed node's is its own policy's), or a constant"
            )
    if not study.server.warm_up < study.run.rounds:
        raise FedprivError(f"server.warm_up = {study.server.warm_up} leaves none of the {study.run.rounds} rounds")
    asked, fewest = study.clients.most_asked, fewest_answers(study)
    if fewest > asked:
        name = "server.fewest" if study.server.fewest is not None else "masking.threshold"
        raise FedprivError(f"{name} = {fewest}, but a round asks {asked} clients at most")
    if study.masking and not 2 * fewest > asked + study.privacy.colluding:
        raise FedprivError(
            f"masking: a sum of {fewest} clients must be more than half of the {asked} asked and the "
            f"{study.privacy.colluding} colluding: else a server could open two sums of one round"
        )


def _with_free_setting(study: Study, dimension: int) -> Study:
    """A study with every setting written out, the free one at the largest ε within its target over the whole run."""
    target, most, delta = study.privacy.epsilon, releases_of_worst(study), study.privacy.delta
    study = replace(study, privacy=_kept_filled(study.privacy))
    if study.curator is not None:
        found: Any = study.curator.calibrated(dimension, most, target, delta)
        given = {name: value for name, value in asdict(found).items() if value is not None}
        rule = study.aggregation.with_settings({**study.aggregation.settings, **given})
        study = replace(study, aggregation=rule)
    try:
        privacy = _completed(study.privacy)
    except FedprivError:
        if target is None or study.privacy.kept is not None:
            raise
        try:
            privacy = _completed(_filled(study, dimension, most, target))
        except FedprivError as error:
            if delta:
                raise
            raise FedprivError(f"{NEVER} ({error})") from None
    study = replace(study, privacy=privacy)
    if target is None:
        return study
    if not (cost := epsilon_in_all(study, dimension).upper) <= target:
        remedy = "leave one of them out to have it calibrated"
        if curated(study.privacy.trust):
            remedy = "a smaller aggregation.epsilon, or no aggregation.noise: it is then calibrated"
        raise FedprivError(f"epsilon = {target:g} is promised, but these settings give {rounded_up(cost, 6)}: {remedy}")
    return study


def _kept_filled(privacy: Privacy) -> Privacy:
    """A study's privacy table with a kept release's ε₁ calibrated to the target, where no ε of it is given."""
    kept, target = privacy.kept, privacy.epsilon
    if privacy.release is None or kept is None or target is None or (kept.epsilon, kept.epsilon_1) != (None, None):
        return privacy
    try:
        found = kept_calibrated(kept, target, privacy.delta)
    except FedprivError as error:
        raise FedprivError(f"release: {error}") from None
    return replace(privacy, release=Kind(privacy.release.kind, kept_settings(found)))


def _completed(privacy: Privacy) -> Privacy:
    """A study's privacy table with every setting of mechanism and release written out; refused where one is missing."""
    mechanism = Kind(privacy.mechanism.kind, settings_of(privacy.drawn_by))
    if privacy.is_plain:
        mechanism = privacy.mechanism  # whose clip may be infinite, for which TOML has a word that nobody needs
    if privacy.release is None:
        return replace(privacy, mechanism=mechanism)
    if (kept := privacy.kept) is not None:
        release = Kind(privacy.release.kind, kept_settings(kept))
    else:
        own = asdict(privacy.hidden or privacy.private_sum)  # type: ignore[arg-type]
        release = Kind(privacy.release.kind, {name: value for name, value in own.items() if value is not None})
    return replace(privacy, mechanism=mechanism, release=release)


def _filled(study: Study, dimension: int, rounds: int, target: float) -> Privacy:
    """A study's privacy table with the missing setting, the release's if there is one: so many rounds then cost ε."""
    privacy, delta = study.privacy, study.privacy.delta
    if privacy.release is None:
        how = privacy.norm
        _, *most = map(max, zip(*given_in_all(study), strict=True))
        beside = answer_events(study, *most)
        facts = (how, trust_in(study), privacy.protected, privacy.adjacency, study.training.met, dimension, rounds)
        mechanism = _sought(
            privacy.mechanism, (*facts, beside), target, delta,
            lambda own: event_of_messages(study, Channel.of(how, own), dimension, rounds), beside=beside,
        )  # fmt: skip
        return replace(privacy, mechanism=Kind(privacy.mechanism.kind, settings_of(mechanism)))
    privacy.check_whole()  # the release is what is calibrated
    if privacy.release.kind in HIDDEN:
        return replace(privacy, release=_hidden_filled(study, privacy.release, dimension, rounds, target))
    own, steps = privacy.release, releases_in_message(study)
    try:
        whole, _ = calibrated_release(own.kind, own.settings, dimension, rounds, steps, epsilon=target, delta=delta)
    except FedprivError as error:
        raise FedprivError(f"release: {error}") from None
    return replace(privacy, release=Kind(own.kind, whole))


def calibrated_release(
    kind: str, settings: Mapping[str, Any], dimension: int, rounds: int, steps: int = 1, *, epsilon: float, delta: float
) -> tuple[dict[str, Any], tuple[Event, ...]]:
    """A private sum's settings with the free one such that so many rounds cost ε at δ; and their events.

    >>> found, _ = calibrated_release("DpSgd", {"clip": 1, "sampling": 0.1}, 650, 100, epsilon=3, delta=1e-5)
    >>> round(found["noise"], 2)
    1.68
    """
    free, sampling = free_setting(kind, settings), float(settings.get("sampling", 1))
    found = _sought(
        Kind(*cost_mechanism(kind, settings, free)), (free, sampling, dimension, rounds * steps), epsilon, delta,
        lambda own: event_of_records(own, dimension, sampling, rounds * steps), free,
    )  # fmt: skip
    whole = sum_calibrated(kind, settings, free, settings_of(found)[free])
    release = SUMS.made(kind, whole)
    if in_turn(release):
        release = _scaled_noise(
            release, lambda own: events_in_turn(own, dimension, rounds, rounds, steps), epsilon, delta
        )
        whole["noise"] = release.noise
    return whole, events_in_turn(release, dimension, rounds, rounds, steps)


def _scaled_noise(
    release: DpSgd, events_of: Callable[[DpSgd], tuple[Event, ...]], target: float, delta: float
) -> DpSgd:
    """A release whose noise changes, all of it scaled by one factor so that its events just meet a study's ε.

    It is given with a first noise that would do for all rounds. The next guess goes by ε ∝ noise^−1.4 or so.
    """
    shares = [
        (event.rounds, release.noise / float(settings_of(event.mechanism)["noise"])) for event in events_of(release)
    ]
    precision = sum(count * share**2 for count, share in shares) / sum(count for count, _ in shares)
    release = replace(release, noise=release.noise * sqrt(precision))
    for _ in range(GUESSES):
        found = Account(events_of(release)).upper_epsilon(delta, QUICK)
        if CLOSE * target <= found <= target:
            return release
        release = replace(release, noise=release.noise * (found / target * (1 + (1 - CLOSE) / 2)) ** 0.7)
    raise FedprivError(f"epsilon = {target:g} is not met by any noise on a schedule: schedule = 'constant'")


def _hidden_filled(study: Study, release: Kind, dimension: int, rounds: int, target: float) -> Kind:
    """A study's release of hidden steps with the noise at which so many rounds cost ε."""
    own, training = release.settings, study.training
    try:
        first = HIDDEN.made(release.kind, {"noise": 1.0, **own})
        _ = walk_of(study, first, dimension).exact  # or these are steps of which there is no theorem, at any noise
        walk = {"radius": own["radius"], "penalty": own["penalty"], "rate": training.learning_rate}

        def event_of(mechanism: Any) -> Event:
            """The event of the study's hidden steps at a mechanism's noise: floats have their part in what it costs."""
            return event_of_hidden(study, HiddenState(**{**own, "noise": mechanism.noise}), dimension, rounds)

        facts = ("noise", own.get("batch"), study.clients.records, study.privacy.adjacency, dimension, rounds)
        found = _sought(
            Kind("HiddenState", {**walk, "steps": training.local_steps}), facts, target, study.privacy.delta,
            event_of, "noise",
        )  # fmt: skip
    except FedprivError as error:
        raise FedprivError(f"release: {error}") from None
    return Kind(release.kind, {**own, "noise": settings_of(found)["noise"]})


_FOUND: dict[str, Mechanism] = {}  # many studies of a sweep promise the same


def _sought(
    kind: Kind, facts: tuple[Any, ...], target: float, delta: float, event_of: Callable[[Any], Event],
    free: str | None = None, beside: tuple[Event, ...] = (),
) -> Mechanism:  # fmt: skip
    """The mechanism whose free setting meets a study's ε, sought once in a process; `facts` tell events apart."""
    asked = repr((kind, facts, target, delta))
    if asked not in _FOUND:
        _FOUND[asked], _ = calibrate(
            kind.kind, kind.settings, event_of, epsilon=target, delta=delta, free=free, beside=beside
        )
    return _FOUND[asked]


def _check_promises(study: Study, dimension: int) -> None:
    """Refuse a study whose ε is infinite without a δ, a budget below one round, or batches or rounds too small."""
    privacy = study.privacy
    first = epsilon_after(study, dimension, 1).upper if privacy.delta == 0 or privacy.budget is not None else 0.0
    if privacy.delta == 0 and first == inf:
        raise FedprivError(NEVER)
    if privacy.budget is not None and affordable_rounds(study, dimension) < 1:
        raise FedprivError(
            f"budget = {privacy.budget:g} does not pay for one round, which costs {rounded_up(first, 6)}"
        )
    if privacy.budget is not None and study.evaluation is not None:
        both = epsilon_after(study, dimension, 1, 1, int(study.evaluation.labels is not None)).upper
        if not both <= privacy.budget:
            raise FedprivError(
                f"budget = {privacy.budget:g} pays for a message and not for an answer to [evaluation] beside it: "
                f"both cost {rounded_up(both, 6)}"
            )
    if study.curator is not None:
        study.curator.check(study.clients.most_asked, dimension)
    if (hidden := privacy.hidden) is not None:
        event_of_hidden(study, hidden, dimension, 1)  # or these are steps of which there is no theorem
    if (private := privacy.private_sum) is not None:
        try:
            private.check(private.sampling * study.clients.records)
        except FedprivError as error:
            raise FedprivError(f"release: {error}") from None
