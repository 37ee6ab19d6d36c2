"""Batches that a record is in by chance: who is drawn, and the records of each step with what fills their rows up.

Who was drawn is what hides a record, so a deployed client draws from the operating system, as it does its noise. All
that a client computes is a function of those who were drawn: what fills a row up is no record, but zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clients.data.counter_hash import hashed_words
from clients.data.splits import Division, Uneven, key_of
from clients.training._batches import widths
from fedpriv._base.arrays import Numbers, Rows
from fedpriv.errors import FedprivError
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.exact import bernoulli
from fedpriv.randomness.streams import stream
from fedpriv.studies.study import Study
from fedpriv.studies.tables import Noise

Mask = NDArray[np.bool_]
_WORD = 1 << 64


class Step(NamedTuple):
    """The records drawn in one step: client after client, those of a client in rising order."""

    rows: Numbers  # whose they are, among the clients
    places: Numbers  # where they stand, from 0, in what each has


@dataclass(frozen=True, eq=False)
class Drawn:
    """Which of its records each client uses in each step."""

    clients: Numbers
    steps: tuple[Step, ...]
    counts: Numbers  # how many each client has drawn, (steps, clients)

    @property
    def widths(self) -> Numbers:
        """With how many records a client is computed, in all its steps; 0 for one whose every batch is empty."""
        most = self.counts.max(axis=0)
        return np.where(most > 0, widths(most, 0), 0)

    def only(self, rows: Numbers) -> Drawn:
        """What some of the clients have drawn, by their rising rows."""
        own = (np.isin(step.rows, rows) for step in self.steps)
        steps = (
            Step(np.searchsorted(rows, step.rows[kept]), step.places[kept])
            for step, kept in zip(self.steps, own, strict=True)
        )
        return Drawn(self.clients[rows], tuple(steps), self.counts[:, rows])

    def drew(self, place: int) -> Mask:
        """Whether each client has drawn the record at that place, in any of its steps: an audit's canary."""
        found = np.zeros(len(self.clients), np.bool_)
        for step in self.steps:
            found[step.rows[step.places == place]] = True
        return found

    def records(self, division: Division, width: int) -> Iterator[Numbers]:
        """The numbers of each step's records, (clients, width): the drawn ones, then each client's first as filling.

        The width is that of the largest batch, whatever a client has: by its product's bits nobody is told how much.
        """
        for step, counts in zip(self.steps, self.counts, strict=True):
            places = np.zeros((len(self.clients), width), np.int64)
            places[step.rows, np.arange(len(step.rows)) - (np.cumsum(counts) - counts)[step.rows]] = step.places
            if isinstance(division, Uneven):
                yield division.of(self.clients, places)
            else:
                yield np.take_along_axis(division.of(self.clients), places, axis=1)

    def alone(self, batches: Iterator[tuple[Rows, Numbers]]) -> Iterator[tuple[Rows, Numbers]]:
        """Batches in which nothing is left of records that were not drawn: zeros stand in their places."""
        for (x, y), counts in zip(batches, self.counts, strict=True):
            others = np.arange(y.shape[1]) >= counts[:, None]
            x, y = np.array(x), np.array(y)
            x[others], y[others] = 0, 0
            yield x, y


def drawn_by_chance(study: Study, division: Division, source: Noise, round: int, clients: Numbers) -> Drawn:
    """Each record of these clients in each step with the chance `training.sampling`, whatever the others do."""
    q, number = study.training.sampling, study.training.local_steps
    if q is None:
        raise FedprivError("training.sampling: this study's batches are not drawn by chance")
    sizes = sizes_in(division, clients)
    shape = (len(clients), int(sizes.max(initial=0)))
    rng = cryptographic_generator() if source == "cryptographic" else None
    steps, counts = [], np.empty((number, len(clients)), np.int64)
    for step in range(number):
        if rng is not None:
            mask: Mask = bernoulli(np.full(shape, q), rng).astype(np.bool_)
        else:
            mask = _seeded(q, key_of(stream(study.run.seed, "drawn", round, client=step)), clients, shape[1])
        mask &= np.arange(shape[1]) < sizes[:, None]
        steps.append(Step(*np.nonzero(mask)))
        counts[step] = mask.sum(axis=1)
    return Drawn(clients, tuple(steps), counts)


def sizes_in(division: Division, clients: Numbers) -> Numbers:
    """How many records each of these clients has."""
    if isinstance(division, Uneven):
        return division.sizes(clients)
    return np.full(len(clients), division.records_each)


def _seeded(q: float, key: int, clients: Numbers, places: int) -> Mask:
    """Each place of a client with the chance q, by words of its own: a second one decides where the first cannot."""
    whole = Fraction(q) * _WORD
    least, rest = int(whole), int((whole - int(whole)) * _WORD)
    if least == _WORD:
        return np.ones((len(clients), places), np.bool_)
    words = hashed_words(key, clients, 2 * places)  # in pairs, so that a place's do not depend on how many there are
    first, second = words[:, 0::2], words[:, 1::2]
    return np.asarray((first < np.uint64(least)) | ((first == np.uint64(least)) & (second < np.uint64(rest))))
