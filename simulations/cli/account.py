"""`fedpriv account` and `fedpriv calibrate`: the privacy core from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedpriv._base.own_modules import look_for_modules
from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.accounting.account import Account, Cost
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.course import UP_TO
from fedpriv.accounting.event import by_hand, event_as_data
from fedpriv.accounting.published.comparisons import asymptotic_values, published_values
from fedpriv.bounds import geometry_of
from fedpriv.errors import FedprivError, whole
from fedpriv.mechanisms import COSTED, Costed
from fedpriv.releases import SUMS, events_in_turn
from fedpriv.settings import settings_from, settings_of
from fedpriv.studies.calibrating import calibrated_release
from fedpriv.trust import sums_only
from fedpriv.wire import packed_bits
from simulations.cli._command import JSON, Commands, add_command, option
from simulations.cli._words import (
    as_rates,
    as_real,
    as_whole,
    mechanism_words,
    show_found,
)

SHOWN_DELTAS = (1e-3, 1e-5, 1e-6, 1e-8, 1e-10)  # at which ε is shown where neither δ nor ε is asked for
USUAL = 1e-5  # the δ at which theorems are compared where none is given

ACCOUNT_HELP = """\
examples:
  fedpriv account Ternary clip=0.1 spread=0.25 scale=0.5 --rounds 200 --delta 1e-5
  fedpriv account StochasticSign clip=0.1 scale=10 --dimension 100000 --geometry l2 --rounds 100 --delta 1e-5
  fedpriv account Gaussian clip=1 noise=1 --sampling 0.01 --rounds 1000 --delta 1e-5 --plot curve.png
  fedpriv account StochasticSign clip=0.1 scale=1 --rounds 100 --alpha 0.01,0.05
  fedpriv account DpSgd clip=1 noise=4 sampling=0.01 --rounds 10000 --delta 1e-5
  fedpriv account Binomial clip=1 scale=5 trials=2 --compare Ternary clip=1 spread=4 scale=8 --delta 1e-5
"""
CALIBRATE_HELP = """\
Leave out the setting to find. A real one meets the target to within 0.5% where ε does not jump, a whole one as
closely as it can.

examples:
  fedpriv calibrate DpSgd clip=1 sampling=0.1 schedule=linear to=0.5 --epsilon 3 --delta 1e-5 --rounds 100
  fedpriv calibrate Ternary clip=1 spread=4 --epsilon 2 --delta 1e-5 --rounds 100 --dimension 10000 --geometry l2
"""


RELEASE = (  # what describes a release: of both commands
    option("kind", "KIND", "a mechanism, or a release of records such as DpSgd; see fedpriv list"),
    option("settings", "name=value", "its settings", nargs="*"),
    option("--dimension", "D", "coordinates released (default 1)", type=as_whole, default=1),
    option("--geometry", "l2|linf", "what clip bounds: the norm, or every coordinate"),
    option("--rounds", "T", "releases (default 1)", type=as_whole, default=1),
    option("--sampling", "Q", "Poisson rate of the unit in a round", type=as_real, default=1.0),
    option("--unit", "record|client", "what is protected (default: record if sampled or a curator's, else client)"),
    option(
        "--adjacency", "replace|add-remove",
        "what neighbours differ by (default: add-remove for a curator's noise on a sum and for Ptr, else replace)",
    ),
    option(
        "--trust", "local|secure-aggregation|central",
        "who sees what (default: central for Gaussian, Laplace and releases of whole batches, else local)",
    ),
    option(
        "--seen", "margin|branch",
        "of Ptr: whether its noisy margin is released, or only the branch it took, as in a study (default margin)",
    ),
    option("--clients", "N", "contributors certain to have drawn noise (secure aggregation)", type=as_whole),
    option("--delta", "D", "the δ at which ε is asked for", type=as_real),
    option("--epsilon", "E", "the ε at which δ is asked for", type=as_real),
    option(
        "--alpha", "A,A…", "type I errors at which the least type II error, β, is told: numbers between 0 and 1",
        type=as_rates, default=(),
    ),
    JSON,
)  # fmt: skip
COMPARED = option(
    "--compare", ("KIND", "name=value"), "another mechanism in the same setting, beside the first; may be repeated",
    nargs="+", action="append", default=[],
)  # fmt: skip
PLOT = option("--plot", "FILE", "the tradeoff curve against the Gaussian one, as PNG, SVG or PDF; a CSV beside it")
FREE = option("--free", "NAME", "the setting to find, where more than one could be")


def add_to(commands: Commands) -> None:
    """Add `fedpriv account` and `fedpriv calibrate` to the command's parser."""
    about = "What a release gives away, from both sides."
    add_command(commands, "account", run_account, (*RELEASE, COMPARED, PLOT), description=about, epilog=ACCOUNT_HELP)
    about = "The setting that meets a target (ε, δ)."
    add_command(commands, "calibrate", run_calibrate, (*RELEASE, FREE), description=about, epilog=CALIBRATE_HELP)


