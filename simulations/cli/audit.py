"""`fedpriv audit`: what an attacker really learns, beside what is certified."""

from __future__ import annotations

import argparse
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fedpriv.errors import FedprivError
from server.progress.live_line import LiveLine
from simulations.audit.audited import audit, check_confidence, concluded_audit
from simulations.cli._command import JSON, QUIET, Commands, add_command, option
from simulations.cli._words import as_real, show_found
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
  fedpriv audit runs/digits --of labels
  fedpriv audit --node /srv/fedpriv --study study.toml
"""


def _name(value: str) -> str:
    """The type of `fedpriv audit` options that name something: the text, refused where it is empty."""
    if not value:
        raise argparse.ArgumentTypeError("names nothing: it is empty")
    return value


def _place(value: str) -> Path:
    """The type of `fedpriv audit` options that are paths: the text as one, refused where it is empty."""
    return Path(_name(value))


OPTIONS = (
    option("given", "STUDY|RUN", "a study, by file or name, or the directory of a run", nargs="?"),
    option("--node", "DIR", "a deployed node, by the directory of its policy.toml and ledger", type=_place),
    option(
        "--neighbour", "DIR2", "a node with another record (default: the one of ten that matters most goes, or is "
        "replaced)", type=_place,
    ),
    option(
        "--study", "STUDY", "what the node is asked (default: the only one its policy takes; digits, where it takes "
        "any)", type=_name,
    ),
    option(
        "--set", "table.key=value", "change one setting of a study; may be repeated",
        action="append", default=[], dest="overrides",
    ),
    option(
        "--of", "WHAT", "messages (default), or answers or labels, which an evaluation asks for",
        choices=("messages", "answers", "labels"), default="messages",
    ),
    option(
        "--canaries", "N", "trials (default 20,000 of messages, 100,000 of sums, 5,000 of records, 100 up of a node)",
        type=whole_number,
    ),
    option("--confidence", "C", "of every bound (default 0.99)", type=as_real, default=0.99),
    option(
        "--out", "DIR", "where audit.json and audit.png go (default audits/NAME, or RUN/audit, or audits/DIR-…)",
        type=_name,
    ),
    QUIET,
    JSON,
)  # fmt: skip


def add_to(commands: Commands) -> None:
    """Add `fedpriv audit` to the command's parser."""
    about = "Audit a certificate on the code that it is of."
    add_command(commands, "audit", run, OPTIONS, description=about, epilog=HELP)


def run(options: argparse.Namespace) -> int:
    """Run `fedpriv audit` on a study, a run or a node, and print what was found: 1 where the certificate is refuted."""
    check_confidence(options.confidence)
    if options.node:
        if options.of != "messages":
            raise FedprivError(f"--of {options.of} is of a study or a run, and --node audits all that a node sends")
        found = _of_node(options)
    elif options.given is None:
        raise FedprivError("name what is audited: a study, the directory of a run, or --node DIR")
    elif options.neighbour or options.study:
        raise FedprivError("--neighbour and --study are of --node DIR, and no node is named")
    else:
        found = audit(
            options.given, options.out, of=options.of, overrides=options.overrides, canaries=options.canaries,
            confidence=options.confidence, quiet=options.quiet,
        )  # fmt: skip
    show_found(words.without_curves(found), audit_table(found), options.json)
    return 0 if found["stands"] else 1


def _of_node(options: argparse.Namespace) -> dict[str, Any]:
    """`fedpriv audit --node`: examine the node's copy, run its trials, write the audit, and give what it found."""
    from fedpriv._base.own_modules import look_for_modules
    from simulations.audit.node import examined_node

    if options.given is not None:
        raise FedprivError(f"{options.given}: --node names what is audited, and --study what the node is asked")
    home = options.node.absolute()
    place = (Path(options.out) if options.out else Path("audits") / own_name(home)).absolute()
    look_for_modules(home)
    line = LiveLine(options.quiet)
    line.begin("looking at the node", 0.0, [])
    asked = options.neighbour, options.study, options.overrides
    try:
        with examined_node(home, *asked, place, lambda words: line.show(words, 0.0, [])) as own:
            line.clear()
            return concluded_audit(
                own.audit, own.name, own.delta, place, own.found,
                canaries=options.canaries, confidence=options.confidence, quiet=options.quiet,
            )  # fmt: skip
    finally:
        line.clear()


def own_name(home: Path) -> str:
    """The directory's name under audits/ for a node: its own and a hash, as two deployments have a node-0 each."""
    return f"{home.name}-{blake2b(os.fsencode(home.resolve()), digest_size=4).hexdigest()}"


def audit_table(found: dict[str, Any]) -> str:
    """What an audit found as `fedpriv audit` prints it for people: a name and a row for each number."""
    told = words.audit_rows(found)
    width = max(len(name) for name, _ in told)
    return "\n".join([found["name"], *(f"  {name:<{width}}  {text}" for name, text in told)])
