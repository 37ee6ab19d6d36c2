"""One page of a run that needs nothing beside it: words, figures drawn in place, by day and by night."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from server.words import ASYMPTOTIC, LETTERS, kind, less, share, size, small, up
from simulations.report import facts
from simulations.report.comparison import colour
from simulations.report.runs import Run
from simulations.report.style import ON_PAGE, Picture

STYLE = """
:root { color-scheme: light dark; --ink: #22262b; --muted: #626a76; --grid: #e3e6ea; --card: #fff; --page: #f5f6f8;
  --c0: #1b6ca8; --c1: #c8553d; --c2: #3a7d44; --c3: #8b5fbf; --c4: #b8860b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --muted: #a0a8b4; --grid: #343a43; --card: #1c2026;
  --page: #14171b; --c0: #6bb5ec; --c1: #f08f78; --c2: #79c586; --c3: #bd9bea; --c4: #e0b040; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 2.1rem; line-height: 1.15; margin: 0; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .8rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; } p { margin: .4rem 0; }
.muted, figcaption, footer { color: var(--muted); }
.state { display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: 0 .7rem;
  font-size: .85rem; margin: 0 0 0 .6rem; vertical-align: .35rem; color: var(--c2); } .state.early { color: var(--c1); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .9rem; margin: 1.5rem 0; }
.tile, figure, .promise, .table { background: var(--card); border: 1px solid var(--grid); border-radius: .6rem; }
.tile { padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.85rem; line-height: 1.25; font-weight: 650; white-space: nowrap; }
.tile span { font-size: .88rem; color: var(--muted); }
.promise { padding: .7rem 1.1rem; border-left: 4px solid var(--c0); } .promise p:first-child { font-size: 1.08rem; }
.promise p + p { color: var(--muted); }
.figures { columns: 2; column-gap: 1rem; } figure { margin: 0 0 1rem; padding: 1rem; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; } figcaption { font-size: .85rem; margin-top: .4rem; }
.table { overflow-x: auto; padding: .2rem 1rem; margin-bottom: 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .5rem .8rem .5rem 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
tr:last-child > * { border-bottom: 0; } th { font-weight: 600; } thead th { color: var(--muted); font-weight: 500; }
:not(.rows) > tbody > tr > *, thead th { white-space: nowrap; }
.rows th { color: var(--muted); font-weight: 500; width: 11rem; } pre { overflow-x: auto; font-size: .85rem; }
summary { cursor: pointer; } footer { font-size: .85rem; margin-top: 2rem; }
@media (max-width: 50rem) { .figures { columns: 1; } main { padding: 1.2rem .8rem; } .rows th { width: 6.5rem; }
  .tile b { font-size: 1.5rem; }
  figure { padding: .7rem; } h1 { font-size: 1.7rem; } }
@media print { body { background: #fff; } figure { break-inside: avoid; } }
"""


def page(run: Run, pictures: Sequence[Picture], others: str = "") -> str:
    """The whole page, `others` being the section that compares."""
    name, end = escape(str(run.header["name"])), run.records.end
    early = "" if end and end["why"] == "finished" else " early"
    drawn = "\n".join(map(figure, pictures))
    promise = "".join(f"<p>{escape(text)}</p>" for text in facts.promise(run))
    study = f"<details><summary>study.toml, as it was resolved</summary><pre>{escape(run.study)}</pre></details>"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}: a private federated run</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<h1>{name} <span class="state{early}">{escape(run.ended)}</span></h1>
<p class="muted">{escape(_subtitle(run))}</p>
</header>
<div class="tiles">{"".join(_tiles(run))}</div>
<section class="promise" aria-label="guarantee">{promise}</section>
{others}
<h2>Round by round</h2>
<section class="figures">
{drawn}
</section>
<h2>What was run</h2>
<div class="table">{_rows(facts.study(run), facts.meaning(run))}</div>
<h2>What came of it</h2>
<div class="table">{_rows(facts.outcome(run))}</div>
{study if run.study else ""}
<footer>Made by fedpriv from records.jsonl alone. The figures lie beside this page as PNG files.</footer>
</main>
</body>
</html>
"""


def comparison(runs: Sequence[Run], names: Sequence[str], drawn: Sequence[Picture]) -> str:
    """The section that sets several runs beside one another."""
    head = "".join(f"<th>{escape(name)}</th>" for name, _ in [("run", ""), *facts.beside(runs[0])])
    body = ""
    for place, (name, run) in enumerate(zip(names, runs, strict=True)):
        letter = f'<span style="color: {ON_PAGE[colour(place)]}">{LETTERS[place]}</span>'
        cells = "".join(f"<td>{escape(text)}</td>" for _, text in facts.beside(run))
        body += f"<tr><th>{letter}&ensp;{escape(name)}</th>{cells}</tr>\n"
    table = f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    figures = "\n".join(map(figure, drawn))
    return f'<h2>Beside the other runs</h2>\n{table}\n<section class="figures">{figures}</section>'


def figure(drawn: Picture) -> str:
    """A picture on the page, with words for who cannot see it."""
    svg = re.sub("^<svg", f'<svg role="img" aria-label="{escape(drawn.alt)}"', drawn.svg)
    note = f"<figcaption>{escape(drawn.note)}</figcaption>" if drawn.note else ""
    return f'<figure id="{drawn.name}"><h3>{escape(drawn.title)}</h3>{svg}{note}</figure>'


def _subtitle(run: Run) -> str:
    header = run.header
    bad = f", {header['byzantine']:,} of them Byzantine ({kind(header['attack'])})" if header["byzantine"] else ""
    return (
        f"{header['model']} of {header['dimension']:,} coordinates, trained by {header['clients']:,} clients{bad}, "
        f"each message by {kind(header['mechanism'])}"
    )


def _tiles(run: Run) -> Iterable[str]:
    header, cost = run.header, run.epsilon if run.private else None
    yield _tile(share(run.last("accuracy")), f"accuracy on {header['test_examples']:,} examples")
    if cost is None:
        yield _tile("–", "ε: nothing was costed") if run.private else _tile("none", "privacy: updates sent as they are")
    else:
        clt = f"; CLT {cost['clt']:.4g}, {ASYMPTOTIC}" if cost["clt"] is not None else ""
        trust = header["release"]["trust"]
        yield _tile(f"ε ≤ {up(cost['upper'])}", f"at δ = {small(header['delta'])}, {trust} trust{clt}")
    each, plain = header["client_bytes"], 4 * header["dimension"]
    yield _tile(size(each), f"a client, a round: {less(plain, each)} float32")
    yield _tile(f"{len(run.rounds):,}", f"rounds of {header['rounds']:,}")


def _tile(value: str, what: str) -> str:
    return f'<div class="tile"><b>{escape(value)}</b><span>{escape(what)}</span></div>'


def _rows(rows: facts.Rows, meaning: str = "") -> str:
    cells = []
    for name, text in rows:
        more = f'<br><span class="muted">{escape(meaning)}</span>' if meaning and name == "mechanism" else ""
        cells.append(f"<tr><th>{escape(name)}</th><td>{escape(text)}{more}</td></tr>")
    return f'<table class="rows">{"".join(cells)}</table>'
