"""The tables of a sweep, as CSV for programs and as Markdown for people: every cell, every place, every curve."""

from __future__ import annotations

from fedpriv._base.spelling import rounded_down, rounded_up
from fedpriv.accounting.course import LEVELS
from server.progress.words import bytes_words, share_words, tally_words
from simulations.figures.intervals import interval_words
from simulations.figures.tables import Table, csv_bytes
from simulations.report.sweep._axes import ROLES, Role
from simulations.report.sweep._chosen import choosing
from simulations.report.sweep._spots import Spot
from simulations.report.sweep.cells import WORDS, Cell
from simulations.report.sweep.grid import Grid


def sweep_tables(grid: Grid) -> dict[str, Table]:
    """A sweep's tables for programs, by name: cells, places (summary), curves, and what settings were chosen by."""
    found = {"cells": cells(grid), "summary": summary(grid), "curves": curves(grid)}
    return found | ({"choosing": choosing(grid)} if grid.sweep.chosen else {})


def files(grid: Grid) -> dict[str, bytes]:
    """A sweep's tables as files, by name: cells, places and curves as CSV, the first two as Markdown."""
    said = {"cells": cells_in_words(grid), "summary": summary_in_words(grid)}
    written = {f"{name}.csv": csv_bytes(table) for name, table in sweep_tables(grid).items()}
    return written | {f"{name}.md": markdown(table) for name, table in said.items()}


def _paths(grid: Grid) -> list[str]:
    """The dotted paths of a sweep's axes, which are columns of its CSV tables."""
    return [axis.path for axis in grid.sweep.axes]


def _values(grid: Grid, cell: Cell) -> list[str | int | float]:
    """Where a cell of a sweep stands, a column of its CSV tables for each axis."""
    return [axis.told[cell.place[axis.path]] for axis in grid.sweep.axes]


def cells(grid: Grid) -> Table:
    """The table cells.csv of a sweep: every cell with its place, seed, state and numbers in full."""
    paths, rows = _paths(grid), []
    names = ["accuracy", "epsilon_lower", "epsilon_upper", "client_bytes", "bytes_up", "rejected", "failed", "rounds",
             "clients", "byzantine", "mu_lower", "mu_upper", "mu_up_to",
             *(f"beta_{level:g}_{side}" for level in LEVELS for side in ("lower", "upper")),
             *["backdoor"] * grid.backdoors]  # fmt: skip
    for cell in grid.sweep.cells:
        ran, place = cell.ran, _values(grid, cell)
        numbers = [None] * len(names) if ran is None else [
            ran.accuracy, ran.lower, ran.upper, ran.client_bytes, ran.bytes_up,
            *(None if own is None else sum(own.values()) for own in ran.lost), ran.rounds, ran.clients, ran.byzantine,
            *((ran.mu or {}).get(name) for name in ("lower", "upper", "up_to")),  # nothing in records that are old
            *((ran.beta or {}).get(f"{level:g}", {}).get(side) for level in LEVELS for side in ("lower", "upper")),
            *[ran.backdoor] * grid.backdoors,
        ]  # fmt: skip
        chosen = [cell.chosen.get(axis.path) for axis in grid.sweep.chosen]
        rows.append([cell.id, *place, *chosen, cell.seed, cell.state, *numbers, cell.why])
    return ["cell", *paths, *(axis.path for axis in grid.sweep.chosen), "seed", "state", *names, "why"], rows


def summary(grid: Grid) -> Table:
    """The table summary.csv of a sweep: every place, its mean over seeds, interval, and whether its attack is worst."""
    paths = _paths(grid)
    names = ["seeds", "of", "accuracy", "half_width", "low", "high", "epsilon_upper", "client_bytes", "bytes_up",
             "worst_attack", *["backdoor", "backdoor_half_width"] * grid.backdoors]  # fmt: skip
    rows = []
    for spot in grid.spots:
        found = spot.accuracy
        numbers = [found.mean, found.half, found.low, found.high] if found else [None] * 4
        counts = [len(spot.counted), len(spot.cells)]
        rest = [spot.upper, spot.mean("client_bytes"), spot.mean("bytes_up"), _is_worst(grid, spot)]
        opened = [spot.backdoor.mean, spot.backdoor.half] if spot.backdoor else [None, None] * grid.backdoors
        rows.append([*_values(grid, spot.cells[0]), *counts, *numbers, *rest, *opened])
    return [*paths, *names], rows


