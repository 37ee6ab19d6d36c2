"""Seconds a round of a deployment: fedpriv beside a bare Flower app that sends the same messages, on one SuperLink.

Ten SuperNodes on this machine, with TLS and a policy each; one client a node. The bare app's server sends what ours
sends and waits by Flower's own `send_and_receive`; its clients return as many bytes, of nothing. Once they import
numpy alone, once torch too, as any client does that trains with it. What a round of fedpriv does more: gradients,
clipping, encoding, a policy, a ledger on disk before and an answer on disk after, checks and a checkpoint. Each is run
for a round that warms up and ROUNDS more; the median of these is shown, and the processor time that all processes of
the deployment take for one, which depends less on what else this machine does.

With --masked, instead: a masked sum of 100,000 coordinates over five nodes of ten clients.

    python -m benchmarks.deployment [--nodes N] [--rounds R] [--masked]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from clients.training.prepared import net_of, pool_of
from fedpriv import wire
from fedpriv.studies import file as study_file
from simulations.cli.deploy import POLICY
from simulations.flower.deploy_processes import end_deployment, start_deployment
from simulations.flower.deploy_state import HOME, NAME, Deployment

NODES, ROUNDS = 10, 3
STUDY = """
name = "bench"
data.kind = "Digits"
clients = {{ count = {nodes}, records = 100 }}
privacy.mechanism = {{ kind = "StochasticSign", clip = 1.0, peak = 0.2, scale = 2.0 }}
aggregation.kind = "MajorityVote"
run.rounds = {rounds}
"""
MASKED_NODES = 5
MASKED = """
name = "masked"
data = {{ kind = "Synthetic", records = 1000, features = 9999, classes = 10, held_out = 100 }}
clients = {{ count = {clients}, records = 20 }}
privacy = {{ trust = "secure-aggregation", mechanism = {{ kind = "Binomial", clip = 1.0, trials = 4, scale = 2.0 }} }}
masking.threshold = 0.7
server = {{ step = 0.01, timeout = 300.0 }}
run.rounds = {rounds}
"""
PROJECT = """
[project]
name = "bare"
version = "1.0.0"
license = "Apache-2.0"
[tool.flwr.app]
publisher = "bare"
[tool.flwr.app.components]
serverapp = "bare:server"
clientapp = "bare:client"
"""
BARE = """
import json, time
import numpy as np
{imports}
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()

@client.train()
def train(message, context):
    found = Array("uint8", ({reply},), "bytes", bytes({reply}))
    return Message(RecordDict({{"answer": ArrayRecord({{"frames": found}})}}), reply_to=message)

@server.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < {nodes}:
        time.sleep(1)
    for _ in range({rounds}):
        begun = time.perf_counter()
        arrays = ArrayRecord({{"weights": Array(np.zeros({dimension}, np.float32)), "clients": Array(np.arange(1))}})
        content = RecordDict({{"arrays": arrays, "task": ConfigRecord({{"study": "x" * {study}, "round": 1}})}})
        replies = list(grid.send_and_receive([Message(content, node, MessageType.TRAIN) for node in nodes]))
        assert len(replies) == {nodes} and not any(reply.has_error() for reply in replies)
        with open({out!r}, "a") as file:
            print(json.dumps({{"seconds": time.perf_counter() - begun}}), file=file)
