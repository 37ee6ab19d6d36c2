"""What a round of 10⁶ clients would take at the server: unit costs measured here, and the arithmetic of docs/scale.md.

    python -m benchmarks.scale [--clients 1000000] [--dimension 100000]

Times are CPU seconds of one core, so that a busy machine says the same. What is measured: opening, checking and adding
up messages that came one by one (a node each) and as cohorts' stacks; who is asked; a line of the ledger; a checkpoint.
Everything else is multiplication.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from fedpriv import wire
from fedpriv.packed.symbols import packing_of
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server.directory import checkpoint
from server.directory.checkpoint import State
from server.directory.journal import Journal
from server.rounds.driver import Answer
from server.rounds.inbox import Inbox

STUDY = """
name = "scale"
data = {{ kind = "Synthetic", records = 60, features = 9, classes = 3, held_out = 20 }}
clients = {{ count = {clients}, split = "pool" }}
run.rounds = 3
"""
VOTE = 'privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 2.0 }\naggregation.kind = "MajorityVote"'
SUM = (
    'privacy = { trust = "secure-aggregation", '
    'mechanism = { kind = "Binomial", clip = 1.0, trials = 4, scale = 2.0 } }\n'
    'aggregation.kind = "Mean"\nserver.fewest = 1'
)
FLOAT = 'privacy.mechanism = { kind = "Plain" }\naggregation.kind = "Mean"'
KINDS = {"one bit a coordinate, majority vote": VOTE, "sums modulo 2ʷ": SUM, "32-bit floats, mean": FLOAT}


def study_of(kind: str, clients: int) -> Study:
    return study_file.parsed_study(STUDY.format(clients=clients) + KINDS[kind])


def answers(study: Study, dimension: int, cohorts: int, each: int) -> list[Answer]:
    """Replies of so many nodes of so many clients."""
    rng, mechanism = np.random.default_rng(1), study.privacy.drawn_by
    found = []
    for cohort in range(cohorts):
        who = np.arange(cohort * each, (cohort + 1) * each)
        if study.masked is not None:
            frame = wire.sum_frame(study.id, 1, who, rng.integers(0, 4 * each, dimension))
        else:
            shape = each, packing_of(mechanism).size(dimension)
            payload = rng.integers(0, 256, shape, np.uint8)
            if mechanism.alphabet is None:
                payload = rng.random((each, dimension), np.float32).view(np.uint8)
            else:
                payload[:, -1] = 0  # padding, and some coordinates
            frame = wire.messages_frame(study.id, 1, who, payload, dimension, mechanism)
        found.append(Answer(who, wire.reply_bytes([frame], {})))
    return found


def seconds(act: Callable[[], Any]) -> float:
    """CPU seconds, the better of three."""
    took = []
    for _ in range(3):
        begun = time.process_time()
        act()
        took.append(time.process_time() - begun)
    return min(took)


def taken(study: Study, dimension: int, replies: list[Answer]) -> Inbox:
    """The server's round, without the step."""
    inbox = Inbox(study, dimension, 1, np.arange(study.clients.count))
    for each in replies:
        inbox.take(each)
    inbox.direction()
    assert inbox.answered == sum(len(each.asked) for each in replies)
    return inbox


def memory(study: Study, dimension: int, replies: list[Answer]) -> float:
    """The most bytes a round takes beside the replies themselves."""
    tracemalloc.start()
    try:
        taken(study, dimension, replies)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def units(kind: str, dimension: int, clients: int) -> dict[str, float]:
    """Bytes, CPU seconds and memory of one client of so many, alone and in a cohort of 100."""
    own = study_of(kind, 400)
    few, alone, cohorts = (answers(own, dimension, *shape) for shape in ((10, 1), (210, 1), (4, 100)))
    base = seconds(lambda: taken(own, dimension, few))
    held = memory(own, dimension, alone) - memory(own, dimension, few)
    return {
        "bytes alone": wire.client_bytes(own.privacy.drawn_by, dimension, own.masked and clients).bytes,
        "bytes in a cohort": sum(len(each.content or b"") for each in cohorts) / 400,
        "seconds alone": max(seconds(lambda: taken(own, dimension, alone)) - base, 0) / 200,
        "seconds in a cohort": seconds(lambda: taken(own, dimension, cohorts)) / 400,
        "memory a client": max(held, 0) / 200, "memory of a round": memory(own, dimension, few),
    }  # fmt: skip


def bookkeeping(clients: int, dimension: int) -> dict[str, float]:
    """CPU seconds and bytes of what the server does once a round, for all clients, a tenth of them asked."""
    a_tenth = f'clients.participation={{kind="Fixed", number={clients // 10}}}'
    own = study_file.parsed_study(STUDY.format(clients=clients) + VOTE, overrides=[a_tenth])
    asked = own.clients.schedule.asked(clients, 1, 1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        journal = Journal(place, own, None)
        later = count(1)
        charge = seconds(lambda: journal.charge(next(later), asked, again=False, model=""))
        again = replace(own, privacy=replace(own.privacy, noise="cryptographic"))
        (place / "b").mkdir()
        fresh = Journal(place / "b", again, None)
        before = (place / "b" / "ledger.jsonl").stat().st_size
        fresh.charge(1, asked, again=True, model="")
        listed = (place / "b" / "ledger.jsonl").stat().st_size - before
        state = State(1, np.zeros(dimension), own.server.stepping.start(dimension), np.zeros((clients, 0)))
        save = seconds(lambda: checkpoint.save_checkpoint(place, state, own.id))
        size = (place / checkpoint.FILE).stat().st_size
    return {"draw": seconds(lambda: own.clients.schedule.asked(clients, 1, 2)), "charge": charge, "listed": listed,
            "save": save, "checkpoint": size}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=100_000)
    options = parser.parse_args()
    n, d = options.clients, options.dimension
    print(f"A round in which {n:,} clients answer, {d:,} coordinates; CPU seconds of one core.\n")
    alone = "bytes a client | all | µs a client | all"
    print(f"| messages | {alone} | in cohorts of 100: {alone[:14]} | {alone[23:]} | memory a client | of a round |")
    print(f"|{'---|' * 10}")
    for kind in KINDS:
        u = units(kind, d, n)
        one, together = u["seconds alone"], u["seconds in a cohort"]
        print(f"| {kind} | {u['bytes alone']:,.0f} | {n * u['bytes alone'] / 1e9:,.1f} GB | {1e6 * one:,.0f} "
              f"| {n * one:,.0f} s | {u['bytes in a cohort']:,.0f} | {1e6 * together:,.0f} | {n * together:,.0f} s "
              f"| {u['memory a client']:,.0f} B | {u['memory of a round'] / 1e6:,.1f} MB |", flush=True)  # fmt: skip
    b = bookkeeping(n, d)
    print(f"\nOnce a round, a tenth of {n:,} clients asked: drawing them {1e3 * b['draw']:,.0f} ms; the ledger's line")
    print(f"{1e3 * b['charge']:,.1f} ms ({b['listed'] / 1e6:,.1f} MB where clients are listed one by one);", end=" ")
    print(f"a checkpoint {1e3 * b['save']:,.0f} ms, {b['checkpoint'] / 1e6:,.1f} MB.")


if __name__ == "__main__":
    main()
