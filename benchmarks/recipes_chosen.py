"""How the settings of docs/recipes.md were chosen: on 5,000 of the images to train on, held out here; no test image.

python -m benchmarks.recipes_chosen                    # every recipe and settings near its own, from one seed
python -m benchmarks.recipes_chosen fashion-votes      # those of one study
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.recipes import RECIPES, STILL, Recipe, result_of
from clients.data import Idx
from fedpriv._base.tables import inline_toml
from fedpriv.studies.file import shipped_studies

HELD_OUT = 5000  # of 60,000: the same ones each time
FEWER = {"dpsgd-fashion": "clients.records=55000", "fashion-votes": "clients.count=5500"}
NEAR = {
    "dpsgd-fashion": (STILL, ("server.step=36",), ("server.momentum=0.95",)),
    "fashion-votes": (
        ("data.features.cells=[4,7]",),
        ("run.rounds=40", "server.step=2"),
        ("run.rounds=15", "server.step=4"),
    ),
}


def save_records(directory: Path) -> None:
    """Write the images to train on into a directory, in an order in which a study that reads it holds out the last."""
    pool = Idx(divide=255.0).load()
    order = np.roll(np.random.default_rng(0).permutation(len(pool)), -HELD_OUT)
    np.save(directory / "x.npy", np.asarray(pool.x)[order])
    np.save(directory / "y.npy", np.asarray(pool.y)[order])


def held_out_recipe(recipe: Recipe, near: tuple[str, ...], directory: Path) -> Recipe:
    """A recipe with some settings changed, that trains on all records in a directory but those held out there."""
    features = tomllib.loads(shipped_studies()[recipe.study].read_text("utf-8"))["data"]["features"]
    data = {"kind": "Arrays", "path": str(directory), "held_out": HELD_OUT, "divide": 255.0, "features": features}
    changes = *recipe.changes, FEWER[recipe.study], f"data={inline_toml(data)}", *near
    return replace(recipe, changes=changes)


def print_chosen(studies: list[str]) -> None:
    """Print what each recipe of these studies, all where none is named, and those near come to on images held out."""
    print("| recipe | changed | accuracy held out |\n|---|---|---|")
    with TemporaryDirectory() as there:
        save_records(Path(there))
        for recipe in (each for each in RECIPES if not studies or each.study in studies):
            for near in ((), *NEAR[recipe.study]):
                found, _ = result_of(held_out_recipe(recipe, near, Path(there)), seed=1)
                print(f"| `{recipe.command}` | {' '.join(near)} | {100 * found['accuracy']:.2f} |", flush=True)


if __name__ == "__main__":
    print_chosen(sys.argv[1:])
