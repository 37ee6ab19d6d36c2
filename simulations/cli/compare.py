"""`fedpriv compare`: privacy, bits, error and attackers of every mechanism that meets one target."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import floor
from pathlib import Path
from typing import Any, get_args

from fedpriv._base.files import replace_file
from fedpriv._base.spelling import rounded_up, short_number
from fedpriv.errors import FedprivError
from fedpriv.frontier import Candidate, Compared, Survived, Target, attackers_survived, compared_mechanisms
from fedpriv.frontier.candidates import LEAST
from fedpriv.mechanisms import settings_of
from fedpriv.mechanisms.plain import Plain
from fedpriv.tolerance.ballots import Attack
from simulations.cli._command import JSON, Commands, add_command, option
from simulations.cli._words import as_real, as_whole, show_found
from simulations.report.run.facts import aligned_table

HELP = """\
Every mechanism that a client's message can have is calibrated to the target, its other settings being those of least
error among a few: peaks from clip/√d to clip, up to 63 votes, up to 512 levels, spreads to 8·clip. Inputs have norm 1.
ε         certified, at most: of all rounds, a client's data replaced
bits      of entropy; and as a coordinate is sent, headers aside: packed, sparse where that is shorter, masked in sums
error     root mean square (ℓ2) of the mean of all messages, where all clients hold one vector, uniform on the sphere;
          of it bias: what peak cuts off and a grid rounds away, which averages out in part where clients differ
blind     attackers that a vote survives beside N − K honest clients, each at the sphere's mean |x|: by [F]'s theorem,
          certified for any data of that mean, counted exactly; see fedpriv tolerance. -1: it fails without attackers
omnisc.   the same, of attackers who know the mean and send the most extreme symbol against it

examples:
  fedpriv compare --epsilon 2 --delta 1e-5 --rounds 100 --clients 1000 --byzantine 50
  fedpriv compare --epsilon 8 --delta 1e-6 --clients 200 --dimension 10 --csv points.csv --plot frontier.png
"""
TRUSTED = {
    "local": "local trust, the server sees every message",
    "secure-aggregation": "secure aggregation, the server sees sums alone; {honest:,} clients certainly draw noise",
}
HEAD = ["mechanism", "ε", "entropy", "sent", "error", "bias", "blind", "omnisc."]
COLUMNS = (
    "trust", "kind", "settings", "epsilon_upper", "epsilon_lower", "entropy", "sent", "sent_is", "error", "noise",
    "bias", *(f"{attack}_{name}" for attack in get_args(Attack) for name in Survived._fields),
)  # fmt: skip
OPTIONS = (
    option("--epsilon", "E", "the ε of all rounds, at most", type=as_real, required=True),
    option("--delta", "D", "the δ at which it is certified", type=as_real, required=True),
    option("--rounds", "T", "messages of each client (default 1)", type=as_whole, default=1),
    option("--clients", "N", "clients, the Byzantine among them", type=as_whole, required=True),
    option("--byzantine", "K", "Byzantine clients, whose noise hides nobody (default 0)", type=as_whole, default=0),
    option("--dimension", "d", "coordinates of a message (default 650)", type=as_whole, default=650),
    option("--csv", "FILE", "every setting that was tried, as a table"),
    option("--plot", "FILE", "error against bits, the frontier of each mechanism, as PNG, SVG or PDF"),
    JSON,
)


def add_to(commands: Commands) -> None:
    """Add `fedpriv compare` to the command's parser."""
    about = "Privacy, bits, error and attackers together: every mechanism at one ε."
    add_command(commands, "compare", run, OPTIONS, description=about, epilog=HELP)


def run(options: argparse.Namespace) -> None:
    """Print what every mechanism comes to at the target; write the points and draw the frontier where asked."""
    target = Target(
        epsilon=options.epsilon, delta=options.delta, rounds=options.rounds, clients=options.clients,
        byzantine=options.byzantine, dimension=options.dimension,
    )  # fmt: skip
    if options.plot is not None and Path(options.plot).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise FedprivError(f"--plot {options.plot}: the name must end in .png, .svg or .pdf")
    for name, file in (("--csv", options.csv), ("--plot", options.plot)):
        if file is not None and not Path(file).absolute().parent.is_dir():
            raise FedprivError(f"{name} {file}: there is no directory {Path(file).parent}")
    found = compared_mechanisms(target)
    points = {each: candidate_report(target, each) for own in found for each in own.points}
    if options.csv is not None:
        _written("--csv", options.csv, points_table(list(points.values())).encode())
    if options.plot is not None:
        _written("--plot", options.plot, frontier_picture(target, found, points, options.plot))
    show_found(comparison_report(target, found, points), comparison_table(target, found, points), options.json)


def candidate_report(target: Target, found: Candidate) -> dict[str, Any]:
    """What `fedpriv compare --json` prints of one mechanism, and a line of its CSV."""
    error = found.error
    attackers = {attack: attackers_survived(target, found.mechanism, attack) for attack in get_args(Attack)}
    return {
        "trust": found.trust, "kind": found.kind, "settings": settings_of(found.mechanism),
        "epsilon": found.cost.bounds._asdict(), "proof": found.cost.upper_proof,
        "bits": {"entropy": found.entropy, "sent": found.bits, "sent_is": found.bits_are},
        "error": None if error is None else {"total": error.total, **error._asdict()},
        "attackers": {name: None if own is None else own._asdict() for name, own in attackers.items()},
    }  # fmt: skip


