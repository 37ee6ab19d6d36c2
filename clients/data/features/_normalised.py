"""Features brought to one scale within each record: no statistic of the data has a part in it."""

from __future__ import annotations

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
    if beside.normalise == "none":
        return rows
    width, count = int(np.prod(rows.shape[1:])), beside.groups
    if width % count:
        raise FedprivError(f"groups = {count} do not divide the {width:,} features of a record evenly")
    groups = rows.reshape(len(rows), count, -1).astype(np.float64)
    if beside.normalise == "group":
        groups -= groups.mean(axis=2, keepdims=True)
    length = np.sqrt(np.square(groups).sum(axis=2, keepdims=True) * count) / beside.norm
    scaled = np.divide(groups, length, out=np.zeros_like(groups), where=length > 0)
    return np.asarray(scaled.reshape(rows.shape), np.float32)
