"""A run in words, row by row, and as plain data: the same for the table on a terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedpriv.mechanisms import KINDS
from server.words import (
    ASSUMED,
    ASSUMED_HERE,
    ASYMPTOTIC,
    down,
    duration,
    guarantee,
    how,
    less,
    named,
    ranges,
    share,
    size,
    small,
    tally,
    up,
)
from simulations.report.runs import Run

Rows = list[tuple[str, str]]


def study(run: Run) -> Rows:
    """What the run was."""
    header, bad = run.header, run.header["byzantine"]
    percent = f" ({100 * bad / header['clients']:.3g}%)" if header["clients"] else ""
    return [
        ("study", f"{header['name']}, id {header['study']}"),
        ("clients", f"{header['clients']:,}, of them Byzantine {bad:,}{percent}"),
        ("attack", named(header["attack"])),
        *([("corruption", named(header["corruption"]))] if header.get("corruption") else []),
        ("model", f"{header['model']}, {header['dimension']:,} coordinates"),
        *([("release", named(header["private_sum"]))] if header.get("private_sum") else []),
        ("mechanism", named(header["mechanism"])),
        ("aggregation", named(header["aggregation"])),
        ("rounds", f"{len(run.rounds):,} of {header['rounds']:,}"),
        ("ended", run.ended),
    ]


def outcome(run: Run) -> Rows:
    """What came of it."""
    loss, took = run.last("loss"), run.seconds
    rows = [("accuracy", f"{share(run.last('accuracy'))} of {run.header['test_examples']:,} examples held out")]
    if loss is not None:
        rows.append(("loss", f"{loss:.4g}"))
    rows += privacy(run) + traffic(run)
    return rows if took is None else [*rows, ("time", f"{duration(took)} in rounds")]


def privacy(run: Run) -> Rows:
    """What it gave away."""
    if not run.private:
        return [("privacy", "none: updates were sent as they are")]
    release, cost = run.header["release"], run.epsilon
    rows = [("guarantee", how(release["trust"], release["unit"], release["adjacency"]))]
    rows += [("", ASSUMED_HERE)] * (release["trust"] == "secure-aggregation")
    if cost is not None:
        at = f"ε at δ = {small(run.header['delta'])}"
        rows.append((at, f"at most {up(cost['upper'])}, at least {down(cost['lower'])}, for {run.who}"))
        if cost["clt"] is not None:
            rows.append(("central limit", f"ε = {cost['clt']:.4g}, {ASYMPTOTIC}"))
    return rows


def traffic(run: Run) -> Rows:
    """What went over the wire, and what of it did not count."""
    skipped = [f"{ranges(rounds)} ({why})" for why, rounds in run.skipped.items()]
    each, plain = run.header["client_bytes"], 4 * run.header["dimension"]
    rows = [
        ("a client, a round", f"{size(each)}, {less(plain, each)} the {size(plain)} of float32"),
        ("sent by clients", f"{size(run.bytes_up)} in all"),
        ("rejected", tally(run.total("rejected"))),
        ("failed", tally(run.total("failed"))),
    ]
    return rows + [("rounds skipped", "; ".join(skipped))] * bool(skipped)


def promise(run: Run) -> list[str]:
    """The guarantee in sentences: what it says, what it takes for granted, and what is no part of it."""
    cost, release = run.epsilon, run.header["release"]
    if not run.private:
        return ["This run promises no privacy: updates were sent as they are."]
    if cost is None:
        return ["Nothing was costed: what was released, if anything was, stands in the run's ledger only."]
    said = [guarantee(release, run.header["delta"], cost["upper"], run.who)]
    if release["trust"] == "secure-aggregation":
        said.append(f"{ASSUMED} Noise is counted from {release['clients']:,} contributors that drew it for certain.")
    if cost["lower"]:
        said.append(f"No proof can bring ε below {down(cost['lower'])}: explicit data reach it.")
    if cost["clt"] is not None:
        said.append(
            f"The central limit theorem estimates ε = {cost['clt']:.4g}; this is asymptotic and bounds nothing."
        )
    if run.records.end is None:
        said.append(
            "The records were cut short: what was released after the last of them stands in the run's ledger only."
        )
    return said


def meaning(run: Run) -> str:
    """What the mechanism does, by its own description."""
    cls = KINDS.get(str(run.header["mechanism"].get("kind")))
    return ((cls.__doc__ if cls else None) or "").split("\n")[0]


def summary(run: Run) -> dict[str, Any]:
    """The run as plain data."""
    header, end, release = run.header, run.records.end or {}, run.header["release"] or {}
    copied = ("name", "study", "clients", "byzantine", "mechanism", "attack", "aggregation", "delta", "client_bytes")
    return {name: header[name] for name in copied} | {
        "directory": str(run.directory),
        "ended": end.get("why"),
        "rounds": len(run.rounds),
        "accuracy": run.last("accuracy"),
        "loss": run.last("loss"),
        "epsilon": run.epsilon,
        **{name: release.get(name) for name in ("unit", "trust", "adjacency")},
        "worst_client": end.get("worst_client"),
        "releases_of_worst": end.get("releases_of_worst"),
        "bytes_up": run.bytes_up,
        "rejected": run.total("rejected"),
        "failed": run.total("failed"),
        "skipped": run.skipped,
        "seconds": run.seconds,
    }


def beside(run: Run) -> Rows:
    """One row of a comparison."""
    cost = run.epsilon if run.private else None
    return [
        ("mechanism", named(run.header["mechanism"])),
        ("attack", named(run.header["attack"])),
        ("Byzantine", f"{run.header['byzantine']:,} of {run.header['clients']:,}"),
        ("accuracy", share(run.last("accuracy"))),
        ("ε at most", "–" if cost is None else up(cost["upper"])),
        ("a client, a round", size(run.header["client_bytes"])),
    ]


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for a terminal."""
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [head, *rows])
