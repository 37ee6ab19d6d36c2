"""A pool of features from a pool of records: kept on this machine's disk by the digest of what they are made of."""

from __future__ import annotations

import platform
import secrets
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clients.data.features import Features, features_of
from clients.data.features._kept import digest_of_file, kept_rows
from clients.data.features._rows import rows_of_pool
from clients.data.identity import data_digest
from clients.data.pool import Pool
from clients.data.reading import Stamp, files_stamp
from fedpriv._base.arrays import Rows
from fedpriv._base.digests import object_digest
from fedpriv._base.syntax import code_digest
from fedpriv.errors import FedprivError

LIBRARIES = ("numpy", "scipy", "numba", "torch")
PLACES = {"Cached": "path", "Pretrained": "weights"}  # settings that say where files lie, whose digest is said


def featured_pool(pool: Pool, own: Features) -> Pool:
    """The pool of a study's features, from the pool of its records: found on this machine's disk, or made and kept.

    >>> from clients.data import Digits
    >>> from clients.data.features import features_of
    >>> pool = featured_pool(Digits().load(), features_of({"kind": "Histograms", "cells": [2, 4]}))
    >>> pool.shape, pool.x_test.shape, pool.features["of"]
    ((540,), (360, 540), [8, 8])
    """
    try:
        return pool_made_once(pool, own, files_stamp(own.files))
    except FedprivError as error:
        raise FedprivError(f"features: {error}") from None


@lru_cache(maxsize=4)
def pool_made_once(pool: Pool, own: Features, stamp: Stamp) -> Pool:
    """What `featured_pool` gives, kept in this process while the features' files stay as they are."""
    about = told_of_features(pool, own)
    digest = data_digest(pool)

    def make() -> Rows:
        """The rows, by an object that has read no file before; refused where the files changed meanwhile."""
        rows = rows_of_pool(pool, features_of(own.table.table()))
        if told_of_features(pool, own) != about:
            raise FedprivError("the files that they come from changed while they were made: begin again")
        return rows

    if about.get("code") is None:
        rows = make()
        about["code"] = f"unknown {secrets.token_hex(6)}"  # no run goes on with it
    else:
        facts = digest, about, pool.divide, pool.subtract, platform.machine(), code_digest([Path(__file__).parent])
        words = repr((facts, [(name, version(name)) for name in LIBRARIES]))
        rows = kept_rows(blake2b(words.encode(), digest_size=16).hexdigest(), make, len(pool) + len(pool.x_test))
    x, x_test = rows[: len(pool)], rows[len(pool) :]
    found = replace(pool, x=x, x_test=x_test, divide=1.0, subtract=0.0, held=None, features=about)
    found.known["sha256"] = digest
    return found


def told_of_features(pool: Pool, own: Features) -> dict[str, Any]:
    """What a run's data identity says of its features: the settings, of records of what shape, digests of code, files.

    The code is that of whoever wrote a class of their own, "fedpriv" where none has a part; None: nothing tells it.
    """
    found = own.table.table() | {"of": list(pool.shape)}
    found.pop(PLACES.get(own.table.kind, ""), None)
    if own.files:
        found["files"] = [digest_of_file(file) for file in own.files]
    return found | {"code": "fedpriv" if own.own_class is None else object_digest(own.own_class)}
