"""`fedpriv data`: which sets are on this machine, and how to get those that are not."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import zlib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clients.data.identity import PUBLISHED, data_digest, data_title
from fedpriv.errors import FedprivError, one_of
from simulations.cli._command import JSON, Commands

if TYPE_CHECKING:
    from clients.data import Pool

EXAMPLES = "examples:\n  fedpriv data list\n  fedpriv data fetch fashion-mnist\n"


def add_to(commands: Commands) -> None:
    """Add `fedpriv data list` and `fedpriv data fetch` to the command's parser."""
    text = argparse.RawDescriptionHelpFormatter
    about = "Data sets: which are here, how to get the others."
    data = commands.add_parser("data", description=about, help=about, epilog=EXAMPLES, formatter_class=text)
    actions = data.add_subparsers(dest="action", metavar="list|fetch", required=True)
    listing = actions.add_parser("list", help="every set, each in a line")
    listing.add_argument(JSON.name, **JSON.settings)
    listing.set_defaults(run=run_list)
    fetching = actions.add_parser("fetch", help="say how to get a set, or confirm that it is here, by its sha256")
    fetching.add_argument("name", metavar="NAME", help=", ".join(["digits", *PUBLISHED]))
    fetching.set_defaults(run=run_fetch)


def _row(kind: str, cls: type[Any]) -> dict[str, Any]:
    """A data set's row of `fedpriv data list`: what it holds where it is on this machine, else why it is not."""
    row: dict[str, Any] = {"kind": kind, "is": (cls.__doc__ or "").split("\n")[0], "here": False}
    if needed := [field.name for field in fields(cls) if field.default is MISSING]:
        return row | {"why": f"needs {', '.join(needed)}: {row['is'][0].lower()}{row['is'][1:]}"}
    try:
        found = cls().resolved()
        return row | {"here": True, "path": getattr(found, "path", None)} | _shown(found.load())
    except FedprivError as error:
        return row | {"why": f"not here: {error}"}


def run_list(options: argparse.Namespace) -> None:
    """Run `fedpriv data list`: print of every set whether it is here, how many records it has, of what shape."""
    from clients.data import DATA_SETS

    rows = [_row(kind, cls) for kind, cls in DATA_SETS.items()]
    if options.json:
        print(json.dumps({"data": rows}, indent=1, ensure_ascii=False))
        return
    width = max(len(row["kind"]) for row in rows)
    print("data sets")
    for row in rows:
        print(f"  {row['kind']:<{width}}  {_counts(row) if row['here'] else row['why']}")


def run_fetch(options: argparse.Namespace) -> None:
    """Run `fedpriv data fetch`: confirm by sha256 that a set is here; where it is not, an error says how to get it."""
    from clients.data import Digits, Idx
    from clients.data.idx import FOUR_FILES, idx_files

    one_of(["digits", *PUBLISHED], name=options.name)
    if options.name == "digits":
        print(f"digits comes with scikit-learn: {_counts(_shown(Digits().load()))}")
        return
    how = PUBLISHED[options.name].from_where
    elsewhere = f"or put {FOUR_FILES}, plain or .gz, in a directory and name it in $FEDPRIV_DATA"
    try:
        found = Idx().resolved()
    except FedprivError:
        raise FedprivError(f"{options.name} is not here: {how}, {elsewhere}") from None
    try:
        files = idx_files(Path(str(found.path)))
    except FedprivError as error:
        raise FedprivError(f"{error}; to get {options.name}: {how}") from None
    digests = tuple(file_sha256(file) for file in files)
    name = next((name for name, each in PUBLISHED.items() if each.sha256 == digests), "something else")
    if name != options.name:
        raise FedprivError(f"{found.path} holds {name}, not {options.name}: {how}, {elsewhere}")
    print(f"{options.name} is in {found.path}: {_counts(_shown(found.load()))}")
    for file, own in zip(files, digests, strict=True):
        print(f"  sha256 {own}  {file.name}{' (uncompressed)' if file.suffix == '.gz' else ''}, as published")


def file_sha256(path: Path) -> str:
    """The sha256 of a data file, of its content where it is compressed: to tell published sets by."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise FedprivError(f"{path}: cannot be read ({error or type(error).__name__})") from None


def _shown(pool: Pool) -> dict[str, Any]:
    """A data set's numbers of records, its shape, classes and title, as `fedpriv data list --json` has them."""
    return {
        "records": len(pool),
        "held_out": len(pool.y_test),
        "shape": list(pool.shape),
        "classes": pool.classes,
        "name": data_title(data_digest(pool)),
    }


def _counts(row: dict[str, Any]) -> str:
    """A data set's row in words for `fedpriv data`: title, records, held out, shape, classes, and where it is."""
    name = f"{row['name']}, " if row["name"] else ""
    shape = " × ".join(map(str, row["shape"])) + " features" * (len(row["shape"]) == 1)
    where = f", in {row['path']}" if row.get("path") else ""
    labels = f"{row['classes']} classes" if row["classes"] else "labels that are numbers"
    return f"{name}{row['records']:,} records and {row['held_out']:,} held out, {shape}, {labels}{where}"
