"""The first line of a run's records: what the run is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clients.data.identity import data_identity
from clients.training.prepared import Prepared
from fedpriv import records, wire
from fedpriv.accounting.event import event_as_data
from fedpriv.errors import FedprivError
from fedpriv.registry import Kind
from fedpriv.releases import in_turn
from fedpriv.studies.judged import judged_attackers
from fedpriv.studies.plan import Plan
from fedpriv.studies.promise import answer_events, promised_events, units_of
from server.rounds._planning import size_of


def header_of(prepared: Prepared, masked: bool) -> dict[str, Any]:
    """The first line of a run's records: settings, what they promise, what a client sends, whether sums are masked."""
    study, plan, size = prepared.study, prepared.plan, size_of(prepared.plan)
    mechanism = plan.mechanism
    if study.masked is None:
        boxed = study.privacy.norm == "coordinates"
        packed, width = wire.packed_bits(mechanism, plan.dimension, boxed=boxed)[0], None
    else:
        packed, width = float(mechanism.bits), wire.masked_bits(mechanism, study.masked)
    kept: dict[str, Any] = {}
    if plan.kept is not None:  # both ε's of what clients keep, and which records they leave out
        kept = {
            "epsilons": prepared.plan.both_epsilons, "left_out": prepared.left_out,
            "releases": [event_as_data(each) for each in plan.events()],
        }  # fmt: skip
    elif prepared.left_out:  # users without enough records, or more of them than clients
        kept = {"left_out": prepared.left_out}
    turns: dict[str, Any] = {}
    if plan.private_sum is not None and in_turn(plan.private_sum):  # noise that changes: what all rounds are charged
        turns = {"in_turn": [event_as_data(each) for each in plan.events(study.run.rounds)]}
    judged = study.server.tolerance or study.run.measure_votes
    return {
        "format": records.FORMAT, "kind": "run", "study": study.id.hex(), "name": study.name, "about": study.about,
        "clients": study.clients.count, "byzantine": study.clients.attackers,
        "dimension": plan.dimension, "mechanism": {
            "kind": study.privacy.mechanism.kind, "settings": dict(study.privacy.mechanism.settings)
        },
        "private_sum": study.privacy.release.table() if study.privacy.release else None,
        "aggregation": study.aggregation.table(), "attack": study.attack.table() if study.attack else None,
        "corruption": study.corruption.table() if study.corruption else None,
        **kept, **turns,
        "release": released(plan), "trust": study.privacy.trust, "masked": masked,
        "delta": study.privacy.delta,
        "rounds": study.run.rounds, "seed": study.run.seed, "client_bytes": size.whole,
        **({} if size.word == "exact" else {"client_bytes_are": size.word}),
        "bits": {"packed": packed, "entropy": float(mechanism.entropy), "masked": width},
        **({} if study.training.loss == Kind("CrossEntropy") else {"loss": study.training.loss.table()}),
        "model": study.training.model.kind, "test_examples": len(prepared.pool.y_test),
        "data": data_identity(study.data.kind, prepared.pool),
        **({"evaluation": _evaluation(plan)} if study.evaluation else {}),
        **({"judged": judged_attackers(study).words} if judged else {}),
    }  # fmt: skip


def _evaluation(plan: Plan) -> dict[str, Any]:
    """What a run's header says of its evaluation: when it is, about which records, and what an answer gives away."""
    own = plan.study.evaluation
    assert own is not None
    events = [event_as_data(each) for each in answer_events(plan.study)]
    about = {"every": own.every, "held_out": own.held_out, "public": own.public}
    return about | dict(zip(("release", "labels"), events, strict=False))


def released(plan: Plan) -> dict[str, Any] | None:
    """The event a run's client is charged for a round, as the header and the ledger have it; None without a promise."""
    if not plan.study.privacy.promises:
        return None
    return event_as_data(plan.event())


def released_beside(plan: Plan) -> list[dict[str, Any]]:
    """A round's event for a run's other unit, and an answer's, where there are such: a ledger has them beside it."""
    own, units = plan.study, units_of(plan.study)[1:]
    others = [each for unit in units for each in promised_events(own, plan.dimension, unit=unit)]
    return [event_as_data(each) for each in (*others, *answer_events(own))]


def check_header(file: Path, own: Mapping[str, Any], was: Mapping[str, Any]) -> None:
    """Refuse to go on with records whose header is of another study than the file beside them, naming what differs."""
    if was["study"] == own["study"]:
        return
    names = [
        name
        for name in own
        if name != "study" and records.plain_values(own[name]) != records.plain_values(was.get(name))
    ]
    where = f"what differs: {', '.join(names)}" if names else "in what the records do not show"
    raise FedprivError(
        f"{file} is not the study of the records beside it ({where}): bring that back, or begin another run"
    )
