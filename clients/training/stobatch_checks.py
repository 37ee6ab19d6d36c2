"""A study that trains on what its clients keep: filled in from its model, and refused where it cannot be done."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clients.data.pool import Pool, scaled_features
from clients.data.splits import Division, Uneven, records_of
from clients.models.gradients import Net
from clients.models.stobatch import encoded_of, sizes_of
from clients.robustness.input_attacks import INPUT_ATTACKS
from fedpriv._base.arrays import Numbers
from fedpriv.certified.functional import EDGE
from fedpriv.errors import FedprivError, one_of
from fedpriv.releases.kept import Kept, filled_kept, mechanism_of
from fedpriv.releases.kept import settings_of as kept_settings
from fedpriv.studies.study import Kind, Study
from fedpriv.studies.tables import Noise

AT_ONCE = 4096  # records looked at


def settled_sizes(study: Study, pool: Pool, net: Net, division: Division) -> Study:
    """A study with its kept batches' and model's sizes written out and checked; as it is, where nothing is kept."""
    kept, release = study.privacy.kept, study.privacy.release
    if kept is None or release is None:
        return study
    encoded_of(net)
    try:
        found = filled_kept(kept, study.clients.records, sizes_of(net))
        check_attacks(found)
    except FedprivError as error:
        raise FedprivError(f"privacy.release: {error}") from None
    check_held(found, division)
    check_range(pool)
    calibrating = study.privacy.epsilon is not None and (kept.epsilon, kept.epsilon_1) == (None, None)
    settings = kept_settings(found, calibrating=calibrating)
    return replace(study, privacy=replace(study.privacy, release=Kind(release.kind, settings)))


def check_attacks(kept: Kept) -> None:
    """Refuse a kept release that trains against an attack on inputs which nobody knows."""
    for own in kept.attacks:
        one_of(INPUT_ATTACKS, attacks=own)


def _in_batches(kept: Kept) -> int:
    """How many records one trainer's fixed batches hold: what a client with kept records needs at least."""
    return kept.batches * (kept.batch or 1)


def check_held(kept: Kept, division: Division) -> None:
    """Refuse a kept release whose clients share records, or have too few for one pair of fixed batches."""
    if not division.disjoint:
        raise FedprivError(
            f"clients.split: a record may be at several clients, whose batches would overlap: {type(kept).__name__} "
            "needs a split that gives it to one"
        )
    if isinstance(division, Uneven):
        sizes = division.sizes(np.arange(division.clients))
        needed = _in_batches(kept)
        least = int(sizes.min())
        if not least >= needed:
            raise FedprivError(
                f"clients.split: client {int(sizes.argmin())} has {least} records, its fixed batches need {needed}: "
                "privacy.release.batch must be smaller, or clients.split even"
            )


def checked_records(kept: Kept, pool: Pool, division: Division, first: int, last: int) -> list[Numbers]:
    """By client of a node, the record numbers for its kept release; refused where too few, or out of range."""
    mechanism_of(kept)
    check_attacks(kept)
    check_range(pool)
    needed = _in_batches(kept)
    held: list[Numbers] = []
    if not (last - first) * needed <= len(pool):
        raise FedprivError(
            f"{last - first} clients of this node need {needed} records each for fixed batches, of {len(pool)} here"
        )
    for client in range(first, last):
        held.append(records_of(division, client))
        if not len(held[-1]) >= needed:
            raise FedprivError(f"client {client} has {len(held[-1])} records, and its fixed batches need {needed}")
    return held


def check_range(pool: Pool) -> None:
    """Refuse a pool with records outside of the cube [−1, 1], which a kept release's noise is for."""
    for start in range(0, len(pool), AT_ONCE):
        values = scaled_features(np.asarray(pool.x[start : start + AT_ONCE]), pool.divide, pool.subtract)
        reach = np.abs(values).reshape(len(values), -1).max(1)
        if not (reach <= EDGE).all():
            row = int(np.argmax(~(reach <= EDGE)))
            raise FedprivError(
                f"data: inputs must be in [-1, 1], record {start + row} reaches {reach[row]:.6g}: data.divide and "
                "data.subtract bring them there"
            )


def also_depends_on(study: Study, noise: Noise) -> object:
    """What else a node's kept noise depends on, and so is derived from: who alters records, and a known seed."""
    altered = study.corruption, study.attack if study.clients.attackers else None
    seed = study.run.seed if noise == "seeded" or any(altered) else None
    return altered, study.clients.byzantine, noise, seed


def unused_records(study: Study, pool: Pool, kept: Kept) -> str | None:
    """Which records are in no fixed batch of a kept release, in words for a run's header; None where all are."""
    held = _in_batches(kept)
    own = study.clients.records % held
    dealt = 0 if study.clients.by_user else len(pool) - study.clients.count * study.clients.records
    parts = [f"{own:,} of each client's {study.clients.records:,}, past its last pair of batches"] if own else []
    parts += [f"{dealt:,} of all {len(pool):,}, which no client has"] if dealt > 0 else []
    return "; ".join(parts) or None
