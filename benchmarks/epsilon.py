"""What ε, μ, β and evaluation after every round cost a run, beside runs without them: interleaved, in own processes.

    python -m benchmarks.epsilon [--times 5] [STUDY ...]

Times are CPU seconds. A run's rounds are counted with all that is prepared for them in them, in a process that has
prepared nothing but what any run begins with. Clients' work varies by more than ε takes on a busy machine, so the same
ratio is also given of one run: all of its rounds over what is left of them without ε and evaluation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

from fedpriv.studies import file as study_file
from server import rounds
from simulations.runs.direct import Here

LAST = 16  # rounds at the end of a run, for which nothing is prepared any more: some at once, so their mean is taken
STUDIES = {"digits": (), "digits, local trust": ("privacy.trust=local",), "ptr": ("run.rounds=40",)}


def run_once(name: str, *overrides: str) -> dict[str, Any]:
    """CPU seconds of all rounds, of each round, and of each ε with its μ and β."""
    spent: dict[str, list[float]] = {"go": [], "_round": [], "_spent": [], "_evaluated": []}
    for method, found in spent.items():
        setattr(rounds.Rounds, method, _timed(getattr(rounds.Rounds, method), found))
    with tempfile.TemporaryDirectory() as home:
        rounds.run_rounds(study_file.read_study(name, overrides), Path(home) / "run", Here(1), quiet=True)
    return spent


def _timed(method: Any, found: list[float]) -> Any:
    def called(*args: Any) -> Any:
        begun = time.process_time()
        try:
            return method(*args)
        finally:
            found.append(time.process_time() - begun)

    return called


def measured(label: str, times: int) -> str:
    """A row: the ratio, what is prepared, and a later round's share."""
    name, overrides = label.split(",")[0], STUDIES[label]
    each: dict[int, list[dict[str, Any]]] = {1: [], 1000: []}
    for _ in range(times):
        for every, found in each.items():
            asked = [sys.executable, "-m", "benchmarks.epsilon", "--one", name, f"run.evaluate_every={every}"]
            asked += overrides
            found.append(json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout))
    whole, without = (median(one["go"][0] for one in each[every]) for every in (1, 1000))
    later = median(mean(one["_spent"][-LAST - 2 : -2]) for one in each[1])  # the last line asks once more, and the end
    prepared = median(sum(one["_spent"]) - len(one["_round"]) * later for one in each[1])
    share = median(mean(one["_spent"][-LAST - 2 : -2]) / mean(one["_round"][-LAST:]) for one in each[1])
    own = median(one["go"][0] / (one["go"][0] - sum(one["_spent"]) - sum(one["_evaluated"])) for one in each[1])
    cells = [f"{without:.3f}", f"{whole:.3f}", f"{whole / without:.2f}", f"{own:.2f}", f"{1e3 * prepared:.0f}"]
    return " | ".join(["", label, *cells, f"{1e3 * later:.2f}", f"{share:.1%}", ""]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--one", nargs="+", metavar="STUDY", help=argparse.SUPPRESS)
    parser.add_argument("studies", nargs="*", default=list(STUDIES))
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run_once(*given.one)))
        return
    print(
        "| study | rounds without, s | with, s | ratio | of one run | prepared, ms | later ε, μ, β, ms | of its round |"
    )
    print("|---|" + 7 * "---:|")
    for label in given.studies:
        print(measured(label, given.times), flush=True)


if __name__ == "__main__":
    main()
