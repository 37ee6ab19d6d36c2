"""Who survives: the list that a sum is opened by, what makes it one that may be opened, and who has signed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedpriv.errors import FedprivError
from fedpriv.masking.identity import SIGNATURE, Identity
from fedpriv.masking.roster import Roster

SPEAKS = np.dtype([("member", "<u4"), ("clients", "<u4")])  # one that survives
SIGNED = np.dtype([("member", "<u4"), ("signature", f"V{SIGNATURE}")])  # one that has signed

Survivors = Mapping[int, int]  # members, each with the number of clients whose messages its vector holds


def read_survivors(listed: bytes, roster: Roster, present: Sequence[int], me: int, clients: int) -> Survivors:
    """A server's list of survivors from bytes; refused where their sum must not be seen, or it misstates `me`."""
    if not listed or len(listed) % SPEAKS.itemsize or len(listed) > len(present) * SPEAKS.itemsize:
        raise FedprivError(f"masking: survivors in {len(listed)} bytes")
    rows = np.frombuffer(listed, SPEAKS)
    found = dict(zip(rows["member"].tolist(), rows["clients"].tolist(), strict=True))
    if len(found) != len(rows):
        raise FedprivError("masking: a survivor stands twice")
    if not set(found) <= set(present) or found.get(me) != clients:
        raise FedprivError("masking: the survivors do not hold this node as it is, or hold somebody who shared nothing")
    spoken, needed = sum(found.values()), roster.terms.threshold
    beyond = any(not 0 < count <= roster.entries[each].clients for each, count in found.items())
    if beyond or spoken < needed or len(found) < roster.nodes:
        there = f"{len(found)} survivors that speak for {spoken} clients"
        raise FedprivError(f"masking: {there}, where {roster.nodes} and {needed} are needed")
    return found


def to_be_signed(listed: bytes, roster: Roster, context: bytes) -> bytes:
    """The bytes a member signs for a list of survivors: no other session's or members', of vectors made alike."""
    return b"fedpriv masking survivors\0" + roster.digest + context + listed


def check_signatures(
    listed: bytes, found: Survivors, signatures: bytes, roster: Roster, context: bytes, identity: Identity
) -> None:
    """Refuse to open a sum unless as many as it takes have signed its survivors, for as many clients as promised.

    Only who has signed has looked at its own count. Who knows no members believes the server.
    """
    if identity.peers is None:
        return
    content = to_be_signed(listed, roster, context)
    given = rows_of(signatures, most=len(found))
    signers = {each for each, own in given.items() if each in found and identity.knows(each, content, own)}
    spoken, needed = sum(found[each] for each in signers), roster.terms.threshold
    if len(signers) < roster.nodes or spoken < needed:
        raise FedprivError(
            f"masking: {len(signers)} nodes, of {spoken} clients, have signed who survives, {roster.nodes} and "
            f"{needed} are needed"
        )


def rows_of(signatures: bytes, most: int) -> dict[int, bytes]:
    """By member, signatures from the server's bytes in a masked sum: no more than `most`, and members rise."""
    if len(signatures) % SIGNED.itemsize or len(signatures) > most * SIGNED.itemsize:
        raise FedprivError(f"masking: {len(signatures)} bytes of signatures, cut short or of more than {most} nodes")
    rows = np.frombuffer(signatures, SIGNED) if signatures else np.empty(0, SIGNED)
    if (np.diff(rows["member"].astype(np.int64)) <= 0).any():
        raise FedprivError("masking: the members that have signed must rise")
    return dict(zip(rows["member"].tolist(), map(bytes, rows["signature"]), strict=True))
