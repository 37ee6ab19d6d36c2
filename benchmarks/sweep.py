"""32 short cells of a sweep on two workers, beside the same cells one after another in one process; 1.7 is asked for.

Each is started as anybody would, from nothing: Python, torch and, for the sweep, Ray are loaded and ended inside the
time: some five seconds, which shorter cells feel. Cells are runs of the digits study, for two rules and sixteen seeds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = (200,)  # some five seconds a cell, or ten
STUDY = """
data = { kind = "Digits", divide = 16.0, subtract = 0.3 }
clients = { count = 1437, records = 1, byzantine = 0.1 }
privacy = { norm = "normalise", mechanism = { kind = "Binomial", clip = 1.0, peak = 0.2, trials = 4, scale = 0.9 } }
attack = { kind = "SignFlip" }
server = { step = 2.0, momentum = 0.9 }
run = { rounds = ROUNDS, evaluate_every = ROUNDS, checkpoint_every = ROUNDS }
[sweep]
run.seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
aggregation = [{ kind = "Mean" }, { kind = "TrimmedMean" }]
"""
ONE_AFTER_ANOTHER = """
import sys
from pathlib import Path
from server import rounds
from simulations.runs.direct import Here
from simulations.sweep.grid import grid_of

for cell in grid_of(sys.argv[1]).cells:
    rounds.run_rounds(cell.study, Path(sys.argv[2]) / cell.id, Here(), quiet=True)
"""


def rows() -> list[dict[str, str]]:
    """One row for each length of cells."""
    found = []
    for rounds in ROUNDS:
        one = seconds(rounds, "-c", ONE_AFTER_ANOTHER, "{study}", "{out}")
        sweep = "-m", "simulations.command_line", "sweep", "{study}", "--out", "{out}", "--workers", "2", "--quiet"
        two = seconds(rounds, *sweep)
        found.append({
            "sweep": f"32 cells of the digits study, {rounds} rounds each", "one after another, s": f"{one:.1f}",
            "two workers, s": f"{two:.1f}", "ratio": f"{one / two:.2f}", "asked for": "1.7",
        })  # fmt: skip
    return found


def seconds(rounds: int, *words: str) -> float:
    """From the start of a process to its end."""
    with tempfile.TemporaryDirectory() as folder:
        study, out = Path(folder) / "bench.toml", Path(folder) / "out"
        study.write_text(STUDY.replace("ROUNDS", str(rounds)), encoding="utf-8")
        known = {"{study}": str(study), "{out}": str(out)}
        begun = time.perf_counter()
        subprocess.run([sys.executable, *(known.get(word, word) for word in words)], check=True)
        return time.perf_counter() - begun


if __name__ == "__main__":
    print(*rows(), sep="\n")
