"""`fedpriv run`: a study from its file to its result, by whichever driver."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fedpriv import study_file
from fedpriv.errors import FedprivError, one_of, whole
from fedpriv.study import Study
from simulations.account_commands import print_json

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
    add("--workers", type=_number, metavar="N",
        help="worker processes (default: one a core under flower; under direct none but this one)")  # fmt: skip
    add("--cohorts", type=_number, metavar="N", help="nodes the clients are divided over (default: one a worker)")
    add("--dry-run", action="store_true", help="print ε, bytes and the expected time; run nothing")
    add("--quiet", action="store_true", help="no progress on standard error")
    add("--json", action="store_true", help="one JSON object on standard output")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the study, or say what it would cost."""
    one_of(DRIVERS, driver=options.driver)
    if options.dry_run:
        _show(_forecast(_study(options)), options.json)
        return
    if options.superlink and (options.driver != "flower" or options.workers or options.cohorts):
        raise FedprivError("--superlink names nodes that exist: no --driver direct, --workers or --cohorts with it")
    study, directory = _study(options), _directory(options)
    try:
        result = _run(study, directory, options)
    except FedprivError:
        _remove_if_empty(directory)
        raise
    except KeyboardInterrupt:
        if (directory / "study.toml").exists():
            print(f"fedpriv: interrupted; fedpriv run --resume {directory} goes on", file=sys.stderr)
        else:
            _remove_if_empty(directory)
        raise
    if options.json:
        print_json(result)
    if result["why"] == "interrupted":
        raise KeyboardInterrupt


def _run(study: Study, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    resume, quiet = options.resume is not None, options.quiet
    if options.driver == "direct":
        from server import rounds  # torch, only where it is needed
        from simulations import direct

        many = options.workers is not None and options.workers > 1
        driver = direct.OnRay(options.workers, options.cohorts) if many else direct.Here(options.cohorts or 1)
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
        return study_file.read(options.study or "digits", options.overrides)
    file = Path(options.resume) / "study.toml"
    if not file.is_file():
        raise FedprivError(f"{options.resume}: holds no run to go on with (study.toml is missing)")
    return study_file.read(str(file), options.overrides)


def _directory(options: argparse.Namespace) -> Path:
    """The run's own directory, made here so that no other run can take it."""
    if options.resume is not None:
        if options.out is not None:
            raise FedprivError("--resume goes on in its own directory: no --out with it")
        return Path(options.resume)
    if options.out is not None:
        out = Path(options.out)
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise FedprivError(f"{out}: is there already; --resume {out} goes on with a run, --out names another place")
        out.mkdir(parents=True, exist_ok=True)
        return out
    name = Path(options.study or "digits").stem
    for number in range(1, 1_000_000):
        out = Path("runs") / (name if number == 1 else f"{name}-{number}")
        try:
            out.mkdir(parents=True)
        except FileExistsError:
            continue
        return out
    raise FedprivError("runs: holds a million runs of that name")


def _remove_if_empty(directory: Path) -> None:
    """A directory in which nothing was begun is not left behind."""
    try:
        for name in ("error.json", "stop", "flower.log"):
            (directory / name).unlink(missing_ok=True)
        directory.rmdir()
    except OSError:
        pass


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
    print(f"  {found['mechanism']}")
    print(f"  ε at δ = {found['delta']:g}     at most {epsilon['upper']:.7g}, at least {epsilon['lower']:.7g}")
    print(f"  guarantee         {found['unit']} level, {found['adjacency']}, {found['trust']} trust")
    print(
        f"  a client sends    {found['client_bytes']:,} bytes a round, {found['bytes_up']:,} bytes all clients in all"
    )
    seconds, start = found["seconds"], found["start_seconds"]
    print(f"  expected time     about {seconds:.1f} s on one core, beside {start:.0f} s to start")


def _number(text: str) -> int:
    try:
        whole(**{"the number": int(text)})
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}") from None
