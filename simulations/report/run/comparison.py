"""Figures that set several runs beside one another, each under a letter and in a colour of its own."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from server.progress.words import LETTERS, bytes_words, share_words
from simulations.figures.curves import COLOURS
from simulations.figures.style import (
    Drawn,
    Picture,
    draw_key,
    key_rows,
    label_ends,
    new_figure,
    over_rounds,
    styled_picture,
    thousands_axis,
)
from simulations.report.run.figures import evaluated_rounds
from simulations.report.run.runs import Run


def comparison_pictures(runs: Sequence[Run], names: Sequence[str]) -> list[Picture]:
    """The report's pictures of runs side by side: accuracy over rounds, and at the end against bytes."""
    made = [
        styled_picture("comparison", "Accuracy of each", lambda: accuracies_figure(runs, names)),
        styled_picture("bytes-and-accuracy", "What the bytes bought", lambda: bought_figure(runs, names)),
    ]
    return [each for each in made if each is not None]


def accuracies_figure(runs: Sequence[Run], names: Sequence[str]) -> Drawn | None:
    """A figure of the accuracies of several runs over their rounds; None where none was measured."""
    curves = [(at, *evaluated_rounds(run, "accuracy")) for at, run in enumerate(runs)]
    curves = [each for each in curves if np.isfinite(each[2]).any()]
    if not curves:
        return None
    key = _letters(names)
    figure, (axes,) = new_figure(3.2 + 0.17 * key_rows([words for words, _ in key]))
    last = max(x[-1] for _, x, _ in curves)
    for at, x, y in curves:
        axes.plot(x, y, color=run_colour(at), ls="-" if at < len(COLOURS) else "--", clip_on=False)
    axes.set(title="accuracy", ylim=(0, None))
    over_rounds(axes, sorted({each for _, x, _ in curves for each in x}))
    draw_key(axes, key)
    early = [f", round {x[-1]}" * (x[-1] < last) for _, x, _ in curves]  # beside the axes, where no line goes on
    ends = [
        (last, y[-1], f"{LETTERS[at]} {y[-1]:.3f}{when}", run_colour(at))
        for (at, _, y), when in zip(curves, early, strict=True)
        if isfinite(y[-1])
    ]
    label_ends(axes, ends)
    said = "; ".join(f"{names[at]} {y[-1]:.3f}" for at, _, y in curves)
    return figure, f"Accuracy over rounds of {len(curves)} runs, at the end: {said}.", ""


def bought_figure(runs: Sequence[Run], names: Sequence[str]) -> Drawn | None:
    """A figure of the accuracy at the end of several runs, above the bytes a client sends in a round."""
    known = ((at, run.client_bytes, run.last("accuracy")) for at, run in enumerate(runs))
    if not (points := [each for each in known if each[2] is not None]):
        return None
    key = _letters(names)
    figure, (axes,) = new_figure(3.2 + 0.17 * key_rows([words for words, _ in key]))
    for at, sent, reached in points:
        axes.plot(sent, reached, "o", color=run_colour(at), ms=8, clip_on=False, zorder=3)
    axes.set(title="accuracy at the end", ylim=(0, max(0.05, *(reached for *_, reached in points)) * 1.12))
    axes.set(xlabel="bytes of one client in one round", xlim=(0, max(sent for _, sent, _ in points) * 1.12))
    thousands_axis(axes.xaxis)
    draw_key(axes, key)
    label_ends(axes, [(sent, reached, LETTERS[at], run_colour(at)) for at, sent, reached in points])
    said = "; ".join(f"{names[at]} {share_words(reached)} with {bytes_words(sent)}" for at, sent, reached in points)
    return figure, f"Accuracy at the end against bytes of one client in one round: {said}.", ""


def run_colour(place: int) -> str:
    """The colour of the run in that place, in every figure that compares runs."""
    return COLOURS[place % len(COLOURS)]


def _letters(names: Sequence[str]) -> list[tuple[str, str]]:
    """The key of a figure that compares runs: which letter is which run, in that run's colour."""
    return [(f"{LETTERS[place]}  {name}", run_colour(place)) for place, name in enumerate(names)]
