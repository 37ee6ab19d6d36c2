"""What a run's report, or that of several side by side, has for a paper: figures, tables, promises, studies."""

from __future__ import annotations

from collections.abc import Sequence

from fedpriv._base.spelling import rounded_up, short_number
from server.directory.code import code_words
from server.progress.words import LETTERS, kind_alone, unit_and_trust
from simulations.figures.style import Picture
from simulations.figures.tables import Table
from simulations.report.latex.folder import Pieces, command_again
from simulations.report.latex.references import kinds_used
from simulations.report.run import audited, comparison, facts, figures
from simulations.report.run.labels import run_labels, side_by_side
from simulations.report.run.runs import Run


def run_pieces(runs: Sequence[Run]) -> Pieces:
    """What `fedpriv report --latex` writes of runs: all of a single one, of several what compares them."""
    run, several = runs[0], len(runs) > 1
    told = [f"{letter}: {run_promise(own)}" for letter, own in zip(LETTERS, runs, strict=False)]
    names = [f"study-{letter}.toml" for letter in LETTERS[: len(runs)]] if several else ["study.toml"]
    return Pieces(
        name=str(run.header["name"]), promise=" ".join(told) if several else run_promise(run),
        said=[] if several else facts.promise_sentences(run), drawn=lambda: run_drawings(runs),
        tables=[("runs", "Runs side by side.", side_by_side(runs))] if several else [
            ("study", "What was run.", _two_columns(facts.study_facts(run))),
            ("outcome", "What came of it.", _two_columns(facts.outcome_facts(run))),
        ],
        used=list(dict.fromkeys(kind for own in runs for kind in kinds_used(own.study, own.private))),
        studies={name: own.study for name, own in zip(names, runs, strict=True)},
        command=command_again("run", names, " --driver direct"),
    )  # fmt: skip


def run_drawings(runs: Sequence[Run]) -> list[Picture]:
    """The figures of a run for a paper; of several, those that compare them."""
    if len(runs) > 1:
        return comparison.comparison_pictures(runs, run_labels(runs))
    return [*figures.run_pictures(runs[0]), *audited.audit_pictures(runs[0])]


def _two_columns(rows: facts.Rows) -> Table:
    """Rows of a run's report, name and value, as a table of a paper."""
    return ["", "value"], rows


def run_promise(run: Run) -> str:
    """A run in a sentence for captions: its attackers, ε rounded up and δ, luck of its accuracy, study and code."""
    header, cost, release = run.header, run.epsilon, run.header["release"]
    said = f"{header['byzantine']:,} of {header['clients']:,} clients Byzantine ({kind_alone(header['attack'])}); "
    if not run.private:
        said += "no privacy; "
    elif cost is not None:
        whose = unit_and_trust(release["trust"], release["unit"], release["adjacency"])
        said += f"ε ≤ {rounded_up(cost['upper'])} at δ = {short_number(header['delta'])}, certified ({whose}); "
    else:
        said += "its ε is not known, as its records have no end; "
    if tests := header["test_examples"]:
        said += f"one standard error of an accuracy is at most {50 / tests**0.5:.2g} percentage points; "
    return f"{said}study {header['study']}, {code_words(run.directory)}."
