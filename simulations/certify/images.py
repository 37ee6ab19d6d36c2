"""Images of one's own that a run's network is asked about: arrays or idx files, scaled as the run's own."""

from __future__ import annotations

from pathlib import Path

from clients.data.idx import idx_files, read_idx
from clients.data.pool import Pool, Records, pool_of
from clients.data.reading import mapped_array
from clients.models.arrays import Floats
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError

PAIRS = (("x_test.npy", "y_test.npy"), ("x.npy", "y.npy"))  # what a directory of arrays may hold; the first is taken


def images_in(folder: Path, pool: Pool) -> tuple[Floats, Numbers]:
    """The images and labels in --data's folder to certify, as .npy or idx files, scaled like the run's `pool`."""
    if named := next((pair for pair in PAIRS if (folder / pair[0]).is_file()), None):
        paths = [folder / name for name in named]
        try:
            x, y = map(mapped_array, paths)
        except FedprivError as error:
            raise FedprivError(f"--data: {error}") from None
    elif folder.is_dir():
        files = idx_files(folder)
        paths, x, y = [files.x_test, files.y_test], read_idx(files.x_test, 3), read_idx(files.y_test, 1)
    else:
        raise FedprivError(f"--data {folder}: is no directory; it must hold x.npy and y.npy, or idx files")
    asked = Records(x, y, *map(str, paths))
    found = pool_of(Records(pool.x, pool.y, "the run's x", "the run's y"), asked, pool.divide, pool.subtract)
    return found.x_test, found.y_test
