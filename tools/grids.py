"""Tables of a sweep for the pages of docs, by its report: `python -m tools.grids DIR/report/cells.csv` prints Markdown.

    python -m tools.grids runs/backdoors/report/cells.csv --measure backdoor --rows defence \
        --columns attack clients.byzantine --each alphabet
    python -m tools.grids runs/credible/report/cells.csv --rows defence --columns alphabet --worst attack
    python -m tools.grids runs/credible/report/cells.csv --rows defence --columns attack --each alphabet --heat FILE.png
    … --minus "alphabet=five symbols"

A field is the mean over seeds ± half of its 95% interval (Student's t). `--worst AXIS` takes of that axis the place
whose mean is the least (of a backdoor: the largest), as reports do. `--minus AXIS=LABEL` shows how much more each place
has than the one of that label, bold where the interval excludes 0. `--only AXIS=LABEL` leaves out all else.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

import numpy as np
from matplotlib import pyplot

from simulations.figures.intervals import interval_of, interval_words, paired_interval

Key = tuple[str, ...]
BySeed = dict[int, float]


def cells_by_place(file: str, axes: Sequence[str], measure: str, only: dict[str, str]) -> dict[Key, BySeed]:
    """What a report's cells.csv has of a measure, at each place of some axes by seed, of the rows that are `only`."""
    found: dict[Key, BySeed] = {}
    with open(file, encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if any(row[axis] != label for axis, label in only.items()):
                continue
            seeds = found.setdefault(tuple(row[axis] for axis in axes), {})
            if row[measure]:
                if int(row["seed"]) in seeds:
                    raise SystemExit(f"{file}: places differ in more than {', '.join(axes)}")
                seeds[int(row["seed"])] = float(row[measure])
    return found


def worst_of(found: dict[Key, BySeed], at: int, largest: bool) -> dict[Key, BySeed]:
    """Of each place of a sweep without the axis at `at`, the seeds of the one there whose mean is the worst."""
    groups: dict[Key, list[BySeed]] = {}
    for key, seeds in found.items():
        if seeds:
            groups.setdefault(key[:at] + key[at + 1 :], []).append(seeds)
    pick: Callable[..., BySeed] = max if largest else min
    return {key: pick(each, key=lambda seeds: fmean(seeds.values())) for key, each in groups.items()}


def less_those_at(found: dict[Key, BySeed], at: int, label: str, digits: int) -> dict[Key, str]:
    """How much more each place has than the one with that label on the axis at `at`, seed by seed, in words."""
    words = dict[Key, str]()
    for key, seeds in found.items():
        base = found.get((*key[:at], label, *key[at + 1 :]))
        if base is None or key[at] == label:
            continue
        more = paired_interval(seeds, base)
        text = interval_words(more, digits, sign="+")
        words[key] = f"**{text}**" if more is not None and more.side else text
    return words


def markdown_table(words: dict[Key, str], rows: int, each: Key) -> Iterable[str]:
    """Lines of a Markdown table of the places that begin with `each`: the next `rows` labels, then the others."""
    here = {key[len(each) :]: text for key, text in words.items() if key[: len(each)] == each}
    columns = list(dict.fromkeys(key[rows:] for key in here))
    yield f"| {', '.join(each)} | " + " | ".join(", ".join(column) for column in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in dict.fromkeys(key[:rows] for key in here):
        yield f"| {', '.join(row)} | " + " | ".join(here.get((*row, *column), "–") for column in columns) + " |"


def draw_heat(found: dict[Key, BySeed], rows: int, each: int, file: str) -> None:
    """Write a picture of a sweep's means: a panel for each of the first labels, below one another, light where high."""
    panels: dict[Key, dict[tuple[Key, Key], float]] = {}
    for key, seeds in found.items():
        panels.setdefault(key[:each], {})[key[each : each + rows], key[each + rows :]] = fmean(seeds.values())
    shown = pyplot.subplots(len(panels), 1, figsize=(10, 7.2 * len(panels)), squeeze=False, layout="constrained")
    for axes, (title, values) in zip(shown[1].flat, panels.items(), strict=True):
        lines, columns = (list(dict.fromkeys(place[at] for place in values)) for at in (0, 1))
        table = np.array([[values[line, column] for column in columns] for line in lines])
        axes.imshow(table, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        for row, column in np.ndindex(*table.shape):
            dark = table[row, column] < 0.5
            told = f"{table[row, column]:.2f}".lstrip("0")
            axes.text(column, row, told, ha="center", va="center", color="w" if dark else "k", fontsize=8)
        axes.set_xticks(range(len(columns)), [", ".join(each) for each in columns], rotation=60, ha="right")
        axes.set_yticks(range(len(lines)), [", ".join(line) for line in lines])
        axes.set_title(", ".join(title), loc="left")
    shown[0].savefig(file, dpi=120)


def main() -> None:
    """Print what the command line asks for of a sweep's cells."""
    parser = argparse.ArgumentParser(prog="python -m tools.grids", description=__doc__.partition("\n")[0])
    parser.add_argument("file", help="DIR/report/cells.csv")
    parser.add_argument("--measure", default="accuracy", choices=("accuracy", "backdoor"))
    for name in ("--rows", "--columns", "--each"):
        parser.add_argument(name, nargs="+", default=[], metavar="AXIS")
    parser.add_argument("--worst", metavar="AXIS")
    parser.add_argument("--minus", metavar="AXIS=LABEL")
    parser.add_argument("--only", nargs="+", default=[], metavar="AXIS=LABEL")
    parser.add_argument("--digits", type=int, default=2)
    parser.add_argument("--heat", metavar="FILE.png", help="a picture of the means, in the place of tables")
    asked = parser.parse_args()
    axes, only = [*asked.each, *asked.rows, *asked.columns], dict(each.split("=", 1) for each in asked.only)
    if asked.worst and asked.worst not in axes:
        found = cells_by_place(asked.file, [*axes, asked.worst], asked.measure, only)
        found = worst_of(found, len(axes), asked.measure == "backdoor")
    else:
        found = cells_by_place(asked.file, axes, asked.measure, only)
    if asked.heat:
        draw_heat(found, len(asked.rows), len(asked.each), asked.heat)
        return
    if asked.minus:
        axis, _, label = asked.minus.partition("=")
        words = less_those_at(found, axes.index(axis), label, asked.digits)
    else:
        words = {key: interval_words(interval_of(list(seeds.values())), asked.digits) for key, seeds in found.items()}
    for each in dict.fromkeys(key[: len(asked.each)] for key in words):
        print("\n".join(markdown_table(words, len(asked.rows), each)), end="\n\n")


if __name__ == "__main__":
    main()
