"""Canary records: clients with one record more or less, through a study's release, its batches, clipping and noise.

A trial is one client over all rounds. Its gradients are frozen: the canary's is along one direction and far too long;
the others', where the release trims, are longer still and at right angles to it, so that the canary is never trimmed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from clients.data.pool import Pool
from clients.data.splits import Division
from clients.models.gradients import Net
from clients.training.byzantine import Byzantine
from clients.training.corrupting import Corrupting
from clients.training.releasing import Releasing
from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv.accounting.event import Event
from fedpriv.auditing.pairs import keys_of
from fedpriv.releases import AdaptiveDpSgd, PrivateSum, Ptr, event_of_sum
from fedpriv.studies.plan import Plan
from fedpriv.studies.study import Study
from simulations.audit._node_ratio import log_drawn
from simulations.audit._settings import halves_of, measured, said_by_counts
from simulations.audit.trials import Scored

CANARY = 1e3  # the length of its gradient before clipping, in clip norms
OTHERS = 1e4  # and that of the others' gradients
DIMENSION = 16  # coordinates: a release clips by the norm and draws each coordinate's noise alone


@dataclass(frozen=True)
class Records:
    """All releases of one client over all rounds: the canary record there, or not."""

    study: Study
    rounds: int  # in which a client answers

    in_a_tail = True
    ranked = False
    holds = most = None

    @property
    def private(self) -> PrivateSum:
        """The study's release of records, through which the canaries of these trials go."""
        found = self.study.privacy.private_sum
        assert found is not None
        return found

    @property
    def event(self) -> Event:
        """The event whose certificate the trials test: all releases of one client over all rounds."""
        return event_of_sum(self.private, DIMENSION, self.rounds * self.study.training.local_steps)

    @property
    def weight(self) -> int:
        """What a trial takes, in coordinates drawn: it decides how many trials are one block on disk."""
        return DIMENSION * self.event.rounds * 64  # a step takes far longer than its noise

    @property
    def words(self) -> str:
        """What one trial is, in a sentence for audit.json and its readers: a record there or not, beside whom."""
        beside = f" beside {self.others:,} longer ones at right angles" if self.others else ""
        own = self.private
        return (
            f"one record there or not{beside}, {self.rounds:,} rounds of {self.study.training.local_steps} release(s) "
            f"by {type(own).__name__} on Poisson batches at {own.sampling:g}"
        )

    @property
    def others(self) -> int:
        """How many records a trial's client has beside the canary: none, unless the release would trim it."""
        return self.study.clients.records - 1 if self.private.orders else 0

    def checks_repeats(self, trials: int) -> bool:
        """True: releases are sixteen reals, so two that are the same in an audit come from the same noise."""
        return True

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """Run the trials of canary clients through the clients' own release code: likelihood ratios, and keys."""
        # The promise is to all honest clients: none is left out as one that would change records.
        study = replace(self.study, clients=replace(self.study.clients, byzantine=0), attack=None, corruption=None)
        plan = Plan.of(study, DIMENSION)
        clip, hands = self.private.clip, _Hands(self.others, dict(zip(numbers.tolist(), held.tolist(), strict=True)))
        rows = np.array([OTHERS * clip * _ACROSS] * self.others + [CANARY * clip * _ALONG], np.float32)
        labels = np.zeros(len(rows), np.int64)
        pool = Pool(rows, labels, rows[:0], labels[:0], classes=2, divide=1.0, subtract=0.0)
        releasing = Releasing(
            study, self.private, pool, cast(Net, _Frozen()), cast(Division, hands),
            Byzantine(plan, pool), Corrupting(plan, pool.classes), study.privacy.noise,
        )  # fmt: skip
        first = np.array([self.study.first_settings] * len(numbers)).reshape(len(numbers), -1)
        weights, out = np.zeros(DIMENSION, np.float32), np.empty((len(numbers), DIMENSION), np.float32)
        settings, scores, keys = first, np.zeros(len(numbers)), []
        for round in range(1, self.rounds + 1):
            releasing.begin(numbers, settings if settings.size else None)
            failures = releasing.updates(weights, round, numbers, out)
            assert not failures  # frozen gradients are finite
            keys.append(keys_of(out.view(np.uint8).reshape(len(out), -1)))
            moved = releasing.moved()[1] if releasing.adapted else settings
            scores += self._said(out, settings, moved, chosen=(numbers - self.study.clients.count) % 2 == 0)
            settings = moved
        return Scored(scores, np.concatenate(keys))

    def _said(self, out: Rows, before: Vector, after: Vector, *, chosen: NDArray[np.bool_]) -> Vector:
        """ln of each trial's likelihood ratio after a round: L = Σ_j Bin(K, q)(j)·φ(z − j)/φ(z), z in noises.

        `before` and `after` are the settings that adapt. The `chosen` trials tell how far a count really spreads: no
        threshold is judged on them.
        """
        own, steps = self.private, self.study.training.local_steps
        expected = own.sampling * self.study.clients.records
        along = out.astype(float) @ _ALONG * expected
        clip, noise = np.full(len(out), own.clip), np.full(len(out), float(cast(Any, own).noise))
        beside: Vector = np.zeros(len(out))  # what the settings say by themselves
        if isinstance(own, AdaptiveDpSgd):
            halves = halves_of(own, before[:, 0], after[:, 0], expected, steps)
            clip = before[:, 0] if own.units == "gradient" else np.ones(len(out))
            beside = said_by_counts(own, halves, steps, chosen)
        if isinstance(own, Ptr):
            rate, noise = measured(own, before[:, 0], after[:, 0], expected)
            along = along / rate
        j, seen = np.arange(steps + 1), along / clip
        said = (j * seen[:, None] - j * j / 2) / (noise**2 * steps)[:, None] + j * beside[:, None]
        return np.asarray(logsumexp(log_drawn(own.sampling, steps) + said, axis=1))


_ALONG = np.full(DIMENSION, 1 / sqrt(DIMENSION))
_ACROSS = _ALONG * np.where(np.arange(DIMENSION) % 2, 1.0, -1.0)


@dataclass(frozen=True)
class _Hands:
    """Every client has all others' records, and the canary where it holds it."""

    others: int  # records beside the canary
    held: dict[int, bool]  # whether a client holds the canary, by its number
    disjoint = True

    def of(self, clients: Numbers) -> Numbers:
        """The numbers of the records of a trial's client, as the release asks: the canary's is last, where held."""
        return np.arange(self.others + self.held[int(clients[0])])[None]


class _Frozen:
    """Gradients that are the records themselves."""

    dimension, classes, shape = DIMENSION, 2, (DIMENSION,)

    def initial(self) -> Rows:
        """The weights of all rounds, which never move: an ellipsoid is a ball."""
        return np.zeros(DIMENSION, np.float32)

    def each(self, weights: Rows, x: Rows, y: Numbers, out: Rows) -> None:
        """Write the records themselves into `out` as their gradients, in the place of a real network's."""
        out[...] = x
