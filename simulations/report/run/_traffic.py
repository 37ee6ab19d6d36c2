"""Figures of what went over the wire: bytes, who answered, where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedpriv.trust import sums_only
from server.progress.words import bytes_words, duration_words, part_of_whole, ranges_words, tally_words
from simulations.figures.curves import COLOURS
from simulations.figures.style import (
    BLUE,
    CARD,
    GOLD,
    GRID,
    INK,
    MUTED,
    PURPLE,
    RED,
    Drawn,
    in_points,
    label_ends,
    new_figure,
    over_rounds,
)
from simulations.report.run.runs import Run


def bytes_sent(run: Run) -> Drawn:
    """The report's figure of a run's bytes: one client's message in a round, beside the update in float32."""
    rows = bytes_by_part(run)
    figure, (axes,) = new_figure(0.75 + 0.42 * len(rows))
    widest = max(sum(parts) for _, parts, _ in rows)
    for place, (_, (payload, header), sent) in enumerate(rows):
        axes.barh(place, payload, color=BLUE if sent else GRID, height=0.55)
        axes.barh(place, header, left=payload, color=GOLD, height=0.55, edgecolor=CARD, lw=0.5)
        words = bytes_words(payload + header) + (f", {bytes_words(header)} of it header" if header else "")
        if sent:
            words += f"\n{part_of_whole(4 * run.header['dimension'], payload + header)} float32"
        weight = "bold" if sent else "normal"
        axes.text(payload + header + 0.015 * widest, place, words, va="center", fontsize=in_points(8.5),
                  color=INK if sent else MUTED, weight=weight)  # fmt: skip
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], color=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, widest * 1.42)
    axes.xaxis.set_visible(False)
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.grid(visible=False)
    said = "; ".join(f"{name.replace(chr(10), ' ')}: {bytes_words(sum(parts))}" for name, parts, _ in rows)
    bits = run.header["bits"]
    note = f"{run.header['dimension']:,} coordinates at {bits['packed']:g} bits packed"
    if bits["entropy"] is not None and isfinite(bits["entropy"]):
        note += f", of which {bits['entropy']:.3g} are information"
    return figure, f"Bytes of one client in one round: {said}.", note + "."


