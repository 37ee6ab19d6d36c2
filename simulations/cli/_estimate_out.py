"""The file that `fedpriv estimate --out` writes: where it may be, checked before anything is spent; then the mean."""

from __future__ import annotations

import csv
import io
import os
import sys
from pathlib import Path

import numpy as np

from fedpriv._base import files
from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError


def target_of(out: str | None, data: str) -> Path | None:
    """The file that `fedpriv estimate --out` will write, refused where it cannot be, before any ε is spent."""
    if out is None:
        return None
    target = Path(out)
    if target.suffix.lower() not in (".npy", ".csv"):
        raise FedprivError(f"--out {out}: the name must end in .npy or .csv")
    if not target.parent.is_dir():
        raise FedprivError(f"--out {out}: there is no directory {target.parent} to write it in")
    if target.is_dir():
        raise FedprivError(f"--out {out}: is a directory")
    if target.exists() and Path(data).exists() and target.samefile(data):
        raise FedprivError(f"--out {out}: is the file of the records, which would be lost")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise FedprivError(f"--out {out}: cannot be written")
    return target


def written_to(target: Path, mean: Vector, names: list[str] | None) -> bool:
    """Write the estimated mean to --out's .npy or .csv, below the columns' names; whether that could be done."""
    content = io.BytesIO()
    if target.suffix.lower() == ".csv":
        text = io.TextIOWrapper(content, "utf-8", newline="", write_through=True)
        rows = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        rows.writerows([*([names] if names else []), [float(value) for value in mean]])
    else:
        np.save(content, np.asarray(mean))
    try:
        files.replace_file(target, content.getvalue(), mode=0o644)
    except OSError as error:  # what was spent was spent for a mean: it must not be lost
        print(f"fedpriv: --out {target}: {error.strerror or error}; the mean is below", file=sys.stderr)
        return False
    return True
