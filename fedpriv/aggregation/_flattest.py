"""Subsets of least largest eigenvalue: which points vary least in the direction in which they vary most."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.aggregation._cloud import Places

_BATCH = 64  # subsets whose eigenvalues are found at once, and before any can be left out
_ROUNDING = 1e-9  # of a bound from below


def flattest_subset(products: Vector, byzantine: int) -> Places:
    """Smea's choice: the places of n − f points whose scatter, n − f times their covariance, is flattest.

    No subset varies more along any direction than its largest eigenvalue says: each direction found is a bound from
    below for all, and who lies above the best that is known needs no eigenvalue of its own.
    """
    subsets = _all_subsets(len(products), byzantine)
    bounds, best, kept, batch = np.zeros(len(subsets)), np.inf, subsets[0], _BATCH
    while bounds.min() < best:
        now = np.argsort(bounds, kind="stable")[:batch]
        parts = np.array_split(subsets[now], -(-batch // _BATCH))
        values = np.concatenate([np.linalg.eigvalsh(_centred(products, each))[:, -1] for each in parts])
        own, found = subsets[now[np.argmin(values)]], float(values.min())
        if found < best:
            best, kept = found, own
        sizes, vectors = np.linalg.eigh(_centred(products, own))
        along = products[:, own] @ (vectors[:, -1] - vectors[:, -1].mean())
        direction = (along / np.sqrt(max(float(sizes[-1]), np.finfo(float).tiny)))[subsets]
        bounds = np.maximum(bounds, direction.var(axis=1) * direction.shape[1] * (1 - _ROUNDING))
        bounds[now] = np.inf
        batch *= 2
    return np.asarray(kept)


def _all_subsets(rows: int, byzantine: int) -> Places:
    """The places of every n − f of so many messages, a row each, in the order of those that are left out: for Smea."""
    left_out = np.array(list(combinations(range(rows), byzantine)), np.intp)
    kept = np.ones((len(left_out), rows), bool)
    np.put_along_axis(kept, left_out, False, axis=1)
    return np.nonzero(kept)[1].reshape(len(kept), rows - byzantine)


def _centred(products: Vector, subsets: Places) -> Vector:
    """Inner products of the points of each subset about its own mean: their eigenvalues are those of its scatter."""
    own = products[subsets[..., :, None], subsets[..., None, :]]
    own = own - own.mean(axis=-1, keepdims=True)
    return np.asarray(own - own.mean(axis=-2, keepdims=True))


def search_products(rows: int, byzantine: int) -> int:
    """What Smea's search comes to at most: C(n, f) subsets, and (n − f)³ for the eigenvalues of each."""
    return comb(rows, byzantine) * (rows - byzantine) ** 3
