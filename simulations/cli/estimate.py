"""`fedpriv estimate`: the private and robust mean of anybody's records."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
import time
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from fedpriv.accounting.event import Event
from fedpriv.errors import FedprivError, natural
from fedpriv.estimation import ESTIMATORS, method_of, spelled
from fedpriv.registry import built
from simulations.cli._estimate_data import FORMS, records_of
from simulations.cli._estimate_table import report, table
from simulations.cli.account import as_real, as_whole, print_json

HELP = f"""\
The guarantee is for one record, replaced by any other, against whoever sees the mean and every noisy number on the way.
Who runs this sees the records themselves. All of the plan is charged before the first access; a check that fails gives
no mean, exit code 1, and costs the same. Further settings of a method are given as name=value (fedpriv list).

methods: {", ".join(spelled(name) for name in ESTIMATORS)}

examples:
  fedpriv estimate sample.npy --method prime --epsilon 5 --delta 1e-5 --corruption 0.05 --json
  fedpriv estimate sample.csv --method dp-mean --epsilon 1 --delta 1e-5 --out mean.csv
  fedpriv estimate sample.csv --method coinpress --epsilon 1 --delta 1e-5 --bound 100 steps=4
  fedpriv estimate sample.csv --method geometric-median
"""
OPTIONS = ("epsilon", "delta", "corruption", "bound")


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "estimate", epilog=HELP,
        description="The mean of a file's records, private and robust as the method is.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = command.add_argument
    add("data", metavar="DATA", help=f"records, a row each: {FORMS}")
    add("settings", metavar="name=value", nargs="*", help="further settings of the method")
    add("--method", default="prime", metavar="METHOD", help="default prime")
    add("--epsilon", type=as_real, metavar="E", help="the privacy to be kept to: ε")
    add("--delta", type=as_real, metavar="D", help="at this δ")
    add("--corruption", type=as_real, metavar="A", help="the share of records that may be anything")
    add(
        "--bound",
        type=as_real,
        metavar="R",
        help="a bound of the mean that is public, for methods that need or take one",
    )
    add("--heavy-tailed", action="store_true", help="records with a bounded covariance and nothing more (prime)")
    add("--out", metavar="FILE", help="the mean as .npy or .csv")
    add("--seed", type=as_whole, metavar="N", help="noise that can be drawn again, and so taken off: to try things out")
    add("--quiet", action="store_true", help="say nothing on the way")
    add("--json", action="store_true", help="one JSON object on standard output")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Everything that can be refused is refused before anything is spent."""
    estimator = chosen(options)
    target = _target(options.out, options.data)
    rng = _generator(options.seed)
    _say(options, f"reading {options.data}")
    data, names = records_of(options.data)
    plan = estimator.events(*data.shape)
    header = "" if names is None else " below a line of names"
    method = spelled(type(estimator).__name__)
    _say(options, f"{len(data):,} records of {data.shape[1]:,}{header}: {method}, {_accesses(plan)}")
    begun = time.perf_counter()
    found = estimator.estimate(data, rng)
    seconds = time.perf_counter() - begun
    written = target is not None and found.mean is not None and _written(target, found.mean, names)
    result = (
        report(estimator, found, data.shape, options.seed)
        | {"data": options.data, "out": options.out if written else None}
        | {"seconds": seconds, "columns": names}
    )
    if options.json:
        print_json(result)
    else:
        print(table(result))
    return 0 if found.failure is None and written == (target is not None) else 1


def _say(options: argparse.Namespace, words: str) -> None:
    if not options.quiet:
        print(words, file=sys.stderr, flush=True)


def chosen(options: argparse.Namespace) -> Any:
    """The estimator asked for, its settings checked; what a method does not take is refused by its option's name."""
    cls = method_of(options.method)
    settings: dict[str, Any] = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) is not None}
    for word in options.settings:
        name, equals, text = word.partition("=")
        if not equals:
            raise FedprivError(f"settings are written name=value, got {word!r}")
        if name in settings:
            raise FedprivError(f"{name} is given twice")
        settings[name] = _value(text)
    if options.heavy_tailed:
        cls = _heavy_tailed(cls)
    known = {field.name: field for field in fields(cls)}
    method = spelled(cls.__name__)
    for name in OPTIONS:
        if getattr(options, name) is not None and name not in known:
            private = getattr(cls, "private", True)
            why = "takes none" if private else "hides nothing and takes none"
            raise FedprivError(f"--{name}: {method} {why}: leave it out, or choose another --method")
    needed = [name for name, field in known.items() if field.default is MISSING and field.default_factory is MISSING]
    if missing := [f"--{name}" if name in OPTIONS else f"{name}=…" for name in needed if name not in settings]:
        raise FedprivError(f"{method} needs {', '.join(missing)}")
    return built(cls.__name__, cls, settings)


def _heavy_tailed(cls: type[Any]) -> type[Any]:
    found = ESTIMATORS.get(f"{cls.__name__.removesuffix('HeavyTailed')}HeavyTailed")
    if found is None:
        raise FedprivError(f"--heavy-tailed: {spelled(cls.__name__)} has no such form; prime has")
    return found


def _value(text: str) -> Any:
    """A whole number, a number, true or false, or a word."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _generator(seed: int | None) -> Generator:
    if seed is None:
        from fedpriv.randomness.cryptographic import cryptographic_generator

        return cryptographic_generator()
    from fedpriv.randomness.streams import stream

    natural(seed=seed)
    return stream(seed, "estimate")


def _target(out: str | None, data: str) -> Path | None:
    """Where the mean is to go; refused where it could not be written, while nothing has been spent."""
    if out is None:
        return None
    target = Path(out)
    if target.suffix.lower() not in (".npy", ".csv"):
        raise FedprivError(f"--out {out}: the name must end in .npy or .csv")
    if not target.parent.is_dir():
        raise FedprivError(f"--out {out}: there is no directory {target.parent} to write it in")
    if target.is_dir():
        raise FedprivError(f"--out {out}: is a directory")
    if target.exists() and Path(data).exists() and target.samefile(data):
        raise FedprivError(f"--out {out}: is the file of the records, which would be lost")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise FedprivError(f"--out {out}: cannot be written")
    return target


def _written(target: Path, mean: Any, names: list[str] | None) -> bool:
    """Whether it could be."""
    from fedpriv._base.files import replaced

    if target.suffix.lower() == ".csv":
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        rows.writerows([*([names] if names else []), [float(value) for value in mean]])
        content = text.getvalue().encode()
    else:
        file = io.BytesIO()
        np.save(file, np.asarray(mean))
        content = file.getvalue()
    try:
        replaced(target, content, mode=0o644)
    except OSError as error:  # what was spent was spent for a mean: it must not be lost
        print(f"fedpriv: --out {target}: {error.strerror or error}; the mean is below", file=sys.stderr)
        return False
    return True


def _accesses(plan: tuple[Event, ...]) -> str:
    count = sum(event.rounds for event in plan)
    return "nothing is hidden" if not count else f"{count} private access{'es' * (count > 1)} to the records planned"
