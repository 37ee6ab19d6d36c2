"""One page of a sweep that needs nothing beside it: the answer first, then maps, curves and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from server.progress.words import ranges_words
from simulations.figures.style import Picture
from simulations.figures.tables import Table
from simulations.report._document import document, figure, folded, table, tile
from simulations.report.sweep import _costs as costs
from simulations.report.sweep import _figures as figures
from simulations.report.sweep import _heat_table as heat_table
from simulations.report.sweep import _heatmap as heatmap
from simulations.report.sweep._answer import STATES, answer, caveats, epsilon_range, lacking, progress
from simulations.report.sweep._chosen import choosing_in_words
from simulations.report.sweep._order import command_to_rank, under
from simulations.report.sweep._spots import Field
from simulations.report.sweep._standing import Standings
from simulations.report.sweep._survivors import STYLE as VERDICTS
from simulations.report.sweep._survivors import survivors
from simulations.report.sweep._tables import cells_in_words, summary_in_words
from simulations.report.sweep.cells import WORDS
from simulations.report.sweep.grid import Grid

LISTED = 40  # cells that do not count, before the rest is left to the tables
ROWS = 1000  # of a table on the page
ATTACKS = 6  # that have figures of their own
WITHIN = "± is half of the 95% interval over seeds (Student's t)."
STYLE = (
    heat_table.STYLE
    + VERDICTS
    + """
