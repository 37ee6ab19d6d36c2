"""The figures of a report: each as PNG for a talk, as SVG whose colours follow the page, light or dark, or as PDF."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import sqrt
from textwrap import wrap
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from simulations.figures.curves import COLOURS

BLUE, RED, GREEN, PURPLE, GOLD = COLOURS
INK = "#22262b"  # letters
MUTED = "#6b7280"  # letters of less weight, axes, what is not the point
GRID = "#e3e6ea"
CARD = "#ffffff"  # what a figure lies on
ON_PAGE = {  # what a colour is called on the page, which says what it is there by day and by night
    **{colour: f"var(--c{place})" for place, colour in enumerate(COLOURS)},
    INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", CARD: "var(--card)",
}  # fmt: skip
KEY = 56  # letters of a line in a figure's key
WIDTH = 4.8  # inches: on a telephone its letters are still letters
COLUMN, PAGE = 3.35, 6.9  # inches: one column of a paper in two, and both with what is between them
_PAPER: ContextVar[float | None] = ContextVar("inches of the paper that figures are drawn for", default=None)
INLINE = {  # what an SVG file loses or changes, in this order, to be a part of a page; {0} is the name of the figure
    r"^.*?(?=<svg)|<metadata>.*?</metadata>": "",
    r' xmlns(:\w+)?="[^"]*"': "",
    "xlink:href": "href",
    r'\bid="': 'id="{0}-',  # ids are its own, whatever else is on the page
    'href="#': 'href="#{0}-',
    r"url\(#": "url(#{0}-",
    r'(<svg[^>]*?) height="[^"]*"': r"\1",  # its size is the window's
    r'(<svg[^>]*?) width="[^"]*"': r"\1",
}


@dataclass(frozen=True)
class Picture:
    """A figure ready to be shown: on a page, or in a paper."""

    name: str  # of its file, and of its place on the page
    title: str
    alt: str  # what it shows, for who cannot see it
    note: str  # what to know before believing it
    png: bytes = field(default=b"", repr=False)
    svg: str = field(default="", repr=False)  # in the colours of the page that it becomes a part of
    pdf: bytes = field(default=b"", repr=False)  # drawn for a paper, it has neither of the others
    inches: float = WIDTH  # across

    def _repr_png_(self) -> bytes:
        """The figure as a notebook shows it."""
        return self.png


Drawn = tuple[Figure, str, str]  # a figure, what it shows, and what to know before believing it


@contextmanager
def for_paper(inches: float) -> Iterator[None]:
    """While it lasts, a report's figures are drawn as PDF for a paper, so wide that nothing there has to scale them."""
    before = _PAPER.set(inches)
    try:
        yield
    finally:
        _PAPER.reset(before)


def figure_width() -> float:
    """How many inches wide a report's figures are drawn: as the page has them, or a paper's column."""
    return _PAPER.get() or WIDTH


def in_points(size: float) -> float:
    """The size of letters, or a distance between them, where figures are as wide as on the page: less in a column."""
    return size * min(1.0, sqrt(figure_width() / WIDTH))


def letters_across(letters: int) -> int:
    """How many letters have room where a figure as wide as on the page has room for so many."""
    return int(letters * figure_width() / WIDTH / in_points(1.0))


@contextmanager
def house_style() -> Iterator[None]:
    """While it lasts, matplotlib draws as all our figures look: colours, thin grid lines, letters."""
    with mpl.rc_context({
        "text.parse_math": False,  # labels are somebody's words, in which $ is money
        "font.size": in_points(9), "font.family": "DejaVu Sans", "text.color": INK, "axes.labelcolor": MUTED,
        "axes.edgecolor": MUTED, "axes.titlecolor": INK, "axes.titlesize": in_points(9.5), "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7, "axes.axisbelow": True,
        "axes.grid": True, "axes.grid.axis": "y", "grid.color": GRID, "grid.linewidth": 0.7, "lines.linewidth": 2,
        "lines.solid_capstyle": "round", "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelsize": in_points(8.5),
        "ytick.labelsize": in_points(8.5), "xtick.major.size": 3, "ytick.major.size": 0, "savefig.dpi": 240,
        "svg.hashsalt": "fedpriv", "path.simplify": True, "pdf.fonttype": 42,  # letters that can be read and searched
    }):  # fmt: skip
        yield


def styled_picture(name: str, title: str, drawing: Callable[[], Drawn | None]) -> Picture | None:
    """What `drawing` draws in the house style, as a picture for a report; None where it had nothing to draw."""
    with house_style():
        drawn = drawing()
        return None if drawn is None else saved_figure(name, title, *drawn)


def saved_figure(name: str, title: str, figure: Figure, alt: str, note: str) -> Picture:
    """A figure saved as PNG and as SVG in the page's colours, or as a paper's PDF; within the house style."""
    if _PAPER.get() is not None:
        pdf = io.BytesIO()
        figure.savefig(pdf, format="pdf", transparent=True, metadata={"CreationDate": None})
        return Picture(name, title, alt, note, pdf=pdf.getvalue(), inches=float(figure.get_figwidth()))
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", facecolor=CARD)
    figure.set_layout_engine("none")  # the places found for the PNG are right for the SVG as well
    figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    inline = svg.getvalue()
    for pattern, replacement in INLINE.items():
        inline = re.sub(pattern, replacement.format(name), inline, flags=re.S)
    inline = re.sub("|".join(ON_PAGE), lambda found: ON_PAGE[found.group()], inline)
    return Picture(name, title, alt, note, png.getvalue(), inline)


