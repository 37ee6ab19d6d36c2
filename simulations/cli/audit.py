"""`fedpriv audit`: what an attacker really learns, beside what is certified."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpriv import records, study_file
from fedpriv.audit.verdict import verdict
from fedpriv.errors import FedprivError, real
from fedpriv.files import replaced
from fedpriv.study import Study
from server.directory import STUDY
from server.live_line import LiveLine
from server.words import duration
from simulations.account_commands import as_real, print_json
from simulations.audit import words
from simulations.run_commands import whole_number

if TYPE_CHECKING:
    from simulations.audit.sources import Audit

HELP = """\
Canaries are clients beside the study's own, or records beside a client's: each holds one of two frozen inputs by a fair
coin, goes through the code that really answers, and a guesser who knows both inputs names the coin. How often it is
right bounds from below what anybody can learn. docs/audit.md says what each number proves and what it cannot.

Killed or stopped, the same command goes on. 0: the certificate stands; 1: it is refuted; 2: it cannot be audited.

--node audits a deployed node on a copy: nothing is charged to it and nothing written in its directory. Beside messages
all that a server sees of it is compared with that of a neighbour, one record away: refusals, words, sizes, counts.

examples:
  fedpriv audit digits --set privacy.trust=local --set privacy.epsilon=8 --canaries 20000
  fedpriv audit ptr --canaries 2000
  fedpriv audit runs/digits --confidence 0.95 --json
  fedpriv audit --node /srv/fedpriv --study study.toml
"""
DEFAULTS = {"messages": 20_000, "sums": 100_000, "records": 5_000, "means": 5_000}
ASKED = 8_000  # rounds of a node in all its trials, which are 100 at least and 1,000 at most


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "audit", help="what an attacker really learns, beside what is certified", epilog=HELP,
        description="Audit a certificate on the code that it is of.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = command.add_argument
    add("given", metavar="STUDY|RUN", nargs="?", help="a study, by file or name, or the directory of a run")
    add("--node", type=Path, metavar="DIR", help="a deployed node, by the directory of its policy.toml and ledger")
    add(
        "--neighbour",
        type=Path,
        metavar="DIR2",
        help="a node with another record (default: the one of ten that matters most goes, or is replaced)",
    )
    add("--study", metavar="STUDY",
        help="what the node is asked (default: the only one its policy takes; digits, where it takes any)")  # fmt: skip
    add("--set", metavar="table.key=value", action="append", default=[], dest="overrides",
        help="change one setting of a study; may be repeated")  # fmt: skip
    add("--canaries", type=whole_number, metavar="N",
        help="trials (default 20,000 of messages, 100,000 of sums, 5,000 of records, 100 up of a node)")  # fmt: skip
    add("--confidence", type=as_real, default=0.99, metavar="C", help="of every bound (default 0.99)")
    add(
        "--out",
        metavar="DIR",
        help="where audit.json and audit.png go (default audits/NAME, or RUN/audit, or audits/DIR)",
    )
    add("--quiet", action="store_true", help="no progress on standard error")
    add("--json", action="store_true", help="one JSON object on standard output")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Audit, write what was found, print it; 1 where it refutes the certificate."""
    real(confidence=options.confidence)
    if not 0 < options.confidence < 1:
        raise FedprivError(f"confidence must be between 0 and 1, both left out, got {options.confidence:g}")
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
    study, place = _asked(options)
    return audited(study, Path(options.out) if options.out else place, options)


def _of_node(options: argparse.Namespace) -> dict[str, Any]:
    from clients.place import look_for_modules
    from simulations.audit.node import examined

    if options.given is not None:
        raise FedprivError(f"{options.given}: --node names what is audited, and --study what the node is asked")
    home = options.node.absolute()
    place = (Path(options.out) if options.out else Path("audits") / home.name).absolute()
    look_for_modules(home)
    line = LiveLine(options.quiet)
    line.begin("looking at the node", 0.0, [])
    asked = options.neighbour, options.study, options.overrides
    try:
        with examined(home, *asked, place, lambda words: line.show(words, 0.0, [])) as own:
            line.clear()
            return concluded(own.audit, own.name, own.delta, place, options, own.found)
    finally:
        line.clear()


