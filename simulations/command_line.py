"""The command `fedpriv`: one subcommand a line of work, errors in one line, exit code 2 for what was asked wrongly."""

from __future__ import annotations

import argparse
import io
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import fedpriv
from fedpriv._base.loading import loaded_object
from fedpriv.errors import FedprivError, nearest_hint

COMMANDS = {  # in the order of `fedpriv --help`: the module in simulations/cli/ that adds it, and what it is for
    "run": ("run", "run a study"),
    "sweep": ("sweep", "run a grid of studies"),
    "report": ("report", "tables, figures and page of a run or a sweep"),
    "export": ("export", "the trained model of a run, for other programs"),
    "account": ("account", "what a release gives away"),
    "calibrate": ("account", "the setting that meets a target"),
    "list": ("list", "what there is to choose from: mechanisms, rules, attacks, …, each setting, and the studies"),
    "schema": ("list", "the JSON Schema of a study, for editors"),
    "audit": ("audit", "what an attacker really learns, beside what is certified"),
    "tolerance": ("tolerance", "how many attackers a vote survives"),
    "compare": ("compare", "privacy, bits, error and attackers of every mechanism at one ε"),
    "estimate": ("estimate", "the private and robust mean of a file's records"),
    "certify": ("certify", "how far inputs may be moved before a run's predictions change"),
    "reproduce": ("reproduce", "a figure or a table of a paper from our own numbers"),
    "data": ("data", "data sets: which are here, how to get the others"),
    "completion": ("completion", "what a shell completes this command line by: bash, zsh, tcsh"),
    "deploy": ("deploy", "start and stop a local deployment: SuperLink and SuperNodes"),
}


class _Parser(argparse.ArgumentParser):
    """argparse, with errors like the rest of the program's: one line, and the nearest name where one is unknown."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        """Make argparse's parser, to which -1e-5 is a number and no option of a `fedpriv` command."""
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")  # -1e-5 is no option

    def error(self, message: str) -> NoReturn:
        """Raise argparse's complaint about a command line as the one line that `main` prints, in place of exiting."""
        raise FedprivError(message)


def parser_of(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser of `fedpriv`: with the chosen subcommand, whose module is imported; else of all, by names alone."""
    top = _Parser(
        prog="fedpriv", description="Private and Byzantine-robust federated learning, with certified guarantees."
    )
    top.add_argument("--version", action="version", version=f"fedpriv {fedpriv.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    top.set_defaults(whole=whole_parser)
    if chosen in COMMANDS:
        loaded_object(f"simulations.cli.{COMMANDS[chosen][0]}:add_to")(commands)
        return top
    for name, (_, words) in COMMANDS.items():
        commands.add_parser(name, help=words)
    return top


def whole_parser() -> argparse.ArgumentParser:
    """The parser of `fedpriv` with every subcommand and all their options, for what a shell completes by."""
    top = _Parser(prog="fedpriv")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for module in dict.fromkeys(module for module, _ in COMMANDS.values()):
        loaded_object(f"simulations.cli.{module}:add_to")(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `fedpriv`: 0 where what was asked is done, 1 where part of it failed, 2 where it cannot be done."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # ε on a terminal that has none
    try:
        if not arguments:
            parser_of().print_help()
            return 0
        if not (word := arguments[0]).startswith("-") and word not in COMMANDS:
            raise FedprivError(
                f"unknown command {word!r}{nearest_hint(word, COMMANDS)}; commands: {', '.join(COMMANDS)}"
            )
        chosen, left_over = parser_of(word).parse_known_args(arguments)
        for each in left_over:  # name=value words after the options are settings too
            if each.startswith("-") or "=" not in each or not hasattr(chosen, "settings"):
                raise FedprivError(f"{each!r} is not understood here; fedpriv {chosen.command} --help shows what is")
            chosen.settings.append(each)
        with _logging(verbose=getattr(chosen, "verbose", False)):
            status: int | None = chosen.run(chosen)
        sys.stdout.flush()
        return status or 0
    except FedprivError as error:
        return _refused(error)
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as stopped:
        print("; ".join(["fedpriv: interrupted", *map(str, stopped.args)]), file=sys.stderr)
        return 130
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        return _refused(f"{place}{error.strerror or error}")
    except MemoryError as error:
        return _refused(f"not enough memory{f': {error}' if str(error) else ''}")
    return 0


@contextmanager
def _logging(*, verbose: bool) -> Iterator[None]:
    """While a command runs: what is logged under "fedpriv" goes to standard error, rounds too where it is verbose.

    Otherwise progress has told of them already.
    """
    log, handler = logging.getLogger("fedpriv"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.INFO if verbose else logging.WARNING)
    handler.addFilter(lambda record: verbose or record.name != "fedpriv.rounds")
    level = log.level
    log.addHandler(handler)
    log.setLevel(handler.level)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _refused(why: object) -> int:
    """Print in one line why a `fedpriv` command cannot do what was asked; its exit code, 2."""
    print(f"fedpriv: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
