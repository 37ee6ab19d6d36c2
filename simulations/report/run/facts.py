"""A run in words, row by row, and as plain data: the same for the table on a terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clients.data.identity import data_title, in_words
from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.accounting.published.discrete import LEMMA_2, discrete_published
from fedpriv.mechanisms import MECHANISMS
from fedpriv.studies.kinds import RELEASES
from fedpriv.trust import sums_only
from server.progress import early_words
from server.progress.accuracy_words import accuracy_rows, accuracy_sentences, labels_rows, public_words
from server.progress.words import (
    ASSUMED,
    ASSUMED_HERE,
    ASYMPTOTIC,
    MASKED,
    MASKED_HERE,
    NOT_TRIED,
    SECRET,
    beta_words,
    bytes_words,
    duration_words,
    epsilons_in_words,
    finding_words,
    guarantee_sentence,
    kind_alone,
    kind_with_settings,
    measured_words,
    mu_words,
    part_of_whole,
    ranges_words,
    share_words,
    tally_words,
    unit_and_trust,
    units_in_words,
    word_of_author,
)
from simulations.report.run import _robustness as robustness
from simulations.report.run._votes import votes_rows, votes_summary
from simulations.report.run.runs import Run

Rows = list[tuple[str, str]]

UNNAMED = "an earlier version made this run, which did not say on which data"


def study_facts(run: Run) -> Rows:
    """Rows of a run's report on what it was: study, data, clients, attack, mechanism, rounds."""
    header, bad = run.header, run.header["byzantine"]
    percent = f" ({100 * bad / header['clients']:.3g}%)" if header["clients"] else ""
    return [
        ("study", f"{header['name']}, id {header['study']}"),
        ("data", in_words(header["data"], run.where) if "data" in header else UNNAMED),
        ("clients", f"{header['clients']:,}, of them Byzantine {bad:,}{percent}"), ("attack", _attack(run)),
        *([("corruption", kind_with_settings(header["corruption"]))] if header.get("corruption") else []),
        ("model", f"{header['model']}, {header['dimension']:,} coordinates"),
        *([("release", kind_with_settings(header["private_sum"]))] if header.get("private_sum") else []),
        *([("loss of a record", kind_with_settings(header["loss"]))] if header.get("loss") else []),
        *((name, kind_with_settings(header[name])) for name in ("mechanism", "aggregation")),
        *([("left out", header["left_out"])] if header.get("left_out") else []),
        ("rounds", f"{len(run.rounds):,} of {header['rounds']:,}"), ("ended", run.ended),
    ]  # fmt: skip


def _attack(run: Run) -> str:
    """A run's attack in words for its report, and why it was not tried where it was not."""
    return kind_with_settings(run.header["attack"]) + (f", {NOT_TRIED}: {run.not_tried}" if run.not_tried else "")


def outcome_facts(run: Run) -> Rows:
    """Rows of a run's report on what came of it: what was learnt, certified, given away, sent, and its time."""
    loss, took = run.last("loss"), run.seconds
    said = public_words(run.header["test_examples"], run.header.get("evaluation"))
    rows = accuracy_rows(run.measured | run.targeted, said, run.last("evaluated")) + labels_rows(run.last("labels"))
    if loss is not None:
        rows.append(("loss", f"{loss:.4g}"))
    rows += [row for summary in robustness.summaries(run) for row in robustness.rows(summary)]
    rows += votes_rows(run) + privacy_facts(run) + traffic_facts(run)
    return rows if took is None else [*rows, ("time", f"{duration_words(took)} in rounds")]


