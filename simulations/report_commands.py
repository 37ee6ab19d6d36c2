"""`fedpriv report`: a run's table on the terminal; figures and a page in its directory."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedpriv.errors import FedprivError
from server.words import LETTERS
from simulations.account_commands import print_json
from simulations.report import facts
from simulations.report.runs import Run, labels, load

HELP = """\
examples:
  fedpriv report runs/digits
  fedpriv report runs/small-peak runs/one-bit runs/peak-is-clip      the page of the first compares all three
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "report", help="a run's table, figures and page", epilog=HELP,
        description="What a run did, from its records: a table here, figures and one HTML page in DIR/report.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.add_argument("directories", nargs="+", metavar="DIR",
                         help="a run's directory; with several, the page of the first compares them")  # fmt: skip
    command.add_argument("--json", action="store_true", help="one JSON object on standard output")
    command.add_argument("--no-html", action="store_true", help="the table alone: no figures and no page")
    command.set_defaults(run=run_report)


def run_report(options: argparse.Namespace) -> None:
    """Print the table of the first run and one that compares; write the page of the first."""
    if len(options.directories) > len(LETTERS):
        raise FedprivError(f"at most {len(LETTERS)} runs can be compared, got {len(options.directories)}")
    runs = [load(directory) for directory in options.directories]
    files = [] if options.no_html else write(runs)
    if options.json:
        first, *others = [facts.summary(run) for run in runs]
        first |= {"page": str(files[0]), "figures": list(map(str, files[1:]))} if files else {}
        print_json(first | ({"compared": others} if others else {}))
        return
    print(table(runs[0]) + (f"\n\n{compared(runs)}" if len(runs) > 1 else ""))
    if files:
        print(f"\npage: {files[0]}")


def write(runs: Sequence[Run]) -> list[Path]:
    """The page of the first run, beside the others where there are any, and its figures; the page comes first."""
    from simulations.report import comparison, figures, page  # matplotlib takes a while, and a table needs none

    run, names, section = runs[0], labels(runs), ""
    drawn = figures.pictures(run)
    together = comparison.pictures(runs, names) if len(runs) > 1 else []
    if len(runs) > 1:
        section = page.comparison(runs, names, together)
    html = page.page(run, drawn, section)
    files = {f"{each.name}.png": each.png for each in [*drawn, *together]}
    target = run.directory / "report"
    try:
        target.mkdir(exist_ok=True)
        for name, content in [*files.items(), ("index.html", html.encode())]:
            _put(target / name, content)
    except OSError as error:
        raise FedprivError(f"{target}: cannot be written ({error.strerror or error})") from None
    return [target / name for name in ("index.html", *files)]


def _put(path: Path, content: bytes) -> None:
    """Whole or not at all: somebody may be looking at the old one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    os.replace(beside, path)


def table(run: Run) -> str:
    """A run for people."""
    rows = [*facts.study(run)[1:], *facts.outcome(run)]
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"{run.header['name']}  {run.directory}", *(f"  {name:<{width}}  {text}" for name, text in rows)])


def compared(runs: Sequence[Run]) -> str:
    """Several runs, a row each."""
    rows = [["", *(name for name, _ in facts.beside(runs[0]))]]
    rows += [[name, *(text for _, text in facts.beside(run))] for name, run in zip(labels(runs), runs, strict=True)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
