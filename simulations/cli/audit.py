"""`fedpriv audit`: what an attacker really learns, beside what is certified."""

from __future__ import annotations

import argparse
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fedpriv.errors import FedprivError
from server.progress.live_line import LiveLine
from simulations.audit.audited import audit, check_confidence, concluded
from simulations.cli.account import as_real, print_json
from simulations.cli.run import whole_number
from simulations.report.run import audit_words as words

HELP = """\
Canaries are clients beside the study's own, or records beside a client's: each holds one of two frozen inputs by a fair
coin, goes through the code that really answers, and a guesser who knows both inputs names the coin. How often it is
right bounds from below what anybody can learn. docs/audit.md says what each number proves and what it cannot.

Killed or stopped, the same command goes on. 0: the certificate stands; 1: it is refuted; 2: it cannot be audited.

--node audits a deployed node on a copy: nothing is charged to it and nothing written in its directory. Beside messages
all that a server sees of it is compared with that of a neighbour, one record away: refusals, words, sizes, counts. What
its ledger is charged is held against what is drawn.

examples:
  fedpriv audit digits --set privacy.trust=local --set privacy.epsilon=8 --canaries 20000
  fedpriv audit ptr --canaries 2000
  fedpriv audit runs/digits --confidence 0.95 --json
  fedpriv audit --node /srv/fedpriv --study study.toml
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "audit", epilog=HELP,
        description="Audit a certificate on the code that it is of.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = command.add_argument
    add("given", metavar="STUDY|RUN", nargs="?", help="a study, by file or name, or the directory of a run")
    add("--node", type=_place, metavar="DIR", help="a deployed node, by the directory of its policy.toml and ledger")
    add(
        "--neighbour",
        type=_place,
        metavar="DIR2",
        help="a node with another record (default: the one of ten that matters most goes, or is replaced)",
    )
    add("--study", type=_name, metavar="STUDY",
        help="what the node is asked (default: the only one its policy takes; digits, where it takes any)")  # fmt: skip
    add("--set", metavar="table.key=value", action="append", default=[], dest="overrides",
        help="change one setting of a study; may be repeated")  # fmt: skip
    add("--canaries", type=whole_number, metavar="N",
        help="trials (default 20,000 of messages, 100,000 of sums, 5,000 of records, 100 up of a node)")  # fmt: skip
    add("--confidence", type=as_real, default=0.99, metavar="C", help="of every bound (default 0.99)")
    add(
        "--out",
        type=_name,
        metavar="DIR",
        help="where audit.json and audit.png go (default audits/NAME, or RUN/audit, or audits/DIR-…)",
    )
    add("--quiet", action="store_true", help="no progress on standard error")
    add("--json", action="store_true", help="one JSON object on standard output")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Audit, write what was found, print it; 1 where it refutes the certificate."""
    check_confidence(options.confidence)
    found = _of_node(options) if options.node else _of_study(options)
    if options.json:
        print_json(words.without_curves(found))
    else:
        print(table(found))
    return 0 if found["stands"] else 1


def _of_study(options: argparse.Namespace) -> dict[str, Any]:
    if options.given is None:
        raise FedprivError("name what is audited: a study, the directory of a run, or --node DIR")
    if options.neighbour or options.study:
        raise FedprivError("--neighbour and --study are of --node DIR, and no node is named")
    return audit(
        options.given, options.out, overrides=options.overrides, canaries=options.canaries,
        confidence=options.confidence, quiet=options.quiet,
    )  # fmt: skip


def _of_node(options: argparse.Namespace) -> dict[str, Any]:
    from clients.flower.place import look_for_modules
    from simulations.audit.node import examined

    if options.given is not None:
        raise FedprivError(f"{options.given}: --node names what is audited, and --study what the node is asked")
    home = options.node.absolute()
    place = (Path(options.out) if options.out else Path("audits") / own_name(home)).absolute()
    look_for_modules(home)
    line = LiveLine(options.quiet)
    line.begin("looking at the node", 0.0, [])
    asked = options.neighbour, options.study, options.overrides
    try:
        with examined(home, *asked, place, lambda words: line.show(words, 0.0, [])) as own:
            line.clear()
            return concluded(
                own.audit, own.name, own.delta, place, own.found,
                canaries=options.canaries, confidence=options.confidence, quiet=options.quiet,
            )  # fmt: skip
    finally:
        line.clear()


def _name(value: str) -> str:
    if not value:
        raise argparse.ArgumentTypeError("names nothing: it is empty")
    return value


def _place(value: str) -> Path:
    return Path(_name(value))


def own_name(home: Path) -> str:
    """What the audits of a node are called: two deployments have a node of the same name each."""
    return f"{home.name}-{blake2b(os.fsencode(home.resolve()), digest_size=4).hexdigest()}"


def table(found: dict[str, Any]) -> str:
    """The same for people."""
    told = words.rows(found)
    width = max(len(name) for name, _ in told)
    return "\n".join([found["name"], *(f"  {name:<{width}}  {text}" for name, text in told)])
