"""A figure of [S] as a page, as CSV and as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import date
from functools import partial
from math import inf
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from simulations.figures import markdown
from simulations.figures.checks import check_lines
from simulations.figures.curves import COLOURS
from simulations.figures.panels import DASHED, DOTTED, SOLID, Dashes
from simulations.figures.style import CARD, house_style
from simulations.reproduce.stobatch._cells import DELTA, NOISE, called, cells, full
from simulations.reproduce.stobatch.found import ATTACKS, Found, Value, accuracy_under, certified_at
from simulations.reproduce.stobatch.published import (
    ADLM,
    DPSGD,
    DRAWS,
    EACH,
    HONEST,
    METHODS,
    PIXELDP,
    PLAIN,
    PRINTED,
    SECURE,
    STOBATCH,
    PaperFigure,
)

COLOUR = {
    STOBATCH: COLOURS[0], ADLM: COLOURS[2], SECURE: COLOURS[3], DPSGD: COLOURS[1], PIXELDP: COLOURS[4], PLAIN: "0.55",
}  # fmt: skip
DASHES: dict[str, Dashes] = {PRINTED: DASHED, EACH: SOLID, HONEST: DOTTED, "": SOLID}
ABOUT = {
    STOBATCH: "noised inputs and labels, adversarial examples, [S]",
    ADLM: "the functional mechanism alone: noised inputs and labels (Phan et al. 2017)",
    SECURE: "DP-SGD with Gaussian noise behind the first layer (SecureSGD-AGM of [S]; its other noise, heterogeneous, "
    "reads how vulnerable the training data are without paying for it, and is not built)",
    DPSGD: "gradients of single examples, clipped, summed and noised; ε by the exact accountant",
    PIXELDP: "Gaussian noise on inputs in training and in use; it protects no training data",
    PLAIN: "nothing protected, nothing noised",
}


def figure_page(found: Found) -> str:
    """The page of a reproduced figure of [S], in Markdown: its table, checks, and what was run."""
    scale, whole = found.scale, full(dict(found.scale.data), found.scale.data["kind"] == "Digits")
    missing = [cell.title for cell in cells(found.name, 1) if not found.of(cell)]
    return "\n\n".join([
        f"# {found.name}: {found.figure.about}",
        f"On {called(scale)}, {date.today():%-d %B %Y}. Accuracy in percent on {scale.images} inputs held out, "
        f"{'a mean over seeds, ' + str(found.seeds) + ' at most' if found.seeds > 1 else 'one seed'}; "
        "inputs in [−1, 1], attacks in ℓ∞ with 10 steps.",
        f"![{found.name}]({found.name}.png)",
        markdown.markdown_table(*table_of(found)),
        f"ε, an example: certified by the exact accountant at δ = {DELTA:g}, one example replaced (StoBatch, AdLM) or "
        "there or not (DP-SGD, SecureSGD); ∞: nothing protects it. ε, published: [S] Theorem 4, about batches. "
        "About 10% is what a network has that says the same of every input, attacked or not: it is no robustness.",
        "How noise is drawn:", markdown.markdown_bullets([f"{draw}: {words}" for draw, words in DRAWS.items()]),
        "## What is checked", "```\n" + "\n".join(check_lines(found.checks())) + "\n```",
        "## What was run", markdown.markdown_bullets([f"{method}: {ABOUT[method]}" for method in METHODS]),
        "Other than in [S]:", markdown.markdown_bullets([
            f"{scale.steps} steps of Adam at {scale.step:.2g} ({whole.steps} without a budget; [S]: 1e-4 for many "
            f"epochs), each on one trainer's pair of batches of {scale.batch}",
            f"attacks of {scale.inner} steps in training, {scale.images} inputs, {scale.draws} draws each",
            f"robust noise: σ = {NOISE[PIXELDP]:g} on PixelDP's inputs, {NOISE[SECURE]:g} behind SecureSGD's layer",
            *([f"not done in the time there was: {'; '.join(missing)} (the same command goes on)"] if missing else []),
        ]),
    ]) + "\n"  # fmt: skip


def table_of(found: Found) -> tuple[list[str], list[list[str]]]:
    """The table of a reproduced figure of [S], head and rows: each training's ε's, accuracy and what is asked."""
    head, asked = ["", "ε, published", "ε, an example", "accuracy"], _asked(found.figure).columns
    rows = []
    for cell in sorted(found.cells, key=lambda own: (METHODS.index(own.method), own.draw, own.epsilon or 0.0)):
        name = cell.method + (f", {cell.draw}" if cell.draw else "")
        unpublished = cell.epsilon is None or cell.method in (DPSGD, SECURE) or cell.draw == HONEST
        example = found.of(cell)[0]["example_epsilon"]
        bounded = example is not None and float(example) < inf
        epsilons = "–" if unpublished else f"{cell.epsilon:g}", f"{float(example):.4g}" if bounded else "∞"
        shares = [found.mean(cell, value) for value in (_accuracy, *asked.values())]
        rows.append([name, *epsilons, *("–" if share is None else f"{100 * share:.1f}" for share in shares)])
    return [*head, *asked], rows


At = Callable[[float], Value]  # what is drawn at a place on the axis


class Asked(NamedTuple):
    """What a figure asks of its trainings, in the table and in the picture."""

    columns: dict[str, Value]  # of the table, behind accuracy
    panels: list[tuple[str, At]]  # their titles, and what they draw
    below: str  # words under the axis
    places: list[float]  # on the axis


def _asked(figure: PaperFigure) -> Asked:
    """What a figure of [S] asks of its trainings: columns, panels and axis, of certificates, sizes or ε."""
    panels: list[tuple[str, At]]
    if figure.certified:
        columns = {f"certified at {radius:g}": certified_at(radius) for radius in (0.001, 0.005, 0.02, 0.05)}
        panels = [
            ("certified accuracy, proven", certified_at),
            ("by the radius its paper prints", partial(certified_at, which="as_published")),
        ]
        places = [0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1]
        return Asked(columns | {"under PGD of 0.05": accuracy_under(0.05, "PGD")}, panels, "radius in ℓ∞", places)
    if len(figure.sizes) > 1:
        columns = {f"attacked by {size:g}": accuracy_under(size) for size in figure.sizes}
        panels = [
            ("mean of four attacks", lambda size: accuracy_under(size) if size else _accuracy),
            ("the worst for each input", lambda size: accuracy_under(size, "all") if size else _accuracy),
        ]
        return Asked(columns, panels, "attack size μ in ℓ∞", [0.0, *figure.sizes])
    (size,) = figure.sizes
    columns = {name: accuracy_under(size, name) for name in ATTACKS} | {
        "worst of the four": accuracy_under(size, "all")
    }
    panels = [
        ("no attack", lambda _: _accuracy),
        (f"mean of four attacks, μ = {size:g}", lambda _: accuracy_under(size)),
    ]
    below = "ε: published (StoBatch, AdLM),\ncertified for an example (DP-SGD, SecureSGD)"
    return Asked(columns, panels, below, sorted(figure.epsilons))


def _accuracy(one: dict[str, Any]) -> float:
    """Reads a training's accuracy without attack off its result, for table and picture."""
    return float(one["accuracy"])


