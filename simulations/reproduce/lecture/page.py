"""The lecture's figure of DP-SGD as Markdown, as CSV and as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import date

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulations.figures import markdown
from simulations.figures.intervals import FEWEST, interval_words
from simulations.figures.ranking import ranking_of
from simulations.figures.style import BLUE, CARD, MUTED, RED, WIDTH, house_style
from simulations.reproduce.lecture import ABOUT, NAME
from simulations.reproduce.lecture.found import Found, Spot
from simulations.reproduce.lecture.methods import ALL, DELTA, EPSILONS, LAST, METHODS, SEEDS

PLAIN = next(iter(METHODS))


def lecture_page(found: Found) -> str:
    """The page of the lecture's figure, in Markdown: the picture, the accuracies, what each accountant says."""
    return "\n\n".join([
        f"# {NAME}: {ABOUT}",
        f"On {found.data}, {date.today():%-d %B %Y}, {found.machine}. Logistic regression; accuracy in percent on "
        "records held out, mean over seeds and half of the 95% interval about it (Student's t). ε is of one record "
        f"there or not, at δ = {DELTA:g}, and certified: the noise is calibrated to it.",
        f"![{NAME}]({NAME}.png)",
        markdown.markdown_table(*table_of(found)),
        "## What it shows", markdown.markdown_bullets(finding_words(found)),
        "## What the moments accountant says of the same noise", markdown.markdown_table(*moments_table(found)),
    ]) + "\n"  # fmt: skip


def table_of(found: Found) -> tuple[list[str], list[list[str]]]:
    """The accuracies of the lecture's figure: its head, and a row a way to train."""
    rows = [[method, *(_accuracy(found.spots.get((method, epsilon))) for epsilon in EPSILONS)] for method in METHODS]
    return ["", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)], rows


def moments_table(found: Found) -> tuple[list[str], list[list[str]]]:
    """By way to train, the ε that the moments accountant gives the noise that is certified for the ε of the column."""
    rows = []
    for method in METHODS:
        spots = [found.spots.get((method, epsilon)) for epsilon in EPSILONS]
        rows.append(
            [method, *("–" if each is None or each.moments is None else f"{each.moments:.2f}" for each in spots)]
        )
    return ["", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)], rows


def finding_words(found: Found) -> list[str]:
    """What the lecture's figure shows, in sentences computed from its accuracies."""
    said = []
    for epsilon in EPSILONS:
        there = [spot for (_, own), spot in found.spots.items() if own == epsilon]
        if len(there) > 1:
            said.append(f"at ε = {epsilon:g} {best_words({spot.method: spot for spot in there})}")
    if (free := found.spots.get((LAST, ALL))) is not None:
        said.append(f"{LAST} with next to no noise (ε = {ALL:g}): {_accuracy(free)}")
    fewest = min(len(spot.by_seed) for spot in found.spots.values())
    said.append(f"{len(found.spots)} ways to train, each over {fewest} of {SEEDS} seeds at least")
    return said


def best_words(spots: Mapping[str, Spot]) -> str:
    """Which way to train is best at an ε of the lecture's figure, and which cannot be told from it, or why none is."""
    ranking = ranking_of({method: spot.by_seed for method, spot in spots.items()})
    if not ranking.ranked:
        return f"none is said to be best: {ranking.seeds} seeds, and a ranking needs {FEWEST}"
    best, *level = ranking.first
    if level:
        return f"{best} has most, {_accuracy(spots[best])}, and is not distinguishable from {', '.join(level)}"
    ahead = f", {PLAIN} {_accuracy(spots[PLAIN])}" if PLAIN in spots and best != PLAIN else ""
    return f"the best is {best}: {_accuracy(spots[best])}{ahead}"


def csv_of(found: Found) -> str:
    """The lecture's figure as CSV: every training that is done, with its accuracy, and ε by either accountant."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "epsilon", "number", "accuracy", "epsilon_upper", "epsilon_moments"])
    for spot in found.spots.values():
        for number, accuracy in enumerate(spot.by_seed.values(), 1):
            writer.writerow([spot.method, spot.epsilon, number, accuracy, spot.upper, spot.moments or ""])
    return text.getvalue()


def lecture_picture(found: Found) -> bytes:
    """The lecture's figure as a PNG: a panel a way to train, accuracy over ε, plain SGD in grey in each of them."""
    content = io.BytesIO()
    with house_style():
        figure = Figure(figsize=(WIDTH, 0.8 * len(METHODS) + 1), layout="constrained")
        panels = figure.subplots((len(METHODS) + 1) // 2, 2, sharex=True, sharey=True, squeeze=False).ravel()
        free = found.spots.get((LAST, ALL))
        for axes, method in zip(panels, METHODS, strict=False):
            _draw_panel(axes, found, method)
            if free is not None:
                axes.axhline(100 * free.kept.mean, color=MUTED, lw=0.8, ls=":")
        for axes in panels[-2:]:
            axes.set(xlabel="ε", xscale="log")
            axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
            axes.minorticks_off()
        figure.supylabel("accuracy, %", fontsize=9, color=MUTED)
        figure.suptitle(
            f"solid: certified ε; dashed: that of the moments accountant, of the same runs\n"
            f"grey: {PLAIN}; dotted: next to no noise; bars: 95% over {SEEDS} seeds", fontsize=8.5, color=MUTED,
        )  # fmt: skip
        figure.savefig(content, format="png", facecolor=CARD)
    return content.getvalue()


def _draw_panel(axes: Axes, found: Found, method: str) -> None:
    """Draw one way to train into its panel: by certified ε, by the moments accountant's, and plain SGD behind."""
    plain, own = ([found.spots.get((name, epsilon)) for epsilon in EPSILONS] for name in (PLAIN, method))
    behind, spots = ([spot for spot in each if spot is not None] for each in (plain, own))
    axes.plot([spot.upper for spot in behind], [100 * spot.kept.mean for spot in behind], color="0.75", lw=1.5)
    said = [(spot.moments, 100 * spot.kept.mean) for spot in spots if spot.moments is not None]
    axes.plot([epsilon for epsilon, _ in said], [mean for _, mean in said], color=RED, lw=1, ls="--")
    x, y = [spot.upper for spot in spots], [100 * spot.kept.mean for spot in spots]
    bars = [100 * (spot.kept.half or 0.0) for spot in spots]
    axes.errorbar(x, y, yerr=bars, color=BLUE, lw=1.5, elinewidth=1, marker="o", ms=3)
    axes.set_title(method)


def _accuracy(spot: Spot | None) -> str:
    """An accuracy of the lecture's figure in percent, with half of its interval, where there are several seeds."""
    return interval_words(spot.kept if spot else None, digits=1, scale=100)
