"""`fedpriv run`: a study from its file to its result, by whichever driver."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fedpriv import records
from fedpriv.errors import whole
from server.directory.results import NOTHING
from server.progress import result_table
from server.progress.words import NOT_TRIED
from simulations.cli._command import JSON, QUIET, VERBOSE, Commands, add_command, flag, option
from simulations.cli._words import show_found
from simulations.runs.directory import taken_directory
from simulations.runs.running import Way, begun_study, interrupted_words, ran_result, study_of
from simulations.runs.tracking import tracked_rounds, tracker_of

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


def whole_number(text: str) -> int:
    """The type of a command's options that count from 1 on: the text as a number, or argparse's error."""
    try:
        whole(**{"the number": int(text)})
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}") from None


OPTIONS = (
    option("study", "STUDY", "a TOML file, or the name of a study that ships (fedpriv list)", nargs="?"),
    option(
        "--set", "table.key=value",
        "change one setting; may be repeated. A new kind drops the settings of the old one",
        action="append", default=[], dest="overrides",
    ),
    option("--out", "DIR", "where the run goes (default runs/NAME, or the next number free)"),
    option("--resume", "DIR", "go on with the run in DIR, to the same bits as if it had never stopped"),
    option(
        "--driver", "flower|direct", "Flower's simulation (default), or the same round called directly",
        default="flower",
    ),
    option("--superlink", "NAME", "run on the SuperLink of that name in Flower's own configuration"),
    option(
        "--workers", "N", "worker processes (default: one a core under flower; under direct none but this one)",
        type=whole_number,
    ),
    option("--ray", "ADDRESS", "under direct: a Ray cluster that is there already, --workers of its cores or all"),
    option("--cohorts", "N", "nodes the clients are divided over (default: one a worker)", type=whole_number),
    option(
        "--track", "NAME", "tell a tracker of every round; may be repeated: tensorboard[:DIR], mlflow[:URI], "
        "wandb[:PROJECT]", action="append", default=[],
    ),
    flag("--dry-run", "print ε, bytes and the expected time; run nothing"),
    QUIET,
    VERBOSE,
    JSON,
)  # fmt: skip


def add_to(commands: Commands) -> None:
    """Add `fedpriv run` to the command's parser."""
    about = "Run a study: train, aggregate, and account for every message."
    add_command(commands, "run", run, OPTIONS, description=about, epilog=HELP)


def run(options: argparse.Namespace) -> int:
    """Run `fedpriv run`: train the study, or forecast its cost; 1 if no round counted or its attack was not tried."""
    way = Way(driver=options.driver, workers=options.workers, cohorts=options.cohorts, ray=options.ray,
              superlink=options.superlink)  # fmt: skip
    if options.resume is None or options.study is not None:
        study = study_of(options.study or "digits", options.overrides)
    else:
        study = begun_study(Path(options.resume), options.overrides)
    if options.dry_run:
        from simulations.runs.forecast import run_forecast, run_forecast_table  # torch, only where it is needed

        found = run_forecast(study)
        show_found(found, run_forecast_table(found), options.json)
        return 0
    trackers = [tracker_of(word) for word in options.track]
    directory, made = taken_directory(options.study or "digits", options.out, options.resume)
    with tracked_rounds(trackers, directory) as on_round:
        result = ran_result(
            study, directory, made, way, resume=options.resume is not None, quiet=options.quiet or options.verbose,
            on_round=on_round,
        )  # fmt: skip
    where = f"{result['directory']}, where the SuperLink {options.superlink} runs"
    words = f"{result['why']}; it is in {where}" if "elsewhere" in result else result_table(result)
    show_found(result, words, options.json)
    if result["why"] == "interrupted":
        raise interrupted_words(directory)
    if result["why"] == NOTHING:
        lines = records.read_records(directory / "records.jsonl").rounds
        note = f" ({lines[0]['note']})" if lines[0].get("note") else ""
        why = f"all {len(lines):,} were skipped, the first for {lines[0]['skipped']}{note}"
        return _failed(directory, f"{NOTHING}: {why}")
    if result.get("not_tried"):
        return _failed(directory, f"the attack was {NOT_TRIED}: {result['not_tried']}")
    return 0


def _failed(directory: Path, why: str) -> int:
    """Tell on standard error why `fedpriv run` did not do what was asked, though it came to its end: exit code 1."""
    print(f"fedpriv: {directory}: {why}", file=sys.stderr)
    return 1
