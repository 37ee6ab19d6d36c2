"""What the recipes of docs/recipes.md come to: each study run from several seeds by its own command, as a table.

python -m benchmarks.recipes                    # all of them, three seeds each
python -m benchmarks.recipes dpsgd-fashion      # those of one study
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

SEEDS = (1, 2, 3)
STILL = ("server.schedule=constant", "server.to=1")
LEAST = ("privacy.epsilon=1", "run.rounds=30", "server.step=2", "data.features.cells=[4,7]")
FLIPPING = ("clients.byzantine=0.1", "attack.kind=SignFlip")
HONEST = "clients.byzantine=0"
BRIEF = ("server.step=0.4", "run.rounds=5")


@dataclass(frozen=True)
class Recipe:
    """One line of the table: a study that ships, what its command changes in it, and what that is in words."""

    says: str
    study: str
    changes: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """What a recipe's command has behind `fedpriv run`."""
        return [self.study, *(part for change in self.changes for part in ("--set", change))]

    @property
    def command(self) -> str:
        """The command that a person types for a recipe."""
        return shlex.join(("fedpriv", "run", *self.arguments))


RECIPES = (
    Recipe("one holder", "dpsgd", ("privacy.epsilon=1", "server.step=0.5")),
    Recipe("one holder", "dpsgd"),
    Recipe("one holder", "dpsgd", ("privacy.epsilon=8", "server.step=4")),
    Recipe("sums alone", "digits", (HONEST, "privacy.epsilon=1", "server.step=3.2", "run.rounds=20")),
    Recipe("sums alone", "digits", (HONEST, "privacy.epsilon=3", "server.step=3.2")),
    Recipe("sums alone", "digits", (HONEST, "privacy.epsilon=8", "server.step=3.2")),
    Recipe("a trusted server", "central", (HONEST, "privacy.epsilon=1", "server.step=1.6")),
    Recipe("a trusted server", "central", (HONEST, "privacy.epsilon=3", "server.step=3.2")),
    Recipe("a trusted server", "central", (HONEST, "privacy.epsilon=8", "server.step=3.2")),
    *(
        Recipe("local", "digits", (HONEST, "privacy.trust=local", f"privacy.epsilon={epsilon}", *BRIEF))
        for epsilon in (1, 3, 8)
    ),
    Recipe("one holder", "dpsgd-fashion", ("privacy.epsilon=1", "server.step=9", "run.rounds=100", *STILL)),
    Recipe("one holder", "dpsgd-fashion"),
    Recipe("one holder", "dpsgd-fashion", ("privacy.epsilon=8",)),
    Recipe("sums alone", "fashion-votes", LEAST),
    Recipe("sums alone", "fashion-votes", ("privacy.epsilon=3",)),
    Recipe("sums alone", "fashion-votes"),
    Recipe("sums alone", "fashion-votes", ("privacy.epsilon=8",)),
    Recipe("sums alone, a tenth flips signs", "fashion-votes", FLIPPING),
)


def result_of(recipe: Recipe, seed: int) -> tuple[dict[str, Any], float]:
    """A recipe's result from one seed, and its seconds from the command to its end, features made anew."""
    with TemporaryDirectory() as there:
        command = [sys.executable, "-m", "simulations.command_line", "run", *recipe.arguments, "--driver", "direct"]
        began = perf_counter()
        done = subprocess.run(
            [*command, "--set", f"run.seed={seed}", "--json", "--quiet", "--out", f"{there}/run"],
            stdout=subprocess.PIPE, check=True, env={**os.environ, "FEDPRIV_CACHE": there},
        )  # fmt: skip
        return json.loads(done.stdout), perf_counter() - began


def recipes_table(studies: list[str]) -> None:
    """Print the table of docs/recipes.md for these studies, all where none is named, a line as soon as it is there."""
    print("| who sees what | ε at most | accuracy | seconds | command |\n|---|---|---|---|---|")
    for recipe in RECIPES:
        if studies and recipe.study not in studies:
            continue
        found = [result_of(recipe, seed) for seed in SEEDS]
        accuracies = [100 * result["accuracy"] for result, _ in found]
        epsilon = max(result["epsilon"]["upper"] for result, _ in found)
        print(
            f"| {recipe.says} | {epsilon:.4g} | {mean(accuracies):.2f} ({stdev(accuracies):.2f}) "
            f"| {max(seconds for _, seconds in found):.0f} | `{recipe.command}` |",
            flush=True,
        )


if __name__ == "__main__":
    recipes_table(sys.argv[1:])