def run_account(options: argparse.Namespace) -> None:
    """Run `fedpriv account`: print what one mechanism costs, or several side by side, and draw their curves."""
    if options.delta is not None and options.epsilon is not None:
        raise FedprivError("give --delta or --epsilon, not both")
    look_for_modules(Path.cwd())  # for module:Class
    asked = ([options.kind, *options.settings], *options.compare)
    made = [_account_named(kind, settings_from(words), options) for kind, *words in asked]
    accounts = [account for account, _ in made]
    reports = [
        account_report(account, options.delta, options.epsilon, alpha=options.alpha) | named for account, named in made
    ]
    if options.plot is not None:
        from simulations.figures.curves import plot_tradeoff  # matplotlib only where a plot is wanted

        plot_tradeoff(list(zip(map(mechanism_words, reports), accounts, strict=True)), options.plot)
    found = reports[0] | ({"compared": reports[1:]} if len(reports) > 1 else {})
    show_found(found, "\n\n".join(map(_table, reports)), options.json)


def run_calibrate(options: argparse.Namespace) -> None:
    """Run `fedpriv calibrate`: print the setting that meets the target (ε, δ), and what it costs."""
    if options.epsilon is None or options.delta is None:
        raise FedprivError("calibrate needs a target: --epsilon and --delta")
    whole(rounds=options.rounds)
    look_for_modules(Path.cwd())
    kind, settings, facts = options.kind, settings_from(options.settings), _facts(options)
    asked = {"epsilon": options.epsilon, "delta": options.delta}
    if _is_release(kind, settings, options):
        given, events = calibrated_release(kind, settings, options.dimension, options.rounds, **asked)
        account, cost, named = Account(events), None, _named(kind, given, options)
    else:
        mechanism, cost = calibrate(kind, settings, lambda own: by_hand(own, **facts), free=options.free, **asked)
        account, named = _account_of(mechanism, options), {}
    found = account_report(account, options.delta, None, cost, options.epsilon, options.alpha)
    found |= named | {"target": asked}
    show_found(found, _table(found), options.json)


def account_report(
    account: Account,
    delta: float | None,  # at which ε is asked for
    epsilon: float | None,  # at which δ is asked for; of neither, ε is told at several δ
    cost: Cost | None = None,  # of this account at `delta`, where it is known already
    target: float | None = None,  # the ε that a calibration was to meet
    alpha: Sequence[float] = (),  # at which β is told
) -> dict[str, Any]:
    """An account as `fedpriv account --json` prints it: release, bounds asked for, proofs, papers' values."""
    event = account.events[0]
    result = event_as_data(event) | {"geometry": geometry_of(event.bound)}
    if epsilon is not None:
        cost = account.delta(epsilon)
        result |= {"at_epsilon": epsilon, "delta": _bounds(cost), "proof": _proof(cost)}
    elif delta is not None:
        cost = cost or account.epsilon(delta)
        result |= {"at_delta": delta, "epsilon": _bounds(cost), "proof": _proof(cost)}
    else:
        costs = {at: account.epsilon(at) for at in SHOWN_DELTAS}
        result |= {"points": [{"delta": at, "epsilon": _bounds(cost)} for at, cost in costs.items()]}
        result["proof"] = _proof(costs[USUAL])
    result["mu"] = account.mu
    result["mu_between"] = account.mu_between(UP_TO * (delta if delta is not None else USUAL))._asdict()
    if alpha:
        bounds = zip(alpha, *(own.tolist() for own in account.tradeoff(alpha)), strict=True)
        result["beta"] = {f"{level:g}": {"lower": low, "upper": high} for level, low, high in bounds}
    packed, word = float(event.mechanism.bits), "exact"
    if not sums_only(result["trust"]):  # where each message is sent as it is
        packed, word = packed_bits(event.mechanism, event.dimension, boxed=result["geometry"] != "l2")
    result["bits"] = {"packed": packed, "packed_is": word, "entropy": event.mechanism.entropy}
    if epsilon is None:
        result["asymptotic"] = asymptotic_values(account, delta if delta is not None else USUAL)
    result["published"] = published_values(account, delta if delta is not None else USUAL, target)
    return result


def _bounds(cost: Cost) -> dict[str, float]:
    """The lower and upper bound of ε, or of δ, that a cost has, as an account's JSON has them."""
    return {"lower": cost.bounds.lower, "upper": cost.bounds.upper}


def _proof(cost: Cost) -> dict[str, str]:
    """Which route proves the upper bound of a cost and which witness the lower, as an account's JSON has them."""
    return {"upper": cost.upper_proof, "lower": cost.lower_proof}


def _facts(options: argparse.Namespace) -> dict[str, Any]:
    """What options of `fedpriv account` say of the release beside the mechanism: rounds, sampling, trust, …"""
    names = ("dimension", "geometry", "rounds", "sampling", "unit", "adjacency", "trust", "clients", "seen")
    return {name: getattr(options, name) for name in names}


