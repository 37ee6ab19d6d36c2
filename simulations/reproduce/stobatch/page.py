"""A figure of [S] as a page, as CSV and as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import date
from math import inf
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulations.figures import markdown
from simulations.figures.checks import lines
from simulations.figures.curves import COLOURS
from simulations.figures.panels import DASHED, DOTTED, SOLID, Dashes
from simulations.figures.style import CARD, house_style
from simulations.reproduce.stobatch._cells import DELTA, NOISE, Cell, called, cells, full
from simulations.reproduce.stobatch.found import ATTACKS, Found, Value, under
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


def page(found: Found) -> str:
    """The whole page."""
    scale, whole = found.scale, full(dict(found.scale.data), found.scale.data["kind"] == "Digits")
    missing = [cell.title for cell in cells(found.name, 1) if not found.of(cell)]
    return "\n\n".join([
        f"# {found.name}: {found.figure.about}",
        f"On {called(scale)}, {date.today():%-d %B %Y}. Accuracy in percent on {scale.images} inputs held out, "
        f"{'a mean over seeds, ' + str(found.seeds) + ' at most' if found.seeds > 1 else 'one seed'}; "
        "inputs in [−1, 1], attacks in ℓ∞ with 10 steps.",
        f"![{found.name}]({found.name}.png)",
        markdown.table(*table_of(found)),
        f"ε, an example: certified by the exact accountant at δ = {DELTA:g}, one example replaced (StoBatch, AdLM) or "
        "there or not (DP-SGD, SecureSGD); ∞: nothing protects it. ε, published: [S] Theorem 4, about batches. "
        "About 10% is what a network has that says the same of every input, attacked or not: it is no robustness.",
        "How noise is drawn:", markdown.bullets([f"{draw}: {words}" for draw, words in DRAWS.items()]),
        "## What is checked", "```\n" + "\n".join(lines(found.checks())) + "\n```",
        "## What was run", markdown.bullets([f"{method}: {ABOUT[method]}" for method in METHODS]),
        "Other than in [S]:", markdown.bullets([
            f"{scale.steps} steps of Adam at {scale.step:.2g} ({whole.steps} without a budget; [S]: 1e-4 for many "
            f"epochs), each on one trainer's pair of batches of {scale.batch}",
            f"attacks of {scale.inner} steps in training, {scale.images} inputs, {scale.draws} draws each",
            f"robust noise: σ = {NOISE[PIXELDP]:g} on PixelDP's inputs, {NOISE[SECURE]:g} behind SecureSGD's layer",
            *([f"not done in the time there was: {'; '.join(missing)} (the same command goes on)"] if missing else []),
        ]),
    ]) + "\n"  # fmt: skip


def table_of(found: Found) -> tuple[list[str], list[list[str]]]:
    """Every training: both ε's, accuracy, and what the figure asks."""
    head, asked = ["", "ε, published", "ε, an example", "accuracy"], _columns(found)
    rows = [
        [
            cell.method + (f", {cell.draw}" if cell.draw else ""),
            _published(cell), _epsilon(found.of(cell)[0]["example_epsilon"]),
            *(_percent(found.mean(cell, value)) for value in (_accuracy, *asked.values())),
        ]
        for cell in sorted(found.cells, key=lambda own: (METHODS.index(own.method), own.draw, own.epsilon or 0.0))
    ]  # fmt: skip
    return [*head, *asked], rows


def _columns(found: Found) -> dict[str, Value]:
    if found.figure.certified:
        return {f"certified at {radius:g}": _certified(radius) for radius in (0.001, 0.005, 0.02, 0.05)} | {
            "under PGD of 0.05": under(0.05, "PGD")
        }
    if len(found.figure.sizes) > 1:
        return {f"attacked by {size:g}": under(size) for size in found.figure.sizes}
    size = found.figure.sizes[0]
    return {name: under(size, name) for name in ATTACKS} | {"worst of the four": under(size, "all")}


def _accuracy(one: dict[str, Any]) -> float:
    return float(one["accuracy"])


def _certified(radius: float, which: str = "certified") -> Value:
    return lambda one: float(one[which][str(radius)])


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _published(cell: Cell) -> str:
    return "–" if cell.epsilon is None or cell.method in (DPSGD, SECURE) or cell.draw == HONEST else f"{cell.epsilon:g}"


def _epsilon(value: float | str | None) -> str:
    return "∞" if value is None or float(value) == inf else f"{float(value):.4g}"


def csv_of(found: Found) -> str:
    """Every training and seed."""
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


def picture(found: Found) -> bytes:
    """Two panels of lines over what the figure varies, one legend below both."""
    content = io.BytesIO()
    with house_style():
        figure = Figure(figsize=(8.8, 4.6), layout="constrained")
        for axes, (title, at) in zip(figure.subplots(1, 2, sharey=True), _panels(found), strict=True):
            _draw(axes, found, at)
            axes.set(title=title, xlabel=_below(found), ylim=(0, 1.02))
        figure.axes[0].set_ylabel("share of inputs")
        handles, words = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, words, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5, handlelength=3)
        figure.savefig(content, format="png", facecolor=CARD, dpi=170)
    return content.getvalue()


At = Callable[[float], Value]


def _panels(found: Found) -> list[tuple[str, At]]:
    """What is drawn at each place."""
    if found.figure.certified:
        return [("certified accuracy, proven", lambda radius: _certified(radius)),
                ("by the radius its paper prints", lambda radius: _certified(radius, "as_published"))]  # fmt: skip
    if len(found.figure.sizes) > 1:
        return [("mean of four attacks", lambda size: under(size) if size else _accuracy),
                ("the worst for each input", lambda size: under(size, "all") if size else _accuracy)]  # fmt: skip
    size = found.figure.sizes[0]
    return [("no attack", lambda _: _accuracy), (f"mean of four attacks, μ = {size:g}", lambda _: under(size))]


def _below(found: Found) -> str:
    if found.figure.certified:
        return "radius in ℓ∞"
    if len(found.figure.sizes) > 1:
        return "attack size μ in ℓ∞"
    return "ε: published (StoBatch, AdLM),\ncertified for an example (DP-SGD, SecureSGD)"


def _places(found: Found) -> list[float]:
    if found.figure.certified:
        return [0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1]
    return [0.0, *found.figure.sizes] if len(found.figure.sizes) > 1 else sorted(found.figure.epsilons)


def _draw(axes: Axes, found: Found, at: At) -> None:
    by_epsilon, places = len(found.figure.epsilons) > 1, _places(found)
    for method, draw in dict.fromkeys((cell.method, cell.draw) for cell in found.cells):
        own = [cell for cell in found.cells if (cell.method, cell.draw) == (method, draw)]
        spots = [
            (place, value)
            for place in places
            for cell in own
            if (not by_epsilon or cell.epsilon in (None, place)) and (value := found.mean(cell, at(place))) is not None
        ]
        if spots:
            words = method + (f", {draw}" if draw else "")
            axes.plot([place for place, _ in spots], [value for _, value in spots], color=COLOUR[method], lw=1.8,
                      ls=DASHES[draw], marker="o", ms=3.5, clip_on=False, label=words)  # fmt: skip
    if by_epsilon:
        axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.set_xlim(min(places), max(places))
