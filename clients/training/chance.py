"""Batches that a record is in by chance: who is drawn, and the records of each step with what fills their rows up.

Who was drawn is what hides a record, so a deployed client draws from the operating system, as it does its noise. All
that a client computes is a function of those who were drawn: what fills a row up is no record, but zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

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


@dataclass(frozen=True, eq=False)
class Drawn:
    """Which of its records each client uses in each step: True at the places of those that are drawn."""

    clients: Numbers
    mask: Mask  # (steps, clients, places)
    counts: Numbers  # how many they are, (steps, clients)

    @property
    def widths(self) -> Numbers:
        """With how many records a client is computed, in all its steps; 0 for one whose every batch is empty."""
        most = self.counts.max(axis=0)
        return np.where(most > 0, widths(most, 0), 0)

    def only(self, rows: Numbers) -> Drawn:
        """Some of the clients."""
        return Drawn(self.clients[rows], self.mask[:, rows], self.counts[:, rows])

    def records(self, division: Division, width: int) -> Iterator[Numbers]:
        """The numbers of each step's records, (clients, width): the drawn ones first, then any others."""
        for mask in self.mask:
            places = np.argsort(~mask, axis=1, kind="stable")[:, :width]
            if isinstance(division, Uneven):
                own = np.minimum(places, division.sizes(self.clients)[:, None] - 1)
                yield division.of(self.clients, own)
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
    q, steps = study.training.sampling, study.training.local_steps
    if q is None:
        raise FedprivError("training.sampling: this study's batches are not drawn by chance")
    sizes = sizes_in(division, clients)
    shape = (len(clients), int(sizes.max(initial=0)))
    rng = cryptographic_generator() if source == "cryptographic" else None
    mask = np.empty((steps, *shape), np.bool_)
    for step in range(steps):
        if rng is not None:
            mask[step] = bernoulli(np.full(shape, q), rng)
        else:
            mask[step] = _seeded(q, key_of(stream(study.run.seed, "drawn", round, client=step)), clients, shape[1])
    mask &= np.arange(shape[1]) < sizes[:, None]
    return Drawn(clients, mask, mask.sum(axis=2))


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
