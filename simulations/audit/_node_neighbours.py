"""Two nodes that differ in one unit: a directory and its neighbour, or what the audit leaves out or replaces itself.

Of ten candidates it takes the one that changes a message most. What a unit is, is the policy's word: a record, or all
that one client holds. What differs is what the certificate is of: one record more or less, or one in another's place.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from clients.data.pool import Pool, scaled_features
from clients.data.splits import Division, Uneven, records_of
from clients.node.own_records import AT_ONCE
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError
from fedpriv.studies.study import Kind

CANDIDATES = 10  # changes that are compared
How = Literal["out", "another"]  # left out, or another record in its place
T = TypeVar("T")
Held = tuple[Pool, Division]  # records, and whose they are


@dataclass(frozen=True)
class Change:
    """Records that are left out, or have others in their place."""

    how: How
    records: Numbers  # their numbers in the pool
    whose: int  # the client that has them

    @property
    def words(self) -> str:
        """The change in words, by which an audit names the neighbour: whose record, left out or replaced."""
        some = f"record {self.records[0]}" if len(self.records) == 1 else f"all {len(self.records):,} records"
        done = "left out" if self.how == "out" else "replaced"
        return f"{some} of client {self.whose} {done}"

    def made(self, pool: Pool) -> Pool:
        """The pool of a node's own records with this change made: the data that its neighbour holds."""
        if self.how == "out":
            x, y = (np.delete(np.asarray(each), self.records, axis=0) for each in (pool.x, pool.y))
            return replace(pool, x=x, y=y)
        x, y = np.array(pool.x), np.array(pool.y)
        for each in self.records.tolist():
            x[each], y[each] = turned(x[each]), (y[each] + 1) % pool.classes if pool.classes else -y[each]
        return replace(pool, x=x, y=y)

    def of_study(self, pool: Pool, division: Division) -> Held:
        """A study's pool and division with this change made: only the one client's records are others."""
        if self.how == "another":
            return self.made(pool), division
        return pool, without(division, self.records)


def turned(record: NDArray[Any]) -> NDArray[Any]:
    """The record that takes another's place in a neighbour: mirrored in its range, so that its largest is smallest.

    >>> turned(np.array([1, 2, 9], np.uint8)).tolist()
    [9, 8, 1]
    """
    if not record.size:
        return record
    low, high, own = (np.asarray(each, np.longdouble) for each in (record.min(), record.max(), record))
    return np.clip(low + (high - own), low, high).astype(record.dtype)


def without(division: Division, records: Numbers) -> Uneven:
    """A study's division as the neighbour has it: these records are nobody's, all others whose they were."""
    own = [records_of(division, client) for client in range(division.clients)]
    kept = [each[~np.isin(each, records)] for each in own]
    return Uneven(np.concatenate(kept), np.cumsum([0, *map(len, kept)]))


def candidates(division: Division, clients: Numbers, how: How, *, whole: bool) -> list[Change]:
    """At most ten changes that could make a node's neighbour: a record each, or with `whole` a client's all."""
    holding = [(client, own) for client in clients.tolist() if len(own := records_of(division, client))]
    if not holding:
        raise FedprivError("this node holds no records, so there is none to leave out: --neighbour DIR2 names one")
    if whole:
        return [Change(how, np.sort(own), client) for client, own in _spread(holding)]
    each = [(client, int(record)) for client, own in holding for record in np.sort(own)]
    return [Change(how, np.array([record]), client) for client, record in _spread(each)]


def _spread(what: list[T]) -> list[T]:
    """Ten of a list, evenly spaced from first to last: the candidates for a neighbour; all of a shorter list."""
    places = np.unique(np.linspace(0, len(what) - 1, min(CANDIDATES, len(what))).round().astype(int))
    return [what[place] for place in places]


