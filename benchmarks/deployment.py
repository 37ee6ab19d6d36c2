"""Seconds a round of a deployment: fedpriv beside a bare Flower app that sends the same messages, on one SuperLink.

Ten SuperNodes on this machine, with TLS and a policy each; one client a node. The bare app's server sends what ours
sends and waits by Flower's own `send_and_receive`; its clients return as many bytes, of nothing. Once they import
numpy alone, once torch too, as any client does that trains with it. What a round of fedpriv does more: gradients,
clipping, encoding, a policy, a ledger on disk before and an answer on disk after, checks and a checkpoint. Each is run
for a round that warms up and ROUNDS more; the median of these is shown.

    python -m benchmarks.deployment [--nodes N] [--rounds R]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from clients.cohort import net_of, pool_of
from fedpriv import study_file, wire
from simulations.deploy_commands import POLICY
from simulations.deploy_processes import down, up
from simulations.deploy_state import HOME, NAME

NODES, ROUNDS = 10, 3
STUDY = """
name = "bench"
data.kind = "Digits"
clients = {{ count = {nodes}, records = 100 }}
privacy.mechanism = {{ kind = "StochasticSign", clip = 1.0, peak = 0.2, scale = 2.0 }}
aggregation.kind = "MajorityVote"
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
    times = []
    for _ in range({rounds}):
        begun = time.perf_counter()
        arrays = ArrayRecord({{"weights": Array(np.zeros({dimension}, np.float32)), "clients": Array(np.arange(1))}})
        content = RecordDict({{"arrays": arrays, "task": ConfigRecord({{"study": "x" * {study}, "round": 1}})}})
        replies = list(grid.send_and_receive([Message(content, node, MessageType.TRAIN) for node in nodes]))
        assert len(replies) == {nodes} and not any(reply.has_error() for reply in replies)
        times.append(time.perf_counter() - begun)
    open({out!r}, "w").write(json.dumps(times))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds a round of a deployment, beside a bare Flower app's.")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fp-") as scratch:
        place = Path(scratch)
        found = up(place / "deployment", chosen.nodes, True, 0, POLICY.format(noise="cryptographic", why=""), print)
        try:
            times = measured(place, found.nodes, chosen.rounds)
        finally:
            down(place / "deployment")
    for name, own in times.items():
        every = " ".join(f"{each:.1f}" for each in own[1:])
        print(f"{name:24} {median(own[1:]):6.2f} s a round   ({every}; the first {own[0]:.1f})")
    ours = median(times["fedpriv"][1:])
    print(", ".join(f"{ours / median(own[1:]):.2f} × {name}" for name, own in times.items() if name != "fedpriv"))


def measured(place: Path, nodes: int, rounds: int) -> dict[str, list[float]]:
    """The seconds of every round, the first included."""
    study = study_file.parsed(STUDY.format(nodes=nodes, rounds=rounds + 1))
    dimension = net_of(study, pool_of(study)).dimension
    reply = wire.client_bytes(study.privacy.chosen, dimension, None) + 16
    sizes = {"nodes": nodes, "rounds": rounds + 1, "dimension": dimension, "reply": reply}
    sizes["study"] = len(study_file.text(study))
    return {
        "a bare app, numpy alone": bare(place, "numpy", "", sizes),
        "fedpriv": fedpriv(place, study_file.text(study)),
        "a bare app with torch": bare(place, "torch", "import torch", sizes),
    }


def bare(place: Path, name: str, imports: str, sizes: dict[str, int]) -> list[float]:
    app, out = place / name, place / f"{name}.json"
    app.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "bare.py").write_text(BARE.format(imports=imports, out=str(out), **sizes))
    started(place, ["flwr", "run", str(app), NAME, "--stream"])
    found: list[float] = json.loads(out.read_text())
    return found


def fedpriv(place: Path, study: str) -> list[float]:
    (place / "bench.toml").write_text(study)
    run = [sys.executable, "-m", "simulations.command_line", "run", str(place / "bench.toml"), "--superlink", NAME]
    started(place, [*run, "--out", str(place / "run"), "--quiet"])
    result = json.loads((place / "run" / "result.json").read_text())
    assert not result["skipped"], result
    lines = (place / "run" / "timings.jsonl").read_text().splitlines()
    return [json.loads(line)["seconds"] for line in lines]


def started(place: Path, command: list[str]) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"FLWR_HOME": str(place / "deployment" / HOME), "PATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command[0]}: {(done.stderr or done.stdout)[-2000:]}")


if __name__ == "__main__":
    main()
