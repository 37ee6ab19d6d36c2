"""A table of [P] as Markdown, as CSV and as a picture."""

from __future__ import annotations

import csv
import io
from datetime import date

from matplotlib.figure import Figure

from simulations.figures import markdown
from simulations.figures.curves import COLOURS
from simulations.figures.intervals import interval_of, interval_words
from simulations.figures.style import CARD, MUTED, house_style
from simulations.reproduce.ptr._tables import CORRUPTION, MEANING, RELEASE, data_of, scaled_down
from simulations.reproduce.ptr.tables_found import Found
from simulations.reproduce.ptr.tables_words import finding_words, standing_words, why_words

MARKS = "sDo^vPX"


def tables_page(found: Found) -> str:
    """The page of a reproduced table of [P], in Markdown: the table, what it shows, why, and what was run."""
    name, table = found.sweep.name, found.table
    return "\n\n".join([
        f"# {name}: {table.about}",
        f"On {data_of(found.study)}, {date.today():%-d %B %Y}. Accuracy in percent on {found.held_out:,} records held "
        f"out, mean ± half of its 95% interval over seeds (Student's t); in brackets what [P] has on {table.on}, by "
        "the Laplace test. Differences are paired by seed, ± likewise, each by itself, and told from none where three "
        "seeds or more have an interval without 0. Every ε is certified by the exact accountant at δ = 10⁻⁵, for one "
        "record there or not.",
        f"![{name}]({name}.png)",
        markdown.markdown_table(*table_of(found)),
        "## What it shows", markdown.markdown_bullets(finding_words(found)),
        "## Why", markdown.markdown_bullets(why_words(found)),
        "## What was run", markdown.markdown_bullets([
            standing_words(found),
            *(f"{what}: {MEANING[what]}" for what in MEANING if any(row.startswith(f"{what} ") for row in table.rows)),
        ]),
        "Other than in [P]:", markdown.markdown_bullets(scaled_down(found.study, found.seeds)),
    ]) + "\n"  # fmt: skip


def table_of(found: Found) -> tuple[list[str], list[list[str]]]:
    """A table of [P] reproduced: its head, and rows of accuracies with the paper's, and of differences from PTR."""
    table, rows = found.table, []
    head = ["corrupted", "ε", *table.releases]
    head += [f"{tested.removeprefix('TSGD+')} − {other}" for tested, other in table.pairs]
    for row, epsilon in table.published:
        cells = []
        for release in table.releases:
            theirs = table.paper(row, epsilon, release)
            kept = interval_of(list(found.accuracies(row, epsilon, release).values()))
            words = interval_words(kept, digits=1, scale=100)
            cells.append(words if theirs is None else f"{words} [{theirs:.1f}]")
        gaps = [found.difference(row, epsilon, tested, other) for tested, other in table.pairs]
        ahead = ["–" if gap is None else interval_words(gap, 1, 100, "+").replace("-", "−") for gap in gaps]
        rows.append([row, f"{epsilon:g}", *cells, *ahead])
    return head, rows


def csv_of(found: Found) -> str:
    """A reproduced table of [P] as CSV: every cell that is done, with its accuracy, ε and noise."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["corruption", "epsilon", "release", "seed", "accuracy", "epsilon_lower", "epsilon_upper", "noise",
                     "steps", "published"])  # fmt: skip
    for cell in found.sweep.done:
        row, epsilon, release = cell.place[CORRUPTION], float(cell.place[found.table.axis]), cell.place[RELEASE]
        paper = found.table.paper(row, epsilon, release)
        ran = cell.ran
        assert ran is not None
        theirs = "" if paper is None else round(paper / 100, 4)
        writer.writerow([row, epsilon, release, cell.seed, ran.accuracy, ran.lower, ran.upper,
                         found.noise(epsilon, release), found.steps(epsilon, release), theirs])  # fmt: skip
    return text.getvalue()


def tables_picture(found: Found) -> bytes:
    """A reproduced table of [P] as a PNG: accuracy by corruption, a panel an ε; hollow marks are the paper's."""
    table, content = found.table, io.BytesIO()
    with house_style():
        wide, high = 4.4 * len(table.epsilons) + 0.6, 0.42 * len(table.rows) + 1.4
        figure = Figure(figsize=(wide, high), layout="constrained")
        panels = figure.subplots(1, len(table.epsilons), sharex=True, sharey=True, squeeze=False)[0]
        for axes, epsilon in zip(panels, table.epsilons, strict=True):
            for number, (release, mark) in enumerate(zip(table.releases, MARKS, strict=False)):
                colour = COLOURS[number % len(COLOURS)]
                shift = 0.6 * (number / (len(table.releases) - 1) - 0.5)
                spots = [
                    (place + shift, kept.mean, kept.half)
                    for place, row in enumerate(table.rows)
                    if (kept := interval_of(list(found.accuracies(row, epsilon, release).values())))
                ]
                x, bars = ([100 * (spot[part] or 0.0) for spot in spots] for part in (1, 2))
                axes.errorbar(x, [spot[0] for spot in spots], xerr=bars, fmt=mark, color=colour, ms=5,
                              lw=1.2, label=release)  # fmt: skip
                theirs = [(table.paper(row, epsilon, release), place + shift) for place, row in enumerate(table.rows)]
                known = [(value, place) for value, place in theirs if value is not None]
                axes.plot([value for value, _ in known], [place for _, place in known], mark, mfc="none",
                          mec=colour, ms=5, alpha=0.6)  # fmt: skip
            axes.plot([], [], "o", mfc="none", mec=MUTED, ms=5, label=f"hollow: [P], on {table.on}")
            axes.set(title=f"ε = {epsilon:g}", xlabel=f"accuracy, %, on {data_of(found.study)}")
            axes.set_yticks(range(len(table.rows)), table.rows)
            axes.set_ylim(len(table.rows) - 0.5, -0.5)
            axes.grid(axis="x")
            axes.grid(axis="y", visible=False)
        handles, words = (each[1:] + each[:1] for each in panels[0].get_legend_handles_labels())  # the paper's last
        figure.legend(handles, words, loc="outside lower center", ncols=min(len(words), 5), frameon=False, fontsize=8.5)
        figure.savefig(content, format="png", facecolor=CARD, dpi=170)
    return content.getvalue()
