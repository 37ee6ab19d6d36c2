"""Heat-maps of a sweep on its page: tables whose fields are coloured, lists of tiles where the page is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from matplotlib.colors import to_hex

from simulations.report.sweep._heatmap import MAPS, HeatMap, Scale, said
from simulations.report.sweep.grid import Grid

MAP_STYLE = """
.heat { table-layout: fixed; border-collapse: separate; border-spacing: 3px; margin: 0 0 1rem; }
.heat th { border: 0; padding: .3rem .5rem .3rem 0; width: 11rem; font-weight: 500; vertical-align: middle; }
.heat thead th { text-align: center; width: auto; padding: .1rem; } .heat thead th:first-child { width: 11rem; }
.heat td { border: 2px solid transparent; border-radius: .35rem; text-align: center; padding: .35rem .25rem;
  vertical-align: middle; line-height: 1.2; }
.heat b { display: block; font-size: 1.1rem; font-weight: 600; white-space: nowrap; }
.heat span, .heat i { display: block; font-size: .74rem; font-style: normal; } .heat .part { border: 1px dashed; }
.heat .empty { color: var(--muted); border: 1px dashed var(--grid); }
.bar { display: inline-block; width: 9rem; height: .8rem; border-radius: .3rem; vertical-align: -.05rem; }
"""


def narrow(width: str, where: str) -> str:
    """CSS rules by which a sweep's heat-maps of a class become lists of tiles on pages no wider than `where`."""
    return f"""@media (max-width: {where}) {{ .{width}.heat, .{width} tbody {{ display: block; }}
  .{width} thead {{ display: none; }} .{width} tr {{ display: grid; gap: 4px; margin-bottom: .8rem;
  grid-template-columns: repeat(auto-fill, minmax(8.2rem, 1fr)); }}
  .{width} tr th {{ grid-column: 1 / -1; width: auto; }}
  .{width} td::before {{ content: attr(data-name); display: block; font-size: .74rem; }} }}
"""


STYLE = MAP_STYLE + narrow("some", "44rem") + narrow("many", "64rem")


def html(grid: Grid, heat: HeatMap, scale: Scale) -> str:
    """HTML of one heat-map on a sweep's page: a table of coloured accuracies, which is a list where that is narrow."""
    privacies = [grid.words("privacy", privacy) for privacy, _ in heat.columns]
    attackers = [grid.words("attackers", number) for _, number in heat.columns]
    head = f"<tr><th></th>{_spans(privacies)}</tr>" if any(privacies) else ""
    head += f"<tr><th></th>{_spans(attackers)}</tr>" if any(attackers) else ""
    names = [", ".join(filter(None, pair)) for pair in zip(privacies, attackers, strict=True)]
    body = ""
    for name, row in heat.rows:
        body += f"<tr><th>{escape(name)}</th>"
        for field, label in zip(map(row.get, heat.columns), map(escape, names), strict=True):
            if (own := said(grid, field, scale.measure)) is None:
                body += f'<td class="empty" data-name="{label}">–</td>'
                continue
            small = (own.within, own.attack)
            words = f"<b>{own.number}</b>" + "".join(f"<span>{escape(each)}</span>" for each in small if each)
            words += f"<i>{escape(own.lacking)}</i>" if own.lacking else ""
            style, whole = (
                "background:{};color:{}".format(*scale.colours(own.value)),
                "part" if own.lacking else "whole",
            )
            body += f'<td class="{whole}" data-name="{label}" style="{style}">{words}</td>'
        body += "</tr>\n"
    width = "few" if len(heat.columns) <= 2 else "some" if len(heat.columns) <= 4 else "many"
    title = f"<h3>{escape(heat.words)}</h3>" if heat.words else ""
    return f'{title}<table class="heat {width}"><thead>{head}</thead><tbody>{body}</tbody></table>'


def _spans(words: Sequence[str]) -> str:
    """HTML of a heat-map's headings, one over all neighbouring columns that share it."""
    runs = [(word, len(list(each))) for word, each in groupby(words)]
    return "".join(f'<th colspan="{width}">{escape(word)}</th>' for word, width in runs)


def legend(scale: Scale) -> str:
    """HTML of the bar above a sweep's heat-maps: which colour stands for which accuracy, or backdoor's success."""
    stops = ", ".join(to_hex(MAPS[scale.measure](at / 8)) for at in range(9))
    bar = f'<span class="bar" style="background:linear-gradient(90deg, {stops})"></span>'
    return f'<p class="legend muted">{scale.measure} {scale.low:.2f} {bar} {scale.high:.2f}</p>'
