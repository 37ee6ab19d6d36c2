"""What `fedpriv.flower` adds to a round of a Flower app: seconds of the mod and of the strategy, nodes one by one.

    python -m benchmarks.flower_app

The app is that of the tests (softmax regression on the digits, 20 nodes, 12 rounds), with and without its two lines,
each node after the other in this process, ledgers on this machine's disk.
"""

from __future__ import annotations

import logging
import tempfile
import time
from typing import Any

from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from fedpriv.flower import Private, private
from fedpriv.mechanisms import StochasticSign
from tests.flower_apps import NODES, Nodes, softmax_app, softmax_model

ROUNDS = 12


def seconds_of(strategy: Any, mods: list[Any]) -> tuple[float, float]:
    """Seconds on the clock, and of the processor, that a round takes."""
    begun, worked = time.perf_counter(), time.process_time()
    strategy.start(Nodes(softmax_app(mods)), softmax_model(), num_rounds=ROUNDS)
    return (time.perf_counter() - begun) / ROUNDS, (time.process_time() - worked) / ROUNDS


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
    print(f"{added[1]:.0f} ms of them the processor's: {added[0] / NODES:.1f} ms a message, most of it the disk's")


if __name__ == "__main__":
    main()
