"""What the messages of a node and of others are made of, for whoever knows the data: updates, laws, releases."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from clients.data.pool import Pool
from clients.data.splits import records_of
from clients.models.gradients import Net
from clients.models.per_record import rows_together
from clients.training.cohort import Cohort
from clients.training.prepared import net_of, prepared_study
from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv.accounting.event import Event
from fedpriv.bounds.clipping import clip_factors
from fedpriv.channel import Channel
from fedpriv.channel.encoding import Fresh
from fedpriv.mechanisms import Binomial, Cldp
from fedpriv.node import own_ledger
from fedpriv.packed.symbols import packing_of
from fedpriv.releases import PrivateSum
from fedpriv.studies.study import Study
from simulations.audit._node_home import Copy
from simulations.audit._node_neighbours import Held
from simulations.audit._node_ratio import Score, of_releases

AT_ONCE = 1 << 22  # symbols of others drawn at a time


def others_of(channel: Channel, count: int, d: int, rng: Generator) -> Vector:
    """What other clients add to a node's messages in a trial's sum: `count` messages of update 0, drawn anew.

    Of votes their number is drawn by its law, else one message after another; `d` is how many coordinates each has.
    """
    own = channel.mechanism
    if not isinstance(own, Cldp) and hasattr(own, "chance"):
        trials = count * getattr(own, "trials", 1)
        votes = rng.binomial(trials, own.chance(np.zeros(d)))
        return np.asarray(votes if isinstance(own, Binomial) else 2 * votes - trials, float)
    total = np.zeros(d)
    for start in range(0, count, most := max(1, AT_ONCE // d)):
        some = min(most, count - start)
        payload = channel.messages(np.zeros((some, d), np.float32), Fresh(rng, some))
        total += packing_of(own).unpack(payload, d).sum(axis=0, dtype=np.float64)
    return total


def sent_by(study: Study, held: Held, clients: Numbers, rounds: int, weights: Rows) -> list[Vector]:
    """The bounded updates that these clients' messages are drawn from, a matrix a round, as the cohort makes them."""
    cohort = Cohort(prepared_study(study, held), "seeded", answers=True)
    found: list[Vector] = []
    peak = getattr(study.privacy.drawn_by, "peak", np.inf)
    for round in range(1, rounds + 1):
        out = np.empty((len(clients), weights.size), np.float32)
        for start in range(0, len(clients), cohort.net.chunk):
            some = slice(start, start + cohort.net.chunk)
            failed = cohort._train(weights, round, clients[some], out[some])
            out[some][list(failed)] = 0
        out[~cohort.channel.bounded(out).finite] = 0
        found.append(np.clip(cohort.channel.bounded(out).applied.astype(np.float64), -peak, peak))
    return found


class Release(NamedTuple):
    """What a client's release says of two worlds: the sum that is expected in each, and how it spreads."""

    sign: int  # 1 where the first world has more records, −1 where the second has
    base: Vector  # the sum expected without what the one has more
    way: Vector  # the sum of the clipped gradients of what it has more
    spread: float  # the variance along that, of noise and of whom else is drawn


def release_of(study: Study, held: tuple[Held, Held], client: int, weights: Rows) -> Release:
    """What a client's release comes to in either of two worlds, at a model: the expected sums and the spread."""
    own = study.privacy.private_sum
    assert own is not None
    sides = [(pool, records_of(division, client)) for pool, division in held]
    net, sign = net_of(study, sides[0][0]), 1
    if len(sides[1][1]) > len(sides[0][1]):
        sides, sign = sides[::-1], -1
    more, base = (_summed(net, own, *side, weights)[0] for side in sides)
    way = more - base
    steps, length = study.training.local_steps, float(np.linalg.norm(way))
    beside = _summed(net, own, *sides[1], weights, way / length)[1] if length else 0.0
    noise = float(getattr(own, "noise", 1.0)) * own.clip
    spread = steps * (noise**2 + own.sampling * (1 - own.sampling) * beside)
    return Release(sign, steps * own.sampling * base, way, spread)


def of_releases_by(study: Study, held: tuple[Held, Held], clients: Numbers, weights: Rows) -> Score:
    """How trials score a node's releases: a function from a row a client to the log likelihood ratio of worlds."""
    own, steps = study.privacy.private_sum, study.training.local_steps
    assert own is not None
    expected, sampling = own.sampling * study.clients.records, own.sampling
    known = [release_of(study, held, client, weights) for client in clients.tolist()]

    def score(seen: Rows) -> float:
        """The log likelihood ratio of one answer of the node: its clients' releases, added up."""
        out = np.asarray(study.privacy.drawn_by.decode(seen, 1))
        return sum(
            each.sign * of_releases(row * expected * own.unit, each.base, each.way, each.spread, sampling, steps)
            for row, each in zip(out, known, strict=True)
        )

    return score


def _summed(
    net: Net, own: PrivateSum, pool: Pool, records: Numbers, weights: Rows, along: Vector | None = None
) -> tuple[Vector, float]:
    """What a release sums of these records: clipped gradients, and squares of their parts `along` a direction."""
    total, squares = np.zeros(net.dimension), 0.0
    for start in range(0, len(records), size := rows_together(net.dimension)):
        some = records[start : start + size]
        x, y = pool.batch(some[None])
        rows = np.empty((len(some), net.dimension), np.float32)
        net.each(weights, x[0], y[0], rows)
        factors = clip_factors(rows, own.clip, own.norm)
        usable = np.isfinite(factors)
        clipped = rows[usable].astype(np.float64) * factors[usable, None]
        total += clipped.sum(axis=0)
        squares += 0.0 if along is None else float(((clipped @ along) ** 2).sum())
    return total, squares


def effect_of(study: Study, held: tuple[Held, Held], client: int, weights: Rows, rounds: int) -> float:
    """How far a client's messages move from one world to the other: the audit takes the neighbour that moves most."""
    if study.privacy.private_sum is not None:
        return float(np.linalg.norm(release_of(study, held, client, weights).way))
    whose, some = np.array([client]), min(study.run.rounds, rounds)
    sent = [sent_by(study, own, whose, some, weights) for own in held]
    return float(sum(np.linalg.norm(x - y) for x, y in zip(*sent, strict=True)))


def event_of(copy: Copy) -> tuple[Event, ...]:
    """The events that the copied node's ledger has come to, for one unit of its policy: what the certificate is of."""
    with own_ledger.opened_ledger(copy.ledger, copy.home.place) as ledger:
        return ledger.events(unit=copy.home.policy.unit)
