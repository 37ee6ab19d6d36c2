"""`fedpriv run`: a study from its file to its result, by whichever driver."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from clients.data.identity import in_words
from fedpriv import records
from fedpriv.errors import whole
from fedpriv.studies.study import Study
from server.directory.results import NOTHING
from server.progress.words import NOT_TRIED
from simulations.cli.account import print_json
from simulations.runs.directory import taken
from simulations.runs.running import Way, begun, interrupted, ran, study_of

HELP = """\
Without STUDY: digits, from an embedded data set. A run's directory holds its resolved study, records, ledger,
checkpoint and result; nothing is ever written over.

examples:
  fedpriv run
  fedpriv run fashion --set clients.count=1000 --set run.rounds=20
  fedpriv run my_study.toml --driver direct --out runs/mine
  fedpriv run --set attack.kind=OutputPoisoning --set clients.byzantine=3
  fedpriv run --resume runs/digits
  fedpriv run digits --dry-run
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "run", description="Run a study: train, aggregate, and account for every message.",
        epilog=HELP, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = command.add_argument
    add("study", metavar="STUDY", nargs="?", help="a TOML file, or the name of a study that ships (fedpriv list)")
    add("--set", metavar="table.key=value", action="append", default=[], dest="overrides",
        help="change one setting; may be repeated. A new kind drops the settings of the old one")  # fmt: skip
    add("--out", metavar="DIR", help="where the run goes (default runs/NAME, or the next number free)")
    add("--resume", metavar="DIR", help="go on with the run in DIR, to the same bits as if it had never stopped")
    add("--driver", default="flower", metavar="flower|direct",
        help="Flower's simulation (default), or the same round called directly")  # fmt: skip
    add("--superlink", metavar="NAME", help="run on the SuperLink of that name in Flower's own configuration")
    add("--workers", type=whole_number, metavar="N",
        help="worker processes (default: one a core under flower; under direct none but this one)")  # fmt: skip
    add(
        "--ray",
        metavar="ADDRESS",
        help="under direct: a Ray cluster that is there already, --workers of its cores or all",
    )
    add("--cohorts", type=whole_number, metavar="N", help="nodes the clients are divided over (default: one a worker)")
    add("--dry-run", action="store_true", help="print ε, bytes and the expected time; run nothing")
    add("--quiet", action="store_true", help="no progress on standard error")
    add("--json", action="store_true", help="one JSON object on standard output")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the study, or say what it would cost; 1 where no round counted, or its attack was not tried."""
    way = Way(driver=options.driver, workers=options.workers, cohorts=options.cohorts, ray=options.ray,
              superlink=options.superlink)  # fmt: skip
    study = _study(options)
    if options.dry_run:
        _show(_forecast(study), options.json)
        return 0
    directory, made = taken(options.study or "digits", options.out, options.resume)
    result = ran(study, directory, made, way, resume=options.resume is not None, quiet=options.quiet)
    if options.json:
        print_json(result)
    if result["why"] == "interrupted":
        raise interrupted(directory)
    if result["why"] == NOTHING:
        print(f"fedpriv: {directory}: {NOTHING}: {_why_skipped(directory)}", file=sys.stderr)
        return 1
    if result["not_tried"]:
        print(f"fedpriv: {directory}: the attack was {NOT_TRIED}: {result['not_tried']}", file=sys.stderr)
        return 1
    return 0


def _study(options: argparse.Namespace) -> Study:
    if options.resume is None or options.study is not None:
        return study_of(options.study or "digits", options.overrides)
    return begun(Path(options.resume), options.overrides)


def _why_skipped(directory: Path) -> str:
    lines = records.read(directory / "records.jsonl").rounds
    note = f" ({lines[0]['note']})" if lines[0].get("note") else ""
    return f"all {len(lines):,} were skipped, the first for {lines[0]['skipped']}{note}"


def _forecast(study: Study) -> dict[str, Any]:
    """What the study promises and what it would take, by training one chunk of clients."""
    from simulations.runs.forecast import forecast

    return forecast(study)


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    epsilon = found["epsilon"]
    print(f"{found['name']}: {found['clients']} clients, {found['byzantine']} Byzantine, {found['rounds']} rounds")
    print(f"  {in_words(found['data'], found['data']['path'])}")
    print(f"  {found['mechanism']}")
    print(f"  ε at δ = {found['delta']:g}     at most {epsilon['upper']:.7g}, at least {epsilon['lower']:.7g}")
    if found["epsilons"]:
        from server.progress.words import both

        print("  records kept      {}\n                    {}".format(*both(found["epsilons"])))
    print(f"  guarantee         {found['unit']} level, {found['adjacency']}, {found['trust']} trust")
    about = {"exact": "", "expected": " (expected)", "at most": " (expected, at most)"}[found["client_bytes_are"]]
    sent = f"{found['client_bytes']:,} bytes a round, {found['bytes_up']:,} bytes all clients in all"
    print(f"  a client sends    {sent}{about}")
    seconds, start = found["seconds"], found["start_seconds"]
    print(f"  expected time     roughly {seconds:.1f} s on one core, and {start:.0f} s for Flower to start")


def whole_number(text: str) -> int:
    """An option's value."""
    try:
        whole(**{"the number": int(text)})
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}") from None
