"""`fedpriv reproduce`: a figure of a paper from our own numbers, and its claims checked."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fedpriv.errors import FedprivError, nearest, positive
from fedpriv.files import replaced
from simulations.account_commands import as_real

HELP = """\
Writes NAME.png and NAME.csv, and prints each claim or number of the paper beside ours. A difference that is understood
says why; any other makes the exit code 1.

examples:
  fedpriv reproduce --list
  fedpriv reproduce fdp-figure-8
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "reproduce", help="a figure of a paper from our own numbers", epilog=HELP,
        description="Draw a figure of a paper from our own numbers, and check what the paper says of it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = command.add_argument
    add("name", metavar="NAME", nargs="?", help="what to reproduce (without it: what there is)")
    add("--list", action="store_true", help="what there is")
    add("--budget", type=as_real, metavar="MINUTES", help="refuse what would take longer than this")
    add("--out", metavar="DIR", help="where the files go (default runs/NAME)")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Draw, write, check: 1 where a check failed."""
    from simulations.reproduce.catalogue import CATALOGUE  # matplotlib only where something is drawn

    if options.budget is not None:
        positive(budget=options.budget)
    if options.name is None or options.list:
        for name, each in CATALOGUE.items():
            print(f"{name}  {each.about}")
        return 0
    if options.name not in CATALOGUE:
        hint = nearest(options.name, CATALOGUE)
        raise FedprivError(f"nothing to reproduce is called {options.name!r}{hint}; there are: {', '.join(CATALOGUE)}")
    chosen = CATALOGUE[options.name]
    if options.budget is not None and chosen.minutes > options.budget:
        raise FedprivError(
            f"{options.name} may take {chosen.minutes:g} minutes, more than the budget of {options.budget:g}"
        )
    out = Path(options.out) if options.out is not None else Path("runs") / options.name
    return _reproduce(options.name, out)


def _reproduce(name: str, out: Path) -> int:
    from simulations.reproduce import checks, panels
    from simulations.reproduce.catalogue import CATALOGUE

    found, claims = CATALOGUE[name].make()
    content = {".png": panels.written(found, CATALOGUE[name].note), ".csv": panels.table(found).encode()}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for ending, each in content.items():
            replaced(out / f"{name}{ending}", each, mode=0o644)
    except OSError as error:
        raise FedprivError(f"{out}: cannot be written ({error.strerror or error})") from None
    print("\n".join(checks.lines(claims)))
    print(f"{out / name}.png, {out / name}.csv")
    failed = sum(not claim.passed for claim in claims)
    if failed:
        print(f"fedpriv: {failed} of {len(claims)} checks failed", file=sys.stderr)
    return 1 if failed else 0
