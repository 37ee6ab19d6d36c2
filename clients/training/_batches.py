"""Which of its own records a client uses in a step, and with how many it is computed where clients are uneven.

Products are batched over clients of one width. A client with fewer records is filled up with its own first one, of
weight zero, to a width that depends on it alone: so its bits do not depend on whose neighbour it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from clients.data.counter_hash import by_blocks, hashed_words
from clients.data.pool import Pool
from clients.data.splits import Division, Uneven, checked_clients, key_of
from clients.models.memory import Scratch
from clients.training.corrupting import Corrupting
from fedpriv._base.arrays import Numbers, Rows, Words
from fedpriv.errors import FedprivError, natural, whole
from fedpriv.randomness.streams import stream

_ALL = np.uint64(2**64 - 1)
_WIDTHS = np.sort(np.concatenate([1 << np.arange(48), 3 << np.arange(48)]))  # 1, 2, 3, 4, 6, 8, 12, …


def records_of_steps(
    division: Division, batch: int, steps: int, seed: int, round: int, clients: Numbers
) -> Iterator[Numbers]:
    """The record numbers of a cohort's local steps, each (clients, records); uneven clients must be of one width."""
    if isinstance(division, Uneven):
        sizes = division.sizes(clients)
        for step in range(steps):
            yield division.of(clients, drawn_unevenly(sizes, batch, seed, round, clients, step))
        return
    own = division.of(clients)
    each = division.records_each
    for step in range(steps):
        some = 0 < batch < each
        yield np.take_along_axis(own, drawn(each, batch, seed, round, clients, step), axis=1) if some else own


def read(
    numbers: Iterable[Numbers], pool: Pool, corrupting: Corrupting, scratch: Scratch
) -> Iterator[tuple[Rows, Numbers]]:
    """A cohort's batches: the pool's records of those numbers and labels, step by step, corrupted where struck.

    They are in scratch, or stand in the pool: a step's are gone when the next one's are asked for.
    """
    for chosen in numbers:
        x, y = pool.batch(chosen, scratch("x", *chosen.shape, *pool.shape).numpy())
        yield corrupting.data(x, y, chosen)


def used(sizes: Numbers, batch: int) -> Numbers:
    """How many of its records a client uses in a step: its batch, or all where that is 0 or more than it has.

    >>> used(np.array([5, 10, 40]), batch=10)
    array([ 5, 10, 10])
    """
    natural(batch=batch)
    return np.minimum(sizes, batch) if batch else sizes


def widths(sizes: Numbers, batch: int) -> Numbers:
    """With how many records an uneven client is computed: those used, filled up to a power of two, or one and a half.

    Few widths keep products large: with each its own, 100 clients of 1 to 120 records took ten times as long.

    >>> widths(np.array([5, 10, 40]), batch=0)
    array([ 6, 12, 48])
    >>> widths(np.array([5, 10, 40]), batch=10)
    array([ 6, 10, 10])
    """
    return used(_WIDTHS[np.searchsorted(_WIDTHS, used(sizes, batch))], batch)


def drawn(records_each: int, batch: int, seed: int, round: int, clients: Numbers, step: int = 0) -> Numbers:
    """Which of its own records each client uses in a step: (clients, batch) places from 0 to records_each − 1.

    A sample without replacement, in rising order; a batch of 0, or of records_each and more, is all of them.

    >>> drawn(records_each=10, batch=3, seed=1, round=1, clients=np.array([7, 8])).tolist()
    [[1, 3, 9], [1, 4, 5]]
    """
    whole(records_each=records_each)
    natural(batch=batch, step=step)
    asked = checked_clients(clients, None)
    if batch == 0 or batch >= records_each:
        return np.tile(np.arange(records_each, dtype=np.int64), (len(asked), 1))
    key = key_of(stream(seed, "batch", round=round, client=step))
    out = np.empty((len(asked), batch), np.int64)
    low = np.uint64((1 << (records_each - 1).bit_length()) - 1)
    for rows in by_blocks(len(asked), records_each):
        out[rows] = _sampled(hashed_words(key, asked[rows], records_each), low, batch)
    return out


def drawn_unevenly(sizes: Numbers, batch: int, seed: int, round: int, clients: Numbers, step: int = 0) -> Numbers:
    """Which of its own records each client uses in a step, where clients are of these sizes: rows end in zeros.

    A row is as long as the largest width; its first places, in rising order, are a sample as `drawn` takes it.

    >>> drawn_unevenly(np.array([10, 10, 2]), batch=3, seed=1, round=1, clients=np.array([7, 8, 9])).tolist()
    [[1, 3, 9], [1, 4, 5], [0, 1, 0]]
    """
    asked = checked_clients(clients, None)
    if sizes.shape != asked.shape or not (sizes > 0).all():
        raise FedprivError(f"sizes must be at least 1, one for each of {len(asked)} clients, got {sizes}")
    counts = used(sizes, batch)
    place = np.arange(widths(sizes, batch).max(initial=0))
    out = np.where(place < counts[:, None], place, 0)
    some = np.flatnonzero(counts < sizes)
    if not some.size:
        return out
    key = key_of(stream(seed, "batch", round=round, client=step))
    for width in np.unique(wide := widths(sizes[some], 0)).tolist():
        rows = some[wide == width]
        for block in by_blocks(len(rows), width):
            chosen = rows[block]
            own = sizes[chosen, None]
            words = hashed_words(key, asked[chosen], width)
            words[np.arange(width) >= own] = _ALL  # the largest: nobody's choice
            low = ((np.int64(1) << np.frexp(own - 1)[1]) - 1).astype(np.uint64)
            out[chosen] = _sampled(words, low, batch)
    return out


def _sampled(words: Words, low: Words | np.uint64, batch: int) -> Words:
    """A client's batch as places of its row's smallest words: (clients, batch); `low` covers the bits of a place."""
    words &= ~low
    words |= np.arange(words.shape[1], dtype=np.uint64)  # no two of a row are alike: the order is nobody's choice
    words.partition(batch - 1, axis=1)
    return np.sort(words[:, :batch] & low, axis=1)
