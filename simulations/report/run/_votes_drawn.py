"""The figure of votes that came out wrong in a simulation."""

from __future__ import annotations

from math import isfinite, nan

from simulations.figures.style import BLUE, GOLD, RED, Drawn, draw_curve, label_ends, new_figure, over_rounds
from simulations.report.run._votes import descent_of, measured_rounds
from simulations.report.run.runs import Run

JUDGED = {"blind": "blind attackers", "omniscient": "attackers that know every vote"}


def votes_figure(run: Run) -> Drawn | None:
    """The share of wrong votes over rounds, measured beside what the count of votes expects."""
    lines = [line for line in measured_rounds(run) if line["votes"]["against_mean"] is not None]
    if not lines:
        return None
    x = [line["round"] for line in lines]
    mean, expected, gradient = (
        [nan if line["votes"][name] is None else line["votes"][name] for line in lines]
        for name in ("against_mean", "expected", "against_gradient")
    )
    figure, (axes,) = new_figure(3.2)
    draw_curve(axes, x, gradient, GOLD)
    draw_curve(axes, x, mean, BLUE)
    ends = [(x[-1], gradient[-1], f"{gradient[-1]:.1%} of the\nfull gradient", GOLD),
            (x[-1], mean[-1], f"{mean[-1]:.1%} of the\nhonest mean", BLUE)]  # fmt: skip
    if isfinite(expected[-1]):
        axes.plot(x, expected, color=RED, lw=1.4, ls=(0, (4, 2)), zorder=4)
        ends.append((x[-1], expected[-1], f"{expected[-1]:.1%}\nexpected", RED))
    axes.set_title("share of coordinates whose vote is wrong")
    axes.set_ylim(0, max(0.5, 1.05 * max(*mean, *gradient)))
    over_rounds(axes, x)
    label_ends(axes, ends, size=8)
    said = "; ".join(words.replace("\n", " ") for _, _, words, _ in ends)
    note = "Only a simulation can measure it. "
    if isfinite(expected[-1]):
        who = JUDGED.get(run.header.get("judged", ""), f"attackers {run.header.get('judged')}")
        note += f"Dashed: counted from the honest means against {who}, every honest client at its coordinate's mean. "
    if (found := descent_of(run)) is not None:
        note += (
            f"Over {found.rounds:,} rounds the mean of Λ = Σ|∇F|·(1 − 2·[wrong]) is {found.progress:.4g}, at most "
            f"(F₀ − F)/ηT + Lηd/2 = {found.fall:.4g} + {found.curvature:.4g}."
        )
    return figure, f"Votes that came out wrong over {x[-1]} rounds, at the end: {said}.", note.strip()
