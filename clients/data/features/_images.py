"""Records as images that features are made of: every layout brought to (records, channels, height, width)."""

from __future__ import annotations

import numpy as np

from fedpriv._base.arrays import Rows
from fedpriv.errors import FedprivError


def images_of(records: Rows, needs: str) -> Rows:
    """Grey or coloured records as images (records, channels, height, width), in one piece; flat ones are refused.

    Colours may come first or last. `needs` is the kind of features that asks, for the error.

    >>> images_of(np.zeros((5, 8, 6, 3), np.float32), "Histograms").shape
    (5, 3, 8, 6)
    """
    match records.shape[1:]:
        case (_, _):
            found = records[:, None]
        case (1 | 3, _, _):
            found = records
        case (_, _, 1 | 3):
            found = np.moveaxis(records, 3, 1)
        case shape:
            raise FedprivError(
                f"{needs} are of images, (height, width) with 1 or 3 channels first or last, and these records have "
                f"the shape {shape}: leave features out, or bring the records to their height and width"
            )
    return np.ascontiguousarray(found, np.float32)
