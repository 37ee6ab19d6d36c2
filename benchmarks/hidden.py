"""What hidden steps cost and what they learn: `python -m benchmarks.hidden [FIGURE | --digits]`.

The first is a table of ε against K, with every step charged beside it; the second trains digits three ways at equal ε.
Both are in docs/hidden.md. Settings of DpSgd are the best of a coarse grid with another seed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand
from fedpriv.mechanisms import HiddenState
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.file import parsed_study
from simulations.figures.curves import COLOURS
from simulations.figures.panels import DASHED, Line, Panel, figure_bytes
from simulations.runs.running import run

STEPS = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
PENALTIES = (0.1, 0.01, 0.001)
DELTA = 1e-5
SEEDS = (1, 2, 3)
DIMENSION = 650  # of digits' logistic regression
WALKS = (  # penalty, learning rate, local steps
    {"penalty": 0.01, "rate": 2.0, "steps": 25}, {"penalty": 0.01, "rate": 2.0, "steps": 100},
    {"penalty": 0.03, "rate": 2.0, "steps": 400},
)  # fmt: skip
SUMS: dict[float, dict[str, Any]] = {
    1.0: {"clip": 0.3, "sampling": 1.0, "step": 8.0, "rounds": 100},
    3.0: {"clip": 0.3, "sampling": 0.5, "step": 8.0, "rounds": 200},
}
HEAD = """
name = "compared"
data = { kind = "Digits", divide = 16.0, subtract = 0.3 }
clients = { count = 1, records = 1437 }
"""


def costs(penalty: float, count: int) -> tuple[float, float]:
    """ε of so many hidden steps (X = 1, η = 1, σ = 10, replace), and with every one charged."""
    own = HiddenState(noise=10.0, radius=1.0, penalty=penalty, rate=1.0, steps=count)
    hidden = Account((by_hand(own, adjacency="replace"),)).upper_epsilon(DELTA)
    every = HiddenState(noise=10.0 / sqrt(count), radius=1.0, penalty=penalty, rate=1.0, steps=1)
    return hidden, Account((by_hand(every, adjacency="replace"),)).upper_epsilon(DELTA)


def hidden_study(noise: float | None, *, epsilon: float, penalty: float, rate: float, steps: int, seed: int) -> str:
    """A study of one round of hidden steps on digits, at a noise, or else calibrated to ε."""
    target, given = (f"epsilon = {epsilon}", "") if noise is None else ("delta = 1e-5", f"noise = {noise}")
    return f"""{HEAD}
training = {{ local_steps = {steps}, learning_rate = {rate} }}
server = {{ step = {rate} }}
run = {{ rounds = 1, seed = {seed} }}
[privacy]
{target}
adjacency = "add-remove"
[privacy.release]
kind = "HiddenState"
radius = 1.0
penalty = {penalty}
{given}
"""


def dpsgd_study(epsilon: float, *, clip: float, sampling: float, step: float, rounds: int, seed: int) -> str:
    """A study of DP-SGD on digits, calibrated to ε."""
    return f"""{HEAD}
privacy = {{ epsilon = {epsilon}, release = {{ kind = "DpSgd", clip = {clip}, sampling = {sampling} }} }}
server = {{ step = {step} }}
run = {{ rounds = {rounds}, seed = {seed}, evaluate_every = {rounds} }}
"""


def told(studies: Sequence[str]) -> str:
    """The mean accuracy of runs in words, and half the range that they span in brackets."""
    with TemporaryDirectory() as place:
        found = [run(text, f"{place}/{number}", quiet=True).accuracy or 0.0 for number, text in enumerate(studies)]
    return f"{sum(found) / len(found):.3f} ({(max(found) - min(found)) / 2:.3f})"


def noise_of_every_step(epsilon: float, steps: int) -> float:
    """The noise at which so many steps (add-remove), every one charged, cost ε: what hiding them would not need."""
    low, high = 1e-2, 1e4
    while high / low > 1 + 1e-6:
        middle = sqrt(low * high)
        own = HiddenState(noise=middle / sqrt(steps), radius=1.0, penalty=0.1, rate=1.0, steps=1)
        cost = Account((by_hand(own, adjacency="add-remove"),)).upper_epsilon(DELTA)
        low, high = (middle, high) if cost > epsilon else (low, middle)
    return high


def digits() -> None:
    """Print the accuracies of digits three ways at each ε, means of three seeds."""
    print("| ε | steps | hidden | σ | every step charged | σ |\n|---|---|---|---|---|---|")
    for epsilon, walk in product(SUMS, WALKS):
        own = [hidden_study(None, epsilon=epsilon, **walk, seed=seed) for seed in SEEDS]
        every = noise_of_every_step(epsilon, int(walk["steps"]))
        charged = [hidden_study(every, epsilon=epsilon, **walk, seed=seed) for seed in SEEDS]
        release = calibrated_study(parsed_study(own[0]), DIMENSION).privacy.hidden
        assert release is not None
        words = f"K = {walk['steps']}, λ = {walk['penalty']:g}"
        print(
            f"| {epsilon:g} | {words} | {told(own)} | {release.noise:.1f} | {told(charged)} | {every:.1f} |", flush=True
        )
    for epsilon, sums in SUMS.items():
        print(f"DpSgd at {epsilon:g}: {told([dpsgd_study(epsilon, **sums, seed=seed) for seed in SEEDS])}")


def by_steps(file: str = "") -> None:
    """Print ε against K for some penalties, with every step charged beside it; as a figure too, where one is asked."""
    print("| K |" + "".join(f" λ = {each:g} |" for each in PENALTIES) + " every step charged |\n|---|" + "---|" * 4)
    table = [[costs(penalty, count) for penalty in PENALTIES] for count in STEPS]
    for count, row in zip(STEPS, table, strict=True):
        print(f"| {count} |" + "".join(f" {hidden:.3f} |" for hidden, _ in row) + f" {row[0][1]:.3f} |")
    if file:
        x = np.array(STEPS, float)
        ends = [[row[place][0] for row in table] for place in range(len(PENALTIES))]
        lines = [
            Line(f"hidden, λ = {penalty:g}", x, np.array(y), COLOURS[place])
            for place, (penalty, y) in enumerate(zip(PENALTIES, ends, strict=True))
        ]
        lines.append(Line("every step charged", x, np.array([row[0][1] for row in table]), COLOURS[4], DASHED))
        panel = Panel(
            title="σ = 10, X = 1, η = 1, replace", x="local steps K", y="ε at δ = 10⁻⁵", lines=lines, log=10, top=20.0,
            key="upper left",
        )  # fmt: skip
        Path(file).write_bytes(figure_bytes([panel]))


if __name__ == "__main__":
    if sys.argv[1:] == ["--digits"]:
        digits()
    else:
        by_steps(*sys.argv[1:])
