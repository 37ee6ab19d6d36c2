"""A whole private round (gradients, clip, encode, pack, check, aggregate, step, ledger) beside the gradients alone.

Stochastic sign, majority vote, one gradient of 32 records a client; every client's records stand one after another in a
memory-mapped pool of 60,000 × 784 float32, for both. "alone" is `benchmarks.gradients_alone` on the same number of
workers, measured before and after each of ours in the same run; a ratio is its time over ours, the best rounds of both,
so 1.0 would be a private round for nothing. Flower picks up one message a node every 0.1 s: its row says how much of a
round that is. Peers do the round without privacy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks import gradients_alone, peers, stock_flower

MODELS: tuple[tuple[int, ...], ...] = ((), (128,))
BATCH, ROUNDS = 32, 12
STUDY = """
name = "bench"
[data]
kind = "Arrays"
path = "{path}"
[clients]
count = {clients}
records = 32
split = "in-order"
[training.model]
{model}
[privacy.mechanism]
kind = "StochasticSign"
clip = 1.0
peak = 0.1
scale = 0.5
[aggregation]
kind = "MajorityVote"
[server]
step = 0.001
[run]
rounds = {rounds}
evaluate_every = 1000
checkpoint_every = 1000
"""

Row = dict[str, str]


def rows() -> list[Row]:
    """Every row, each measured beside its baseline."""
    with pool() as path:
        return [*direct(path), *through_flower(path), *against_peers(path), *many(path)]


@contextmanager
def pool() -> Iterator[Path]:
    """60,000 random records in two files."""
    path = Path(tempfile.mkdtemp(prefix="fedpriv-bench-"))
    rng = np.random.default_rng(1)
    try:
        np.save(path / "x.npy", rng.random((60_000, 784), np.float32))
        np.save(path / "y.npy", rng.integers(10, size=60_000))
        np.save(path / "x_test.npy", rng.random((100, 784), np.float32))
        np.save(path / "y_test.npy", rng.integers(10, size=100))
        yield path
    finally:
        shutil.rmtree(path)


def name(hidden: tuple[int, ...]) -> str:
    return "-".join(map(str, (784, *hidden, 10)))


@cache
def alone(hidden: tuple[int, ...], clients: int, workers: int, turn: int) -> float:
    """The gradients and nothing else; each turn is measured anew."""
    del turn
    return gradients_alone.seconds(hidden, clients, BATCH, workers)


def ours(path: Path, hidden: tuple[int, ...], clients: int, *options: str, rounds: int = ROUNDS) -> float:
    """The best round of a run of its own, started as anybody would."""
    return run(path, hidden, clients, *options, rounds=rounds)[0]


def run(path: Path, hidden: tuple[int, ...], clients: int, *options: str, rounds: int = ROUNDS) -> tuple[float, int]:
    """Seconds of the best round, and the most memory the command held, in bytes."""
    model = 'kind = "Logistic"' if not hidden else f'kind = "Mlp"\nhidden = {list(hidden)}'
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "bench.toml"
        study.write_text(STUDY.format(path=path, clients=clients, model=model, rounds=rounds))
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "simulations.command_line", "run", str(study), "--out", str(out), "--quiet"]
        process = subprocess.Popen([*command, *options])
        memory = held_until_end(process)
        if process.returncode:
            raise RuntimeError(f"{study.read_text()} ended with {process.returncode}")
        result = json.loads((out / "result.json").read_text())
        if result["failed"] or result["rejected"] or result["skipped"]:
            raise RuntimeError(f"not a whole round: {result}")
        lines = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
    return min(line["seconds"] for line in lines[1:]), memory


def held_until_end(process: subprocess.Popen[bytes]) -> int:
    """Wait; the most memory the process held, in bytes (what `wait4` tells begins with what we held ourselves)."""
    most = 0
    while process.poll() is None:
        with suppress(OSError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            most = max([most, *(int(line.split()[1]) * 1024 for line in status.splitlines() if "VmHWM" in line)])
        time.sleep(0.05)
    return most


def direct(path: Path) -> Iterator[Row]:
    for hidden, wanted in zip(MODELS, (0.6, 0.5), strict=True):
        before = alone(hidden, 1000, 1, 1)
        mine = ours(path, hidden, 1000, "--driver", "direct")
        yield compared(
            f"direct driver, {name(hidden)}, 1,000 clients, 1 worker", before, alone(hidden, 1000, 1, 2), mine, wanted
        )


def through_flower(path: Path) -> Iterator[Row]:
    for hidden, wanted in zip(MODELS, (0.3, 0.35), strict=True):
        before = alone(hidden, 10_000, 2, 1)
        mine = ours(path, hidden, 10_000, "--workers", "2")
        after = alone(hidden, 10_000, 2, 2)
        yield compared(f"Flower's simulation, {name(hidden)}, 10,000 clients, 2 workers", before, after, mine, wanted)
    yield {"round": "Flower's own wait for a message, in each of its rounds", "theirs, ms": "100.0"}


def against_peers(path: Path) -> Iterator[Row]:
    for hidden in MODELS:
        mine = ours(path, hidden, 1000, "--driver", "direct")
        for project, measure in (("pfl", peers.pfl_round_seconds), ("byzfl", peers.byzfl_round_seconds)):
            title = f"direct driver, {name(hidden)}, 1,000 clients (theirs: {project}, without privacy; 2 is asked for)"
            yield (
                row(title, measure(hidden), mine) if peers.installed(project) else {"round": f"{title}: not installed"}
            )
    mine = ours(path, (), 1000, "--workers", "2")
    stock = stock_flower.seconds_a_round(1000, 3, ())
    yield row(
        "Flower's simulation, 784-10, 1,000 clients (theirs: stock Flower, a client a node; 20 is asked for)",
        stock,
        mine,
    )


def many(path: Path) -> Iterator[Row]:
    """A hundred times the clients: time a client, and memory."""
    drawn = ("--driver", "direct", "--set", "clients.split=pool")
    few = ours(path, (), 1000, *drawn)
    seconds, memory = run(path, (), 100_000, *drawn, rounds=3)
    title = "1,000 clients (theirs) and a hundredth of 100,000, records drawn at random, direct driver, 784-10"
    yield row(f"{title} (0.77 is asked for)", few, seconds / 100)
    yield {"round": "memory of that run beside the data, MB (under 1,000 is asked for)",
           "fedpriv, ms": f"{(memory - (path / 'x.npy').stat().st_size) / 1e6:.0f} MB"}  # fmt: skip


def compared(title: str, before: float, after: float, mine: float, wanted: float) -> Row:
    return row(f"{title} (theirs: the gradients alone; {wanted} is asked for)", min(before, after), mine)


def row(title: str, theirs: float, mine: float) -> Row:
    return {"round": title, "theirs, ms": f"{theirs * 1e3:.1f}", "fedpriv, ms": f"{mine * 1e3:.1f}",
            "ratio": f"{theirs / mine:.2f}"}  # fmt: skip


if __name__ == "__main__":
    with pool() as folder:
        for room in (direct, through_flower, against_peers, many):
            for line in room(folder):
                print(line, flush=True)
