"""A masked sum of 100,000 coordinates of 13 bits, a tenth of the nodes gone after they have shared their secrets.

CPU time of the protocol alone, in one process, without Flower's messages: the nodes work one after the other, and
*a node* is one node's part of it. Neighbours are as many as `fedpriv.masking._graph` finds safe where a fifth of the
nodes work with the server. Bytes are what one node sends in all four phases and what it is sent, without the model;
plain is the same vector at the same width without masks. Under 10 s for 50 nodes is asked for.
"""

from __future__ import annotations

from collections import Counter
from time import process_time

import numpy as np

from fedpriv.masking import masks, member
from fedpriv.masking.identity import Identity
from fedpriv.masking.roster import Terms
from fedpriv.masking.session import Session

DIMENSION, WIDTH, MODEL = 100_000, 13, b"weights"


def rows() -> list[dict[str, str]]:
    """One row a number of nodes."""
    return [row(*case) for case in ((5, None), (50, None), (50, 0), (200, None))]


def row(nodes: int, neighbours: int | None) -> dict[str, str]:
    took, sent, heard, right, degree = measured(nodes, neighbours)
    return {
        "nodes": f"{nodes}",
        "neighbours": f"{degree}",
        "exact": "yes" if right else "NO",
        "in all, s": f"{sum(took.values()):.2f}",
        "a node, ms": f"{1e3 * took['nodes'] / nodes:.1f}",
        "server, s": f"{took['server']:.2f}",
        "a node sends, KB": f"{sent / 1e3:.0f}",
        "is sent, KB": f"{heard / 1e3:.1f}",
        "plain, KB": f"{masks.packed_size(DIMENSION, WIDTH) / 1e3:.0f}",
    }


def measured(nodes: int, neighbours: int | None) -> tuple[Counter[str], int, int, bool, int]:
    """Seconds by whose work they are, bytes that the last node sends and hears, whether the sum is right, degree."""
    threshold = nodes - max(1, nodes // 10)
    terms = Terms(about=bytes(32), round=1, threshold=threshold, colluding=0, hosted=dict.fromkeys(range(nodes), 1),
                  neighbours=neighbours)  # fmt: skip
    vectors = np.random.default_rng(1).integers(0, 1 << WIDTH, (nodes, DIMENSION))
    session, states = Session(terms, dict.fromkeys(range(nodes), 1), DIMENSION, WIDTH, MODEL), {}
    took, bytes_of = Counter[str](), Counter[str]()

    def timed(whose: str, act, *arguments):  # type: ignore[no-untyped-def]
        begun = process_time()
        found = act(*arguments)
        took[whose] += process_time() - begun
        return found

    def told(each: int, name: str, content: bytes) -> bytes:
        bytes_of[name] += len(content) * (each == nodes - 1)
        return content

    for each in range(nodes):
        states[each], answer = timed("nodes", member.advertised_keys, terms, each, Identity())
        timed("server", session.take_keys, each, told(each, "sent", answer))
    roster = timed("server", lambda: session.roster.content)
    for each in range(nodes):
        content = told(each, "heard", roster)
        states[each], answer = timed("nodes", member.shared_secrets, states[each], terms, each, 1, content, Identity())
        timed("server", session.take_shares, each, told(each, "sent", answer))
    for each in range(nodes - threshold, nodes):
        letters = told(each, "heard", timed("server", session.letters, each))
        state = timed("nodes", member.received_shares, states[each], terms, each, 1, letters, Identity())
        vector = masks.residues_of(vectors[each], WIDTH)
        states[each], hidden = timed("nodes", member.masked_vector, state, terms, each, vector, WIDTH, MODEL, 1)
        answer = told(each, "sent", timed("nodes", masks.packed_residues, hidden, WIDTH))
        timed(
            "server",
            lambda each, answer: session.take_masked(each, masks.unpacked_residues(answer, DIMENSION, WIDTH), 1),
            each, answer,
        )  # fmt: skip
    opening = timed("server", session.opening)
    for each in session.survivors:
        heard = told(each, "heard", opening)
        states[each], answer = timed("nodes", member.opened_shares, states[each], terms, each, heard, Identity())
        timed("server", session.take_opened, each, told(each, "sent", answer))
    total = timed("server", session.total)
    right = (total == vectors[list(session.survivors)].sum(axis=0) % (1 << WIDTH)).all()
    return took, bytes_of["sent"], bytes_of["heard"], bool(right), session.roster.arrangement.degree
