"""How the settings of docs/recipes.md were chosen: on images to train on that are held out here; no test image.

python -m benchmarks.recipes_chosen                    # every recipe and settings near its own, from one seed
python -m benchmarks.recipes_chosen fashion-votes      # those of one study
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.recipes import RECIPES, STILL, Recipe, result_of
from clients.data import DATA_SETS
from fedpriv._base.tables import inline_toml
from fedpriv.studies.file import read_study

HELD_OUT = {"Digits": 300, "Idx": 5000}  # of 1,437 and 60,000: the same ones each time
NEAR = {
    "dpsgd": (("server.step=0.5",), ("server.step=1",), ("server.step=2",), ("server.step=4",)),
    "digits": (("server.step=1.6",), ("server.step=3.2",), ("server.step=6.4",), ("run.rounds=20",)),
    "central": (("server.step=1.6",), ("server.step=3.2",), ("server.step=6.4",), ("run.rounds=20",)),
    "dpsgd-fashion": (STILL, ("server.step=36",), ("server.momentum=0.95",)),
    "fashion-votes": (
        ("data.features.cells=[4,7]",),
        ("run.rounds=40", "server.step=2"),
        ("run.rounds=15", "server.step=4"),
    ),
}


def held_out_recipe(recipe: Recipe, near: tuple[str, ...], directory: Path) -> Recipe:
    """A recipe with some settings changed, that trains on its records but for those held out in a directory's files."""
    study = read_study(recipe.study)
    data, clients = study.table()["data"], study.clients
    kind, held_out = data.pop("kind"), HELD_OUT[data_kind(recipe)]
    if not (directory / "y.npy").exists():  # in an order in which a study that reads it holds out the last
        pool = DATA_SETS.made(kind, {name: own for name, own in data.items() if name != "features"}).load()
        order = np.roll(np.random.default_rng(0).permutation(len(pool)), -held_out)
        np.save(directory / "x.npy", np.asarray(pool.x)[order])
        np.save(directory / "y.npy", np.asarray(pool.y)[order])
    if clients.count == 1:
        fewer = f"clients.records={clients.records - held_out}"
    else:
        fewer = f"clients.count={clients.count - held_out // clients.records}"
    own = {"kind": "Arrays", **data, "path": str(directory), "held_out": held_out}
    return replace(recipe, changes=(*recipe.changes, fewer, f"data={inline_toml(own)}", *near))


def data_kind(recipe: Recipe) -> str:
    """Which data a recipe's study trains on, by the name of their class."""
    return read_study(recipe.study).data.kind


def print_chosen(studies: list[str]) -> None:
    """Print what each recipe of these studies, all where none is named, and those near come to on images held out."""
    print("| recipe | changed | accuracy held out |\n|---|---|---|")
    with TemporaryDirectory() as there:
        for recipe in (each for each in RECIPES if not studies or each.study in studies):
            directory = Path(there) / data_kind(recipe)
            directory.mkdir(exist_ok=True)
            for near in ((), *NEAR[recipe.study]):
                found, _ = result_of(held_out_recipe(recipe, near, directory), seed=1)
                print(f"| `{recipe.command}` | {' '.join(near)} | {100 * found['accuracy']:.2f} |", flush=True)


if __name__ == "__main__":
    print_chosen(sys.argv[1:])
