"""`fedpriv tolerance`: how many attackers the vote on a coordinate survives."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedpriv._base.files import replace_file
from fedpriv._base.own_modules import look_for_modules
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import MECHANISMS, settings_of
from fedpriv.tolerance import Vote
from simulations.cli._command import JSON, Commands, add_command, option
from simulations.cli.account import as_real, as_whole, settings_from, settings_words, show_found

HELP = """\
published   what the theorem of [F] that speaks of these attackers says: a Chernoff bound, for any honest data
hoeffding   certified for any honest data of that mean
exact       counted, every honest client being exactly at the mean
Each is the largest number of attackers up to which the sum of all votes has the sign of the honest mean with a
probability above 1/2; a tie is wrong. Blind attackers send their honest update, whose mean is X too, with its sign
flipped, through the mechanism. Omniscient ones skip it: the most extreme symbol against the sign of the mean. With
--probability each of an attacker's votes is wrong with that probability ([F] Theorems 10 and 11).

examples:
  fedpriv tolerance Binomial clip=0.1 scale=0.5 trials=1 --honest 100 --mean 0.1
  fedpriv tolerance Ternary clip=0.1 spread=0.15 scale=0.5 --honest 1000 --mean 0.1 --attack omniscient
  fedpriv tolerance Binomial clip=0.1 scale=0.5 trials=16 --honest 100 --mean 0.1 --plot tolerance.png
"""
WHO = {
    "blind": "blind attackers: their honest update of the same mean, its sign flipped, through the mechanism",
    "omniscient": "omniscient attackers: the most extreme symbol against the sign of the mean, skipping the mechanism",
}
PROOF = {
    "published": "a Chernoff bound: any honest data of that mean",
    "hoeffding": "Hoeffding 1956, Jogdeo and Samuels 1968: any honest data of that mean",
    "exact": "convolution of all votes: every honest client exactly at the mean",
}
NOTHING = {
    "published": "says nothing: its conditions fail",
    "hoeffding": "nothing is certified",
    "exact": "the vote is not right even without attackers",
}


OPTIONS = (
    option("kind", "KIND", "Binomial, StochasticSign, Cldp, Ternary or Ternarize"),
    option("settings", "name=value", "its settings", nargs="*"),
    option("--honest", "N", "honest clients", type=as_whole, required=True),
    option("--mean", "X", "their mean on the coordinate, turned to be positive", type=as_real, required=True),
    option("--attack", "blind|omniscient", "what the attackers know and do (default blind)"),
    option("--probability", "P", "instead: how often an attacker's vote is wrong", type=as_real),
    option("--plot", "FILE", "attackers survived by N and by a setting, as PNG, SVG or PDF"),
    JSON,
)


def add_to(commands: Commands) -> None:
    """Add the command to a parser's."""
    about = "How many attackers the vote on one coordinate survives: by theorem, certified, counted exactly."
    add_command(commands, "tolerance", run, OPTIONS, description=about, epilog=HELP)


def run(options: argparse.Namespace) -> None:
    """Print how many attackers are survived, and draw it where that is asked for."""
    if options.attack is not None and options.probability is not None:
        raise FedprivError("give --attack or --probability, not both")
    look_for_modules(Path.cwd())  # for module:Class
    mechanism = MECHANISMS.made(options.kind, settings_from(options.settings))
    vote = Vote(
        mechanism=mechanism, honest=options.honest, mean=options.mean, attack=options.attack or "blind",
        probability=options.probability,
    )  # fmt: skip
    found = tolerance_report(vote)
    if options.plot is not None:
        tolerance_plot(vote, Path(options.plot))
    show_found(found, tolerance_table(found), options.json)


def tolerance_report(vote: Vote) -> dict[str, Any]:
    """A vote as plain data."""
    theorem, published = vote.published
    numbers = {"published": published, "hoeffding": vote.hoeffding, "exact": vote.exact}
    proof = {name: PROOF[name] if value is not None else NOTHING[name] for name, value in numbers.items()}
    proof["published"] = f"{theorem}, {proof['published']}" if theorem != "none" else "no theorem speaks of this"
    if vote.hoeffding is None and not vote.certifiable:
        proof["hoeffding"] = "nothing is certified: spread is above scale / 2, a symbol is no sum of two coins"
    tried = [0] if vote.exact is None else [vote.exact, vote.exact + 1]
    return {
        "kind": type(vote.mechanism).__name__, "settings": settings_of(vote.mechanism), "honest": vote.honest,
        "mean": vote.mean, "attack": vote.attack if vote.probability is None else "vote",
        "probability": vote.probability, **numbers,
        "right": [{"attackers": k, "probability": p} for k, p in zip(tried, vote.chances(tried)[0], strict=True)],
        "assumptions": {"attackers": attackers_words(vote), "ties": "wrong", "votes": "independent"}, "proof": proof,
    }  # fmt: skip


def attackers_words(vote: Vote) -> str:
    """The attackers, in words."""
    if vote.probability is not None:
        return f"attackers whose votes are wrong with probability {vote.probability:g}"
    return WHO[vote.attack]


def tolerance_table(found: dict[str, Any]) -> str:
    """What `tolerance_report` says of a vote, for people."""
    rows = [(name, found[name], found["proof"][name]) for name in ("published", "hoeffding", "exact")]
    lines = [
        f"{found['kind']} {settings_words(found['settings'])}",
        f"  {found['honest']:,} honest clients of mean {found['mean']:g}",
    ]
    lines.append(f"  {found['assumptions']['attackers']}")
    width = max(len(_short(value)) for _, value, _ in rows) + 2
    lines += [f"  {name:<12}{_short(value):<{width}}{proof}" for name, value, proof in rows]
    chances = (f"with {each['attackers']:,} attackers {each['probability']:.6f}" for each in found["right"])
    return "\n".join([*lines, f"  P(right)    {', '.join(chances)}; ties are wrong"])


def _short(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def tolerance_plot(vote: Vote, path: Path) -> None:
    """Draw what is survived: [F] Figures 7 to 9 for this mechanism."""
    form = path.suffix.lower()
    if form not in (".png", ".svg", ".pdf"):
        raise FedprivError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    from simulations.figures import tolerance as panels_by  # matplotlib only where a plot is wanted
    from simulations.figures.panels import figure_bytes

    panels = panels_by.panels_of(vote)
    note = f"{panels_by.line_kinds(panels)}\n{attackers_words(vote).capitalize()}."
    content = figure_bytes(panels, note, form[1:])
    try:
        replace_file(path, content, mode=0o644)
    except OSError as error:
        raise FedprivError(f"--plot {path}: {error.strerror or error}") from None
