"""Seconds a round of a stock Flower app with one client a node, as Flower's quickstart writes it.

A round is: FedAvg sends the model to every node, a node's ClientApp takes one step of SGD on a batch of 32 and returns
its weights, FedAvg averages them. It runs in Flower's simulation on Ray, with as many workers as cores and one torch
thread each. The settings favour it: no round evaluates, a client's records are made on the spot, and Ray's workers run
at normal priority. Times are between the strategy's own calls after each round, in a process that ends by itself; the
best round after the first is shown. A round that misses a client's reply is an error, not a time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

FEATURES, CLASSES, BATCH = 784, 10, 32
MODELS: tuple[tuple[int, ...], ...] = ((), (128,))
REPOSITORY = Path(__file__).resolve().parent.parent
A_ROUND = 120.0  # seconds after which one is given up
MEASURED = "measured "  # begins the line with the times

app = ClientApp()


def seconds_a_round(clients: int, rounds: int, hidden: tuple[int, ...]) -> float:
    """The best of `rounds` rounds after one more that warms up."""
    command = [sys.executable, "-c", f"from benchmarks.stock_flower import run; run({clients}, {rounds + 1}, {hidden})"]
    with tempfile.TemporaryDirectory(prefix="flwr", ignore_cleanup_errors=True) as scratch:
        child = subprocess.Popen(
            command,
            cwd=scratch,
            env=environment(scratch),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, errors = child.communicate(timeout=60 + A_ROUND * (rounds + 1))
        finally:
            end(child)
    times = [line.removeprefix(MEASURED) for line in output.splitlines() if line.startswith(MEASURED)]
    if not times:
        raise RuntimeError(f"the stock Flower app did not finish: {errors.strip()[-2000:]}")
    return min(json.loads(times[0])[1:])


def environment(scratch: str) -> dict[str, str]:
    """Nothing is reported, installed or looked up; files go to `scratch`; workers find this module."""
    return {name: text for name, text in os.environ.items() if name != "RAY_ADDRESS"} | {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(Path(scratch, "home")),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": scratch,
        "RAY_worker_niceness": "0",  # 15 unless told: slower beside anything else that runs
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "PYTHONPATH": str(REPOSITORY),
        "OMP_NUM_THREADS": "1",
    }


def end(child: subprocess.Popen[str]) -> None:
    """Nothing of the child's group stays, however it ended."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        child.wait()


def network(hidden: Iterable[int]) -> nn.Sequential:
    """The model."""
    widths = [FEATURES, *hidden, CLASSES]
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@app.train()
def train(message: Message, context: Context) -> Message:
    """One client's local step, as in the quickstart."""
    torch.set_num_threads(1)
    config = message.content["config"]
    model = network([width] if (width := int(config["width"])) else [])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    random = torch.Generator().manual_seed(int(context.node_config["partition-id"]))
    x = torch.rand((BATCH, FEATURES), generator=random)
    y = torch.randint(CLASSES, (BATCH,), generator=random)
    optimizer = torch.optim.SGD(model.parameters(), lr=float(config["rate"]))
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    metrics = MetricRecord({"loss": loss.item(), "num-examples": BATCH})
    return Message(
        content=RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message
    )


def run(clients: int, rounds: int, hidden: tuple[int, ...]) -> None:
    """In a process of its own: the whole simulation, then one line with the seconds of each round."""
    from flwr.simulation import run_simulation

    ends: list[float] = []
    answered: list[int] = []
    server = ServerApp()

    def counted(replies: list[RecordDict], _: str) -> MetricRecord:
        answered.append(len(replies))
        return MetricRecord()

    def after(*_: Any) -> None:
        ends.append(perf_counter())

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_train_nodes=clients,  # with the next, wait for all nodes: they are still arriving in the first round
            min_available_nodes=clients,
            train_metrics_aggr_fn=counted,
        )
        strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(network(hidden).state_dict()),
            num_rounds=rounds,
            timeout=A_ROUND,
            train_config=ConfigRecord({"width": hidden[0] if hidden else 0, "rate": 0.1}),
            evaluate_fn=after,
        )

    run_simulation(
        server_app=server,
        client_app=app,
        num_supernodes=clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": os.cpu_count() or 1, "include_dashboard": False},
        },
    )
    if answered != [clients] * rounds:
        raise RuntimeError(f"{clients} clients were asked in each of {rounds} rounds, and answered: {answered}")
    print(MEASURED + json.dumps([after - before for before, after in pairwise(ends)]), flush=True)


def main() -> None:
    """Both models at 1,000 nodes."""
    for hidden in MODELS:
        each = seconds_a_round(1_000, 2, hidden)
        model = "-".join(map(str, (FEATURES, *hidden, CLASSES)))
        print(f"{model:<12} {each:.2f} s a round of 1,000 nodes, {1000 * each / 1_000:.1f} ms a client", flush=True)


if __name__ == "__main__":
    main()
