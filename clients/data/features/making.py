"""Features made of a pool's records: block by block on all cores, checked, normalised, kept on disk by their data."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

import numpy as np

from clients.data.features import Cached, Features
from clients.data.features._drawn import drawn_shapes
from clients.data.features._kept import kept_rows
from clients.data.features._normalised import normalised
from clients.data.identity import Line, data_digest
from clients.data.pool import Pool, Stored, scaled_features
from clients.data.reading import Stamp, files_stamp
from fedpriv._base.arrays import Rows
from fedpriv._base.digests import object_digest
from fedpriv._base.one_thread import one_thread
from fedpriv._base.syntax import code_digest
from fedpriv.errors import FAULTS, FedprivError, reason

AT_ONCE = 256  # records: a block of a thread
PROBED = 64  # records by which features are looked at, whether one's depend on others
SLACK = 1e-4  # of the largest feature: how far floats may be off where other records stand beside one
LIBRARIES = ("numpy", "scipy", "numba", "torch")
PLACES = ("path", "weights")  # settings that say where files lie: what stands in them has a digest


def featured_pool(pool: Pool, own: Features) -> Pool:
    """The pool of a study's features, from the pool of its records: found on this machine's disk, or made and kept.

    >>> from clients.data import Digits
    >>> from clients.data.features import features_of
    >>> pool = featured_pool(Digits().load(), features_of({"kind": "Histograms", "cells": [2, 4]}))
    >>> pool.shape, pool.x_test.shape, pool.features["of"]
    ((540,), (360, 540), [8, 8])
    """
    try:
        return _featured(pool, own, files_stamp(own.files))
    except FedprivError as error:
        raise FedprivError(f"features: {error}") from None


@lru_cache(maxsize=4)
def _featured(pool: Pool, own: Features, stamp: Stamp) -> Pool:
    """What `featured_pool` gives, kept in this process while the features' files stay as they are."""
    table = own.table.table()
    about: Line = {name: value for name, value in table.items() if name not in PLACES} | {"of": list(pool.shape)}
    if own.files:
        about["files"] = [_digest_of(file) for file in own.files]
    code = _code_of(own)
    if code is None:  # nothing tells it from another: no run goes on with it
        rows, about["code"] = made_rows(pool, own), f"unknown {secrets.token_hex(6)}"
    else:
        facts = about, pool.divide, pool.subtract, platform.machine(), [(name, version(name)) for name in LIBRARIES]
        words = repr((data_digest(pool), facts, code, code_digest([Path(__file__).parent])))
        rows = kept_rows(blake2b(words.encode(), digest_size=16).hexdigest(), lambda: made_rows(pool, own))
        about |= {"code": code} if code else {}
    x, x_test = rows[: len(pool)], rows[len(pool) :]
    found = replace(pool, x=x, x_test=x_test, divide=1.0, subtract=0.0, held=None, features=about)
    found.known["sha256"] = data_digest(pool)
    return found


def _code_of(own: Features) -> str | None:
    """A digest of the code of one's own that makes features, "" where none has a part; None where nothing tells it."""
    named = type(own.made) if ":" in own.table.kind else getattr(own.made, "made_by", None)
    return "" if named is None else object_digest(named)