def privacy_facts(run: Run) -> Rows:
    """Rows of a run's report on what it gave away: the guarantee, ε from both sides, what was assumed."""
    if not run.private:
        return [("privacy", "none: updates were sent as they are")]
    release, cost = run.header["release"], run.epsilon
    rows = [("guarantee", unit_and_trust(release["trust"], release["unit"], release["adjacency"]))]
    hidden = MASKED_HERE if run.header.get("masked") else ASSUMED_HERE
    rows += [("", hidden)] * sums_only(release["trust"])
    if cost is not None:
        at = f"ε at δ = {short_number(run.header['delta'])}"
        within = f"at most {rounded_up(cost['upper'])}, at least {rounded_down(cost['lower'])}"
        rows.append((at, f"{within}, for {whose_words(run)}"))
        rows += [("", said) for said in early_words((run.records.end or {}).get("of_rounds_done"))]
        rows += units_in_words((run.records.end or {}).get("units"), release["unit"])
        if run.kept:
            rows += zip(("records kept", ""), epsilons_in_words(run.header["epsilons"]), strict=True)
        rows += [("Gaussian DP", mu_words(own)) for own in [run.spent("mu")] if own]
        rows += [("type II error, β", beta_words(own)) for own in [run.spent("beta")] if own]
        if cost["clt"] is not None:
            rows.append(("central limit", f"of the explicit data ε = {cost['clt']:.4g}, {ASYMPTOTIC}"))
        for event in run.account.events if run.account is not None and release["sampling"] < 1 else ():
            if (lemma := discrete_published(event, run.header["delta"]).get(LEMMA_2)) is not None:
                rows.append(("[F] Lemma 2", f"ε = {rounded_up(lemma['epsilon'])} as published, {ASYMPTOTIC}"))
    return rows


def traffic_facts(run: Run) -> Rows:
    """Rows of a run's report on what went over the wire: bytes, rejections, failures, skipped rounds."""
    skipped = [f"{ranges_words(rounds)} ({why})" for why, rounds in run.skipped.items()]
    each, plain = run.client_bytes, 4 * run.header["dimension"]
    rows = [
        ("a client, a round", f"{bytes_words(each)}, {part_of_whole(plain, each)} the {bytes_words(plain)} of float32"),
        ("sent by clients", SECRET if run.bytes_up is None else f"{bytes_words(run.bytes_up)} in all"),
    ]
    if run.bytes_up is not None:
        rows += [(name, tally_words(run.total(name))) for name in ("rejected", "failed")]
    if still := [line["round"] for line in run.rounds if "still" in line]:
        rows.append(("rounds without a move", f"{ranges_words(still)}: the direction was 0 in every coordinate"))
    return rows + [("rounds skipped", "; ".join(skipped))] * bool(skipped)


def whose_words(run: Run) -> str:
    """Whose guarantee a run's ε is, in words for its report: the worst client, on how many releases."""
    end = run.records.end
    if run.kept:
        return "a client that noised its records once, for all rounds"
    if end is None or end["worst_client"] is None:
        return "a client that was asked for nothing, as nobody was"
    planned = f", with all rounds planned {run.releases}" if "releases_possible" in end else ""
    return f"the worst client, number {end['worst_client']}, charged for {end['releases_of_worst']} releases{planned}"


def promise_sentences(run: Run) -> list[str]:
    """A run's guarantee in sentences for its page: what it says, takes for granted, and does not say."""
    cost, release = run.epsilon, run.header["release"]
    if not run.private:
        return ["This run promises no privacy: updates were sent as they are."]
    if cost is None:
        why = "The records were cut short" if run.records.end is None else "Nothing was costed"
        return [f"{why}: what was released, if anything was, stands in the run's ledger only."]
    said = [guarantee_sentence(release, run.header["delta"], cost["upper"], whose_words(run))]
    if run.kept:
        published, example = epsilons_in_words(run.header["epsilons"])
        said.append(
            f"{kind_alone(run.released)} noised each record once; all rounds are functions of what was kept, which "
            f"costs nothing more. The noise is {example}; {published}."
        )
    elif run.released:
        said.append(
            f"Each message is a release of its client's records by {kind_alone(run.released)}, and private as it is: "
            f"{kind_alone(run.header['mechanism'])} carries it, which costs nothing."
        )
    if own := word_of_author(release["kind"]):
        said.append(f"This holds if the mechanism is as it says: {own}.")
    if sums_only(release["trust"]):
        kept = MASKED if run.header.get("masked") else ASSUMED
        said.append(f"{kept} Noise is counted from {release['clients']:,} contributors that drew it for certain.")
    said += [f"In words: {found}." for found in [finding_words(run.spent("beta"), release["unit"])] if found]
    if cost["lower"]:
        said.append(f"No proof can bring ε below {rounded_down(cost['lower'])}: explicit data reach it.")
    if cost["clt"] is not None:
        said.append(
            f"Of those data the central limit theorem estimates ε = {cost['clt']:.4g}: asymptotic, and no bound."
        )
    return said + accuracy_sentences(run.header["test_examples"], run.header.get("evaluation"))


