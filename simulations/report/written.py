"""The page of a run or of a sweep, with its figures: what `fedpriv report` and `fp.report` write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedpriv.errors import FedprivError
from server.progress.words import LETTERS
from simulations.figures.files import put_files
from simulations.report.run.labels import run_labels
from simulations.report.run.runs import Run, read_run
from simulations.report.sweep import cells as sweep_cells
from simulations.report.sweep import report as sweep_report
from simulations.report.sweep.grid import Grid


def report(directory: str | Path, *others: str | Path, latex: bool = False) -> Path:
    """Write the page of a run or a sweep, its figures beside it in `directory`/report; the page's path (fp.report).

    `others` are runs that the page of the first compares it with. What is on a page can be had as data by `read_run`.
    With `latex` a folder of that name beside the page holds what a paper takes from it.

    >>> import fedpriv as fp, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     few = fp.run("digits", f"{place}/few", overrides=["clients.count=60", "run.rounds=1"], quiet=True)
    ...     fp.report(few.directory).name
    'index.html'
    """
    directories = [directory, *others]
    found = sweep_of(directories) if any(map(sweep_cells.is_sweep, directories)) else runs_of(directories)
    page = sweep_report.write_sweep_report(found) if isinstance(found, Grid) else write_report(found)
    if latex:
        write_paper(found)
    return page[0]


def runs_of(directories: Sequence[str | Path]) -> list[Run]:
    """The runs in these directories, as many as a page can compare: the first is the page's own."""
    if len(directories) > len(LETTERS):
        raise FedprivError(f"at most {len(LETTERS)} runs can be compared, got {len(directories)}")
    return [read_run(directory) for directory in directories]


def sweep_of(directories: Sequence[str | Path]) -> Grid:
    """The sweep in a directory as a grid, for its page; refused where more directories are named."""
    if len(directories) > 1:
        raise FedprivError("a sweep is reported by itself: give its directory alone")
    return Grid(sweep_cells.read_sweep(directories[0]))


def write_report(runs: Sequence[Run]) -> list[Path]:
    """Write the page and pictures of the first run, beside the others if any: their paths, the page's first."""
    from simulations.report.run import audited, comparison, figures, page  # matplotlib, which a table needs none of

    run, names, section = runs[0], run_labels(runs), ""
    drawn = figures.run_pictures(run)
    together = comparison.comparison_pictures(runs, names) if len(runs) > 1 else []
    if len(runs) > 1:
        section = page.comparison_section(runs, names, together)
    canaries = audited.audit_pictures(run)
    html = page.run_page(run, drawn, section, audited.audit_section(run, canaries))
    pictures = {f"{each.name}.png": each.png for each in [*drawn, *canaries, *together]}
    return put_files(run.directory / "report", {"index.html": html.encode(), **pictures})


def write_paper(found: Grid | Sequence[Run]) -> list[Path]:
    """Write what a paper takes from the report of a sweep or of runs, beside its page: files, main.tex first."""
    from simulations.report.latex.folder import write_pieces  # matplotlib
    from simulations.report.run.paper import run_pieces
    from simulations.report.sweep.paper import sweep_pieces

    pieces = sweep_pieces(found) if isinstance(found, Grid) else run_pieces(found)
    directory = found.sweep.directory if isinstance(found, Grid) else found[0].directory
    return write_pieces(directory / "report", pieces)
