"""What a study promises each of its honest clients, before its first round and after any of them."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import lru_cache
from math import ceil, inf
from typing import Any, NamedTuple

from fedpriv.accounting import Account, Cost, Release
from fedpriv.calibration import calibrate
from fedpriv.comparisons import clt_epsilon
from fedpriv.errors import FedprivError
from fedpriv.kept import NORM, mechanism_of
from fedpriv.kept import calibrated as kept_calibrated
from fedpriv.kept import settings_of as kept_settings
from fedpriv.mechanisms import Mechanism, settings_of
from fedpriv.participation import rounds_of_each
from fedpriv.private_sums import calibrated, costed, free_setting
from fedpriv.release import Geometry
from fedpriv.study import Kind, Study
from fedpriv.study_tables import Privacy

NEVER = "delta = 0: no finite ε is certified for these messages without a δ: give one, such as 1e-5"


class Epsilon(NamedTuple):
    """ε at the study's δ: certified from both sides, and the central limit's estimate, which certifies nothing."""

    lower: float
    upper: float
    clt: float | None


def fewest(study: Study) -> int:
    """The answers without which a round does not count: under secure aggregation those the certificate is made for.

    Masks (`clients.masking`) give no sum of fewer, so they are counted before anything leaves, whoever answers then.
    """
    if study.server.fewest is not None:
        return study.server.fewest
    if study.privacy.trust == "central":
        return 0  # who does not answer counts as one that sends 0, lest it show
    if study.privacy.trust != "secure-aggregation":
        return 1
    surely = study.clients.chosen.surely(study.clients.count)
    threshold = study.masking.threshold if study.masking else None
    if isinstance(threshold, int):
        return threshold
    if not surely:
        raise FedprivError(
            "server.fewest must be given under secure aggregation: Poisson participation asks any number"
        )
    return surely - study.privacy.dropouts if threshold is None else ceil(threshold * surely * (1 - 1e-12))


def contributors(study: Study) -> int | None:
    """How many of a round's messages are certain to hold honest noise; None where each is private by itself or seen."""
    if study.privacy.trust != "secure-aggregation" or study.privacy.kept is not None:
        return None
    least, byzantine, colluding = fewest(study), study.clients.attackers, study.privacy.colluding
    certain = least - byzantine - colluding
    if certain < 1:
        raise FedprivError(
            f"no guarantee under secure aggregation: of {least} answers a round may rest on, {byzantine} may be "
            f"Byzantine and {colluding} colluding, which leaves none certain to have drawn noise"
        )
    return certain


def facts(study: Study, dimension: int) -> dict[str, Any]:
    """What a release of this study is, besides its mechanism and how often it happened."""
    if study.privacy.release is not None:
        return {
            "dimension": dimension, "geometry": "l2", "trust": "local", "clients": None, "unit": "record",
            "adjacency": "add-remove", "sampling": float(study.privacy.release.settings.get("sampling", 1)),
        }  # fmt: skip
    trust, clients = study.privacy.trust, contributors(study)
    return {
        "dimension": dimension, "geometry": _geometry(study), "trust": trust, "clients": clients, "unit": "client",
        "adjacency": study.privacy.adjacency or "replace",  # a client is always there: its data are others
    }  # fmt: skip


def _geometry(study: Study) -> Geometry:
    return "linf" if study.privacy.norm == "coordinates" and study.privacy.trust != "central" else "l2"


def releases_of_worst(study: Study) -> int:
    """In how many rounds the client that is asked most often takes part: the schedule is public."""
    rounds = study.run.rounds
    return int(rounds_of_each(study.clients.chosen, study.clients.count, study.run.seed, rounds).max())


def releases(study: Study, dimension: int, rounds: int = 1) -> tuple[Release, ...]:
    """What `rounds` messages of one client give away; of what is kept, the same however many there are."""
    kept = study.privacy.kept
    if kept is None:
        return (release(study, dimension, rounds),)
    return mechanism_of(kept).releases if rounds else ()


def release(study: Study, dimension: int, rounds: int = 1) -> Release:
    """`rounds` messages of one client, each of as many releases as it makes steps; where nothing is promised, none.

    Of what is kept only the coordinates, without the labels: for what a release is called, not for what it costs.
    """
    if (kept := study.privacy.kept) is not None:
        return mechanism_of(kept).releases[0]
    private = study.privacy.private_sum
    mechanism = study.privacy.chosen if private is None else private.mechanism
    if study.privacy.trust == "central":
        rule: Any = study.rule  # a PrivateMean, or the study were refused
        mechanism = rule.mechanism
    return Release(mechanism=mechanism, rounds=rounds * steps(study), **facts(study, dimension))


