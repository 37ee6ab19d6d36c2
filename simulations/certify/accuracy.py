"""Certified accuracy of a run: how many images are predicted rightly, and surely so within a radius."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clients.models.gradients import block_slices
from clients.robustness.certifying import Terms, Verdict
from fedpriv._base.files import replace_file
from fedpriv.certified.smoothing import in_linf
from simulations.certify.attacked import panel_of
from simulations.certify.run import Trained, rightly_predicted, settings_of
from simulations.figures.curves import COLOURS
from simulations.report.run import facts
from simulations.report.run.facts import aligned_table
from simulations.report.run.runs import read_run

if TYPE_CHECKING:
    from simulations.figures.panels import Line

MOST_ROWS = 10  # of radii in a table
AT_ONCE = 512  # images that the network takes at a time


def certified_summary(trained: Trained, terms: Terms, found: Sequence[Verdict]) -> dict[str, Any]:
    """What `fedpriv certify --json` prints: a run's certified accuracy by radius, its noise and privacy."""
    norm, dimension, smoothing = terms.smoothing.norm, trained.x[0].size, settings_of(terms.smoothing)
    right, run = rightly_predicted(trained, found), read_run(trained.directory)
    with torch.inference_mode():
        parts = [
            trained.network(torch.tensor(trained.x[part])).argmax(1) for part in block_slices(len(trained.x), AT_ONCE)
        ]
    unnoised = float((torch.cat(parts).numpy() == trained.y).mean())
    return {
        "directory": str(trained.directory), "round": trained.round, "images": len(found), "draws": terms.draws,
        "confidence": terms.confidence, "by": terms.by,
        "smoothing": smoothing, "drawn": list(getattr(terms.smoothing, "drawn", [smoothing["noise"]])),
        "norm": norm, "accuracy": {
            "unnoised": unnoised, "smoothed": sum(right) / len(found),
            "by_most_draws": _by_most(trained, found),
            "abstained": sum(verdict.prediction is None for verdict in found) / len(found),
        },
        "certified": [{
            "radius": radius, "linf": in_linf(radius, norm, dimension),
            "accuracy": certified_accuracy(right, found, radius),
            "published": certified_accuracy(right, found, radius, published=True),
        } for radius in radius_steps(max(verdict.radius for verdict in found))],
        "median_radius": sorted(v.radius if ok else 0.0 for v, ok in zip(found, right, strict=True))[len(found) // 2],
        "privacy": dict(facts.privacy_facts(run)), "epsilons": run.header.get("epsilons"),
    }  # fmt: skip


def certified_accuracy(
    right: Sequence[bool], found: Sequence[Verdict], radius: float, *, published: bool = False
) -> float:
    """The share of images predicted rightly, and certified to be so within a radius."""
    reach = [verdict.published if published else verdict.radius for verdict in found]
    return sum(ok and own >= radius for ok, own in zip(right, reach, strict=True)) / len(found)


def radius_steps(largest: float) -> list[float]:
    """The radii of the table of certified accuracy: ten or so round numbers from 0 up to the largest.

    >>> radius_steps(0.83)
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    """
    if not 0 < largest < inf:
        return [0.0]
    unit = 10.0 ** floor(log10(largest / MOST_ROWS))
    step = next(unit * by for by in (1, 2, 5, 10) if largest / (unit * by) <= MOST_ROWS)
    return [float(f"{place * step:.6g}") for place in range(floor(largest / step * (1 + 1e-9)) + 1)]


def _by_most(trained: Trained, found: Sequence[Verdict]) -> float:
    """The share of images whose class of most draws is right, abstained or not: where accuracy under attack begins."""
    return float(np.mean([verdict.best == label for verdict, label in zip(found, trained.y.tolist(), strict=True)]))


def certified_table(report: dict[str, Any]) -> str:
    """`certified_summary` for a terminal: rows of facts, then certified accuracy, a row a radius.

    An ℓ2 radius is told as one in ℓ∞ too, an ℓ∞ radius beside what its papers print.
    """
    own, l2 = report["accuracy"], report["norm"] == "l2"
    what = "Gaussian noise of standard deviation" if l2 else "Laplace noise of scale"
    where = "behind the first layer" if report["smoothing"]["kind"] == "LayerSmoothing" else "on every input coordinate"
    rows = {
        "network": f"as saved after round {report['round']:,}",
        "noise": f"{what} {report['drawn'][0]:g} {where}"
        + "".join(f", {own:g} on every one of the first layer" for own in report["drawn"][1:]),
        "verdicts": f"{report['draws']:,} draws an image; each holds with confidence {report['confidence']:g}",
        "accuracy": f"{own['unnoised']:.1%} without noise, {own['smoothed']:.1%} of {report['images']:,} with it; "
        f"{own['abstained']:.1%} abstained, which counts as wrong ({own['by_most_draws']:.1%} by most draws)",
        **report["privacy"],
    }
    width = max(map(len, rows))
    lines = [report["directory"], *(f"  {name:<{width}}  {text}" for name, text in rows.items()), ""]
    if l2:
        columns = {"  ℓ2 radius": "  {radius:g}", "as ℓ∞": "{linf:.4g}", "certified accuracy": "{accuracy:.1%}"}
    else:
        columns = {"  ℓ∞ radius": "  {radius:g}", "certified accuracy": "{accuracy:.1%}",
                   "by the radius as published": "{published:.1%}"}  # fmt: skip
    cells = [[form.format(**row) for form in columns.values()] for row in report["certified"]]
    figure = [f"\nfigure: {report['figure']}"] if "figure" in report else []
    return "\n".join([*lines, aligned_table(list(columns), cells), *figure])


def _accuracy_lines(terms: Terms, right: Sequence[bool], found: Sequence[Verdict]) -> list[Line]:
    """Curves for the certificate's picture: certified accuracy by radius; in ℓ∞ by the published radius, too."""
    from simulations.figures.panels import DASHED, Line

    radii = np.linspace(0, max((v.radius for v in found if v.radius < inf), default=0.0) or 1.0, 200)
    own, published = (
        np.array([certified_accuracy(right, found, float(r), published=each) for r in radii]) for each in (False, True)
    )
    lines = [Line("certified", radii, own, COLOURS[0])]
    if terms.smoothing.norm == "linf":
        lines.append(Line("by the radius as published", radii, published, COLOURS[1], DASHED))
    return lines


def certified_picture(
    trained: Trained, terms: Terms, found: Sequence[Verdict], path: Path, attacked: Sequence[dict[str, Any]] = ()
) -> Path:
    """Draw certified accuracy against radius as a PNG at `path`; where there was an attack, a panel of that."""
    from simulations.figures.panels import Panel, figure_bytes  # matplotlib takes a while

    right = rightly_predicted(trained, found)
    x = f"{'ℓ2' if terms.smoothing.norm == 'l2' else 'ℓ∞'} radius, in units of the inputs"
    panels = [Panel(title="Certified accuracy", x=x, y="share of images", lines=_accuracy_lines(terms, right, found))]
    if attacked:
        panels.append(panel_of(attacked, certified=sum(right) / len(found), by_most=_by_most(trained, found)))
    note = f"{len(found):,} images, {terms.draws:,} draws each, confidence {terms.confidence:g} a verdict."
    replace_file(path, figure_bytes(panels, note), mode=0o644)
    return path
