"""Rows of features: made block by block on all cores, or read from files, and every one of them checked."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from clients.data.features import Cached, Features
from clients.data.features._drawn import drawn_shapes
from clients.data.features._normalised import normalised
from clients.data.pool import Pool, Stored, scaled_features
from fedpriv._base.arrays import Rows
from fedpriv._base.one_thread import one_thread, usable_cores
from fedpriv.errors import FAULTS, FedprivError, reason

AT_ONCE = 256  # records: a block of a thread
PROBED = 64  # records by which features are looked at, whether one's depend on others
AGAIN = 32  # records whose features are made again when all are made, each alone
SHAPES = 32  # drawn images at a time
SLACK = 1e-4  # of the largest feature: how far floats may be off where other records stand beside one
SHOWN = 0.5  # seconds between two words on a terminal


def rows_of_pool(pool: Pool, own: Features) -> Rows:
    """The features of all of a pool's records, those held out behind the others, each checked and normalised."""
    total = len(pool) + len(pool.x_test)
    if isinstance(own.made, Cached):
        stored = own.made.rows_of(len(pool), len(pool.x_test))
        return filled_rows(lambda start, end: checked_rows(own, stored[start:end], start), total, AT_ONCE, 1)
    if not total:  # a node without records, whose model has a shape all the same
        return made_block(own, np.zeros((1, *pool.shape), np.float32), 0)[:0]
    blank = np.zeros((1, *pool.shape), np.float32)
    if ":" not in own.table.kind and not np.isfinite(given_rows(own, blank)).all():
        raise FedprivError(f"{own.table.kind} gives even a record of zeros what is not finite: see to its settings")
    make = partial(made_block, own, centre=public_centre(own, pool.shape) if own.beside.centre else None)
    tried = own.own_class is not None and not own.beside.public
    if tried:
        check_alone(own, make, records_between(pool, 0, PROBED))
    workers = usable_cores() if own.own_class is None else 1  # one's own may not bear threads
    step = total if own.beside.public else AT_ONCE
    found = filled_rows(lambda start, end: make(records_between(pool, start, end), start), total, step, workers)
    places = np.linspace(0, total - 1, min(AGAIN, total) if tried else 0, dtype=int)
    for at in places:  # of one's own that remembers, the first records do not tell
        check_same(own, found[at : at + 1], make(records_between(pool, at, at + 1), at), np.abs(found[places]).max())
    return found


def filled_rows(block: Callable[[int, int], Rows], total: int, step: int, workers: int) -> Rows:
    """All rows of features, from what makes those of the records from one number up to another; all of one shape."""
    first = block(0, step)
    out = np.empty((total, *first.shape[1:]), np.float32)

    def fill(start: int) -> None:
        """Put one block in its place; refused where it is of another shape than the first."""
        made = block(start, start + step) if start else first
        if made.shape[1:] != first.shape[1:]:
            shapes = f"{made.shape[1:]}, where those of record 0 have {first.shape[1:]}"
            raise FedprivError(f"features of record {start}, those held out counted on, have the shape {shapes}")
        out[start : start + step] = made

    with one_thread(), ThreadPoolExecutor(workers) as threads:
        show_progress(threads.map(fill, range(0, total, step)), total, step)
    return out


def records_between(pool: Pool, start: int, end: int) -> Rows:
    """A pool's records of those numbers as a model would see them, where those held out follow the others."""
    own, held = pool.x[start:end], pool.x_test[max(0, start - len(pool)) : max(0, end - len(pool))]
    seen = scaled_features(np.asarray(own), pool.divide, pool.subtract)
    return seen if not len(held) else np.concatenate([seen, held])


def made_block(own: Features, records: Rows, first: int, centre: Rows | None = None) -> Rows:
    """A block's features, checked and normalised; a centre is taken off between, and they are normalised again."""
    rows = checked_rows(own, given_rows(own, records), first)
    return rows if centre is None else normalised(rows - centre, own.beside)


def given_rows(own: Features, records: Rows) -> Stored:
    """What a kind gives for records, unchecked but for how many; whatever somebody's own class raises is one line."""
    kind = own.table.kind
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.asarray(own.made(records))
    except FAULTS as error:
        if own.own_class is None or isinstance(error, FedprivError):
            raise
        raise FedprivError(f"{kind}: {reason(error)}") from error
    if found.ndim < 1 or len(found) != len(records):
        raise FedprivError(f"{kind} must give a row for each of {len(records)} records, got the shape {found.shape}")
    return found


def public_centre(own: Features, shape: tuple[int, ...]) -> Rows:
    """The mean of a study's features over drawn shapes in the place of records of this shape: a constant all know.

    >>> from clients.data.features import features_of
    >>> public_centre(features_of({"kind": "Histograms", "cells": [4]}), (8, 8)).shape
    (108,)
    """
    drawn = drawn_shapes(shape)
    step = len(drawn) if own.beside.public else SHAPES
    total = sum(
        row.astype(np.float64)
        for start in range(0, len(drawn), step)
        for row in made_block(own, drawn[start : start + step], start)
    )
    return np.asarray(total / len(drawn), np.float32)


def checked_rows(own: Features, found: Stored, first: int) -> Rows:
    """A block's features as float32, normalised; refused where they are no numbers, or not finite.

    Of a kind that ships a record whose features are not finite has zeros: a refusal would tell of that record.
    """
    kind = own.table.kind
    if found.dtype.kind not in "fiub" or found.ndim < 2 or 0 in found.shape[1:]:
        raise FedprivError(f"{kind} must give rows of real numbers, got {found.dtype} of shape {found.shape}")
    with np.errstate(over="ignore"):
        rows = found.astype(np.float32)
    finite = np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)
    if ":" not in kind and kind != "Cached":
        rows[~finite] = 0
    elif not finite.all():
        raise FedprivError(f"{kind} gives record {first + int(np.argmin(finite))} what is not finite")
    return normalised(rows, own.beside)


def check_alone(own: Features, make: Callable[[Rows, int], Rows], records: Rows) -> None:
    """Refuse features that are others where other records stand beside one: they tell of those, whatever ε says.

    Looked at are some records, alone, by halves and the other way round: no proof, which is their author's.
    """
    whole, half = make(records, 0), max(1, len(records) // 2)
    parts = (whole[:half], records[:half]), (whole[:1], records[:1]), (whole[::-1], records[::-1].copy())
    for before, some in parts:
        check_same(own, before, make(some, 0), np.abs(before).max())


def check_same(own: Features, before: Rows, now: Rows, most: float) -> None:
    """Refuse features of the same records that are others now, by more than floats explain of numbers up to `most`."""
    if before.shape != now.shape or not np.abs(before - now).max() <= SLACK * most:
        also = ", or say public = true, where these records, or what it takes of them, are public"
        raise FedprivError(
            f"{own.table.kind} gives a record other features beside other records: it must look at each alone"
            f"{also if ':' in own.table.kind else ''}"
        )


def show_progress(done: Iterable[None], total: int, step: int) -> None:
    """Wait until all blocks are made, and say on a terminal how many records have their features."""
    told, live, shown = time.monotonic(), sys.stderr.isatty(), False
    for count, _ in enumerate(done, 1):
        if live and time.monotonic() - told > SHOWN:
            told, shown = time.monotonic(), True
            print(f"\rfeatures of {min(total, count * step):,} of {total:,} records", end="", file=sys.stderr)
            sys.stderr.flush()
    if shown:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