def _is_worst(grid: Grid, spot: Spot) -> str:
    """A sweep's table's word on a spot: "yes" if its attack is the worst of its field, or "so far"; else ""."""
    field = grid.by_place[spot.defence, spot.condition]
    return "" if field.worst is not spot else "so far" if field.partial else "yes"


def curves(grid: Grid) -> Table:
    """The table curves.csv of a sweep: accuracy by round at every place, over the seeds that are done."""
    paths = _paths(grid)
    rows = [[*_values(grid, spot.cells[0]), number, *found] for spot in grid.spots for number, found in spot.curve]
    return [*paths, "round", "accuracy", "half_width", "low", "high", "seeds"], rows


def _roles(grid: Grid) -> list[Role]:
    """The roles that have an axis in this sweep, which are columns of its tables in words."""
    return [each for each in ROLES if grid.axes[each]]


def _place(grid: Grid, spot: Spot) -> list[str]:
    """Where a spot of a sweep stands, in words, a column of its tables for each role that has an axis."""
    return [grid.words(each, spot.key(each)) for each in _roles(grid)]


def cells_in_words(grid: Grid) -> Table:
    """The table of every cell of a sweep for reading, on its page and as cells.md."""
    measured = ["accuracy", *["backdoor"] * grid.backdoors]
    head = [*_roles(grid), "seed", *measured, "ε", "a client, a round", "rejected", "failed", "how it ended"]
    rows = []
    for place, cell in ((_place(grid, spot), cell) for spot in grid.spots for cell in spot.cells):
        ran, numbers = cell.ran, ["–"] * (5 + grid.backdoors)
        if ran is not None:
            lost = ["–" if own is None else tally_words(own) for own in ran.lost]
            learnt = [share_words(ran.accuracy), *[share_words(ran.backdoor)] * grid.backdoors]
            numbers = [*(learnt if cell.state == "done" else ["–"] * len(learnt)), bounds(ran.lower, ran.upper),
                       bytes_words(ran.client_bytes), *lost]  # fmt: skip
        ended = cell.why if cell.state in ("done", "missing") else f"{WORDS.get(cell.state, cell.state)}: {cell.why}"
        rows.append([*place, str(cell.seed), *numbers, ended])
    return head, rows


def bounds(lower: float | None, upper: float | None) -> str:
    """The lower and upper bound of ε, in words for a sweep's table of cells: "3.344 to 3.953".

    >>> bounds(3.34466, 3.95222), bounds(float("inf"), float("inf")), bounds(None, None)
    ('3.344 to 3.953', '∞', '–')
    """
    if lower is None or upper is None:
        return "–"
    return rounded_up(upper) if lower == upper else f"{rounded_down(lower)} to {rounded_up(upper)}"


def summary_in_words(grid: Grid) -> Table:
    """The table of every place of a sweep for reading, on its page and as summary.md."""
    measured = ["accuracy", *["backdoor"] * grid.backdoors]
    head = [*_roles(grid), *measured, "seeds", "ε at most", "a client, a round", "worst attack here"]
    rows = []
    for spot in grid.spots:
        sent, counted = spot.mean("client_bytes"), f"{len(spot.counted)} of {len(spot.cells)}"
        costs = ["–" if spot.upper is None else rounded_up(spot.upper), "–" if sent is None else bytes_words(sent)]
        learnt = map(interval_words, [spot.accuracy, *[spot.backdoor] * grid.backdoors])
        rows.append([*_place(grid, spot), *learnt, counted, *costs, _is_worst(grid, spot)])
    return head, rows


def markdown(table: Table) -> bytes:
    """A sweep's table as a Markdown file whose columns line up where it is read as it is."""
    head, rows = table
    lines = [[" ".join(str(value).split()).replace("|", "\\|") for value in row] for row in [head, *rows]]
    widths = [max(3, *(len(row[at]) for row in lines)) for at in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(f"| {' | '.join(map(str.ljust, row, widths))} |\n" for row in lines).encode()
