"""A figure as data: panels of lines, drawn in the style of all our figures, and written out as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, NullFormatter

from fedpriv._base.arrays import Vector
from simulations.figures.style import CARD, MUTED, house_style, label_ends

Dashes = (
    str | tuple[float, tuple[float, ...]]
)  # a style by its name; or where to begin, then on and off, in line widths
SOLID: Dashes = "-"
DASHED: Dashes = (0, (4, 2))
DOTTED: Dashes = (0, (1, 1.5))


@dataclass(frozen=True, eq=False)
class Line:
    """One curve; nan is a gap."""

    name: str  # in the legend and in the table
    x: Vector
    y: Vector
    colour: str
    dashes: Dashes = SOLID
    at_end: str = ""  # words beside its end; where no line has any there is a legend


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """One pair of axes."""

    title: str
    x: str  # what the axis below measures
    y: str  # what the upright axis measures
    lines: Sequence[Line]
    log: int | None = None  # base of the axis below
    between: tuple[Vector, Vector, Vector, str] | None = None  # x, from, to: a shaded area, and its words
    top: float = 1.0  # where the upright axis ends
    floor: float = 0.0  # where it begins: above 0 it is logarithmic
    key: Literal["upper right", "upper left"] = "upper right"  # where the legend is


def tradeoff_panel(title: str, lines: Sequence[Line]) -> Panel:
    """A panel of tradeoff curves, type II error against type I, for an audit's or a paper's figure."""
    return Panel(title=title, x="type I error α", y="type II error β", lines=lines)


def figure_bytes(panels: Sequence[Panel], note: str = "", form: str = "png") -> bytes:
    """Panels side by side, drawn in the house style, as the bytes of a PNG, SVG or PDF."""
    content = io.BytesIO()
    with house_style():
        layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08, wspace=0.04)
        figure = Figure(figsize=(4.1 * len(panels) + 0.4, 3.9), layout=layout)
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            if panel.between is not None:
                x, low, high, words = panel.between
                axes.fill_between(x, low, high, color="0.85", lw=0, label=words)
            for line in panel.lines:
                axes.plot(line.x, line.y, color=line.colour, ls=line.dashes, lw=1.8, label=line.name)
            x = np.concatenate([line.x for line in panel.lines])
            axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y, xlim=(x.min(), x.max()))
            if panel.floor:
                axes.set_yscale("log")
            axes.set_ylim(panel.floor, panel.top)
            if panel.log is not None:
                axes.set_xscale("log", base=panel.log)
                axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.12g}"))
                axes.xaxis.set_minor_formatter(NullFormatter())
            ends = [(line.x[-1], np.minimum(line.y[-1], panel.top), line.at_end, line.colour) for line in panel.lines]
            if any(words for _, _, words, _ in ends):
                label_ends(axes, [end for end in ends if end[2] and not np.isnan(end[1])])
            else:
                axes.legend(loc=panel.key, fontsize=8, frameon=False, handlelength=2.6)
        if note:
            figure.supxlabel(note, fontsize=8, color=MUTED, x=0.012, ha="left")
        figure.savefig(content, format=form, facecolor=CARD, dpi=170)
    return content.getvalue()


def points_csv(panels: Sequence[Panel]) -> str:
    """Every point of every line of a figure's panels as CSV, the file beside a reproduced figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["panel", "line", "x", "y"])
    for panel in panels:
        for line in panel.lines:
            writer.writerows(
                (panel.title, line.name, repr(float(x)), repr(float(y))) for x, y in zip(line.x, line.y, strict=True)
            )
    return text.getvalue()
