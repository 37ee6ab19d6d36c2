"""The frontier as a picture: error against bits with privacy fixed, a line a mechanism, marks as large as attackers."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import cycle
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

from fedpriv.frontier import Candidate, Compared, unbeaten_candidates
from simulations.figures.curves import COLOURS
from simulations.figures.style import CARD, INK, MUTED, WIDTH, house_style

SHOWN = 2.0  # times the least error: what is further off is named below the picture
WIDE = 8.0  # times the fewest bits: past it their axis is logarithmic
LETTERS = 84  # of a line below the picture
LETTER = 5.2  # points that a letter beside a point takes at most, on the mean
RISES = (0, 10, -16, 20, 30, 40)  # points by which a name is moved up until it is over no other
CLOSE = 40  # parts of the upright axis: points in the same one have one name
TITLES = {
    "local": "The server sees every message",
    "secure-aggregation": "The server sees sums alone",
}
Attackers = Mapping[Candidate, int]  # how many omniscient ones the vote of each point survives


@house_style()
def frontier_bytes(compared: Sequence[Compared], attackers: Attackers, about: str, form: str) -> bytes:
    """Error of the mean against bits a coordinate, a panel a trust, for `fedpriv compare --plot`, as PNG, SVG or PDF.

    `about` is what to know before believing it.
    """
    shown = [own for own in compared if any(each.error is not None for each in own.points)]
    figure = Figure(figsize=(WIDTH, 2.7 * len(shown) + 0.7), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    rows = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    ends = {own.trust: SHOWN * min(each.distance for each in own.points) for own in shown}
    kinds = dict.fromkeys(each.kind for own in shown for each in own.points if each.distance <= ends[own.trust])
    colours = dict(zip(kinds, cycle(COLOURS), strict=False))
    largest = max(attackers.values())
    size = f"A dot survives omniscient attackers, up to {largest:,} by its size; a cross survives none."
    notes = [about, size if largest else "No vote survives an omniscient attacker."]
    for axes, own in zip(rows, shown, strict=True):
        most = ends[own.trust]
        for kind, colour in colours.items():
            line = [each for each in own.points if each.kind == kind and each.distance <= most]
            draw_frontier(axes, unbeaten_candidates(line), attackers, colour, largest)
        name_best(axes, own, colours, most)
        off = [f"{each.kind} {each.distance:,.4g}" for each in own.best if most < each.distance and each.error]
        notes += [f"Further up, {'above' if axes is rows[0] else 'below'}: {', '.join(off)}."] if off else []
    rows[-1].set_xlabel("bits a coordinate, as they are sent")
    wrapped = [line for note in notes for line in wrap(note, LETTERS)]
    figure.supxlabel("\n".join(wrapped), fontsize=7, color=MUTED, x=0.02, ha="left")
    content = io.BytesIO()
    figure.savefig(content, format=form, facecolor=CARD)
    return content.getvalue()


def draw_frontier(axes: Axes, line: Sequence[Candidate], attackers: Attackers, colour: str, largest: int) -> None:
    """One mechanism's settings by bits, the unbeaten ones alone."""
    axes.plot([each.bits for each in line], [each.distance for each in line], color=colour, lw=1.2, zorder=2)
    for each in line:
        marker, area = ("o", 10 + 110 * attackers[each] / largest) if attackers[each] else ("x", 22.0)
        axes.scatter(each.bits, each.distance, s=area, color=colour, marker=marker, alpha=0.85, lw=1.2, zorder=3)


def name_best(axes: Axes, own: Compared, colours: Mapping[str, str], most: float) -> None:
    """Names beside the points of least error, one for those that lie on one another; bits in plain numbers."""
    best = [each for each in own.best if each.distance <= most]
    wide = max(each.bits for each in best) > WIDE * min(each.bits for each in best)
    axes.set(title=TITLES[own.trust], ylabel="error of the mean", xscale="log" if wide else "linear")
    axes.margins(0.1, 0.15)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    places: dict[tuple[float, int], list[Candidate]] = {}
    for each in best:
        places.setdefault((each.bits, round(CLOSE * each.distance / most)), []).append(each)
    axes.figure.draw_without_rendering()  # type: ignore[union-attr] # so that places are known
    taken = list[tuple[float, float, float]]()  # left and right end of each name so far, and its foot, in points
    for (bits, _), together in sorted(places.items()):
        first, names = together[0], ", ".join(each.kind for each in together)
        left, foot = axes.transData.transform((bits, first.distance)) / axes.figure.dpi * 72 + 6
        right = left + LETTER * len(names)
        rises = (up for up in RISES if not any(a < right and left < b and abs(foot + up - y) < 9 for a, b, y in taken))
        taken.append((left, right, foot + (up := next(rises, 0))))
        axes.annotate(
            names, (bits, first.distance), xytext=(6, 5 + up), textcoords="offset points", fontsize=8,
            color=colours[first.kind] if len(together) == 1 else INK,
            path_effects=[withStroke(linewidth=2.5, foreground=CARD)],
        )  # fmt: skip
