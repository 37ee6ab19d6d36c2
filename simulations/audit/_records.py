"""Canary records: clients with one record more or less, through a study's release, its batches, clipping and noise.

A trial is one client over all rounds. Its gradients are frozen: the canary's is along one direction and far too long;
the others', where the release trims, are longer still and at right angles to it, so that the canary is never trimmed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from clients.data.pool import Pool
from clients.models.gradients import Net
from clients.training.byzantine import Byzantine
from clients.training.corrupting import Corrupting
from clients.training.releasing import Releasing
from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.auditing.pairs import keys_of
from fedpriv.releases import AdaptiveDpSgd, PrivateSum, Ptr, event_of_sum
from fedpriv.releases.ptr import step_ratio
from fedpriv.studies.study import Study
from simulations.audit._settings import halves_of
from simulations.audit.trials import Scored

CANARY, OTHERS = 1e3, 1e4  # lengths before clipping, in clip norms
DIMENSION = 16  # coordinates: a release clips by the norm and draws each coordinate's noise alone
FEWEST, FAR = 16, 0.7  # counts of which a spread is measured; the share of what is described that is believed
STILL = 0.05  # records, which a spread is taken for at least
Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Records:
    """All releases of one client over all rounds: the canary record there, or not."""

    study: Study
    rounds: int

    in_a_tail, ranked = True, False
    holds = most = None

    @property
    def private(self) -> PrivateSum:
        """The release."""
        found = self.study.privacy.private_sum
        assert found is not None
        return found

    @property
    def event(self) -> Event:
        """What the certificate is of."""
        return event_of_sum(self.private, DIMENSION, self.rounds * self.study.training.local_steps)

    @property
    def weight(self) -> int:
        """Coordinates a trial draws."""
        return DIMENSION * self.event.rounds * 64  # a step takes far longer than its noise

    @property
    def words(self) -> str:
        """The trial, for people."""
        beside = f" beside {self.others:,} longer ones at right angles" if self.others else ""
        own = self.private
        return (
            f"one record there or not{beside}, {self.rounds:,} rounds of {self.study.training.local_steps} release(s) "
            f"by {type(own).__name__} on Poisson batches at {own.sampling:g}"
        )

    @property
    def others(self) -> int:
        """Records beside the canary: none, unless the release would trim it."""
        return self.study.clients.records - 1 if self.private.orders else 0

    def checks_repeats(self, trials: int) -> bool:
        """Sixteen reals are never the same twice."""
        return True

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """The log likelihood ratio of each client's releases, and a key for each."""
        releasing = self._releasing(dict(zip(numbers.tolist(), held.tolist(), strict=True)))
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

    def _releasing(self, held: dict[int, bool]) -> Releasing:
        study = _honest(self.study)
        pool = _pool(self._gradients)
        division = cast(Any, _Hands(self.others, held))
        net = cast(Net, _Frozen())
        own = study.privacy.noise
        return Releasing(
            study, self.private, pool, net, division, Byzantine(study), Corrupting(study, pool.classes), own
        )

    @cached_property
    def _gradients(self) -> Rows:
        """The others', then the canary's."""
        clip = self.private.clip
        rows = np.empty((self.others + 1, DIMENSION), np.float32)
        rows[: self.others] = OTHERS * clip * _ACROSS
        rows[-1] = CANARY * clip * _ALONG
        return rows

    def _said(self, out: Rows, before: Vector, after: Vector, *, chosen: NDArray[np.bool_]) -> Vector:
        """ln of the likelihood ratio of what leaves after a round: L = Σ_j Bin(K, q)(j)·φ(z − j)/φ(z), z in noises.

        The `chosen` trials tell how far a count really spreads: no threshold is judged on them.
        """
        own, expected = self.private, self.private.sampling * self.study.clients.records
        along = out.astype(float) @ _ALONG * expected
        clip, noise = np.full(len(out), own.clip), np.full(len(out), float(cast(Any, own).noise))
        beside: Vector = np.zeros(len(out))
        if isinstance(own, AdaptiveDpSgd):
            clip, beside = (
                before[:, 0],
                _counted(own, before[:, 0], after[:, 0], expected, self.study.training.local_steps, chosen),
            )
        if isinstance(own, Ptr):
            along, noise = _tested(own, before[:, 0], after[:, 0], expected, along)
        steps = self.study.training.local_steps
        return _mixed(along / clip, noise, steps, own.sampling, beside)


def _mixed(along: Vector, noise: Vector, steps: int, sampling: float, beside: Vector) -> Vector:
    j = np.arange(steps + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = gammaln(steps + 1) - gammaln(j + 1) - gammaln(steps - j + 1)
        chances = chances + j * np.log(sampling) + np.where(j == steps, 0.0, (steps - j) * np.log1p(-sampling))
    said = (j * along[:, None] - j * j / 2) / (noise**2 * steps)[:, None] + j * beside[:, None]
    return np.asarray(logsumexp(chances + said, axis=1))


def _counted(
    own: AdaptiveDpSgd, before: Vector, after: Vector, expected: float, steps: int, chosen: NDArray[np.bool_]
) -> Vector:
    """What the clip norm's step says: a record too long takes half of one from a noisy count.

    A guesser weighs it by the noise that is there: by what is described, unless the counts spread far less.
    """
    halves = halves_of(own, before, after, expected, steps)
    spread = float(halves[chosen].std()) / sqrt(steps) if chosen.sum() >= FEWEST else own.count_noise
    noise = own.count_noise if spread > FAR * own.count_noise else max(spread, STILL)
    return np.asarray((-0.5 * halves - 0.125) / (noise**2 * steps))


def _tested(own: Ptr, before: Vector, after: Vector, expected: float, along: Vector) -> tuple[Vector, Vector]:
    """The sum by its own measure where the test failed, which F shows; and the noise it has, in clip norms."""
    passed = after < before
    if own.rates == "by-trimmed":
        ratio = np.array([step_ratio(min(max(int(f), 1), int(expected) - 1), int(expected)) for f in before])
        along = np.where(passed, along, along / ratio)
    return along, np.where(passed, own.noise * own.bound, own.noise)


_ALONG = np.full(DIMENSION, 1 / sqrt(DIMENSION))
_ACROSS = _ALONG * np.where(np.arange(DIMENSION) % 2, 1.0, -1.0)


@dataclass(frozen=True)
class _Hands:
    """Every client has all others' records, and the canary where it holds it."""

    others: int
    held: dict[int, bool]
    disjoint = True

    def of(self, clients: Numbers) -> Numbers:
        """One client's."""
        return np.arange(self.others + self.held[int(clients[0])])[None]


class _Frozen:
    """Gradients that are the records themselves."""

    dimension, classes, shape = DIMENSION, 2, (DIMENSION,)

    def each(self, weights: Rows, x: Rows, y: Numbers, out: Rows) -> None:
        """A row a record."""
        out[...] = x


def _pool(rows: Rows) -> Pool:
    labels = np.zeros(len(rows), np.int64)
    return Pool(rows, labels, rows[:0], labels[:0], 2, 1.0, 0.0)


def _honest(study: Study) -> Study:
    """The study without those who would change records: the promise is to all of them."""
    clients = replace(study.clients, byzantine=0)
    return replace(study, clients=clients, attack=None, corruption=None)
