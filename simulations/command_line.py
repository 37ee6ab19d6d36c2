"""The command `fedpriv`: one subcommand a line of work, errors in one line, exit code 2 for what was asked wrongly."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from fedpriv.errors import FedprivError, nearest


class _Parser(argparse.ArgumentParser):
    """argparse, with errors like the rest of the program's: one line, and the nearest name where one is unknown."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")  # -1e-5 is no option

    def error(self, message: str) -> None:  # type: ignore[override]
        raise FedprivError(message)


def parser() -> argparse.ArgumentParser:
    """All subcommands. What they stand on is imported here, where Ctrl-C is one line."""
    from importlib.metadata import version

    from simulations import (
        account_commands,
        audit_commands,
        certify_commands,
        data_commands,
        deploy_commands,
        estimate_commands,
        report_commands,
        reproduce_commands,
        run_commands,
        sweep_commands,
        tolerance_commands,
    )

    top = _Parser(
        prog="fedpriv", description="Private and Byzantine-robust federated learning, with certified guarantees."
    )
    top.add_argument("--version", action="version", version=f"fedpriv {version('fedpriv')}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for room in (
        run_commands, sweep_commands, report_commands, account_commands, audit_commands, tolerance_commands,
        estimate_commands, certify_commands, reproduce_commands, data_commands, deploy_commands,
    ):  # fmt: skip
        room.add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command: 0 when it did what was asked, 1 when part of it failed, 2 when what was asked cannot be done."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # ε on a terminal that has none
    try:
        top = parser()
        if not arguments:
            top.print_help()
            return 0
        _check_command(arguments[0])
        chosen, left_over = top.parse_known_args(arguments)
        _take_settings(chosen, left_over)
        status: int | None = chosen.run(chosen)
        sys.stdout.flush()
        return status or 0
    except FedprivError as error:
        print(f"fedpriv: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as stopped:
        print("; ".join(["fedpriv: interrupted", *map(str, stopped.args)]), file=sys.stderr)
        return 130
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        print(f"fedpriv: {place}{error.strerror or error}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"fedpriv: not enough memory{f': {error}' if str(error) else ''}", file=sys.stderr)
        return 2
    return 0


def _check_command(word: str) -> None:
    known = [
        "run", "sweep", "report", "account", "calibrate", "audit", "tolerance", "estimate", "certify",
        "reproduce", "list", "data", "deploy",
    ]  # fmt: skip
    if not word.startswith("-") and word not in known:
        raise FedprivError(f"unknown command {word!r}{nearest(word, known)}; commands: {', '.join(known)}")


def _take_settings(chosen: argparse.Namespace, left_over: list[str]) -> None:
    """name=value words after the options are settings too; anything else left over is unknown."""
    for word in left_over:
        if word.startswith("-") or "=" not in word or not hasattr(chosen, "settings"):
            raise FedprivError(f"{word!r} is not understood here; fedpriv {chosen.command} --help shows what is")
        chosen.settings.append(word)


if __name__ == "__main__":
    sys.exit(main())