def bytes_by_part(run: Run) -> list[tuple[str, tuple[float, float], bool]]:
    """The forms of a run's message for a figure: name, bytes of payload and header, whether it was sent."""
    header = run.header
    bits, dimension = header["bits"], header["dimension"]
    masked = bits["masked"] is not None and sums_only(header["trust"])
    payload = -(-dimension * (bits["masked"] if masked else bits["packed"]) // 8)
    extra = max(0.0, header["client_bytes"] - payload)
    rows = [("update, float32", (4.0 * dimension, 0.0), False)]
    word = f", {header['client_bytes_are']}" if "client_bytes_are" in header else ""
    rows.append((f"packed{word}", (-(-dimension * bits["packed"] // 8), extra), not masked))
    if masked:
        rows.append(("masked sum", (payload, extra), True))
    return rows


def participation(run: Run) -> Drawn | None:
    """The report's figure of who answered, by round; below who was rejected, failed or silent; None if secret."""
    if not run.rounds or run.bytes_up is None:
        return None
    x = [line["round"] for line in run.rounds]
    asked, answered = ([line[name] for line in run.rounds] for name in ("asked", "answered"))
    rejected, failed = ([sum(line[name].values()) for line in run.rounds] for name in ("rejected", "failed"))
    silent = [max(0, a - b - r - f) for a, b, r, f in zip(asked, answered, rejected, failed, strict=True)]
    figure, (above, below) = new_figure(3.2, [1.3, 1])
    above.plot(x, asked, color=MUTED, lw=1, drawstyle="steps-mid")
    above.fill_between(x, answered, step="mid", color=BLUE, alpha=0.15, lw=0)
    above.plot(x, answered, color=BLUE, drawstyle="steps-mid", lw=1.5)
    above.set_title("clients that answered")
    above.set_ylim(0, max(1, *asked) * 1.05)
    kinds = [("rejected", rejected, GOLD), ("failed", failed, RED), ("no answer", silent, PURPLE)]
    _stacked(below, x, [each for each in kinds if any(each[1])], whole=True)
    below.set_title("not counted")
    for axes in (above, below):
        over_rounds(axes, x)
        axes.label_outer()
    ends = [(x[-1], answered[-1], f"{answered[-1]:,} answered", BLUE)]
    if asked != answered:
        ends.append((x[-1], asked[-1], f"{asked[-1]:,} asked", MUTED))
    label_ends(above, ends)
    above.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    above.yaxis.set_major_formatter("{x:,.0f}")
    skipped = sorted(each for rounds in run.skipped.values() for each in rounds)
    for each in skipped:
        above.axvspan(each - 0.5, each + 0.5, color=GOLD, alpha=0.3, lw=0)
    words = f"rejected {tally_words(run.total('rejected'))}, failed {tally_words(run.total('failed'))}"
    note = f"Over all rounds: {words}." + (f" Rounds skipped (shaded): {ranges_words(skipped)}." if skipped else "")
    return figure, f"Of {asked[-1]:,} clients asked, {answered[-1]:,} answered in the last round; {words}.", note


def _stacked(axes: Axes, x: Sequence[int], layers: Sequence[tuple[str, Sequence[float], str]], whole: bool) -> None:
    """Draw bars on one another by round, from layers of name, heights and colour; `whole` ticks are whole numbers."""
    base = np.zeros(len(x))
    for _, heights, colour in layers:
        axes.bar(x, heights, bottom=base, width=0.85, color=colour, lw=0)
        base = base + np.asarray(heights, dtype=float)
    if layers:
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=whole, min_n_ticks=1))
    else:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center", color=MUTED)
        axes.set_yticks([])
    axes.set_ylim(0, max(1e-9, float(base.max())) * 1.05 if layers else 1)
    before = None  # names stand in the line of the title, from the right
    for name, _, colour in reversed(layers):
        at, of, step = ((1, 1), axes.transAxes, (0, 4)) if before is None else ((0, 0), before, (-9, 0))
        before = axes.annotate(
            name, at, step, of, "offset points", ha="right", va="bottom", color=colour, fontsize=in_points(8.5)
        )


def seconds(run: Run) -> Drawn | None:
    """The report's figure of a run's seconds by round, in parts such as training; None where none were kept."""
    if not run.seconds:
        return None
    x = sorted(run.timings)
    names = list(dict.fromkeys(name for each in x for name in run.timings[each]["parts"]))
    layers = [(name, [run.timings[each]["parts"].get(name, 0.0) for each in x]) for name in names]
    whole = [run.timings[each]["seconds"] for each in x]
    layers.sort(key=lambda layer: -sum(layer[1]))
    layers = [layer for layer in layers if sum(layer[1]) >= 0.01 * sum(whole)][: len(COLOURS) - 1]
    rest = [max(0.0, total - sum(layer[1][i] for layer in layers)) for i, total in enumerate(whole)]
    figure, (axes,) = new_figure(2.8)
    coloured = [(name, heights, colour) for (name, heights), colour in zip(layers, COLOURS, strict=False)]
    if sum(rest) >= 0.01 * sum(whole):
        coloured.append(("the rest", rest, MUTED))
    _stacked(axes, x, coloured, whole=False)
    axes.set_title("seconds")
    over_rounds(axes, x)
    typical = float(np.median(whole))
    said = ", ".join(f"{name} {100 * sum(heights) / sum(whole):.0f}%" for name, heights, _ in coloured)
    note = f"{duration_words(sum(whole))} in all, {duration_words(typical)} for a typical round: {said}."
    return figure, f"Seconds a round by part: {said}.", note