def audited(study: Study, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The audit of a study, its files in that directory."""
    from simulations.audit.sources import source_of

    return concluded(source_of(study), study.name, study.privacy.delta, directory, options, {"study": study.id.hex()})


def concluded(
    own: Audit, name: str, delta: float, directory: Path, options: argparse.Namespace, beside: dict[str, Any]
) -> dict[str, Any]:
    """All trials, and the verdict on them; `beside`: what else was found, and which faults among it."""
    from simulations.audit.picture import curves, picture
    from simulations.audit.trials import conducted, forget

    kind, canaries = own.kind, options.canaries or _usual(own)
    line, begun = LiveLine(options.quiet), time.monotonic()
    line.begin(f"0/{canaries:,} canaries", 0.0, [])

    def told(done: int) -> None:
        left = duration((time.monotonic() - begun) / done * (canaries - done))
        line.show(f"{done:,}/{canaries:,} canaries", done / canaries, [f"{left} left"])

    state = directory / "blocks"
    try:
        audit = conducted(own.source, canaries, own.seed, own.first, state, told)
    finally:
        line.clear()
    found = {"name": name, "trial": own.source.words} | verdict(
        audit.trials, own.source.event, delta=delta, confidence=options.confidence,
        in_a_tail=own.source.in_a_tail, ranked=own.source.ranked,
    )  # fmt: skip
    found |= {"kind": kind, "repeated": audit.repeated, "seconds": time.monotonic() - begun} | beside
    found["mu"]["pair"] = own.source.holds
    found["stands"] = found["stands"] and not audit.repeated and not found.get("faults")
    found["curves"] = curves(audit.trials, own.source.event, found["mu"]["audited"])
    replaced(
        directory / "audit.json",
        (json.dumps(records.plain(found), indent=1, ensure_ascii=False) + "\n").encode(),
        0o644,
    )
    replaced(directory / "audit.png", picture(found), 0o644)
    forget(state)
    state.rmdir()
    return found


def _usual(own: Audit) -> int:
    """How many trials there are unless somebody says."""
    return DEFAULTS.get(own.kind) or min(max(ASKED // own.source.event.rounds, 100), 1_000)


def _asked(options: argparse.Namespace) -> tuple[Study, Path]:
    """The study, and where its audit goes."""
    from clients.place import look_for_modules
    from server.rounds import Plan
    from simulations.run_directory import modules_of

    given = Path(options.given)
    if (given / STUDY).is_file():
        if options.overrides:
            raise FedprivError(f"{given}: a run is audited as it was: no --set")
        look_for_modules(modules_of(given))
        study = study_file.read(str((given / STUDY).absolute()))
        _check_done(given, study)
        place = given / "audit"
    else:
        look_for_modules(given.parent)
        study = study_file.read(options.given, options.overrides)
        place = Path("audits") / study.name
    if not study.privacy.promises:
        raise FedprivError(f"{options.given}: Plain promises nothing, so there is nothing to audit")
    return Plan.of(study).study, place


def _check_done(run: Path, study: Study) -> None:
    """Refuse a run that is not over: what it promises is of rounds that it has not done."""
    done = len(records.read(run / "records.jsonl").rounds) if (run / "records.jsonl").exists() else 0
    if done < study.run.rounds:
        raise FedprivError(
            f"{run}: its study promises {study.run.rounds:,} rounds and it did {done:,}: fedpriv run --resume {run} "
            "goes on with it"
        )


def table(found: dict[str, Any]) -> str:
    """The same for people."""
    told = words.rows(found)
    width = max(len(name) for name, _ in told)
    return "\n".join([found["name"], *(f"  {name:<{width}}  {text}" for name, text in told)])
