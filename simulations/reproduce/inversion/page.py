"""Gradient inversion as a page, as JSON and as a picture."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from datetime import date
from math import inf, isinf
from typing import Any

from matplotlib.figure import Figure

from simulations.figures import markdown
from simulations.figures.intervals import interval_words
from simulations.figures.style import CARD, MUTED, WIDTH, house_style
from simulations.reproduce.inversion import ABOUT, NAME
from simulations.reproduce.inversion._ways import epsilon_words
from simulations.reproduce.inversion.found import CLASS, NOTHING, SEEDS, Found

WARNING = (
    "These are attacks: what they find is found, and what they do not find another may. They bound harm from below and "
    "prove no privacy; that is what ε is for."
)


def inversion_page(found: Found) -> str:
    """The page of gradient inversion, in Markdown: the picture, the numbers of every message, what they show."""
    return "\n\n".join([
        f"# {NAME}: {ABOUT}",
        f"On {found.data}, {date.today():%-d %B %Y}. {WARNING}",
        f"![{NAME}]({NAME}.png)",
        markdown.markdown_table(*table_of(found)),
        f"Pixels from 0 to 1; means over records of {SEEDS} seeds at most, and half of the 95% interval (Student's t). "
        "ε is of the one message, certified from above. Taken off: the share of the mean public record's squared "
        "error that the message takes away; 0 is nothing.",
        "## What it shows", markdown.markdown_bullets(finding_words(found)),
    ]) + "\n"  # fmt: skip


def table_of(found: Found) -> tuple[list[str], list[list[str]]]:
    """The numbers of gradient inversion: head, and a row a model and a way to send."""
    head = ["model", "message", "its ε", "attack", "records", "label", "MSE", "PSNR, dB", "SSIM", "taken off, %"]
    rows = [
        [own.model, own.way, "–" if own.way in (NOTHING, CLASS) else epsilon_words(own.epsilon), own.attack,
         str(own.records), "–" if own.label is None else f"{own.label:.0%}", interval_words(own.error, 4),
         interval_words(own.noise, 1), interval_words(own.alike, 2), interval_words(own.gain, 1, scale=100)]
        for own in found.outcomes
    ]  # fmt: skip
    return head, rows


def finding_words(found: Found) -> list[str]:
    """What gradient inversion shows, in sentences that are true under their intervals: a message each."""
    return [
        f"{own.model}, {own.way}: {own.verdict}" for own in found.outcomes if own.way not in (NOTHING, CLASS)
    ]  # fmt: skip


def json_of(found: Found) -> str:
    """Gradient inversion as JSON: the data, and every outcome with its means and half intervals."""
    rows = [_plain(asdict(each)) for each in found.outcomes]
    spreads = ("error", "noise", "alike", "gain")
    for row in rows:
        row |= {name: {"mean": row[name][0], "half": row[name][1]} for name in spreads}
    return json.dumps({"name": NAME, "data": found.data, "outcomes": rows}, ensure_ascii=False, indent=1) + "\n"


def _plain(value: Any) -> Any:
    """A value as JSON has it: an infinite number is the word."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
        case float() if isinf(value):
            return "inf" if value == inf else "-inf"
        case _:
            return value


def inversion_picture(found: Found) -> bytes:
    """Gradient inversion as a PNG: a row a record, itself at the left, then as each way to send gives it away."""
    content, columns = io.BytesIO(), len(found.shown[0].titles)
    with house_style():
        size = WIDTH / columns
        figure = Figure(figsize=(WIDTH, size * len(found.shown) + 0.8), layout="constrained")
        panels = figure.subplots(len(found.shown), columns, squeeze=False)
        for row, own in zip(panels, found.shown, strict=True):
            for axes, picture in zip(row, own.pictures, strict=True):
                axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                axes.set(xticks=[], yticks=[])
                axes.grid(visible=False)
            row[0].set_ylabel(own.model, color=MUTED)
        for axes, title in zip(panels[0], found.shown[0].titles, strict=True):
            axes.set_title(title, fontsize=7.5, loc="center")
        figure.savefig(content, format="png", facecolor=CARD)
    return content.getvalue()
