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
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def latex_table(name: str, caption: str, table: Table) -> str:
    """A report's table as LaTeX floats, each of at most 40 rows; `caption` is LaTeX, the table is words.

    As wide as its letters need: over both columns of a paper where one does not hold it, and never wider than that.
    """
    head, rows = table
    parts = [rows[at : at + ROWS] for at in range(0, len(rows), ROWS)] or [rows]
    columns = list(zip(head, *rows, strict=True))
    widths = [min(LONGEST, max(map(len, map(str, column)))) for column in columns]
    spec = "".join(map(_column, columns))
    float_ = "table" if sum(widths) + 2 * len(widths) <= NARROW else "table*"
    made = []
    for at, part in enumerate(parts, 1):
        which = f" Part {at} of {len(parts)}." if len(parts) > 1 else ""
        label = f"{name}-{at}" if len(parts) > 1 else name
        body = "\n".join([r"\toprule", _row(head), r"\midrule", *map(_row, part), r"\bottomrule"])
        made.append(
            f"\\begin{{{float_}}}\n\\centering\n\\caption{{{caption}{which}}}\n\\label{{tab:{label}}}\n{FITTED}\n"
            f"\\begin{{tabular}}{{{spec}}}\n{body}\n\\end{{tabular}}}}\n\\end{{{float_}}}\n"
        )
    return "\n".join(made)


def _row(values: Sequence[object]) -> str:
    """One row of a table in LaTeX."""
    return " & ".join(latex_text(str(value)) for value in values) + r" \\"


def _column(column: Sequence[object]) -> str:
    """How a column of a table is set: numbers at the right, words at the left, long ones broken into lines."""
    values = [str(value) for value in column[1:]]
    if any(len(value) > LONGEST for value in values):
        return rf">{{\raggedright\arraybackslash}}p{{{LONGEST // 2}em}}"
    return "r" if any(values) and all(NUMBER.fullmatch(value) for value in values) else "l"
