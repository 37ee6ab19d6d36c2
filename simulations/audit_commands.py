"""`fedpriv audit`: what an attacker really learns, beside what is certified."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

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

HELP = """\
Canaries are clients beside the study's own, or records beside a client's: each holds one of two frozen inputs by a fair
coin, goes through the code that really answers, and a guesser who knows both inputs names the coin. How often it is
right bounds from below what anybody can learn. docs/audit.md says what each number proves and what it cannot.

Killed or stopped, the same command goes on. 0: the certificate stands; 1: it is refuted; 2: it cannot be audited.

examples:
  fedpriv audit digits --set privacy.trust=local --set privacy.epsilon=8 --canaries 20000
  fedpriv audit ptr --canaries 2000
  fedpriv audit runs/digits --confidence 0.95 --json
"""
DEFAULTS = {"messages": 20_000, "sums": 100_000, "records": 5_000, "means": 5_000}


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "audit", help="what an attacker really learns, beside what is certified", epilog=HELP,
        description="Audit a certificate on the code that it is of.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = command.add_argument
    add("study", metavar="STUDY|RUN", help="a study, by file or name, or the directory of a run")
    add("--set", metavar="table.key=value", action="append", default=[], dest="overrides",
        help="change one setting of a study; may be repeated")  # fmt: skip
    add("--canaries", type=whole_number, metavar="N",
        help="trials (default 20,000 of messages, 100,000 of sums, 5,000 of records and of means)")  # fmt: skip
    add("--confidence", type=as_real, default=0.99, metavar="C", help="of every bound (default 0.99)")
    add("--out", metavar="DIR", help="where audit.json and audit.png go (default audits/NAME, or RUN/audit)")
    add("--quiet", action="store_true", help="no progress on standard error")
    add("--json", action="store_true", help="one JSON object on standard output")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Audit, write what was found, print it; 1 where it refutes the certificate."""
    real(confidence=options.confidence)
    if not 0 < options.confidence < 1:
        raise FedprivError(f"confidence must be between 0 and 1, both left out, got {options.confidence:g}")
    study, place = _asked(options)
    found = audited(study, Path(options.out) if options.out else place, options)
    if options.json:
        print_json(words.without_curves(found))
    else:
        print(table(found))
    return 0 if found["stands"] else 1


def audited(study: Study, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The audit of a study, its files in that directory."""
    from simulations.audit.picture import curves, picture
    from simulations.audit.sources import source_of
    from simulations.audit.trials import conducted, forget

    own = source_of(study)
    kind, canaries = own.kind, options.canaries or DEFAULTS[own.kind]
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
    found = {"name": study.name, "study": study.id.hex(), "trial": own.source.words} | verdict(
        audit.trials, own.source.event, delta=study.privacy.delta, confidence=options.confidence,
        in_a_tail=own.source.in_a_tail, ranked=own.source.ranked,
    )  # fmt: skip
    found |= {"kind": kind, "repeated": audit.repeated, "seconds": time.monotonic() - begun}
    found["mu"]["pair"] = own.source.holds
    found["stands"] = found["stands"] and not audit.repeated
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


def _asked(options: argparse.Namespace) -> tuple[Study, Path]:
    """The study, and where its audit goes."""
    from clients.place import look_for_modules
    from server.rounds import Plan
    from simulations.run_directory import modules_of

    given = Path(options.study)
    if (given / STUDY).is_file():
        if options.overrides:
            raise FedprivError(f"{given}: a run is audited as it was: no --set")
        look_for_modules(modules_of(given))
        study = study_file.read(str((given / STUDY).absolute()))
        _check_done(given, study)
        place = given / "audit"
    else:
        look_for_modules(given.parent)
        study = study_file.read(options.study, options.overrides)
        place = Path("audits") / study.name
    if not study.privacy.promises:
        raise FedprivError(f"{options.study}: Plain promises nothing, so there is nothing to audit")
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
