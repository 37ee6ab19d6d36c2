"""Features brought to one scale within each record: no statistic of the data has a part in it."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from clients.data.features import BesideFeatures
from fedpriv._base.arrays import Rows
from fedpriv.errors import FedprivError


def normalised(rows: Rows, beside: BesideFeatures) -> Rows:
    """Features of records, normalised as a study says, each record by itself: at its norm, or groups at mean 0 before.

    A record all of whose features are 0 stays so, and a group of features that are equal becomes 0.

    >>> normalised(np.float32([[3, 4]]), BesideFeatures()).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    match beside.normalise:
        case "none":
            return rows
        case "record":
            groups = rows.reshape(len(rows), 1, -1).astype(np.float64)
        case "group":
            width = int(np.prod(rows.shape[1:]))
            if width % beside.groups:
                raise FedprivError(f"groups = {beside.groups} do not divide the {width:,} features of a record evenly")
            groups = rows.reshape(len(rows), beside.groups, -1).astype(np.float64)
            groups -= groups.mean(axis=2, keepdims=True)
        case never:
            assert_never(never)
    length = np.sqrt(np.square(groups).sum(axis=2, keepdims=True) * groups.shape[1]) / beside.norm
    np.divide(groups, length, out=groups, where=length > 0)
    groups[np.broadcast_to(length == 0, groups.shape)] = 0
    return np.asarray(groups.reshape(rows.shape), np.float32)