def csv_of(found: Found) -> str:
    """A reproduced figure of [S] as CSV: every accuracy of every training and seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "noise", "epsilon", "example_epsilon", "seed", "what", "value"])
    for one in found.results:
        own = one["cell"]
        start = [own["method"], own["draw"], own["epsilon"], one["example_epsilon"], own["seed"]]
        writer.writerow([*start, "accuracy", one["accuracy"]])
        for size, shares in one["under"].items():
            writer.writerows([*start, f"{name} {size}", share] for name, share in shares.items() if name != "withstood")
        for which in ("certified", "as_published"):
            writer.writerows([*start, f"{which} {radius}", share] for radius, share in one.get(which, {}).items())
    return text.getvalue()


def figure_picture(found: Found) -> bytes:
    """A reproduced figure of [S] as a PNG: two panels of lines over ε, attack size or radius."""
    content, asked = io.BytesIO(), _asked(found.figure)
    by_epsilon = len(found.figure.epsilons) > 1  # each place has trainings of its own
    with house_style():
        figure = Figure(figsize=(8.8, 4.6), layout="constrained")
        for axes, (title, at) in zip(figure.subplots(1, 2, sharey=True), asked.panels, strict=True):
            for method, draw in dict.fromkeys((cell.method, cell.draw) for cell in found.cells):
                own = [cell for cell in found.cells if (cell.method, cell.draw) == (method, draw)]
                spots = [
                    (place, value)
                    for place in asked.places
                    for cell in own
                    if (not by_epsilon or cell.epsilon in (None, place))
                    and (value := found.mean(cell, at(place))) is not None
                ]
                if spots:
                    label = method + (f", {draw}" if draw else "")
                    axes.plot([place for place, _ in spots], [value for _, value in spots], color=COLOUR[method],
                              lw=1.8, ls=DASHES[draw], marker="o", ms=3.5, clip_on=False, label=label)  # fmt: skip
            if by_epsilon:
                axes.set_xticks(asked.places, [f"{place:g}" for place in asked.places])
            axes.set_xlim(min(asked.places), max(asked.places))
            axes.set(title=title, xlabel=asked.below, ylim=(0, 1.02))
        figure.axes[0].set_ylabel("share of inputs")
        handles, words = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, words, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5, handlelength=3)
        figure.savefig(content, format="png", facecolor=CARD, dpi=170)
    return content.getvalue()
