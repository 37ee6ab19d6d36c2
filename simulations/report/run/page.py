"""One page of a run that needs nothing beside it: words, figures drawn in place, by day and by night."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from fedpriv._base.spelling import rounded_up, short_number
from server.progress.words import (
    ASYMPTOTIC,
    LETTERS,
    bytes_words,
    kind_alone,
    measured_words,
    part_of_whole,
    share_words,
)
from simulations.figures.style import ON_PAGE, Picture
from simulations.report._document import document, explained, figure, folded, table, tile
from simulations.report.run import facts
from simulations.report.run.comparison import run_colour
from simulations.report.run.runs import Run


def run_page(run: Run, pictures: Sequence[Picture], others: str = "", audited: str = "") -> str:
    """The HTML page of a run's report; `others` is its section that compares, `audited` that of its audit."""
    header, end = run.header, run.records.end
    name, whole = escape(str(header["name"])), end and end["why"] == "finished" and not run.not_tried
    state = escape(run.ended) + (", attack not tried" if run.not_tried else "")
    bad = f", {header['byzantine']:,} of them Byzantine ({kind_alone(header['attack'])})" if header["byzantine"] else ""
    clients = "one client" if header["clients"] == 1 else f"{header['clients']:,} clients"
    trained = f"{header['model']} of {header['dimension']:,} coordinates, trained by {clients}{bad}"
    message = "each message a release of records by" if run.released else "each message by"
    drawn = "\n".join(map(figure, pictures))
    promise = "".join(f"<p>{escape(text)}</p>" for text in facts.promise_sentences(run))
    study = folded("study.toml, as it was resolved", f"<pre>{escape(run.study)}</pre>")
    body = f"""<header>
<h1>{name} <span class="state{"" if whole else " early"}">{state}</span></h1>
<p class="muted">{escape(f"{trained}, {message} {facts.sender_words(run)}")}</p>
</header>
<div class="tiles">{"".join(_tiles(run))}</div>
<section class="promise" aria-label="guarantee">{promise}</section>
{others}
<h2>Round by round</h2>
<section class="figures">
{drawn}
</section>
{audited}
<h2>What was run</h2>
<div class="table">{explained(facts.study_facts(run), facts.mechanism_meanings(run))}</div>
<h2>What came of it</h2>
<div class="table">{explained(facts.outcome_facts(run), {})}</div>
{study if run.study else ""}
<footer>Made by fedpriv from what the run wrote down. The figures lie beside this page as PNG files.</footer>"""
    return document(f"{header['name']}: a private federated run", body)


def comparison_section(runs: Sequence[Run], names: Sequence[str], drawn: Sequence[Picture]) -> str:
    """HTML of the section of a run's page that compares several runs: a table, then figures."""
    rows = []
    for place, (name, run) in enumerate(zip(names, runs, strict=True)):
        letter = f'<span style="color: {ON_PAGE[run_colour(place)]}">{LETTERS[place]}</span>'
        rows.append([f"{letter}&ensp;{escape(name)}", *(text for _, text in facts.comparison_row(run))])
    compared = table(["run", *(name for name, _ in facts.comparison_row(runs[0]))], rows)
    figures = "\n".join(map(figure, drawn))
    return (
        f'<h2>Beside the other runs</h2>\n<div class="table">{compared}</div>\n'
        f'<section class="figures">{figures}</section>'
    )


def _tiles(run: Run) -> Iterable[str]:
    """HTML of the numbers that matter on top of a run's page: accuracy, ε, bytes, rounds."""
    header, cost = run.header, run.epsilon if run.private else None
    if (found := run.last("evaluated")) is not None and run.last("accuracy") is None:
        yield tile(measured_words(found)[1], f"accuracy by {found['answered']:,} clients' answers")
    else:
        name, measured = measured_words(run.measured)
        yield tile(measured, f"{name} on {header['test_examples']:,} examples")
    if (success := run.last("backdoor")) is not None:
        yield tile(share_words(success), "of records with the backdoor's trigger are taken for its target")
    if cost is None:
        yield tile("–", "ε: nothing was costed") if run.private else tile("none", "privacy: updates sent as they are")
    else:
        clt = f"; CLT {cost['clt']:.4g}, {ASYMPTOTIC}" if cost["clt"] is not None else ""
        release = header["release"]
        whose = f"of a {release['unit']}, {release['trust']} trust"
        yield tile(f"ε ≤ {rounded_up(cost['upper'])}", f"at δ = {short_number(header['delta'])}, {whose}{clt}")
    each, plain = run.client_bytes, 4 * header["dimension"]
    yield tile(bytes_words(each), f"a client, a round: {part_of_whole(plain, each)} float32")
    yield tile(f"{len(run.rounds):,}", f"rounds of {header['rounds']:,}")