def mechanism_meanings(run: Run) -> dict[str, str]:
    """What a run's release and mechanism do, by their classes' docstrings, for the page's rows of them."""
    own = _described(MECHANISMS.get(kind_alone(run.header["mechanism"])))
    if not run.released:
        return {"mechanism": own}
    carried = f"Carries the release. {own}" if own else "Carries the release as it is, in float32."
    return {"release": _described(RELEASES.get(kind_alone(run.released))), "mechanism": carried}


def _described(cls: type[Any] | None) -> str:
    """What a mechanism's or release's class does: its docstring's first line; "" where no class is known."""
    return ((cls.__doc__ if cls else None) or "").split("\n")[0]


def sender_words(run: Run) -> str:
    """What makes a run's messages private, in a word for its page, and what carries it if another thing does.

    A release by itself, which Plain only carries, is the whole of it.
    """
    carrier = kind_alone(run.header["mechanism"])
    return carrier if not run.released else kind_alone(run.released) + ("" if run.plain else f", by {carrier}")


def run_summary(run: Run) -> dict[str, Any]:
    """A run as `fedpriv report --json` prints it: what it was, its ε, accuracy, bytes, certificates."""
    header, end, release = run.header, run.records.end or {}, run.header["release"] or {}
    copied = ("name", "study", "clients", "byzantine", "mechanism", "attack", "aggregation", "delta")
    found: dict[str, Any] = {
        "data": (own := header.get("data")) and own | {"name": data_title(own["sha256"]), "path": run.where},
        "private_sum": run.released, "client_bytes": run.client_bytes, "corruption": header.get("corruption"),
        "directory": str(run.directory), "ended": end.get("why"), "rounds": len(run.rounds),
        "accuracy": None, **run.measured, **run.targeted, "loss": run.last("loss"), "epsilon": run.epsilon,
        "accuracy_is": public_words(header["test_examples"], header.get("evaluation")),
        **({"evaluated": run.last("evaluated")} if "evaluation" in header else {}),
        **({"labels": run.last("labels")} if "labels" in header.get("evaluation", {}) else {}),
        **{name: own for name in ("mu", "beta") if (own := run.spent(name)) is not None},
        **{name: header[name] for name in ("epsilons", "left_out") if name in header},
        **{name: release.get(name) for name in ("unit", "trust", "adjacency")},
        **({"of_rounds_done": end["of_rounds_done"]} if "of_rounds_done" in end else {}),
        "worst_client": end.get("worst_client"), "releases_of_worst": end.get("releases_of_worst"),
        "bytes_up": run.bytes_up,
        **{name: None if run.bytes_up is None else run.total(name) for name in ("rejected", "failed")},
        "skipped": run.skipped, "seconds": run.seconds, "certified": robustness.summaries(run),
        **({"votes": votes} if (votes := votes_summary(run)) is not None else {}),
    }  # fmt: skip
    return {name: header[name] for name in copied} | found


def comparison_row(run: Run) -> Rows:
    """A run as a row of the table that compares several: mechanism, attack, rounds, trust, accuracy, ε, bytes."""
    cost = run.epsilon if run.private else None
    opened = [share_words(own) for own in [run.last("backdoor")] if own is not None]
    drawn_by = [run.released] * bool(run.released) + [run.header["mechanism"]]
    return [
        ("mechanism", ", by ".join(map(kind_with_settings, drawn_by))),
        ("attack", _attack(run)),
        ("Byzantine", f"{run.header['byzantine']:,} of {run.header['clients']:,}"),
        ("rounds", f"{len(run.rounds):,}"),
        ("trust", str((run.header["release"] or {}).get("trust", "–"))),
        ("accuracy", ", backdoor ".join([" ".join(measured_words(run.measured)).removeprefix("accuracy "), *opened])),
        ("ε at most", "–" if cost is None else rounded_up(cost["upper"])),
        ("a client, a round", bytes_words(run.client_bytes)),
    ]


def aligned_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of words for a terminal, its columns below one another: of runs, sweeps, certificates."""
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [head, *rows])
