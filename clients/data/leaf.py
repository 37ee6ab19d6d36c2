"""LEAF's JSON: files that say of each user which records it has (Caldas et al. 2018, "LEAF")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clients.data.pool import Records, Stored
from fedpriv.errors import FedprivError, reason

FORM = '{"users": […], "user_data": {user: {"x": […], "y": […]}}}'


def leaf_files(folder: Path) -> list[Path]:
    """The .json files of LEAF's train/ and test/ in a directory, in the order of their names."""
    return [path for half in ("train", "test") for path in sorted((folder / half).glob("*.json"))]


def leaf_records(folder: Path) -> tuple[Records, Stored]:
    """The records of all of LEAF's .json files in a directory, user after user, and whose each is; x is float32."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise FedprivError(f"{folder} holds no .json file; LEAF's data are DIRECTORY/train/*.json and test/*.json")
    each = [(user, *_arrays(file, user, own)) for file in files for user, own in _by_user(file).items()]
    each = [(user, x, y) for user, x, y in each if len(y)]
    if not each:
        raise FedprivError(f"{folder}: its {len(files)} file(s) hold no record")
    users, xs, ys = zip(*each, strict=True)
    for user, x in zip(users, xs, strict=True):
        if x.shape[1:] != xs[0].shape[1:]:
            raise FedprivError(
                f"{folder}: user {user!r}: x has records of shape {x.shape[1:]}, where others have {xs[0].shape[1:]}"
            )
    owners = np.repeat(users, [len(y) for y in ys])
    return Records(np.concatenate(xs), np.concatenate(ys), f"{folder}, x", f"{folder}, y"), owners


def _by_user(file: Path) -> Mapping[str, Any]:
    """What one of LEAF's files says of each of its users; refused where it is no such file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return {str(user): found["user_data"][user] for user in found["users"]}
    except (OSError, ValueError, RecursionError) as error:
        raise FedprivError(f"{file}: not JSON ({reason(error)})") from None
    except (TypeError, KeyError, AttributeError):
        raise FedprivError(f"{file}: not of LEAF's form, {FORM}") from None


def _arrays(file: Path, user: str, own: Any) -> tuple[Stored, Stored]:
    """A user's features, as float32, and labels in one of LEAF's files; words and ragged rows are refused."""
    try:
        x, y = (np.asarray(own[part]) for part in ("x", "y"))
        same = len(x) == len(y)
    except (TypeError, KeyError, ValueError, IndexError):
        raise FedprivError(f"{file}: user {user!r}: x and y are no arrays of records; the form is {FORM}") from None
    if not same:
        raise FedprivError(f"{file}: user {user!r}: x has {len(x)} records, and y {len(y)} labels")
    if {x.dtype.kind, y.dtype.kind} - set("fiub"):
        raise FedprivError(
            f"{file}: user {user!r}: x is of {x.dtype}, y of {y.dtype}, and Leaf reads numbers, as FEMNIST's: make "
            "numbers of words first, and Arrays of them (x.npy, y.npy, users.npy)"
        )
    with np.errstate(over="ignore"):  # what is too large is named with all others
        return x.astype(np.float32), y
