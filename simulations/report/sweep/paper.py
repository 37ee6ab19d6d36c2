"""What a sweep's report has for a paper: figures, tables, promises, and the study with its grid."""

from __future__ import annotations

from collections import Counter

from server.directory.code import code_words
from server.progress.words import ranges_words
from simulations.figures.intervals import interval_words
from simulations.figures.tables import Table
from simulations.report.latex.folder import Pieces, again
from simulations.report.latex.references import kinds_used
from simulations.report.run.runs import study_text
from simulations.report.sweep._answer import answer, caveats, guarantees, progress, standings_table
from simulations.report.sweep._heatmap import maps
from simulations.report.sweep._page import report
from simulations.report.sweep._spots import Field
from simulations.report.sweep._standing import Standings
from simulations.report.sweep._tables import cells_in_words, summary_in_words
from simulations.report.sweep.grid import Grid


def sweep_pieces(grid: Grid) -> Pieces:
    """What `fedpriv report --latex` writes of a sweep: all figures, how defences stand, maps, places, cells."""
    standings, sweep = Standings(grid), grid.sweep
    place = sweep.directory / "cells"
    studies = [(study_text(place / cell.id), cell.ran.guarantee is not None) for cell in sweep.done if cell.ran]
    return Pieces(
        name=sweep.name, said=[*answer(standings), *caveats(standings)], promise=sweep_promise(grid),
        drawn=lambda: report(grid)[1],
        tables=[
            ("standings", "What each defence keeps.", standings_table(standings)),
            *map_tables(grid),
            ("places", "Every place of the grid: the mean over its seeds.", summary_in_words(grid)),
            ("cells", "Every cell of the grid.", cells_in_words(grid)),
        ],
        used=list(dict.fromkeys(kind for study in dict.fromkeys(studies) for kind in kinds_used(*study))),
        studies={"study.toml": sweep.study}, command=again("sweep", ["study.toml"]),
    )  # fmt: skip


def sweep_promise(grid: Grid) -> str:
    """A sweep in a few words for captions: cells, seeds, what ± is, every ε rounded up, and the code that made it."""
    sweep = grid.sweep
    codes = Counter(code_words(sweep.directory / "cells" / cell.id) for cell in sweep.done)
    seeds = f"seed{'s' * (len(sweep.seeds) > 1)} {ranges_words(sorted(sweep.seeds))}"
    within = ", ± is half of the 95% interval over seeds" * (len(sweep.seeds) > 1)
    return " ".join([f"{progress(sweep)}, {seeds}{within}.", *guarantees(sweep), f"Made by {', '.join(codes)}."])


def map_tables(grid: Grid) -> list[tuple[str, str, Table]]:
    """The heat-maps of a sweep as tables of a paper: what the worst attack leaves of accuracy, ±, and which it is."""
    found = list[tuple[str, str, Table]]()
    for at, heat in enumerate(maps(grid, grid.fields), 1):
        heads = [", ".join(filter(None, [grid.words("privacy", one), grid.words("attackers", other)]))
                 for one, other in heat.columns]  # fmt: skip
        rows = [[name, *(field_words(grid, row.get(column)) for column in heat.columns)] for name, row in heat.rows]
        words = f"What the worst attack leaves of accuracy{': ' * bool(heat.words)}{heat.words}."
        found.append((f"worst-{at}", words, (["defence", *heads], rows)))
    return found


def field_words(grid: Grid, field: Field | None) -> str:
    """A field of a sweep's heat-map in a paper's table: accuracy, its ±, and the attack where there are several."""
    if field is None or field.worst is None:
        return "–"
    worst = grid.attack(field.worst)
    attack = f" ({worst})" * (len(field.spots) > 1 and worst != "no attackers")
    return "≤ " * field.partial + interval_words(field.worst.accuracy) + attack