"""


@dataclass(frozen=True)
class Measured:
    """What rounds took: each in seconds, the first apart, and all processes together in processor time, on average."""

    first: float
    seconds: list[float]
    processor: float


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds a round of a deployment, beside a bare Flower app's.")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--masked", action="store_true")
    chosen = parser.parse_args()
    nodes = chosen.nodes or (MASKED_NODES if chosen.masked else NODES)
    with tempfile.TemporaryDirectory(prefix="fp-") as scratch:
        place = Path(scratch)
        found = start_deployment(
            place / "deployment", nodes, True, 0, POLICY.format(noise="cryptographic", why=""), print
        )
        try:
            if chosen.masked:
                text = MASKED.format(clients=10 * nodes, rounds=chosen.rounds + 1)
                measured = {
                    "fedpriv, masked": fedpriv(place, found, study_file.study_text(study_file.parsed_study(text)))
                }
            else:
                measured = beside(place, found, chosen.rounds)
        finally:
            end_deployment(place / "deployment")
    for name, own in measured.items():
        every = " ".join(f"{each:.1f}" for each in own.seconds)
        print(f"{name:24} {median(own.seconds):6.2f} s a round   ({every}; the first {own.first:.1f})   "
              f"{own.processor:6.2f} s of processor time")  # fmt: skip
    if ours := measured.pop("fedpriv", None):
        for name, own in measured.items():
            ratio = median(ours.seconds) / median(own.seconds)
            print(f"{ratio:.2f} × {name}, {ours.processor / own.processor:.2f} × its processor time")


def beside(place: Path, deployment: Deployment, rounds: int) -> dict[str, Measured]:
    study = study_file.parsed_study(STUDY.format(nodes=deployment.nodes, rounds=rounds + 1))
    dimension = net_of(study, pool_of(study)).dimension
    reply = wire.client_bytes(study.privacy.drawn_by, dimension, None).whole + 16
    sizes = {"nodes": deployment.nodes, "rounds": rounds + 1, "dimension": dimension, "reply": reply}
    sizes["study"] = len(study_file.study_text(study))
    return {
        "a bare app, numpy alone": bare(place, deployment, "numpy", "", sizes),
        "fedpriv": fedpriv(place, deployment, study_file.study_text(study)),
        "a bare app with torch": bare(place, deployment, "torch", "import torch", sizes),
    }


def bare(place: Path, deployment: Deployment, name: str, imports: str, sizes: dict[str, int]) -> Measured:
    app, out = place / name, place / f"{name}.jsonl"
    app.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "bare.py").write_text(BARE.format(imports=imports, out=str(out), **sizes))
    return rounds_of(place, deployment, ["flwr", "run", str(app), NAME, "--stream"], out)


def fedpriv(place: Path, deployment: Deployment, study: str) -> Measured:
    (place / "bench.toml").write_text(study)
    run = [sys.executable, "-m", "simulations.command_line", "run", str(place / "bench.toml"), "--superlink", NAME]
    command = [*run, "--out", str(place / "run"), "--quiet"]
    found = rounds_of(place, deployment, command, place / "run" / "timings.jsonl")
    result = json.loads((place / "run" / "result.json").read_text())
    assert not result["skipped"], result
    return found


def rounds_of(place: Path, deployment: Deployment, command: list[str], timings: Path) -> Measured:
    """Run a command that writes a line of timings after each round, and look at the processes meanwhile."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"FLWR_HOME": str(place / "deployment" / HOME), "PATH": path}
    with (place / "said").open("w+") as said:
        process = subprocess.Popen(command, env=env, stdout=said, stderr=said)
        taken = {0: 0.0}  # after so many rounds
        while process.poll() is None:
            if (done := len(lines(timings))) not in taken:
                taken[done] = processor_time(deployment)
            time.sleep(0.05)
        said.seek(0)
        if process.returncode:
            raise SystemExit(f"{command[0]}: {said.read()[-2000:]}")
    first, *seconds = (json.loads(line)["seconds"] for line in lines(timings))
    last = max(taken)
    return Measured(first, seconds, (taken[last] - taken[1]) / (last - 1))


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def processor_time(deployment: Deployment) -> float:
    """Seconds that a deployment's processes have taken so far, with those that have ended."""
    own, ticks = set(deployment.left_over()), 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = file.read_text().rpartition(")")[2].split()
            if {int(file.parent.name), int(words[1])} & own:  # one that nobody has waited for yet has no environment
                ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
