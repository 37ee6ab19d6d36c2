"""The server's own update, from records that it holds itself: what FlTrust measures the clients' by."""

from __future__ import annotations

from itertools import repeat

import numpy as np

from clients.data.pool import Pool
from clients.models.arrays import Floats
from clients.training.prepared import Prepared
from fedpriv._base.arrays import Numbers, Vector
from fedpriv.aggregation import NeedsReference, rule_alone
from fedpriv.errors import FedprivError
from fedpriv.randomness.streams import stream
from fedpriv.studies.study import Study


def check_root(study: Study, pool: Pool) -> None:
    """Refuse a study whose rule (FlTrust) wants more records of the server's own than are set aside for it."""
    rule, held = rule_alone(study.rule), len(pool.aside) if pool.aside else 0
    if isinstance(rule, NeedsReference) and rule.needs_reference and rule.root > held:
        raise FedprivError(
            f"aggregation: {study.aggregation.kind} takes root = {rule.root:,} records of the server's own, and "
            f"data.aside sets {held:,} aside: data.aside = {rule.root} (of records that are clients' no ε would hold)"
        )


def root_update(prepared: Prepared, weights: Floats) -> Vector | None:
    """The server's own update, as an honest client would compute it from the server's records: FlTrust's measure.

    They are drawn once from those set aside, which no client holds: what comes of them no client's ε need cover. None
    for a rule that asks for no such update.
    """
    rule, study, pool, net = rule_alone(prepared.plan.rule), prepared.study, prepared.pool.aside, prepared.net
    if pool is None or not isinstance(rule, NeedsReference) or not rule.needs_reference:
        return None
    training, update = study.training, np.empty((1, net.dimension), np.float32)
    batches = repeat(pool.batch(root_records(study.run.seed, pool, rule.root)[None]), training.local_steps)
    stepping, proximal = training.stepping, training.proximal
    net.updates(weights, batches, training.learning_rate, update, optimiser=stepping, proximal=proximal)
    if net.failures:
        raise FedprivError(f"the server's own update: {net.failures[0]}")
    return np.asarray(prepared.plan.channel.bounded(update).applied[0])


def root_records(seed: int, aside: Pool, root: int) -> Numbers:
    """Which of the records set aside a study's server trusts by: so many of them, the same in all rounds."""
    return np.sort(stream(seed, "root").choice(len(aside), root, replace=False, shuffle=False))
