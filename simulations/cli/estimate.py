"""`fedpriv estimate`: the private and robust mean of anybody's records."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from dataclasses import MISSING, fields
from typing import Any

from fedpriv.errors import FedprivError, natural
from fedpriv.estimation import ESTIMATORS, method_of, spelled_name
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.streams import stream
from fedpriv.registry import built_kind
from simulations.cli import _estimate_federated as federated
from simulations.cli._command import JSON, Commands, add_command, flag, option
from simulations.cli._estimate_data import FORMS, records_of
from simulations.cli._estimate_out import target_of, written_to
from simulations.cli._estimate_table import report, table
from simulations.cli._words import as_real, as_whole, show_found

HELP = f"""\
The guarantee is for one record, replaced by any other, against whoever sees the mean and every noisy number on the way.
Who runs this sees the records themselves. All of the plan is charged before the first access; a check that fails gives
no mean, exit code 1, and costs the same. Further settings of a method are given as name=value (fedpriv list).

With --mechanism each row is a client's vector, bounded, privatised by itself and sent once to a server that nobody
trusts: the guarantee is for one client, against the server. Whoever runs this plays all of them, and sees the records.

methods: {", ".join(spelled_name(name) for name in ESTIMATORS)}

examples:
  fedpriv estimate sample.npy --method prime --epsilon 5 --delta 1e-5 --corruption 0.05 --json
  fedpriv estimate sample.csv --method dp-mean --epsilon 1 --delta 1e-5 --out mean.csv
  fedpriv estimate sample.csv --method coinpress --epsilon 1 --delta 1e-5 --bound 100 steps=4
  fedpriv estimate sample.csv --method median-ptr --epsilon 1 --delta 1e-6 scale=2
  fedpriv estimate sample.csv --method geometric-median
  fedpriv estimate sample.npy --mechanism Binomial clip=1 peak=0.2 trials=4 --epsilon 4 --delta 1e-5 --rotate
  fedpriv estimate sample.npy --mechanism Ternary clip=1 spread=4 scale=8 --delta 1e-5 --byzantine 50 --rule Median
"""
SETTINGS = ("epsilon", "delta", "corruption", "bound")  # those of a method that are options
OPTIONS = (
    option("data", "DATA", f"records, a row each: {FORMS}"),
    option("settings", "name=value", "further settings of the method, or of the mechanism", nargs="*"),
    option("--method", "METHOD", "default prime"),
    option("--epsilon", "E", "the privacy to be kept to: ε", type=as_real),
    option("--delta", "D", "at this δ", type=as_real),
    option("--corruption", "A", "the share of records that may be anything", type=as_real),
    option("--bound", "R", "a bound of the mean that is public, for methods that need or take one", type=as_real),
    flag("--heavy-tailed", "records with a bounded covariance and nothing more (prime)"),
    option("--out", "FILE", "the mean as .npy or .csv"),
    option("--seed", "N", "noise that can be drawn again, and so taken off: to try things out", type=as_whole),
    flag("--quiet", "say nothing on the way"),
    *federated.OPTIONS,
    JSON,
)


def add_to(commands: Commands) -> None:
    """Add `fedpriv estimate` to the command's parser."""
    about = "The mean of a file's records, private and robust as the method is."
    add_command(commands, "estimate", run, OPTIONS, description=about, epilog=HELP)


def run(options: argparse.Namespace) -> int:
    """Run `fedpriv estimate`: read the records, release their private mean, print and write it; 1 where there is none.

    Everything that can be refused is refused before anything is spent.
    """
    federated.refuse_strangers(options)
    if options.mechanism is not None:
        return federated.run_federated(options)
    estimator = chosen_estimator(options)
    target = target_of(options.out, options.data)
    if options.seed is None:
        rng = cryptographic_generator()
    else:
        natural(seed=options.seed)
        rng = stream(options.seed, "estimate")
    _say(options, f"reading {options.data}")
    data, names = records_of(options.data)
    count = sum(event.rounds for event in estimator.events(*data.shape))
    accesses = f"{count} private access{'es' * (count > 1)} to the records planned" if count else "nothing is hidden"
    header = "" if names is None else " below a line of names"
    method = spelled_name(type(estimator).__name__)
    _say(options, f"{len(data):,} records of {data.shape[1]:,}{header}: {method}, {accesses}")
    begun = time.perf_counter()
    found = estimator.estimate(data, rng)
    seconds = time.perf_counter() - begun
    written = target is not None and found.mean is not None and written_to(target, found.mean, names)
    where = {"data": options.data, "out": options.out if written else None, "seconds": seconds, "columns": names}
    result = report(estimator, found, data.shape, options.seed) | where
    show_found(result, table(result), options.json)
    return 0 if found.failure is None and written == (target is not None) else 1


def _say(options: argparse.Namespace, words: str) -> None:
    """Tell on standard error what `fedpriv estimate` is doing, unless --quiet."""
    if not options.quiet:
        print(words, file=sys.stderr, flush=True)


def chosen_estimator(options: argparse.Namespace) -> Any:
    """The estimator that `fedpriv estimate` was asked for, settings checked; faults name the option."""
    cls = method_of(options.method or "prime")
    given = {name: getattr(options, name) for name in SETTINGS if getattr(options, name) is not None}
    settings: dict[str, Any] = dict(given)
    for word in options.settings:
        name, equals, text = word.partition("=")
        if not equals:
            raise FedprivError(f"settings are written name=value, got {word!r}")
        if name in settings:
            raise FedprivError(f"{name} is given twice")
        settings[name] = {"true": True, "false": False}.get(text, text)
        for kind in (float, int):  # a whole number is one, though it could be read as a float
            with suppress(ValueError):
                settings[name] = kind(text)
    if options.heavy_tailed:
        heavy = ESTIMATORS.get(f"{cls.__name__.removesuffix('HeavyTailed')}HeavyTailed")
        if heavy is None:
            raise FedprivError(f"--heavy-tailed: {spelled_name(cls.__name__)} has no such form; prime has")
        cls = heavy
    method, known = spelled_name(cls.__name__), {field.name: field for field in fields(cls)}
    if strange := [name for name in given if name not in known]:
        why = "takes none" if getattr(cls, "private", True) else "hides nothing and takes none"
        raise FedprivError(f"--{strange[0]}: {method} {why}: leave it out, or choose another --method")
    needed = [name for name, field in known.items() if field.default is MISSING and field.default_factory is MISSING]
    if missing := [f"--{name}" if name in SETTINGS else f"{name}=…" for name in needed if name not in settings]:
        raise FedprivError(f"{method} needs {', '.join(missing)}")
    return built_kind(cls.__name__, cls, settings)
