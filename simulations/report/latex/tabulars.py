"""Tables of a report as LaTeX: each a `tabular` with booktabs' rules in a float with a caption, long ones in parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from simulations.figures.tables import Table
from simulations.report.latex.spelling import latex_text

ROWS = 40  # of one part: what a page holds
NARROW = 62  # letters of a row that one of two columns of a paper holds, set a little smaller
LONGEST = 40  # letters of a line in a field: longer ones are broken
NUMBER = re.compile(r"[–≤±\d.,%∞ e-]*")  # what stands at the right of its column
FLOAT = r"""\begin{{{float}}}
\centering
\caption{{{caption}}}
\label{{tab:{label}}}
\resizebox{{\ifdim\width>\linewidth\linewidth\else\width\fi}}{{!}}{{%
\begin{{tabular}}{{{spec}}}
\toprule
{head}\midrule
{rows}\bottomrule
\end{{tabular}}}}
\end{{{float}}}
"""


def latex_table(name: str, caption: str, table: Table) -> str:
    """A report's table as LaTeX floats, each of at most 40 rows; `caption` is LaTeX, the table is words.

    As wide as its letters need: over both columns of a paper where one does not hold it, and never wider than that.
    """
    head, rows = table
    columns = list(zip(head, *rows, strict=True))
    wide = sum(min(LONGEST, max(map(len, map(str, column)))) + 2 for column in columns) > NARROW
    parts = [rows[at : at + ROWS] for at in range(0, len(rows), ROWS)] or [rows]
    several = len(parts) > 1
    return "\n".join(
        FLOAT.format(
            float="table*" if wide else "table", spec="".join(map(column_spec, columns)), head=_row(head),
            caption=f"{caption} Part {at} of {len(parts)}." if several else caption, rows="".join(map(_row, part)),
            label=f"{name}-{at}" if several else name,
        )
        for at, part in enumerate(parts, 1)
    )  # fmt: skip


def _row(values: Sequence[object]) -> str:
    """One row of a table in LaTeX."""
    return " & ".join(latex_text(str(value)) for value in values) + " \\\\\n"


def column_spec(column: Sequence[object]) -> str:
    """How LaTeX sets a column of a report's table: numbers right, words left, long ones broken into lines."""
    values = [str(value) for value in column[1:]]
    if any(len(value) > LONGEST for value in values):
        return rf">{{\raggedright\arraybackslash}}p{{{LONGEST // 2}em}}"
    return "r" if any(values) and all(NUMBER.fullmatch(value) for value in values) else "l"
