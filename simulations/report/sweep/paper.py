"""What a sweep's report has for a paper: figures, tables, promises, and the study with its grid."""

from __future__ import annotations

from collections import Counter

from server.directory.code import code_words
from server.progress.words import ranges_words
from simulations.figures.tables import Table
from simulations.report.latex.folder import Pieces, command_again
from simulations.report.latex.references import kinds_used
from simulations.report.run.runs import study_text
from simulations.report.sweep._answer import answer, caveats, guarantees, progress, standings_table
from simulations.report.sweep._heatmap import HeatMap, Said, maps, said
from simulations.report.sweep._page import report
from simulations.report.sweep._spots import Measure
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
        studies={"study.toml": sweep.study}, command=command_again("sweep", ["study.toml"]),
    )  # fmt: skip


def sweep_promise(grid: Grid) -> str:
    """A sweep in a few words for captions: cells, seeds, what ± is, every ε rounded up, and the code that made it."""
    sweep = grid.sweep
    codes = Counter(code_words(sweep.directory / "cells" / cell.id) for cell in sweep.done)
    seeds = f"seed{'s' * (len(sweep.seeds) > 1)} {ranges_words(sorted(sweep.seeds))}"
    within = ", ± is half of the 95% interval over seeds" * (len(sweep.seeds) > 1)
    return " ".join([f"{progress(sweep)}, {seeds}{within}.", *guarantees(sweep), f"Made by {', '.join(codes)}."])


def map_tables(grid: Grid) -> list[tuple[str, str, Table]]:
    """The heat-maps of a sweep as tables of a paper, each with its name and what it shows: accuracy, then backdoors."""
    kinds: list[tuple[Measure, str]] = [("accuracy", "Accuracy under the worst attack")]
    kinds += [("backdoor", "How often records with the trigger are taken for the target")] * grid.backdoors
    return [
        (f"{measure}-{at}", f"{words}{': ' * bool(heat.words)}{heat.words}.", map_table(grid, heat, measure))
        for measure, words in kinds
        for at, heat in enumerate(maps(grid, grid.fields), 1)
    ]


def map_table(grid: Grid, heat: HeatMap, measure: Measure) -> Table:
    """One heat-map of a sweep as a table: in each field the number, its ±, and the attack where there are several."""
    heads = (filter(None, [grid.words("privacy", one), grid.words("attackers", other)]) for one, other in heat.columns)
    found = [[name, *(said(grid, row.get(column), measure) for column in heat.columns)] for name, row in heat.rows]
    rows = [[own if isinstance(own, str) else field_words(own) for own in row] for row in found]
    return ["defence", *map(", ".join, heads)], rows


def field_words(own: Said | None) -> str:
    """What stands in a field of a sweep's heat-map, in words for a paper's table."""
    if own is None:
        return "–"
    attack = f"({own.attack})" if own.attack else ""
    return " ".join(filter(None, [own.number, own.within, attack]))
