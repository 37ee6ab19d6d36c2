"""The table of who survives what, the best defence first where they are ranked, for the page of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from simulations.report._document import Row, folded, table
from simulations.report.sweep._order import BEHIND, behind
from simulations.report.sweep._standing import Standings

BEST = 12  # defences shown, before the rest is folded away
WIDE = 8  # columns side by side
MARKS = {  # the class of a field that a verdict stands in, by its grade
    "all": "all", "part": "part-of", "none": "none", "unknown": "", "open": "",
}  # fmt: skip
STYLE = """
.all::before { content: "✓ "; } .part-of::before { content: "◐ "; } .none::before { content: "✗ "; }
.all { color: var(--c2); } .none { color: var(--c1); }
"""


def survivors(standings: Standings) -> str:
    """HTML of the section of a sweep's page on who survives which attack; "" where nobody attacked."""
    if not standings.attacked:
        return ""
    attacks = standings.grid.attacks if len(standings.grid.attacks) > 1 else []
    head = ["accuracy, on average", "at the least"] + [BEHIND] * standings.ranking.ranked + ["everything"]
    head += [standings.grid.words("attack", attack) for attack in attacks]
    rows = []
    for each in standings.order:
        numbers = [(each.words, ""), (each.least.words if each.least else "–", "")]
        numbers += [(behind(standings, each), "")] * standings.ranking.ranked
        verdicts = [each.overall, *(each.verdicts if attacks else ())]
        marked = numbers + [(verdict.words, MARKS[verdict.grade]) for verdict in verdicts]
        rows.append((standings.grid.defence(each.defence), marked))
    others = folded(f"The other {len(rows) - BEST} defences", _verdicts(head, rows[BEST:])) if rows[BEST:] else ""
    return f"<h2>Who survives what</h2>\n{_verdicts(head, rows[:BEST])}{others}"


def _verdicts(head: Sequence[str], rows: Sequence[tuple[str, list[tuple[str, str]]]]) -> str:
    """HTML of a table of defences and marked verdicts; several tables where columns are many."""
    made = ""
    parts = -(-len(head) // WIDE)
    width = -(-len(head) // parts)
    for at in range(0, len(head), width):
        names = head[at : at + width]
        marked: list[Row] = [[escape(name), *row[at : at + width]] for name, row in rows]
        made += f'<div class="table">{table(["defence", *names], marked)}</div>'
    return made