def steps(study: Study) -> int:
    """How many releases a message holds."""
    return 1 if study.privacy.release is None else study.training.local_steps


def both_epsilons(study: Study) -> dict[str, Any] | None:
    """Of a kept release the published ε and the example-level one, never one alone; None where there is none."""
    kept = study.privacy.kept
    return None if kept is None else mechanism_of(kept).guarantees(NORM, study.privacy.delta)


def resolved(study: Study, dimension: int) -> Study:
    """The study with its free setting calibrated, all promises checked; refused where one cannot be kept."""
    _check_numbers(study)
    contributors(study)
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
    if study.privacy.trust != "secure-aggregation" and (dropouts or study.privacy.colluding):
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
        about = facts(study, dimension) | {"rounds": most * steps(study)}
        try:
            privacy = _completed(_filled(study.privacy, epsilon=target, delta=study.privacy.delta, **about))
        except FedprivError as error:
            if study.privacy.delta:
                raise
            raise FedprivError(f"{NEVER} ({error})") from None
    study = replace(study, privacy=privacy)
    if target is not None and not (found := epsilon(study, dimension, most).upper) <= target:
        central, out = study.privacy.trust == "central", "leave one of them out to have it calibrated"
        raise FedprivError(
            f"epsilon = {target:g} is promised, but these settings give {found:.6g}: "
            + ("a smaller aggregation.epsilon" if central else out)
        )
    return study


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


def _filled(privacy: Privacy, **target: Any) -> Privacy:
    """With the setting that is missing, of the release where there is one."""
    if privacy.release is None:
        mechanism = _sought(privacy.mechanism, **target)
        return replace(privacy, mechanism=Kind(privacy.mechanism.kind, settings_of(mechanism)))
    privacy.chosen  # noqa: B018  – the release is what is calibrated, so the mechanism must be whole
    kind, settings = privacy.release.kind, privacy.release.settings
    try:
        free = free_setting(kind, settings)
        value = settings_of(_sought(Kind(*costed(kind, settings)), free=free, **target))[free]
        whole = calibrated(kind, settings, free, value)
    except FedprivError as error:
        raise FedprivError(f"release: {error}") from None
    return replace(privacy, release=Kind(kind, whole))


_FOUND: dict[str, Mechanism] = {}  # many studies of a sweep promise the same


def _sought(kind: Kind, **target: Any) -> Mechanism:
    """The mechanism whose free setting meets a target, sought once in a process."""
    asked = repr((kind, target))
    if asked not in _FOUND:
        _FOUND[asked], _ = calibrate(kind.kind, kind.settings, **target)
    return _FOUND[asked]


def _bounded(study: Study, dimension: int) -> Study:
    """The study, if δ = 0 leaves it any ε."""
    if study.privacy.delta == 0 and epsilon(study, dimension, 1).upper == inf:
        raise FedprivError(NEVER)
    return study


def _workable(study: Study, dimension: int) -> Study:
    """The study, if its release can work on batches as large as are expected, and its rule on as few clients."""
    if study.privacy.trust == "central":
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
    if rounds == 0:
        return Epsilon(0.0, 0.0, 0.0)
    if not study.privacy.promises:
        return Epsilon(inf, inf, None)
    found = _epsilon(releases(study, dimension, rounds), study.privacy.delta)
    if study.privacy.kept is not None:
        return Epsilon(0.0, found.upper, None)  # what explicit data show of a record noised is not left in gradients
    if study.privacy.release is None or study.privacy.is_plain:
        return found
    ways = [found.upper, *(_epsilon((own,), study.privacy.delta).upper for own in _carriers(study, dimension, rounds))]
    return Epsilon(0.0, min(ways), None)  # what explicit data show of a release is not what is left of it in a message


def _carriers(study: Study, dimension: int, rounds: int) -> list[Release]:
    """The messages that carry a release, by themselves: they bound all that is seen, where nothing travels beside them.

    One record more or less is some other input of the mechanism, so its guarantee for a client is one for a record.
    """
    private = study.privacy.private_sum
    if private is None or private.adapts:
        return []
    geometry = _geometry(study)
    about: dict[str, Any] = {"dimension": dimension, "geometry": geometry, "unit": "record", "adjacency": "replace"}
    return [Release(mechanism=study.privacy.chosen, rounds=rounds, **about)]


@lru_cache(maxsize=4096)
def _epsilon(releases: tuple[Release, ...], delta: float) -> Epsilon:
    account = Account(releases)
    cost: Cost = account.epsilon(delta)
    return Epsilon(cost.bounds.lower, cost.bounds.upper, clt_epsilon(account, delta))
