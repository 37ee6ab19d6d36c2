"""What every subcommand is made of: a table of options, and the parser that comes of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol


class Commands(Protocol):
    """What subcommands are added to; argparse's `add_subparsers` returns one."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a subcommand of `fedpriv` by its name, with argparse's settings: the parser of its options."""


class Option(NamedTuple):
    """One argument of a command, as `argparse.ArgumentParser.add_argument` is told it."""

    name: str  # with leading dashes, or without them where it is told by its place
    settings: dict[str, Any]


def option(name: str, metavar: str | tuple[str, ...], about: str, **settings: Any) -> Option:
    """An argument that has a value; `about` is its line of --help, `settings` are argparse's."""
    return Option(name, {"metavar": metavar, "help": about, **settings})


def flag(name: str, about: str) -> Option:
    """An option without a value, for a subcommand's table: true where it is given; `about` is its line of --help."""
    return Option(name, {"action": "store_true", "help": about})


JSON = flag("--json", "one JSON object on standard output")
QUIET = flag("--quiet", "no progress on standard error: the result alone, on standard output")
VERBOSE = flag("--verbose", "on standard error the log, a line a round, in the place of progress")


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int | None],  # what is called with the options that were given
    options: Iterable[Option],
    **settings: Any,  # argparse's own, such as description and epilog
) -> None:
    """Add a subcommand to `fedpriv`: its options, what it runs, and help that is printed as it is written."""
    told = {"help": settings.get("description")} | settings  # without help, completion leaves a command out
    command = commands.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter, **told)
    for each in options:
        command.add_argument(each.name, **each.settings)
    command.set_defaults(run=run)
