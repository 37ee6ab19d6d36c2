"""Who survives: the list that a sum is opened by, what makes it one that may be opened, and who has signed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clients.masking.identity import SIGNATURE, Identity
from clients.masking.roster import Roster
from fedpriv.errors import FedprivError

SPEAKS = np.dtype([("member", "<u4"), ("clients", "<u4")])
SIGNED = np.dtype([("member", "<u4"), ("signature", f"V{SIGNATURE}")])

Survivors = Mapping[int, int]  # members, each with the number of clients whose messages its vector holds


def read(listed: bytes, roster: Roster, present: Sequence[int], me: int, clients: int) -> Survivors:
    """A list from bytes, refused where a sum of these must not be seen, or where it is wrong about this node."""
    found = _read(listed)
    if not set(found) <= set(present) or found.get(me) != clients:
        raise FedprivError("masking: the survivors do not hold this node as it is, or hold somebody who shared nothing")
    spoken, needed = sum(found.values()), roster.terms.threshold
    beyond = any(not 0 < count <= roster.entries[each].clients for each, count in found.items())
    if beyond or spoken < needed or len(found) < roster.nodes:
        raise FedprivError(
            f"masking: {len(found)} survivors that speak for {spoken} clients, where {roster.nodes} and {needed} are "
            "needed"
        )
    return found


def to_be_signed(listed: bytes, roster: Roster) -> bytes:
    """What a signature of a list is of: no other round's, and no other members'."""
    return b"fedpriv masking survivors\0" + roster.digest + listed


def check_signatures(listed: bytes, signatures: bytes, roster: Roster, identity: Identity) -> None:
    """Refuse a list that too few of the members this node knows have signed; who knows none believes the server."""
    if identity.peers is None:
        return
    if len(signatures) % SIGNED.itemsize:
        raise FedprivError("masking: the signatures of who survives were cut short")
    content, given = to_be_signed(listed, roster), zip(*_columns(signatures), strict=True)
    signers = {each for each, own in given if each in roster.entries and identity.knows(each, content, own)}
    if len(signers) < roster.nodes:
        raise FedprivError(f"masking: {len(signers)} nodes have signed who survives, {roster.nodes} are needed")


def _columns(signatures: bytes) -> tuple[list[int], list[bytes]]:
    rows = np.frombuffer(signatures, SIGNED) if signatures else np.empty(0, SIGNED)
    return rows["member"].tolist(), [bytes(each) for each in rows["signature"]]


def _read(listed: bytes) -> Survivors:
    if not listed or len(listed) % SPEAKS.itemsize:
        raise FedprivError(f"masking: survivors in {len(listed)} bytes")
    rows = np.frombuffer(listed, SPEAKS)
    found = dict(zip(rows["member"].tolist(), rows["clients"].tolist(), strict=True))
    if len(found) != len(rows):
        raise FedprivError("masking: a survivor stands twice")
    return found