def comparison_report(
    target: Target, found: Sequence[Compared], points: Mapping[Candidate, dict[str, Any]]
) -> dict[str, Any]:
    """What `fedpriv compare --json` prints: the best of each kind under each trust, and all that was tried."""
    return {
        "target": asdict(target), "honest": target.honest, "mean": target.mean, "unit": "client",
        "adjacency": "replace",
        "baseline": {"kind": "Plain", "epsilon": None, "bits": Plain().bits, "error": 0.0},
        "trusts": {
            own.trust: {"mechanisms": [points[each] for each in own.best], "left_out": own.left_out} for own in found
        },
        "points": list(points.values()),
    }  # fmt: skip


def comparison_table(target: Target, found: Sequence[Compared], points: Mapping[Candidate, dict[str, Any]]) -> str:
    """The same for people: a table a trust, the least error first."""
    lines = [
        f"ε ≤ {target.epsilon:g} at δ = {short_number(target.delta)}, {target.rounds:,} round(s), "
        f"{target.dimension:,} coordinates, {target.clients:,} clients, {target.byzantine:,} of them Byzantine; "
        "client level, replace"
    ]
    for own in found:
        rows = [candidate_row(points[each]) for each in own.best]
        rows.append(["Plain, no privacy", "∞", "32", "32", "0", "0", "–", "–"])
        lines += ["", TRUSTED[own.trust].format(honest=target.honest), aligned_table(HEAD, rows)]
        lines += [survivors_words(target, [points[each] for each in own.best])] if target.byzantine else []
        lines += [f"left out: {kind}, {why.removeprefix(f'{kind} ')}" for kind, why in own.left_out.items()]
    survived = f"attackers survived by {target.honest:,} honest clients at |x| = {target.mean:.4g}"
    return "\n".join([*lines, "", f"blind, omnisc.: {survived}: published/certified/exact; --help says the rest"])


def survivors_words(target: Target, rows: Sequence[Mapping[str, Any]]) -> str:
    """Whose votes survive the target's own attackers."""
    told = []
    for attack in get_args(Attack):
        votes = [own for own in rows if own["attackers"][attack] is not None]
        kinds = [own["kind"] for own in votes if own["attackers"][attack]["exact"] >= target.byzantine]
        told.append(f"{attack} by {', '.join(kinds) or 'none'}")
    return f"{target.byzantine:,} attackers are survived (exact): {'; '.join(told)}"


def candidate_row(own: Mapping[str, Any]) -> list[str]:
    """A mechanism's line of the table; ε is rounded up."""
    error, bits = own["error"], own["bits"]
    about = {"exact": "", "expected": "~", "at most": "≤"}[bits["sent_is"]]
    return [
        " ".join([own["kind"], *(f"{name}={value:.12g}" for name, value in own["settings"].items() if name != "clip")]),
        rounded_up(max(own["epsilon"]["upper"], LEAST)), f"{bits['entropy']:.3g}", f"{about}{bits['sent']:.3g}",
        *(["not known", "–"] if error is None else [f"{error['total']:.4g}", f"{error['bias']:.2g}"]),
        *(survived_words(own["attackers"][attack]) for attack in get_args(Attack)),
    ]  # fmt: skip


def survived_words(own: Mapping[str, float | None] | None) -> str:
    """How many attackers are survived: published, certified and exact; a dash where nothing is said."""
    return "–" if own is None else "/".join("–" if each is None else f"{floor(each)}" for each in own.values())


def points_table(points: Sequence[Mapping[str, Any]]) -> str:
    """Every setting that was tried, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for own in points:
        settings = " ".join(f"{name}={value!r}" for name, value in own["settings"].items())
        error, survived = own["error"] or {}, own["attackers"].values()
        writer.writerow([
            own["trust"], own["kind"], settings, own["epsilon"]["upper"], own["epsilon"]["lower"],
            *own["bits"].values(), error.get("total"), error.get("noise"), error.get("bias"),
            *(each for one in survived for each in (one or dict.fromkeys(Survived._fields)).values()),
        ])  # fmt: skip
    return text.getvalue()


def frontier_picture(
    target: Target, found: Sequence[Compared], points: Mapping[Candidate, dict[str, Any]], name: str
) -> bytes:
    """The frontier of each mechanism, in the form that the file's name ends in."""
    from simulations.figures.frontier import frontier_bytes  # matplotlib only where a plot is wanted

    omniscient = {each: own["attackers"]["omniscient"] or {"exact": 0} for each, own in points.items()}
    attackers = {each: max(own["exact"], 0) for each, own in omniscient.items()}
    about = (
        f"ε ≤ {target.epsilon:g} at δ = {short_number(target.delta)}: {target.rounds:,} rounds of {target.dimension:,} "
        f"coordinates, {target.clients:,} clients, inputs of norm 1."
    )
    return frontier_bytes(found, attackers, about, Path(name).suffix.lower()[1:])


def _written(option_name: str, name: str, content: bytes) -> None:
    """Put a file in its place at once, or say in one line why not."""
    try:
        replace_file(Path(name), content, mode=0o644)
    except OSError as error:
        raise FedprivError(f"{option_name} {name}: {error.strerror or error}") from None