def _digest_of(file: Path) -> str:
    """SHA-256 of a file that features come from, in hexadecimal, by which it is known again."""
    try:
        with open(file, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise FedprivError(f"{file}: cannot be read ({error.strerror})") from None


def made_rows(pool: Pool, own: Features) -> Rows:
    """The features of all of a pool's records, those held out behind the others, made on all cores and checked."""
    total = len(pool) + len(pool.x_test)
    step = max(total, 1) if own.beside.public else AT_ONCE
    starts = range(0, total, step)
    stored = own.made.rows_of(len(pool), len(pool.x_test)) if isinstance(own.made, Cached) else None
    if stored is None and not total:  # a node without records, whose model has a shape all the same
        return _made(own, np.zeros((1, *pool.shape), np.float32), 0)[:0]

    def block(start: int) -> Rows:
        """The features of the records from one number on, as many as are made at once."""
        if stored is not None:
            return _checked(own, stored[start : start + step], start)
        return _made(own, _records(pool, start, start + step), start)

    first = block(0)
    if ":" in own.table.kind and not own.beside.public:
        _check_alone(own, _records(pool, 0, PROBED))
    out = np.empty((total, *first.shape[1:]), np.float32)

    def fill(start: int) -> None:
        """Make one block of features and put it in its place; refused where it is of another shape than the first."""
        made = block(start) if start else first
        if made.shape[1:] != first.shape[1:]:
            where = "held-out record" if start >= len(pool) else "record"
            raise FedprivError(
                f"{own.table.kind} gives {where} {start} features of shape {made.shape[1:]}, record 0 {first.shape[1:]}"
            )
        out[start : start + step] = made

    workers = 1 if ":" in own.table.kind else len(os.sched_getaffinity(0))  # one's own may not bear threads
    with one_thread(), ThreadPoolExecutor(workers) as threads:
        _watched(threads.map(fill, starts), total, step)
    return out


def _records(pool: Pool, start: int, end: int) -> Rows:
    """A pool's records of those numbers as a model would see them, where those held out follow the others."""
    own, held = pool.x[start:end], pool.x_test[max(0, start - len(pool)) : max(0, end - len(pool))]
    seen = scaled_features(np.asarray(own), pool.divide, pool.subtract)
    return seen if not len(held) else np.concatenate([seen, held])


def _made(own: Features, records: Rows, first: int) -> Rows:
    """A block's features as float32, normalised; whatever somebody's own class raises, or gives, is one line."""
    kind = own.table.kind
    try:
        found = np.asarray(own.made(records))
    except FedprivError:
        raise
    except FAULTS as error:
        if ":" not in kind:
            raise
        raise FedprivError(f"{kind}: {reason(error)}") from error
    if found.ndim < 1 or len(found) != len(records):
        raise FedprivError(f"{kind} must give a row for each of {len(records)} records, got the shape {found.shape}")
    rows = _checked(own, found, first)
    return normalised(rows - public_centre(own, records.shape[1:]), own.beside) if own.beside.centre else rows


@lru_cache(maxsize=4)
def public_centre(own: Features, shape: tuple[int, ...]) -> Rows:
    """The mean of a study's features over drawn shapes instead of records of this shape: a constant that all know.

    >>> public_centre(features_of({"kind": "Histograms", "cells": [4]}), (8, 8)).shape
    (108,)
    """
    found = np.asarray(own.made(drawn_shapes(shape)))
    return np.asarray(_checked(own, found, 0).mean(axis=0, dtype=np.float64), np.float32)


def _checked(own: Features, found: Stored, first: int) -> Rows:
    """A block of features as float32, normalised; refused where they are no numbers, or not finite."""
    kind = own.table.kind
    if found.dtype.kind not in "fiub" or found.ndim < 2 or 0 in found.shape[1:]:
        raise FedprivError(f"{kind} must give rows of real numbers, got {found.dtype} of shape {found.shape}")
    with np.errstate(over="ignore"):
        rows = found.astype(np.float32)
    if not (finite := np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)).all():
        raise FedprivError(f"{kind} gives record {first + int(np.argmin(finite))} what is not finite")
    return normalised(rows, own.beside)


def _check_alone(own: Features, records: Rows) -> None:
    """Refuse features that are others where other records stand beside one: they tell of those, whatever ε says.

    Looked at are some records, alone, by halves and the other way round: no proof, which is their author's.
    """
    whole, half = _made(own, records, 0), max(1, len(records) // 2)
    parts = (whole[:half], records[:half]), (whole[:1], records[:1]), (whole[::-1], records[::-1].copy())
    for before, some in parts:
        now = _made(own, some, 0)
        if before.shape != now.shape or not np.abs(before - now).max() <= SLACK * np.abs(before).max():
            raise FedprivError(
                f"{own.table.kind} gives a record other features beside other records: it must look at each "
                "alone, or say public = true, where these records, or what it takes of them, are public"
            )


def _watched(done: Iterator[None], total: int, step: int) -> None:
    """Wait until all blocks are made, and say on a terminal how many records have their features."""
    told, live = time.monotonic(), sys.stderr.isatty()
    shown = False
    for count, _ in enumerate(done, 1):
        if live and time.monotonic() - told > 0.5:
            told, shown = time.monotonic(), True
            print(
                f"\rfeatures of {min(total, count * step):,} of {total:,} records", end="", file=sys.stderr, flush=True
            )
    if shown:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
