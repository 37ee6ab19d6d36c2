"""`fedpriv reproduce`: a figure or a table of a paper from our own numbers, and its claims checked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedpriv._base.files import replace_file
from fedpriv.errors import FedprivError, nearest_hint, positive
from simulations.cli._command import Commands, add_command, flag, option
from simulations.cli._words import as_real, as_whole
from simulations.reproduce import inversion, lecture
from simulations.reproduce.ptr.tables_published import TABLES
from simulations.reproduce.stobatch.published import FIGURES

if TYPE_CHECKING:
    from simulations.figures.checks import Check
    from simulations.reproduce.catalogue import Reproduction

HELP = """\
A figure: writes NAME.png and NAME.csv, and prints each claim or number of the paper beside ours. A difference that is
understood says why; any other makes the exit code 1.
A text, fdp-claims: what no figure shows, claim by claim, and every slip, as NAME.md, NAME.csv and NAME.json.
A table, or a figure stobatch- or lecture-: trains for as long as --budget says, in fewer seeds and steps than the
paper's, as NAME.md tells; NAME.csv and NAME.png lie beside it. The same command goes on where it stopped. Without a
budget images take hours, digits minutes. Images in colour (x.npy, y.npy of bytes) are trained with CIFAR's network and
settings.
An attack, inversion: what a server makes of one client's message, as inversion.png, .md and .json, in a minute or two;
with a budget fewer records are found by matching gradients.

examples:
  fedpriv reproduce --list
  fedpriv reproduce fdp-figure-8
  fedpriv reproduce fdp-claims
  fedpriv reproduce lecture-figure --budget 10
  fedpriv reproduce ptr-table-1 --budget 10
  fedpriv reproduce ptr-table-1 --seeds 1          in as many steps as are meant; later with more seeds
  fedpriv reproduce prime-figure-1 --budget 10
  fedpriv reproduce stobatch-figure-2 --budget 15
  fedpriv reproduce inversion --data digits
"""


OPTIONS = (
    option("name", "NAME", "what to reproduce (without it: what there is)", nargs="?"),
    flag("--list", "what there is"),
    option(
        "--budget", "MINUTES", "a table, a figure prime-, lecture- or stobatch-, inversion: as much as fits; another "
        "figure: refuse what would take longer", type=as_real,
    ),
    option(
        "--data", "DIR", "a table, a figure lecture- or stobatch-, or inversion: idx files of images in this "
        "directory, for ptr-table-1-cifar CIFAR-10's files, or the word digits (default: $FEDPRIV_DATA, else Debian's "
        "Fashion-MNIST, else digits; of lecture- and inversion digits)",
    ),
    option(
        "--images", "N", "a figure stobatch-: the first N held out are attacked (default what fits); trainings that "
        "are done stay", type=as_whole,
    ),
    option(
        "--seeds", "N", "a table: its first N seeds alone (default: all); the same command with more goes on",
        type=as_whole,
    ),
    option("--out", "DIR", "where the files go (default runs/NAME)"),
)  # fmt: skip


def add_to(commands: Commands) -> None:
    """Add `fedpriv reproduce` to the command's parser."""
    about = "Reproduce a figure, a table or the claims of a paper from our own numbers; check what the paper says."
    add_command(commands, "reproduce", run, OPTIONS, description=about, epilog=HELP)


def run(options: argparse.Namespace) -> int:
    """Run `fedpriv reproduce NAME`: draw or train a paper's figure or table; 1 where a check or a cell failed."""
    from simulations.reproduce.catalogue import CATALOGUE, TEXTS  # matplotlib only where something is drawn
    from simulations.reproduce.fdp import claims

    if options.budget is not None:
        positive(budget=options.budget)
    if options.name is None or options.list:
        print("\n".join(f"{name}  {each.about}" for name, each in (CATALOGUE | TEXTS | TABLES | FIGURES).items()))
        print(f"{lecture.NAME}  {lecture.ABOUT}\n{inversion.NAME}  {inversion.ABOUT}")
        return 0
    if options.images is not None and options.name not in FIGURES:
        raise FedprivError(f"--images: {options.name} attacks none")
    if options.seeds is not None and options.name not in TABLES:
        raise FedprivError(f"--seeds: {options.name} is no table")
    if options.name not in (names := [*CATALOGUE, *TEXTS, *TABLES, *FIGURES, lecture.NAME, inversion.NAME]):
        hint = nearest_hint(options.name, names)
        raise FedprivError(f"nothing to reproduce is called {options.name!r}{hint}; there are: {', '.join(names)}")
    if options.data is not None and options.name in CATALOGUE | TEXTS:
        raise FedprivError(f"--data: {options.name} trains on nothing")
    out = Path(options.out) if options.out is not None else Path("runs") / options.name
    if options.name in TABLES:
        return _train(options.name, out, options.budget, options.data, options.seeds)
    if options.name == lecture.NAME:
        return _compare(out, options.budget, options.data)
    if options.name == inversion.NAME:
        return _invert(out, options.budget, options.data)
    if options.name in FIGURES:
        return _measure(options.name, out, options.budget, options.data, options.images)
    if options.name in TEXTS:
        made = TEXTS[options.name].make()
        pages = {".md": claims.claims_page(made), ".csv": claims.claims_csv(made), ".json": claims.claims_json(made)}
        _write(out, options.name, {end: each.encode() for end, each in pages.items()}, claims.claim_lines(made))
        return _verdict([claim.check for claim in made])
    return _draw(options.name, out, options.budget, CATALOGUE[options.name])


