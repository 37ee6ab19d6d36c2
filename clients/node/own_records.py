"""Whose a node's own records are: dealt among its clients so that one record more or less moves no other.

The client of a record is a keyed hash of its content: of what the model sees of it, and its label. It depends neither
on the other records nor on how many they are, nor on where in a file it stands. So under add-remove the data of one
client change, by that record; where a record takes the place of another, one client may lose it and one gain it
(`Shares.moves`). Equal records go to one client; a client may have none, and answers as one whose update is 0.

Fixed batches of records that are kept need a number of records that nobody's presence changes: their neighbours differ
by one record in the place of another, and there records are dealt by where they stand.

What the matter is with data is for the node's own log, when it starts and whenever they allow no answer.
"""

from __future__ import annotations

import sys
from hashlib import blake2b
from pathlib import Path

import numpy as np

from clients.data import Arrays, Data, Hub, Idx
from clients.data.featured import Featured, data_set_of
from clients.data.features.making import featured_pool
from clients.data.idx import idx_files, read_idx
from clients.data.pool import Pool, Records, own_pool, scaled_features
from clients.data.reading import hub_splits, mapped_array
from clients.data.splits import Uneven
from clients.node.own_key import DEALING, key_in
from clients.node.policy import Policy, read_policy
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.node.shares import Shares
from fedpriv.studies.study import Study

AT_ONCE = 4096  # records
DIGEST = 16  # bytes


def pool_of_policy(policy: Policy) -> Pool | None:
    """The node's own records that its policy names, checked, as a pool; None where studies bring theirs."""
    if policy.data is None:
        return None
    found = data_set_of(policy.data)
    own = _records_of_policy(policy, found.data if isinstance(found, Featured) else found)
    return featured_pool(own, found.features) if isinstance(found, Featured) else own


def _records_of_policy(policy: Policy, data: Data) -> Pool:
    """The node's own records, as its files have them: checked one by one."""
    assert policy.data is not None
    classes = policy.classes or 0  # 0 where the policy's data say that labels are numbers
    match data := data.resolved():
        case Arrays():
            own = node_records(Path(data.path), data.held_out)
        case Idx():  # labels as they stand: where they begin, each of them would tell
            files = idx_files(Path(str(data.path)))
            own = Records(read_idx(files.x, 3), read_idx(files.y, 1), str(files.x), str(files.y))
        case Hub():
            columns = data.features, data.label
            (own,) = hub_splits(data.name, data.subset, data.revision, columns, [data.train])
        case _:  # sets that come with fedpriv, and classes of whoever wrote the policy, whose own checks they are
            pool = data.load()
            own = Records(pool.x, pool.y, policy.data.kind, policy.data.kind)
            return own_pool(own, pool.divide, pool.subtract, classes)
    return own_pool(own, data.divide, data.subtract, classes)


def node_records(folder: Path, held_out: int | None) -> Records:
    """A node's own x.npy and y.npy, unchecked, but for the last so many records; test files are nothing to it."""
    x, y = mapped_array(folder / "x.npy"), mapped_array(folder / "y.npy")
    if held_out:
        x, y = x[:-held_out], y[:-held_out]
    return Records(x, y, str(folder / "x.npy"), str(folder / "y.npy"))


def wrong_with_data(policy_file: Path) -> str | None:
    """What is the matter with a node's data when it starts, in one line for its owner; None where nothing is.

    It makes the key by which they are dealt, too, so that its first answer finds all in order.
    """
    policy = read_policy(policy_file)
    try:
        if pool_of_policy(policy) is not None:
            key_in(policy_file.parent / policy.ledger, DEALING)
    except FAULTS as error:
        return what_is_wrong(error)
    return None


def told_at_start(policy_file: Path) -> str:
    """The line that a node which starts writes into its own log: whether its data or its policy are in order."""
    try:
        wrong = wrong_with_data(policy_file)
        there = read_policy(policy_file).data is not None
    except FedprivError as error:  # of the policy, and every answer says it
        return f"fedpriv: {error}"
    if wrong is not None:
        return of_data(wrong)
    words = "this node's data are in order" if there else "it names no data: this node's are what a study names"
    return f"fedpriv: {policy_file}: {words}"


def of_data(wrong: str) -> str:
    """The line in a node's own log, which no server reads, that says why its data allow no answer."""
    return f"fedpriv: this node's data allow no answer: {wrong}"


def write_log(words: str) -> None:
    """Write a line into the node's own log: what goes to standard error, which no server reads."""
    print(words, file=sys.stderr, flush=True)


def what_is_wrong(error: BaseException) -> str:
    """What an error says is the matter with a node's data, in one line for its own log."""
    return str(error) if isinstance(error, FedprivError) else reason(error)


def own_shares(key: bytes, first: int, last: int, *, kept: bool) -> Shares:
    """Which way a node's own data are divided among its clients `first` to before `last`, as its ledger names it.

    `kept`: the study keeps fixed batches of records, which are dealt by where they stand.
    """
    many = last - first
    word = f"{'in order' if kept else 'by content'} {many}"
    return Shares(blake2b(word.encode(), key=key, digest_size=DIGEST).hexdigest(), first, not kept and many > 1)


def study_shares(study: Study) -> Shares:
    """Which way the data that a study names are divided, as it says itself, for a node's ledger."""
    table = study.table()
    own = study.clients
    words = table["data"], own.count, own.records, table["clients"]["split"], study.run.seed
    return Shares(blake2b(repr(words).encode(), digest_size=DIGEST).hexdigest(), 0, False)


def dealt_records(pool: Pool, key: bytes, clients: int, first: int, last: int) -> Uneven:
    """A node's own records dealt among its clients, by content, so that one record more or less moves no other."""
    owners = first + owners_of(pool, key, last - first)
    order = np.argsort(owners, kind="stable")
    return Uneven(order, np.searchsorted(owners[order], np.arange(clients + 1)))


def owners_of(pool: Pool, key: bytes, many: int) -> Numbers:
    """Which of a node's `many` clients each of its records is dealt to, from 0, by a keyed hash of its content.

    >>> y = np.array([0, 1, 0, 1])
    >>> pool = Pool(x=np.float32([[1], [2], [1], [3]]), y=y, x_test=np.zeros((0, 1), np.float32), y_test=y[:0],
    ...             classes=2, divide=1.0, subtract=0.0)
    >>> owners_of(pool, bytes(32), 5).tolist()
    [3, 4, 3, 2]
    """
    owners = np.zeros(len(pool), np.int64)
    if many == 1:
        return owners
    for start in range(0, len(pool), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        x = scaled_features(np.asarray(pool.x[some]), pool.divide, pool.subtract) + np.float32(0)  # -0.0 is 0.0
        rows = np.ascontiguousarray(x.reshape(len(x), -1), "<f4")
        labels = np.ascontiguousarray(pool.y[some], pool.y.dtype.newbyteorder("<"))
        for at, (row, label) in enumerate(zip(rows, labels, strict=True), start):
            word = blake2b(label.tobytes() + row.tobytes(), key=key, digest_size=8, person=b"dealing").digest()
            owners[at] = int.from_bytes(word, "little") % many
    return owners


def in_order(pool: Pool, clients: int, first: int, last: int) -> Uneven:
    """A node's own records among its clients as evenly as can be, by where they stand: for batches that are kept."""
    inside = np.clip(np.arange(clients + 1) - first, 0, last - first)
    return Uneven(np.arange(len(pool)), inside * len(pool) // max(last - first, 1))