def new_figure(height: float, rows: Sequence[float] = (1,)) -> tuple[Figure, list[Axes]]:
    """An empty figure of a report, `height` inches high: axes below one another that share x; `rows` their heights."""
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, hspace=0.06)
    figure = Figure(figsize=(figure_width(), in_points(height)), layout=layout)
    axes = figure.subplots(len(rows), 1, sharex=True, height_ratios=list(rows), squeeze=False)[:, 0]
    return figure, list(axes)


def over_rounds(axes: Axes, rounds: Sequence[int]) -> None:
    """Make the axis below a figure's curves one of whole rounds, from first to last."""
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    first, last = min(rounds), max(rounds)
    room = max(0.5, 0.012 * (last - first))
    axes.set_xlim(first - room, last + room)


def thousands_axis(axis: Axis) -> None:
    """Give an axis of a report's figure at most five steps, in whole numbers with commas."""
    axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter("{x:,.0f}")


def draw_curve(axes: Axes, x: Sequence[float], y: Sequence[float], colour: str, **style: Any) -> None:
    """Draw a line of a report's figure, points marked where they are few."""
    axes.plot(x, y, color=colour, marker="o" if len(x) <= 15 else None, ms=3.5, clip_on=False, zorder=3, **style)


def draw_key(axes: Axes, lines: Sequence[tuple[str, str]]) -> None:
    """Write a figure's key below its axes, words in their colours, in two columns if short; long ones go on below."""
    below, rows = axes.xaxis.label, key_rows([words for words, _ in lines])
    written = [(line, colour) for words, colour in lines for line in _key_lines(words)]
    for place, (words, colour) in enumerate(written):
        axes.annotate(
            words, (0.5 * (place // rows), 0), xycoords=("axes fraction", below),
            xytext=(0, in_points(-14 - 12.2 * (place % rows))), textcoords="offset points", va="baseline",
            fontsize=in_points(8.5),
            color=colour, annotation_clip=False,
        )  # fmt: skip


def key_rows(names: Sequence[str]) -> int:
    """How many rows the key of these names takes below a figure, which is made so much higher."""
    narrow = len(names) > 2 and max(map(len, names)) <= letters_across(24)
    return -(-len(names) // 2) if narrow else sum(len(_key_lines(name)) for name in names)


def _key_lines(words: str) -> list[str]:
    """A name in a figure's key, in lines no wider than the figure, so that no name takes room from its axes."""
    return wrap(words, letters_across(KEY), subsequent_indent="     ") or [words]


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]], size: float = 8.5) -> None:
    """Write words beside the ends of a figure's lines, given as (x, y, words, colour), moved apart where they meet."""
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    size = in_points(size)
    points = axes.bbox.height / axes.figure.dpi * 72
    tall = [size * 1.3 * (words.count("\n") + 1) for _, _, words, _ in ends]
    wanted = [(axes.transData.transform((x, y))[1] - axes.bbox.y0) / axes.figure.dpi * 72 for x, y, _, _ in ends]
    for (x, y, words, colour), at, place in zip(ends, wanted, spaced_apart(wanted, tall, 0.0, points), strict=True):
        axes.annotate(
            words, (x, y), xytext=(6, place - at), textcoords="offset points", color=colour, fontsize=size,
            va="center", ha="left", annotation_clip=False, linespacing=1.15,
        )  # fmt: skip


def spaced_apart(wanted: Sequence[float], tall: Sequence[float], bottom: float, top: float) -> list[float]:
    """Middles of labels near the `wanted` ones, so `tall`, none over another, from bottom to top if they fit.

    >>> spaced_apart([1.0, 1.1, 5.0], [1.0, 1.0, 1.0], 0.0, 10.0)
    [0.55, 1.55, 5.0]
    """
    groups: list[tuple[list[int], float]] = []  # members from below, and where their foot stands

    def foot(members: list[int]) -> float:
        """Where the lowest of labels that touch one another stands, so that all are near their wanted places."""
        below, feet = 0.0, []
        for each in members:
            feet.append(wanted[each] - tall[each] / 2 - below)
            below += tall[each]
        return min(max(sum(feet) / len(feet), bottom), max(top - below, bottom))

    for each in sorted(range(len(wanted)), key=lambda place: wanted[place]):
        groups.append(([each], foot([each])))
        while len(groups) > 1 and groups[-2][1] + sum(tall[i] for i in groups[-2][0]) > groups[-1][1]:
            members = groups[-2][0] + groups[-1][0]
            groups[-2:] = [(members, foot(members))]
    places = [0.0] * len(wanted)
    for members, at in groups:
        for each in members:
            places[each] = round(at + tall[each] / 2, 12)
            at += tall[each]
    return places
