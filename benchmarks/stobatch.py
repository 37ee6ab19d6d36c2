"""StoBatch on four clients against Algorithm 1 of [S] on one that holds the same data, in one run.

    python -m benchmarks.stobatch [rounds]

The four clients have one pair of fixed batches each and two workers of Ray between them; the one has all four pairs, in
this process. What is noised is the same and so are adversarial examples, and a message is the mean over pairs: the
gradients are the same but for the order in which they are added. Fashion-MNIST (or the idx files in $FEDPRIV_DATA) and
the MNIST network of [S], 500 images a batch. The two alternate, so that a busy machine is as busy for both. 1.6 times
as fast is asked for.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from fedpriv import records
from fedpriv.studies import file as study_file
from server import rounds
from server.rounds.driver import Driver
from simulations.runs.direct import Here, OnRay

STUDY = """
name = "stobatch"
training = "StoBatch"
data = { kind = "Idx", divide = 127.5, subtract = 1.0 }
clients = { count = 4, records = 1000 }
privacy.release = { batch = 500 }
server = { optimiser = { kind = "Adam" }, step = 0.003 }
run = { rounds = 4 }
"""
TIMES = 3


def timed(overrides: list[str], driver: Driver, directory: Path) -> tuple[float, float]:
    """The median seconds that clients take for a round, without the first, in which they noise; and the last loss."""
    study = study_file.parsed_study(STUDY, overrides=[*overrides, "run.evaluate_every=1000"])
    rounds.run_rounds(study, directory, driver, quiet=True)
    known = records.read_timings(directory / "timings.jsonl")
    last = records.read_records(directory / "records.jsonl").rounds[-1]
    return median(known[round]["parts"]["clients"] for round in sorted(known)[1:]), float(last["loss"])


def rows(most: int = 4) -> list[dict[str, str]]:
    """Both, in turns, each at its fastest."""
    length, one, four = f"run.rounds={most}", [], []
    workers = OnRay(2, 2)
    try:
        with TemporaryDirectory() as folder:
            for turn in range(TIMES):
                alone = ["clients.count=1", "clients.records=4000", length]
                one.append(timed(alone, Here(), Path(folder) / f"one-{turn}"))
                four.append(timed([length], workers, Path(folder) / f"four-{turn}"))
    finally:
        workers.close()
    (slow, loss), (fast, other) = min(one), min(four)
    return [{
        "round of 4 pairs of 500": f"{most} rounds", "one client, s": f"{slow:.2f}",
        "four on two workers, s": f"{fast:.2f}",
        "ratio": f"{slow / fast:.2f}", "asked for": "1.6", "loss, one": f"{loss:.6f}", "loss, four": f"{other:.6f}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }]  # fmt: skip


if __name__ == "__main__":
    for row in rows(*map(int, sys.argv[1:2])):
        print("\n".join(f"{name:<24} {value}" for name, value in row.items()))
