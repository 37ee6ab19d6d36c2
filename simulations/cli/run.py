"""`fedpriv run`: a study from its file to its result, by whichever driver."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from shlex import quote
from typing import Any

from clients.data_identity import in_words
from clients.place import look_for_modules
from fedpriv import records, study_file
from fedpriv.errors import FedprivError, one_of, whole
from fedpriv.study import Study
from server.directory import STUDY
from server.driver import Driver
from server.results import NOTHING
from server.words import NOT_TRIED
from simulations.account_commands import print_json
from simulations.run_directory import modules_of, take_back, taken

DRIVERS = ("flower", "direct")
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
        "run", help="run a study", description="Run a study: train, aggregate, and account for every message.",
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
    one_of(DRIVERS, driver=options.driver)
    if options.dry_run:
        _show(_forecast(_study(options)), options.json)
        return 0
    if options.ray is not None and options.driver != "direct":
        raise FedprivError("--ray is for --driver direct: Flower's simulation starts a Ray of its own")
    if options.superlink and (options.driver != "flower" or options.workers or options.cohorts):
        raise FedprivError("--superlink names nodes that exist: no --driver direct, --workers or --cohorts with it")
    study = _study(options)
    directory, made = taken(options.study or "digits", options.out, options.resume)
    try:
        result = _run(study, directory, options)
    except BaseException as error:
        take_back(directory, made)
        if isinstance(error, KeyboardInterrupt):
            raise _interrupted(directory) from None
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise FedprivError(f"{error.filename or directory}: {error.strerror or error}") from error
        raise
    if options.json:
        print_json(result)
    if result["why"] == "interrupted":
        raise _interrupted(directory)
    if result["why"] == NOTHING:
        print(f"fedpriv: {directory}: {NOTHING}: {_why_skipped(directory)}", file=sys.stderr)
        return 1
    if result["not_tried"]:
        print(f"fedpriv: {directory}: the attack was {NOT_TRIED}: {result['not_tried']}", file=sys.stderr)
        return 1
    return 0


def _run(study: Study, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    resume, quiet = options.resume is not None, options.quiet
    if options.driver == "direct":
        from server import rounds  # torch, only where it is needed
        from simulations import direct

        many = options.workers is not None and options.workers > 1
        if many or options.ray is not None:
            driver: Driver = direct.OnRay(options.workers, options.cohorts, options.ray)
        else:
            driver = direct.Here(options.cohorts or 1)
        try:
            return rounds.run(study, directory, driver, resume=resume, quiet=quiet)
        finally:
            driver.close()
    from simulations import launch

    if options.superlink:
        return launch.superlink_run(study, directory, options.superlink, resume=resume, quiet=quiet)
    return launch.simulate(
        study, directory, workers=options.workers, cohorts=options.cohorts, resume=resume, quiet=quiet
    )


def _study(options: argparse.Namespace) -> Study:
    if options.resume is None or options.study is not None:
        source = options.study or "digits"
        look_for_modules(Path(source).parent)
        return study_file.read(source, options.overrides)
    place = Path(options.resume)
    if not (place / STUDY).is_file():
        raise FedprivError(
            f"{place}: holds no run to go on with ({STUDY} is missing): fedpriv run … --out {place} begins one"
        )
    look_for_modules(modules_of(place))
    return study_file.read(str((place / STUDY).absolute()), options.overrides)


def _why_skipped(directory: Path) -> str:
    lines = records.read(directory / "records.jsonl").rounds
    note = f" ({lines[0]['note']})" if lines[0].get("note") else ""
    return f"all {len(lines):,} were skipped, the first for {lines[0]['skipped']}{note}"


def _interrupted(directory: Path) -> KeyboardInterrupt:
    goes_on = [f"fedpriv run --resume {quote(str(directory))} goes on"] if (directory / STUDY).exists() else []
    return KeyboardInterrupt(*goes_on)


def _forecast(study: Study) -> dict[str, Any]:
    """What the study promises and what it would take, by training one chunk of clients."""
    from simulations.forecast import forecast

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
        from server.words import both

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