def _draw(name: str, out: Path, minutes: float | None, chosen: Reproduction) -> int:
    """Reproduce a paper's figure without training: write picture and points, print its checks; 1 where one fails."""
    from simulations.figures import checks, panels

    if minutes is not None and not chosen.scales and chosen.minutes > minutes:
        raise FedprivError(f"{name} may take {chosen.minutes:g} minutes, more than the budget of {minutes:g}")
    found, claims = chosen.make(minutes or chosen.minutes) if chosen.scales else chosen.make()
    content = {".png": panels.figure_bytes(found, chosen.note), ".csv": panels.points_csv(found).encode()}
    _write(out, name, content, checks.check_lines(claims))
    return _verdict(claims)


def _verdict(claims: Sequence[Check]) -> int:
    """The exit code, and how many checks failed."""
    if failed := sum(not claim.passed for claim in claims):
        print(f"fedpriv: {failed} of {len(claims)} checks failed", file=sys.stderr)
    return 1 if failed else 0


def _train(name: str, out: Path, minutes: float | None, data: str | None, seeds: int | None) -> int:
    """Reproduce a table of [P] by as many trainings as fit in `minutes`: write and print it; 1 where a cell failed."""
    from simulations.reproduce.ptr.tables_found import Found
    from simulations.reproduce.ptr.tables_page import csv_of, table_of, tables_page, tables_picture
    from simulations.reproduce.ptr.tables_run import worked_tables
    from simulations.reproduce.ptr.tables_words import finding_words, standing_words

    worked_tables(name, out, minutes, data, seeds)
    found = Found.of(out)
    if not found.sweep.done:
        raise FedprivError(f"{out}: no cell has come to its end: a larger --budget goes on there")
    content = {".md": tables_page(found).encode(), ".csv": csv_of(found).encode(), ".png": tables_picture(found)}
    _write(out, name, content, _below(table_of(found), [*finding_words(found), standing_words(found)]))
    if failed := len(found.sweep.those("failed")):
        print(f"fedpriv: {failed} cells failed: the same command tries them again", file=sys.stderr)
    return 1 if failed else 0


def _compare(out: Path, minutes: float | None, data: str | None) -> int:
    """Draw the lecture's figure by as many trainings as fit in `minutes`: write and print it; 1 where one failed."""
    from simulations.reproduce.lecture import page
    from simulations.reproduce.lecture.found import Found
    from simulations.reproduce.lecture.methods import lecture_studies
    from simulations.reproduce.ptr.tables_run import worked_tables

    worked_tables(lecture.NAME, out, minutes, data, made=lecture_studies)
    found = Found.of(out)
    if not found.sweep.done:
        raise FedprivError(f"{out}: no training has come to its end: a larger --budget goes on there")
    words, rows = page.lecture_page(found), page.csv_of(found)
    content = {".md": words.encode(), ".csv": rows.encode(), ".png": page.lecture_picture(found)}
    _write(out, lecture.NAME, content, _below(page.table_of(found), page.finding_words(found)))
    return 1 if found.sweep.those("failed") else 0


def _invert(out: Path, minutes: float | None, data: str | None) -> int:
    """Carry out gradient inversions on messages of every kind: write the page, its numbers and pictures; print them."""
    from simulations.reproduce.inversion import page
    from simulations.reproduce.inversion.found import worked_inversions

    found = worked_inversions(data, minutes)
    words, numbers = page.inversion_page(found), page.json_of(found)
    content = {".md": words.encode(), ".json": numbers.encode(), ".png": page.inversion_picture(found)}
    _write(out, inversion.NAME, content, _below(page.table_of(found), [*page.finding_words(found), page.WARNING]))
    return 0


def _measure(name: str, out: Path, minutes: float | None, data: str | None, images: int | None) -> int:
    """Reproduce a figure of [S]'s accuracies by trainings and attacks that fit in `minutes`; 1 where one fails."""
    from simulations.figures import checks
    from simulations.reproduce.stobatch import page
    from simulations.reproduce.stobatch.found import Found
    from simulations.reproduce.stobatch.run import worked_trainings

    scale, results, failed = worked_trainings(name, out, minutes, data, images)
    found = Found(name, scale, results)
    if failed:
        print("\n".join(f"failed: {why}" for why in failed), file=sys.stderr)
    if not results:
        raise FedprivError(f"{out}: no training has come to its end: a larger --budget goes on there")
    words, rows = page.figure_page(found), page.csv_of(found)
    content = {".md": words.encode(), ".csv": rows.encode(), ".png": page.figure_picture(found)}
    claims = found.checks()
    _write(out, name, content, _below(page.table_of(found), checks.check_lines(claims)))
    return 1 if failed or not all(claim.passed for claim in claims) else 0


def _below(table: tuple[list[str], list[list[str]]], lines: Iterable[str]) -> list[str]:
    """The lines that `fedpriv reproduce` prints of a table: the table aligned, then what is said of it."""
    from simulations.report.run.facts import aligned_table

    return [aligned_table(*table), "", *lines]


def _write(out: Path, name: str, content: Mapping[str, bytes], lines: Iterable[str]) -> None:
    """Write a reproduction's files NAME with each ending into `out`, and print `lines` and where the files are."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for ending, each in content.items():
            replace_file(out / f"{name}{ending}", each, mode=0o644)
    except OSError as error:
        raise FedprivError(f"{out}: cannot be written ({error.strerror or error})") from None
    print("\n".join(lines))
    print(", ".join(f"{out / name}{ending}" for ending in content))
