"""What `fedpriv.flower` adds to a round of a Flower app, in one process and under Flower's simulation.

    python -m benchmarks.flower_app

The app is that of the tests (softmax regression on the digits, 20 nodes, 12 rounds), with and without its two lines,
ledgers on this machine's disk. In one process nodes answer one after the other: what is measured is the mod and the
strategy. Under the simulation it is whole rounds, the two in turns: what a user waits.
"""

from __future__ import annotations

import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from fedpriv.flower import Private, private
from fedpriv.mechanisms import StochasticSign
from tests.flower_apps import NODES, Nodes, softmax_app, softmax_model

ROUNDS = 12
TURNS = 3  # of the simulation, each with and without
SIMULATED = """
import sys, time
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from fedpriv.flower import Private, private
from fedpriv.mechanisms import StochasticSign
from tests.flower_apps import NODES, softmax_app, softmax_model

own, ledger, rounds = sys.argv[1] == "private", sys.argv[2], int(sys.argv[3])
sign = StochasticSign(clip=1, peak=0.25, scale=1)
server, begun = ServerApp(), []

@server.main()
def main(grid, context):
    strategy = FedAvg(min_train_nodes=NODES, min_available_nodes=NODES, fraction_evaluate=0.0)
    strategy = Private(strategy, sign) if own else strategy
    def seen(round, arrays):
        begun.append(time.perf_counter())
    strategy.start(grid=grid, initial_arrays=softmax_model(), num_rounds=rounds, evaluate_fn=seen)

run_simulation(server, softmax_app([private(sign, ledger=ledger)] if own else []), num_supernodes=NODES,
               backend_config={"client_resources": {"num_cpus": 1}})
print("seconds", *[later - before for before, later in zip(begun[1:], begun[2:])])
"""


def seconds_of(strategy: Any, mods: list[Any]) -> tuple[float, float]:
    """Seconds on the clock, and of the processor, that a round takes."""
    begun, worked = time.perf_counter(), time.process_time()
    strategy.start(Nodes(softmax_app(mods)), softmax_model(), num_rounds=ROUNDS)
    return (time.perf_counter() - begun) / ROUNDS, (time.process_time() - worked) / ROUNDS


def simulated(own: str) -> list[float]:
    """Seconds of each round but the first under Flower's simulation, by an app that is "private" or "plain"."""
    with tempfile.TemporaryDirectory() as place:
        root = str(Path(__file__).resolve().parent.parent)
        told = subprocess.run(
            [sys.executable, "-c", SIMULATED, own, f"{place}/ledgers", str(ROUNDS)], cwd=place, text=True, check=True,
            env=os.environ | {"PYTHONPATH": root, "FLWR_HOME": f"{place}/flwr"}, capture_output=True,
        )  # fmt: skip
    [line] = [line for line in told.stdout.splitlines() if line.startswith("seconds")]
    return [float(word) for word in line.split()[1:]]


def main() -> None:
    """Print what a round takes without and with the two lines."""
    for name in ("flwr", "fedpriv"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("_task_id", "_run_id", "_node_id"):
        setattr(TaskIdentity, name, 1)
    sign = StochasticSign(clip=1, peak=0.25, scale=1)
    for _ in range(2):  # the first loads what the second uses
        plain = seconds_of(FedAvg(), [])
        with tempfile.TemporaryDirectory() as ledger:
            own = seconds_of(Private(FedAvg(), sign), [private(sign, ledger=ledger)])
    added = [1000 * (with_ - without) for with_, without in zip(own, plain, strict=True)]
    print(f"a round of {NODES} nodes, one by one: {1000 * plain[0]:.0f} ms; the two lines add {added[0]:.0f} ms,")
    print(f"{added[1]:.0f} ms of them the processor's: {added[0] / NODES:.1f} ms a message")
    rounds: dict[str, list[float]] = {"plain": [], "private": []}
    for _ in range(TURNS):
        for name, found in rounds.items():
            found += simulated(name)
    each = {name: statistics.median(found) for name, found in rounds.items()}
    print(
        f"under Flower's simulation a round takes {each['plain']:.3f} s, and {each['private']:.3f} with the two lines:"
    )
    print(f"{each['private'] / each['plain'] - 1:+.1%} (medians of {len(rounds['plain'])} rounds each, in turns)")


if __name__ == "__main__":
    main()