def _account_of(mechanism: Costed, options: argparse.Namespace) -> Account:
    """The account of one mechanism's release under the options of `fedpriv account` or `calibrate`."""
    return Account((by_hand(mechanism, **_facts(options)),))


def _account_named(
    kind: str, settings: Mapping[str, Any], options: argparse.Namespace
) -> tuple[Account, dict[str, Any]]:
    """The account of what a kind names, a mechanism or a release of records; and what its report then says of it."""
    if not _is_release(kind, settings, options):
        return _account_of(COSTED.made(kind, settings), options), {}
    events = events_in_turn(SUMS.made(kind, settings), options.dimension, options.rounds, options.rounds, 1)
    return Account(events), _named(kind, settings, options)


def _is_release(kind: str, settings: Mapping[str, Any], options: argparse.Namespace) -> bool:
    """Whether a kind is a release of records, whose own settings say what options say of a mechanism, not a mechanism.

    Ptr is both: it is the release where it has a setting that only that has, such as sampling.
    """
    if kind not in SUMS or (kind in COSTED and not set(settings) - {own.name for own in settings_of(COSTED[kind])}):
        return False
    usual = {"sampling": 1.0} | dict.fromkeys(("geometry", "unit", "adjacency", "trust", "clients", "seen", "free"))
    for name, value in usual.items():
        if getattr(options, name, value) != value:
            raise FedprivError(
                f"--{name}: {kind} is a release of records, which are there or not, to a client's message: its own "
                "settings, sampling among them, say all there is"
            )
    return True


def _named(kind: str, settings: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """What a report of a release says in the place of the mechanism that it costs as much as."""
    made = asdict(SUMS.made(kind, settings)).items()  # type: ignore[call-overload]
    return {"kind": kind, "settings": {name: own for name, own in made if own is not None}, "rounds": options.rounds}


def _table(own: Mapping[str, Any]) -> str:
    """An account as `fedpriv account` prints it for people: what was released, bounds, proofs, papers' values."""
    setting = [f"{own['unit']} level", own["adjacency"], f"{own['trust']} trust", f"{own['rounds']} round(s)"]
    if own["dimension"] > 1:
        setting.insert(0, f"{own['dimension']} coordinates under {own['geometry']}")
    setting += [f"sampled at {own['sampling']:.12g}"] if own["sampling"] < 1 else []
    setting += [f"{own['seen']} seen"] if own["seen"] is not None else []
    setting += [f"{own['clients']} honest contributors"] if own["clients"] is not None else []
    lines, rows = [mechanism_words(own), f"  {', '.join(setting)}"], list[tuple[str, str]]()
    if "points" in own:
        rows += [(f"ε at δ = {short_number(point['delta'])}", _span(point["epsilon"])) for point in own["points"]]
    elif "epsilon" in own:
        rows.append((f"ε at δ = {short_number(own['at_delta'])}", _span(own["epsilon"])))
    else:
        rows.append((f"δ at ε = {short_number(own['at_epsilon'])}", _span(own["delta"])))
    seen = ", were every message seen" * sums_only(own["trust"])
    between, word = own["mu_between"], "by its word" if ":" in own["kind"] else "certified"
    exact = "none" if own["mu"] is None else f"μ = {rounded_up(own['mu'], 7)} {word}{seen}"
    rows.append(("Gaussian DP", exact + f", at least {rounded_down(between['lower'], 7)}" * (not between["up_to"])))
    if between["up_to"]:
        rows.append((f"  up to δ₀ = {short_number(between['up_to'])}", f"μ {_span(between)}"))
    for level, bound in own.get("beta", {}).items():
        least, most = rounded_down(bound["lower"], 7), rounded_up(bound["upper"], 7)
        rows.append((f"β at α = {level}", f"at least {least}, at most {most}"))
    rows.append(("proof, upper", own["proof"]["upper"]))
    rows.append(("proof, lower", own["proof"]["lower"]))
    bits, words = own["bits"], {"exact": "", "expected": ", expected", "at most": " at most, expected"}
    packed = f"{bits['packed']:.4g} packed{words[bits['packed_is']]}"
    rows.append(("bits a coordinate", f"{packed}, {bits['entropy']:.4g} of entropy"))
    rows += [
        (f"asymptotic, {name}", f"ε = {short_number(value, 7)}") for name, value in own.get("asymptotic", {}).items()
    ]
    for name, values in own["published"].items():  # of each a number of the theorem, or in words why there is none
        said = [each if isinstance(each, str) else f"{key} = {short_number(each, 7)}" for key, each in values.items()]
        rows.append((f"published, {name}", ", ".join(said)))
    width = max(len(name) for name, _ in rows)
    return "\n".join(lines + [f"  {name:<{width}}  {text}" for name, text in rows])


def _span(bounds: Mapping[str, float]) -> str:
    """An upper and a lower bound in words, for the table of an account."""
    return f"at most {rounded_up(bounds['upper'], 7)}, at least {rounded_down(bounds['lower'], 7)}"