def written(pool: Pool, folder: Path) -> Kind:
    """Save a neighbour's records as .npy files in a folder; the policy's data table that names them."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    np.save(folder / "x.npy", pool.x)
    np.save(folder / "y.npy", pool.y)
    return Kind("Arrays", {"path": str(folder), "divide": pool.divide, "subtract": pool.subtract})


# directories side by side


def digests(pool: Pool) -> list[bytes]:
    """A hash of each record as a model sees it, with its label: by these two nodes' data are compared."""
    found = []
    for start in range(0, len(pool), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        x = scaled_features(np.asarray(pool.x[some]), pool.divide, pool.subtract) + np.float32(0)  # -0.0 is 0.0
        for row, label in zip(x.reshape(len(x), -1), pool.y[some].tolist(), strict=True):
            content = row.tobytes() + int(label).to_bytes(8, "little", signed=True)
            found.append(blake2b(content, digest_size=16).digest())
    return found


@dataclass(frozen=True)
class Difference:
    """Which records stand in the one and not in the other, by their numbers."""

    only: tuple[Numbers, Numbers]  # in the first, and in the second

    @staticmethod
    def of(one: Pool, other: Pool) -> Difference:
        """Compare a node's records with another's by their content, in any order: which each has alone."""
        if one.shape != other.shape:
            raise FedprivError(f"records of shape {other.shape}, where the node's have {one.shape}")
        found = digests(one), digests(other)
        return Difference((_surplus(*found), _surplus(*reversed(found))))

    @property
    def words(self) -> str:
        """What the neighbour has beside the node, in words for the audit's report."""
        gone, come = self.only
        if len(gone) > 1 or len(come) > 1:
            return "other data of the client"
        if len(gone) and len(come):
            return f"record {gone[0]} replaced by its record {come[0]}"
        return f"record {gone[0]} left out" if len(gone) else f"with its record {come[0]} more"

    def check(self, names: tuple[Path, Path], *, one: bool, replaced: bool) -> None:
        """Refuse two directories that are no neighbours: the same records, or more than one other where one may be.

        `names` are the two directories; `one` says that neighbours differ in a single record, and `replaced` that
        another may be in its place.
        """
        (gone, come), more = self.only, max(map(len, self.only))
        if not more:
            raise FedprivError(f"{names[1]}: holds the same records as {names[0]}: a neighbour differs in one")
        if more > 1 and one:
            own = [f"record {each} of {name}" for name, some in zip(names, self.only, strict=True) for each in some[:2]]
            raise FedprivError(
                f"{names[0]} and {names[1]} differ in {more:,} records, and neighbours in one: {own[0]}, {own[1]}"
                + (", …" if len(gone) + len(come) > 2 else "")
            )
        if one and len(gone) and len(come) and not replaced:
            raise FedprivError(
                f"record {gone[0]} of {names[0]} is another one in {names[1]}, where it is record {come[0]}: this "
                "node's certificate is of one record more or less"
            )


def _surplus(own: list[bytes], others: list[bytes]) -> Numbers:
    """The places of digests that stand in `own` more often than in `others`: records of one node alone."""
    left, found = Counter(others), []
    for place, each in enumerate(own):
        if left[each]:
            left[each] -= 1
        else:
            found.append(place)
    return np.array(found, np.int64)


def moved(one: Held, other: Held, among: Numbers) -> list[int]:
    """The clients, of these, whose records differ between node and neighbour, by number; refused where none's do.

    The node's own dealing is what deals them.
    """
    tables = [(digests(pool), division) for pool, division in (one, other)]
    most, asked = max(division.clients for _, division in tables), set(among.tolist())

    def own(table: tuple[list[bytes], Division], client: int) -> list[bytes]:
        """The digests of one client's records in one of the two nodes, sorted, so that their order does not count."""
        known, division = table
        return sorted(known[each] for each in records_of(division, client).tolist())

    some = [client for client in range(most) if client in asked]
    if found := [client for client in some if own(tables[0], client) != own(tables[1], client)]:
        return found
    raise FedprivError("no client of this node has other data than its neighbour's: there is nothing to audit")
