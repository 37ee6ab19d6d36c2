"""`fedpriv tolerance`: how many attackers the vote on a coordinate survives."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedpriv._base.files import replace_file
from fedpriv._base.own_modules import look_for_modules
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import MECHANISMS, NoisySign, settings_of
from fedpriv.settings import settings_from
from fedpriv.tolerance import Vote
from simulations.cli._command import JSON, Commands, add_command, option
from simulations.cli._words import as_real, as_whole, mechanism_words, show_found
from simulations.cli.account import COMPARED

HELP = """\
published   what the theorem of [F] that speaks of these attackers says: a Chernoff bound, for any honest data
hoeffding   certified for any honest data of that mean
chernoff    the same where clients vote by lot (--sampling)
exact       counted, every honest client being exactly at the mean; -1 where the vote fails without attackers
Each is the largest number of attackers up to which the sum of all votes has the sign of the honest mean with a
probability above 1/2; a tie is wrong. Blind attackers send their honest update, whose mean is X too, with its sign
flipped, through the mechanism. Omniscient ones skip it: the most extreme symbol against the sign of the mean. With
--probability each of an attacker's votes is wrong with that probability ([F] Theorems 10 and 11). With --sampling
every client, attackers too, votes with that probability.

examples:
  fedpriv tolerance Binomial clip=0.1 scale=0.5 trials=1 --honest 100 --mean 0.1
  fedpriv tolerance Binomial clip=0.1 scale=0.5 trials=1 --honest 100 --mean 0.1 --sampling 0.05
  fedpriv tolerance Ternary clip=0.1 spread=0.15 scale=0.5 --honest 1000 --mean 0.1 --attack omniscient
  fedpriv tolerance NoisySign clip=1 noise=1 --honest 100 --mean 0.25 --compare Binomial clip=1 scale=2 trials=4
  fedpriv tolerance Binomial clip=0.1 scale=0.5 trials=16 --honest 100 --mean 0.1 --plot tolerance.png
"""
WHO = {
    "blind": "blind attackers: their honest update of the same mean, its sign flipped, through the mechanism",
    "omniscient": "omniscient attackers: the most extreme symbol against the sign of the mean, skipping the mechanism",
}
PROOF = {
    "published": "a Chernoff bound: any honest data of that mean",
    "hoeffding": "Hoeffding 1956, Jogdeo and Samuels 1968: any honest data of that mean",
    "chernoff": "Theorem G, a Chernoff bound: any honest data of that mean, blind attackers at its opposite",
    "exact": "convolution of all votes: every honest client exactly at the mean",
}
NOTHING = {
    "published": "says nothing: its conditions fail",
    "hoeffding": "nothing is certified",
    "chernoff": "nothing is certified: its bound is above 1/2 without attackers",
    "exact": "the vote is not right even without attackers",
}


OPTIONS = (
    option("kind", "KIND", "a mechanism whose votes can be counted: coins, three symbols, or a table of few"),
    option("settings", "name=value", "its settings", nargs="*"),
    option("--honest", "N", "honest clients", type=as_whole, required=True),
    option("--mean", "X", "their mean on the coordinate, turned to be positive", type=as_real, required=True),
    option("--attack", "blind|omniscient", "what the attackers know and do (default blind)"),
    option("--probability", "P", "instead: how often an attacker's vote is wrong", type=as_real),
    option(
        "--sampling", "P", "how probably a client votes at all, drawn for each (default 1)", type=as_real, default=1.0
    ),
    COMPARED,
    option("--plot", "FILE", "attackers survived by N and by a setting, as PNG, SVG or PDF"),
    JSON,
)


def add_to(commands: Commands) -> None:
    """Add `fedpriv tolerance` to the command's parser."""
    about = "How many attackers the vote on one coordinate survives: by theorem, certified, counted exactly."
    add_command(commands, "tolerance", run, OPTIONS, description=about, epilog=HELP)


def run(options: argparse.Namespace) -> None:
    """Print how many attackers are survived, of one mechanism or of several; draw it where that is asked for."""
    if options.attack is not None and options.probability is not None:
        raise FedprivError("give --attack or --probability, not both")
    look_for_modules(Path.cwd())  # for module:Class
    vote = Vote(
        mechanism=MECHANISMS.made(options.kind, settings_from(options.settings)), honest=options.honest,
        mean=options.mean, attack=options.attack or "blind", probability=options.probability, sampling=options.sampling,
    )  # fmt: skip
    others = (MECHANISMS.made(kind, settings_from(words)) for kind, *words in options.compare)
    compared = [replace(vote, mechanism=mechanism) for mechanism in others]
    reports = [tolerance_report(each) for each in (vote, *compared)]
    if options.plot is not None:
        tolerance_plot([vote, *compared], Path(options.plot))
    found = reports[0] | ({"compared": reports[1:]} if compared else {})
    show_found(found, tolerance_comparison(reports) if compared else tolerance_table(reports[0]), options.json)


