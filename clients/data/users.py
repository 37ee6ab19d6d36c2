"""Whose records are: what data say of it, as numbers; and who of a data set's users a study leaves out."""

from __future__ import annotations

import numpy as np

from clients.data.pool import Stored
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError


def numbered_users(ids: Stored, records: int, name: str, rows: Numbers | slice = slice(None)) -> Numbers:
    """Ids of whose each record is as client numbers from 0 on, in the ids' order; of some rows, once all are checked.

    >>> numbered_users(np.array(["eve", "bob", "eve", "ann"]), 4, "users.npy", slice(3)).tolist()
    [1, 0, 1]
    """
    if ids.dtype == object and all(isinstance(each, str) for each in ids.flat):
        ids = ids.astype(str)
    if ids.shape != (records,) or ids.dtype.kind not in "iuUSb":
        raise FedprivError(
            f"{name}: ids are whole numbers or words, one for each of {records:,} records, got {ids.dtype} of "
            f"shape {ids.shape}"
        )
    found: Numbers = np.unique(ids[rows], return_inverse=True)[1].astype(np.int64)
    return found


def users_left_out(owners: Numbers, least: int, clients: int) -> str | None:
    """Who of a data set's users is no client of a study, in words for its run's header; None where all are clients.

    >>> users_left_out(np.array([0, 0, 1, 2, 2, 3, 3]), least=2, clients=2)
    '1 of 4 users, with fewer than 2 records; 1 of the 3 others, by lot'
    """
    sizes = np.bincount(owners)
    users, enough = np.count_nonzero(sizes), np.count_nonzero(sizes >= least)
    parts = [f"{users - enough:,} of {users:,} users, with fewer than {least:,} records"] if enough < users else []
    rest = f"the {enough:,} others" if parts else f"{users:,} users"
    parts += [f"{enough - clients:,} of {rest}, by lot"] if clients < enough else []
    return "; ".join(parts) or None
