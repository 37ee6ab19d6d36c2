"""The part of a run's report on its audit, where `fedpriv audit RUN` has left one."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from fedpriv._base.spelling import rounded_down
from simulations.figures.style import BLUE, MUTED, RED, Picture, draw_key, house_style, new_figure, saved_figure
from simulations.report._document import explained, figure
from simulations.report.run.audit_facts import found_of
from simulations.report.run.audit_words import MEANINGS, audit_rows, confidence_words, in_a_line
from simulations.report.run.runs import Run


@house_style()
def audit_pictures(run: Run) -> list[Picture]:
    """The report's picture of a run's audit: error curves, certified and the canaries'; [] where not audited."""
    found = found_of(run)
    if found is None:
        return []
    drawn, (axes,) = new_figure(5.2)
    own, alpha = found["curves"], np.array(found["curves"]["alpha"])
    axes.plot(alpha, 1 - alpha, color=MUTED, lw=0.8)
    axes.fill_between(alpha, own["certified"], own["explicit"], color=BLUE, alpha=0.15, lw=0)
    axes.plot(alpha, own["certified"], color=BLUE, clip_on=False, zorder=3)
    axes.plot(own["trials"]["alpha"], own["trials"]["beta"], color=RED, lw=1.4, clip_on=False, zorder=4)
    axes.plot(alpha, own["audited"], color=RED, lw=1.2, ls=(0, (4, 2)), clip_on=False, zorder=4)
    axes.set(xlabel="type I error α", ylabel="type II error β", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.grid(axis="x")
    draw_key(axes, [("certified: no attacker below", BLUE), ("canaries, as they came", RED),
               ("dashed: the Gaussian curve of the audited μ", RED)])  # fmt: skip
    least, sure = f"μ = {rounded_down(found['mu']['audited'])} at least", confidence_words(found["confidence"])
    alt = f"Errors of both kinds: certified, and of {found['canaries']:,} canaries, of {least}."
    note = (
        f"Shaded: as far as explicit data reach. Dashed: the mechanism hides no more than this, {sure}. The canaries' "
        "own curve is one draw and no bound: by chance it may cross the certified one where few of them are."
    )
    return [saved_figure("audited", "What canaries gave away", drawn, alt, note)]


def audit_section(run: Run, drawn: Sequence[Picture]) -> str:
    """HTML of the report's section on a run's audit: each number, what it proves, curves; "" without one."""
    found = found_of(run)
    if found is None:
        return ""
    figures = "\n".join(map(figure, drawn))
    return (
        f'<h2 id="audit">Audited</h2>\n<p>{escape(in_a_line(found))}.</p>\n'
        f'<section class="figures">{figures}</section>\n'
        f'<div class="table">{explained(audit_rows(found), MEANINGS)}</div>'
    )