def tolerance_report(vote: Vote) -> dict[str, Any]:
    """What `fedpriv tolerance --json` prints of a vote: attackers survived by each proof, and the proofs."""
    theorem, published = vote.published
    certified = "hoeffding" if vote.sampling == 1 else "chernoff"
    numbers = {"published": published, certified: vote.certified, "exact": vote.exact}
    nothing = [name for name, value in numbers.items() if value is None or value < 0]
    proof = {name: NOTHING[name] if name in nothing else PROOF[name] for name in numbers}
    proof["published"] = f"{theorem}, {proof['published']}" if theorem != "none" else "no theorem speaks of this"
    if vote.sampling < 1:
        proof["published"] = "[F] Theorem 8's (103) does not hold, and is not shown"
    elif vote.hoeffding is None and not vote.certifiable:
        proof["hoeffding"] = "nothing is certified: a symbol is not known to be a sum of coins"
    elif isinstance(vote.mechanism, NoisySign) and vote.hoeffding is not None and attackers_words(vote) == WHO["blind"]:
        proof["hoeffding"] += ", attackers' votes right as often before they are flipped"
    if (of_chance := vote.hoeffding_of_chance) != vote.hoeffding:
        numbers["hoeffding_of_chance"] = of_chance
        proof["hoeffding_of_chance"] = (
            f"the same, of any votes right with a mean probability of {vote.ballots[0].law[-1]:.6g}"
        )
    tried = [max(vote.exact, 0), vote.exact + 1][: 2 if vote.exact >= 0 else 1]
    return {
        "kind": type(vote.mechanism).__name__, "settings": settings_of(vote.mechanism), "honest": vote.honest,
        "mean": vote.mean, "attack": vote.attack if vote.probability is None else "vote",
        "probability": vote.probability, "sampling": vote.sampling, **numbers,
        "right": [{"attackers": k, "probability": p} for k, p in zip(tried, vote.chances(tried)[0], strict=True)],
        "assumptions": {"attackers": attackers_words(vote), "ties": "wrong", "votes": "independent"}, "proof": proof,
    }  # fmt: skip


def attackers_words(vote: Vote) -> str:
    """What a vote's attackers know and do, in words for `fedpriv tolerance`."""
    if vote.probability is not None:
        return f"attackers whose votes are wrong with probability {vote.probability:g}"
    return WHO[vote.attack]


def tolerance_table(found: dict[str, Any]) -> str:
    """What `tolerance_report` says of a vote, for people."""
    rows = [(name.replace("_", " "), found[name], proof) for name, proof in found["proof"].items()]
    name_width = max(12, max(len(name) for name, _, _ in rows) + 2)
    width = max(len(_short(value)) for _, value, _ in rows) + 2
    lines = [mechanism_words(found), *_setting(found)]
    lines += [f"  {name:<{name_width}}{_short(value):<{width}}{proof}" for name, value, proof in rows]
    chances = (f"with {each['attackers']:,} attackers {each['probability']:.6f}" for each in found["right"])
    return "\n".join([*lines, f"  {'P(right)':<{name_width}}{', '.join(chances)}; ties are wrong"])


def tolerance_comparison(reports: Sequence[dict[str, Any]]) -> str:
    """Several mechanisms in the same vote, a line each: what each survives, by which proof."""
    names = [name for name in reports[0]["proof"] if name != "hoeffding_of_chance"]
    width = max(len(mechanism_words(each)) for each in reports)
    lines = [*_setting(reports[0]), "  " + " " * width + "".join(f"{name:>12}" for name in names)]
    lines += [
        f"  {mechanism_words(each):<{width}}" + "".join(f"{_short(each[name]):>12}" for name in names)
        for each in reports
    ]
    return "\n".join([*lines, *(f"  {name:<12}{PROOF[name]}" for name in names)])


def _setting(found: dict[str, Any]) -> list[str]:
    """Who votes, and against whom."""
    drawn = f", each voting with probability {found['sampling']:g}" if found["sampling"] < 1 else ""
    honest = f"  {found['honest']:,} honest clients of mean {found['mean']:g}{drawn}"
    return [honest, f"  {found['assumptions']['attackers']}"]


def _short(value: float | None) -> str:
    """A number of attackers for the table of `fedpriv tolerance`; a dash where nothing is proved."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def tolerance_plot(votes: Sequence[Vote], path: Path) -> None:
    """Draw for --plot how many attackers votes survive by N and by a setting, as in [F] Figures 7 to 9."""
    form = path.suffix.lower()
    if form not in (".png", ".svg", ".pdf"):
        raise FedprivError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    from simulations.figures import tolerance as panels_by  # matplotlib only where a plot is wanted
    from simulations.figures.panels import figure_bytes

    panels = panels_by.panels_of(votes)
    note = f"{panels_by.line_kinds(panels)}\n{attackers_words(votes[0]).capitalize()}."
    content = figure_bytes(panels, note, form[1:])
    try:
        replace_file(path, content, mode=0o644)
    except OSError as error:
        raise FedprivError(f"--plot {path}: {error.strerror or error}") from None