.kinds, .even { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
.kinds { gap: 0 1rem; } .kinds > * { grid-column: 1 / -1; min-width: 0; } .kinds > .one { grid-column: auto; }
.one .even { display: block; } .even figure { margin: 0; }
.missing { columns: 2; padding-left: 1.2rem; font-size: .9rem; } .legend { margin-bottom: .8rem; }
@media (max-width: 50rem) { .missing { columns: 1; } }
"""
)


def report(grid: Grid) -> tuple[str, list[Picture]]:
    """The HTML page of a sweep, and all the pictures that are written as PNG beside it."""
    standings, scale, drawn = Standings(grid), heatmap.Scale.of(grid), list[Picture]()
    opened = heatmap.Scale(0.0, 1.0, "backdoor")
    sweep, several = grid.sweep, len(grid.attacks) > 1
    early = " early" if lacking(sweep) else ""
    about = f'<p class="muted">As its study puts it: {escape(sweep.about)}</p>' if sweep.about else ""
    said = "".join(f'<p class="said">{escape(each)}</p>' for each in answer(standings))
    said += f"<p>To rank them: <code>{escape(command)}</code></p>" if (command := command_to_rank(standings)) else ""
    said += "".join(f"<p>{escape(each)}</p>" for each in caveats(standings))
    note = "In each field the least mean accuracy that an attack leaves, and the attack. " if several else ""
    note += WITHIN * (len(sweep.seeds) > 1)
    backdoor_note = (
        "Which share of the held-out records with its trigger the model takes for its target. "
        + note.replace("the least mean accuracy that an attack leaves", "the largest mean success of an attack")
    )
    places, cells = summary_in_words(grid), cells_in_words(grid)
    title = f"What was chosen ({len(sweep.trials):,} trials; choosing.csv)"
    chosen = folded(title, _table(choosing_in_words(grid))) if sweep.chosen else ""
    body = f"""<header>
<h1>{escape(sweep.name)} <span class="state{early}">{escape(progress(sweep))}</span></h1>
{about}
</header>
<div class="tiles">{"".join(_tiles(standings))}</div>
<section class="promise" aria-label="answer">{said}</section>
{_not_counted(grid)}
{survivors(standings)}
<h2>{"The worst attack" if several else "Accuracy"}</h2>
{_maps(grid, scale, note)}
{"<h2>Backdoors</h2>" + _maps(grid, opened, backdoor_note) if grid.backdoors else ""}
<div class="kinds">{"".join(_figures(grid, drawn))}</div>
<h2>Tables</h2>
{folded(f"Every place: mean over seeds ± half of its interval ({len(places[1]):,} rows; summary.csv)", _table(places))}\
{folded(f"Every cell ({len(cells[1]):,} rows; cells.csv)", _table(cells))}
{chosen}{folded("study.toml", f"<pre>{escape(sweep.study)}</pre>") if sweep.study else ""}
<footer>Made by fedpriv from the cells' records alone. Figures (PNG) and tables (CSV, Markdown) lie beside this page.
</footer>"""
    return document(f"{sweep.name}: a sweep", body, STYLE), [
        *heatmap.pictures(grid, scale), *(heatmap.pictures(grid, opened) if grid.backdoors else ()), *drawn,
    ]  # fmt: skip


def _maps(grid: Grid, scale: heatmap.Scale, note: str) -> str:
    """HTML of a sweep's heat-maps of one measure: of the worst attack, and folded away of each by itself."""

    def drawn(fields: Sequence[Field]) -> str:
        """HTML of the heat-maps of some fields, one below another."""
        return "\n".join(heat_table.html(grid, heat, scale) for heat in heatmap.maps(grid, fields))

    whole = f"{heat_table.legend(scale)}<p class='muted'>{note}</p>{drawn(grid.fields)}"
    if len(grid.attacks) == 1:
        return whole
    each = "".join(f"<h3>{escape(grid.words('attack', own))}</h3>\n{drawn(grid.under(own))}" for own in grid.attacks)
    return whole + folded("Each attack by itself", each)


def _tiles(standings: Standings) -> Iterator[str]:
    """HTML of the numbers that matter on top of a sweep's page: cells, best defence, survivors, ε, seeds."""
    sweep, order = standings.grid.sweep, standings.order
    done, every = len(sweep.done), len(sweep.cells)
    yield tile(f"{done:,}" if done == every else f"{done:,} of {every:,}", lacking(sweep) or "cells, all done")
    if order and order[0].mean is not None:
        yield tile(*_kept(standings))
    if standings.attacked:
        survivors = sum(each.overall.grade == "all" for each in order)
        yield tile(f"{survivors} of {len(order)}", "defences survive everything tried")
    uppers = [run.upper for run in sweep.ran if run.upper is not None]
    if uppers:
        yield tile(epsilon_range(uppers), "ε at most, certified, at the end of a run")
    seeds = sorted(sweep.seeds)
    yield tile(str(len(seeds)), f"seed{'s' * (len(seeds) > 1)} a place: {ranges_words(seeds)}")


def _kept(standings: Standings) -> tuple[str, str]:
    """The tile of a sweep's page on what defences keep: of the best, or from which to which where none is."""
    order, where = standings.order, under(standings.grid).lower()
    if len(order) == 1:
        return order[0].words, "accuracy on average"
    if standings.ranking.ranked:
        level = len(standings.ranking.first)
        best = "the best defence" if level == 1 else f"the first of {level} defences that are not distinguishable"
        return order[0].words, f"kept by {best}, on average {where}"
    means = [each.mean for each in order if each.mean is not None]
    return f"{min(means):.3f} to {max(means):.3f}", f"kept by {len(order)} defences, not ranked, {where}"


def _not_counted(grid: Grid) -> str:
    """HTML of a sweep's list of cells that failed or are not done, by name and why; "" where all count."""
    cells = [cell for state in STATES for cell in grid.sweep.those(state)]
    if not cells:
        return ""
    rows = ""
    for cell in cells[:LISTED]:
        state = WORDS.get(cell.state, cell.state)
        rows += f"<li>{escape(grid.cell(cell))}: <b>{state}</b>, {escape(cell.why)}</li>\n"
    more = f"<p>and {len(cells) - LISTED:,} more, in cells.csv</p>" if len(cells) > LISTED else ""
    opened = " open" if len(cells) <= 10 else ""
    return (
        f"<details{opened}><summary>Cells that do not count: {escape(lacking(grid.sweep))}</summary>"
        f'<ul class="missing">{rows}</ul>{more}</details>'
    )


def _figures(grid: Grid, drawn: list[Picture]) -> Iterator[str]:
    """HTML of the sections of a sweep's pictures, one a kind; the pictures themselves are put into `drawn`."""
    kinds = [
        ("Accuracy against the number of attackers", figures.attackers(grid)),
        ("Accuracy against ε", costs.epsilon(grid)),
        ("Accuracy against bytes", costs.sent(grid)),
        ("Round by round", figures.rounds(grid)),
    ]
    for title, (pictures, all_panels) in kinds:
        yield _section(title, pictures, all_panels, drawn)
        if title == "Accuracy against the number of attackers" and len(grid.attacks) > 1 and pictures:
            by_attack = ""
            for at, attack in enumerate(grid.attacks[:ATTACKS], 1):
                own = figures.attackers(grid, attack, f"attackers-{at}-attack")
                by_attack += _section(grid.words("attack", attack), *own, drawn, "h3")
            yield folded(f"{title}, each attack by itself", by_attack)


def _section(title: str, pictures: Sequence[Picture], all_panels: int, drawn: list[Picture], level: str = "h2") -> str:
    """HTML of a sweep's pictures below a heading, "" where there are none; they are put into `drawn`."""
    if not pictures:
        return ""
    drawn += pictures
    left = all_panels - len(pictures)
    note = f'<p class="muted">Of {all_panels} conditions, the {len(pictures)} in which lines lie farthest apart; ' \
           "the numbers of all are in the tables.</p>" if left else ""  # fmt: skip
    shown = "\n".join(map(figure, pictures))
    width, heading = "one" if len(pictures) == 1 else "many", f"<{level}>{escape(title)}</{level}>"
    return f'<section class="{width}">{heading}\n{note}<div class="even">{shown}</div></section>\n'


def _table(content: Table) -> str:
    """HTML of the first rows of a sweep's table, and how many rows its file has."""
    head, rows = content
    shown = table(head, ([escape(row[0]), *row[1:]] for row in rows[:ROWS]))
    more = f"<p>The first {ROWS:,} of {len(rows):,} rows; the files have all.</p>" if len(rows) > ROWS else ""
    return f'<div class="table">{shown}</div>{more}'
