"""Features that somebody has made already: the activations of any network, as .npy files beside a study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from clients.data.reading import mapped_array
from fedpriv._base.arrays import Rows
from fedpriv.errors import FedprivError
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class Cached:
    """A directory's x.npy, a row for each record to train on, and x_test.npy, one for each held out, in their order."""

    path: Annotated[str, "the directory; whoever made the features saw no records that ε is to hold for"]

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.path, str) or not self.path or "\0" in self.path:
            raise FedprivError(f"path must name a directory, got {self.path!r}")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a study's features come from, which its run's data identity has the digest of."""
        folder = Path(self.path).expanduser().absolute()
        held = folder / "x_test.npy"
        return (folder / "x.npy", held) if held.exists() else (folder / "x.npy",)

    def rows_of(self, records: int, held_out: int) -> Rows:
        """The features of a study's records, those held out behind them; refused where the files are of others."""
        parts = [mapped_rows(file) for file in self.files]
        counts = [records, held_out] if len(parts) == 2 else [records + held_out]
        if not held_out:  # a node's own records, of which none is held out
            parts, counts = parts[:1], [records]
        for file, part, count in zip(self.files, parts, counts, strict=False):
            if len(part) != count:
                raise FedprivError(f"{file}: {len(part):,} rows, where the data have {count:,} records")
            if part.shape[1:] != parts[0].shape[1:]:
                raise FedprivError(
                    f"{file}: features of shape {part.shape[1:]}, those of x.npy have {parts[0].shape[1:]}"
                )
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def mapped_rows(file: Path) -> Rows:
    """A file of features, mapped, as it is; refused where it is no array of rows."""
    found = mapped_array(file)
    if found.ndim < 2 or found.dtype.kind not in "fiub" or 0 in found.shape[1:]:
        raise FedprivError(f"{file}: must hold a row of real numbers for each record, got {found.dtype} {found.shape}")
    return found
