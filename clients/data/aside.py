"""Training records set aside for the server, to choose settings and to trust by: no client's, none of the test's."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from clients.data.features import BesideData
from clients.data.pool import Pool, scaled_features
from clients.data.reading import evenly_by_label
from fedpriv.errors import FedprivError
from fedpriv.registry import Kind

NAMES = ("aside", "measure")  # the settings of a [data] table that are about it


def beside_of(table: Kind) -> BesideData:
    """What a study's [data] table says of records set aside, checked: how many, and whether accuracy is of them.

    >>> beside_of(Kind("Digits", {"aside": 200})).aside, beside_of(Kind("Digits")).measure
    (200, 'held-out')
    """
    found = BesideData(**{name: table.settings[name] for name in NAMES if name in table.settings})
    if found.measure == "aside" and not found.aside:
        raise FedprivError('measure = "aside" needs records set aside: aside = 200 or so')
    return found


def pool_kept(pool: Pool, table: Kind) -> Pool:
    """The pool of a study whose [data] table sets records aside: what is left to train on, and what to measure by.

    >>> from clients.data import Digits
    >>> pool = pool_kept(Digits().load(), Kind("Digits", {"aside": 200, "measure": "aside"}))
    >>> len(pool), len(pool.y_test), len(pool_kept(Digits().load(), Kind("Digits", {"aside": 200})).y_test)
    (1237, 200, 360)
    """
    own = beside_of(table)
    if not own.aside:
        return pool
    if not own.aside < len(pool):
        raise FedprivError(f"aside must be below the {len(pool):,} records there are to train on, got {own.aside:,}")
    return _parted(pool, own.aside, own.measure == "aside")


@lru_cache(maxsize=4)
def _parted(pool: Pool, aside: int, measured: bool) -> Pool:
    """A pool without the records set aside, of every class its share, always the same ones; kept in this process."""
    taken = np.sort(evenly_by_label(np.asarray(pool.y), aside))
    kept = np.delete(np.arange(len(pool)), taken)
    own = replace(pool, x=pool.x[taken], y=pool.y[taken], owners=None)
    owners = None if pool.owners is None else pool.owners[kept]
    left = replace(pool, x=pool.x[kept], y=pool.y[kept], owners=owners, aside=own)
    if not measured:
        return left
    stored = np.asarray(pool.x[taken])
    return replace(left, x_test=scaled_features(stored, pool.divide, pool.subtract), y_test=pool.y[taken], held=stored)
