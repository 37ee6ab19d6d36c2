"""A page that needs nothing beside it: what all reports look like, by day and by night, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from simulations.figures.style import Picture

Row = Sequence[str | tuple[str, str]]  # words, or words and their class
WHOLE = 18  # letters of the longest word that a table never breaks
MOST = 9  # columns of a table that has room for that

STYLE = """
:root { color-scheme: light dark; --ink: #22262b; --muted: #626a76; --grid: #e3e6ea; --card: #fff; --page: #f5f6f8;
  --c0: #0b3de0; --c1: #d5650e; --c2: #33a08b; --c3: #bb6bdd; --c4: #623b14; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --muted: #a0a8b4; --grid: #343a43; --card: #1c2026;
  --page: #14171b; --c0: #4f8df5; --c1: #f07a2c; --c2: #4fd6ae; --c3: #e3b3ff; --c4: #e8d24a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 2.1rem; line-height: 1.15; margin: 0; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .8rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; } p { margin: .4rem 0; }
.muted, figcaption, footer { color: var(--muted); }
.state { display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: 0 .7rem;
  font-size: .85rem; margin: 0 0 0 .6rem; vertical-align: .35rem; color: var(--c2); } .state.early { color: var(--c1); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .9rem; margin: 1.5rem 0; }
.tile, figure, .promise, .table { background: var(--card); border: 1px solid var(--grid); border-radius: .6rem; }
.tile { padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.85rem; line-height: 1.25; font-weight: 650; overflow-wrap: anywhere; }
.tile span { font-size: .88rem; color: var(--muted); }
.promise { padding: .7rem 1.1rem; border-left: 4px solid var(--c0); } .promise p:first-child { font-size: 1.08rem; }
.promise p + p { color: var(--muted); } .promise p.said { color: inherit; }
.figures { columns: 2; column-gap: 1rem; }
.figures > figure:only-child { column-span: all; max-width: 44rem; }
figure { margin: 0 0 1rem; padding: 1rem; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; } figcaption { font-size: .85rem; margin-top: .4rem; }
.table { padding: .2rem 1rem; margin-bottom: 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .5rem .8rem .5rem 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
tr:last-child > * { border-bottom: 0; } th { font-weight: 600; } thead th { color: var(--muted); font-weight: 500; }
.fit { overflow-wrap: normal; }
.rows th { color: var(--muted); font-weight: 500; width: 11rem; }
pre { white-space: pre-wrap; font-size: .85rem; }
details { margin: .8rem 0; } summary { cursor: pointer; margin-bottom: .6rem; }
footer { font-size: .85rem; margin-top: 2rem; }
@media (max-width: 50rem) { .figures { columns: 1; } main { padding: 1.2rem .8rem; } .rows th { width: 6.5rem; }
  .tile b { font-size: 1.5rem; } .tiles { grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); }
  figure { padding: .7rem; } h1 { font-size: 1.7rem; }
  .stack thead { display: none; } .stack tr { display: block; border-bottom: 1px solid var(--grid); padding: .5rem 0; }
  .stack th, .stack td { display: flex; gap: .8rem; border: 0; padding: .1rem 0; } .stack tr:last-child { border: 0; }
  .stack td::before { content: attr(data-name); color: var(--muted); flex: 0 0 8.5rem; }
  .stack td:empty { display: none; } }
@media print { body { background: #fff; } figure { break-inside: avoid; } }
"""


HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
"""


def document(title: str, body: str, style: str = "") -> str:
    """The HTML file of a report's page with this body; `style` are its own rules beside those of all pages."""
    return f"""{HEAD}<title>{escape(title)}</title>
<style>{STYLE}{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def tile(value: str, what: str) -> str:
    """HTML of one large number on top of a report's page, and below it what it is of."""
    return f'<div class="tile"><b>{escape(value)}</b><span>{escape(what)}</span></div>'


def figure(drawn: Picture) -> str:
    """HTML of a picture on a report's page, with a title, a note, and words for who cannot see it."""
    svg = f'<svg role="img" aria-label="{escape(drawn.alt)}"{drawn.svg.removeprefix("<svg")}'
    note = f"<figcaption>{escape(drawn.note)}</figcaption>" if drawn.note else ""
    title = f"<h3>{escape(drawn.title)}</h3>" if drawn.title else ""
    return f'<figure id="{drawn.name}">{title}{svg}{note}</figure>'


def table(head: Sequence[str], rows: Iterable[Row]) -> str:
    """HTML of a table on a report's page, whose rows become lists where it is narrow; a row's first cell is HTML."""
    names = [escape(name) for name in head]
    fit = "fit" if len(names) <= MOST else ""
    top = "".join(f"<th{_class(name, fit)}>{name}</th>" for name in names)
    body = ""
    for first, *rest in rows:
        body += f"<tr><th{_class(re.sub('<.*?>', '', str(first)), fit)}>{first}</th>"
        for name, cell in zip(names[1:], rest, strict=True):
            words = escape(cell) if isinstance(cell, str) else f'<span class="{cell[1]}">{escape(cell[0])}</span>'
            body += f'<td data-name="{name}"{_class(cell if isinstance(cell, str) else cell[0], fit)}>{words}</td>'
        body += "</tr>\n"
    return f'<table class="stack"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _class(words: str, fit: str) -> str:
    """The class of a cell that a page breaks between words alone, if at all: one whose words are all short."""
    return f' class="{fit}"' if fit and max(map(len, words.split()), default=0) <= WHOLE else ""


def explained(rows: Iterable[tuple[str, str]], meanings: Mapping[str, str]) -> str:
    """HTML of a report's table of names and values; what a name means stands below its value, muted."""
    made = list[str]()
    for name, text in rows:
        meaning = meanings.get(name)
        more = f'<br><span class="muted">{escape(meaning)}</span>' if meaning else ""
        if made and not name:  # a value of several lines
            made[-1] += f"<br>{escape(text)}"
        else:
            made.append(f"<tr><th>{escape(name)}</th><td>{escape(text)}{more}")
    return f'<table class="rows">{"</td></tr>".join([*made, ""])}</table>'


def folded(title: str, content: str) -> str:
    """HTML of a part of a report's page that is folded away below its title."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"
