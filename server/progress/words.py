"""Numbers, sizes and guarantees in words, for the table on a terminal, the page and the end of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, inf
from typing import Any, assert_never

from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.trust import Word

DAY = 86_400  # seconds
UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
NEIGHBOURS = {
    ("client", "replace"): "Replacing all the data of one client",
    ("client", "add-remove"): "Adding or removing one client",
    ("record", "replace"): "Replacing one record of a client's by another",
    ("record", "add-remove"): "Adding or removing one record",
}
ASSUMED = (
    "This guarantee ASSUMES secure aggregation: that nobody sees more than the sums. In this simulation it was "
    "simulated: the sum was taken directly, and no cryptography hid a message."
)
ASSUMED_HERE = "assumes that sums alone are seen; here the sum was taken directly (simulated)"
MASKED = (
    "The sums were masked between nodes: a server that keeps to the protocol has seen sums only, of no fewer clients "
    "than a round needs. The trust is per node: one that hosts several clients sees their messages. docs/security.md "
    "says what an active server can and cannot do."
)
MASKED_HERE = "sums were masked between nodes; a node that hosts several clients sees their messages"
SECRET = "how many are drawn is the server's own"  # under trust central, where ε counts on it
NOT_TRIED = "not tried: it failed at every Byzantine client before anything was sent"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # names of runs side by side
ASYMPTOTIC = "asymptotic, no bound"
PUBLISHED = "as published, of batches under one noise: no ε of an example follows from it"


def epsilons_in_words(epsilons: Mapping[str, Any]) -> tuple[str, str]:
    """The two ε's of kept noise, for a run's table and page: the published one, and what an example really pays."""
    published, example = epsilons["published"], epsilons["example-level"]
    own = example["epsilon"]
    return (
        f"ε = {rounded_up(published['epsilon'])} {PUBLISHED}",
        f"ε from {rounded_down(own['lower'])} to {rounded_up(own['upper'])} at δ = {short_number(example['delta'])} "
        "for one example replaced, to whoever sees its noised record",
    )


def units_in_words(units: Mapping[str, Any] | None, promised: str) -> list[tuple[str, str]]:
    """A run's ε for the units beside the one that is promised, each a row of its tables: a client's beside a record's.

    >>> cost = {"adjacency": "replace", "epsilon": {"lower": 40.0, "upper": 69.12848, "clt": None}}
    >>> units_in_words({"record": {}, "client": cost}, "record")
    [('of a client', 'ε at most 69.13, at least 40, replace adjacency')]
    """
    return [
        (
            f"of a {unit}",
            f"ε at most {rounded_up(cost['epsilon']['upper'])}, at least {rounded_down(cost['epsilon']['lower'])}, "
            f"{cost['adjacency']} adjacency",
        )
        for unit, cost in (units or {}).items()
        if unit != promised
    ]


def finding_words(beta: Mapping[str, Any] | None, unit: str) -> str | None:
    """What β at a type I error of .001 says of an attacker; None where it was not worked out, as in older records.

    >>> finding_words({"0.001": {"lower": 0.98486, "upper": 0.9915}}, "client")
    'an attacker wrong once in 1,000 finds a client at most 2 times in 100'
    """
    if not beta or "0.001" not in beta:
        return None
    most = min(ceil(100 * (1 - beta["0.001"]["lower"])), 100)
    if most == 100:
        return f"nothing is certified against an attacker who is wrong once in 1,000 and looks for a {unit}"
    return f"an attacker wrong once in 1,000 finds a {unit} at most {most} time{'s' * (most != 1)} in 100"


def mu_words(mu: Mapping[str, Any]) -> str:
    """μ from both sides.

    >>> mu_words({"lower": 0.79875, "upper": 0.92438, "up_to": 1e-8}), mu_words({"lower": 2, "upper": 2, "up_to": 0})
    ('μ at most 0.9244, at least 0.7987, up to δ₀ = 1e-8', 'μ at most 2, at least 2')
    """
    if mu["upper"] == inf:
        return "μ: none is certified"
    up_to = f", up to δ₀ = {short_number(mu['up_to'])}" if mu["up_to"] else ""
    return f"μ at most {rounded_up(mu['upper'])}, at least {rounded_down(mu['lower'])}{up_to}"


def beta_words(beta: Mapping[str, Any]) -> str:
    """β at each type I error, as it is certified.

    >>> beta_words({"0.001": {"lower": 0.98486, "upper": 0.9915}, "0.1": {"lower": 0.6397, "upper": 0.7}})
    'at least 0.9848 at α = 0.001, 0.6397 at α = 0.1'
    """
    return "at least " + ", ".join(f"{rounded_down(own['lower'])} at α = {level}" for level, own in beta.items())


def measured_words(line: Mapping[str, Any]) -> tuple[str, str]:
    """What a run's round or result says of the held-out records, by its name: accuracy, or of numbers R².

    >>> measured_words({"accuracy": 0.91239}), measured_words({"accuracy": None, "r2": -0.5})
    (('accuracy', '0.912'), ('R²', '-0.500'))
    """
    return ("R²", share_words(line["r2"])) if "r2" in line else ("accuracy", share_words(line["accuracy"]))


def share_words(value: float | None) -> str:
    """An accuracy, or R², for tables and pages, in three places; '–' where there is none."""
    return "–" if value is None else f"{value:.3f}"


def bytes_words(count: float) -> str:
    """A number of bytes for people: what clients send, in tables and pages.

    >>> bytes_words(1101), bytes_words(41_704), bytes_words(59_928_648)
    ('1,101 B', '41.7 KB', '59.9 MB')
    """
    if count < 9_999.5:
        return f"{count:,.0f} B"
    place = 0
    while count >= 999.5 and place < len(UNITS) - 1:
        count, place = count / 1000, place + 1
    return f"{count:.3g} {UNITS[place]}"


def part_of_whole(whole: float, part: float) -> str:
    """How a client's bytes compare with plain float32's, for a run's page, as in '2.4× less than'.

    >>> part_of_whole(2600, 1101), part_of_whole(2600, 2648), part_of_whole(100, 125)
    ('2.4× less than', 'about as much as', '1.2× more than')
    """
    if not 0.95 * whole > part and not part > 1.05 * whole:
        return "about as much as"
    return f"{whole / max(part, 1):.2g}× less than" if part < whole else f"{part / max(whole, 1):.2g}× more than"


def duration_words(seconds: float) -> str:
    """Seconds for people, in a run's line, tables, pages and forecasts.

    >>> duration_words(0.031), duration_words(2.84), duration_words(83), duration_words(4000)
    ('31 ms', '2.8 s', '1 min 23 s', '1 h 6 min')
    >>> duration_words(200_000), duration_words(1396899400.0)
    ('2 days 7 h', '44.3 years')
    """
    if 0 < seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 2 * DAY:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    if whole < 365 * DAY:
        return f"{whole // DAY} days {whole % DAY // 3600} h"
    return f"{seconds / (365 * DAY):,.1f} years"


def tally_words(counts: Mapping[str, int] | int | None) -> str:
    """A run's rejected messages or failed clients in words, by reason, the largest number first.

    >>> tally_words({"checksum": 1, "round": 2}), tally_words({})
    ('3 (2 round, 1 checksum)', 'none')
    """
    if not isinstance(counts, Mapping):
        return f"{counts:,}" if counts else "none"
    by_size = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in by_size if count)
    return f"{sum(counts.values()):,} ({reasons})" if reasons else "none"


def ranges_words(numbers: Iterable[int]) -> str:
    """Rising numbers, such as a report's skipped rounds or a sweep's seeds, in as few words as tell them.

    >>> ranges_words([1, 2, 3, 7, 9, 10])
    '1–3, 7, 9–10'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def kind_alone(entry: Mapping[str, Any] | None) -> str:
    """A run's mechanism, rule or attack by its name alone, for reports' titles and tables.

    >>> kind_alone({"kind": "SignFlip"}), kind_alone(None)
    ('SignFlip', 'none')
    """
    return "none" if entry is None else str(entry.get("kind", "?"))


def settings_beside(entry: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a run's mechanism, rule or attack, for reports: under that name or beside the kind."""
    beside = {name: value for name, value in (entry or {}).items() if name not in ("kind", "settings")}
    return beside | dict((entry or {}).get("settings") or {})


def kind_with_settings(entry: Mapping[str, Any] | None) -> str:
    """A run's mechanism, rule or attack with its settings, in words for reports and forecasts.

    >>> kind_with_settings({"kind": "Binomial", "settings": {"clip": 1.0, "trials": 4}})
    'Binomial clip=1 trials=4'
    """
    return " ".join(
        [kind_alone(entry), *(f"{name}={value_of(value)}" for name, value in settings_beside(entry).items())]
    )


def value_of(value: Any) -> str:
    """A setting of a run in as few digits as tell it, for reports' tables."""
    return short_number(value) if isinstance(value, float) else str(value)


def word_of_author(kind: str) -> str:
    """What a guarantee rests on where its mechanism is somebody's own; empty of those that ship.

    >>> word_of_author("mine:Four")
    'its worst pair is the word of mine:Four, tried and not proved'
    """
    return f"its worst pair is the word of {kind}, tried and not proved" * (":" in kind)


def unit_and_trust(trust: str | None, unit: str | None, adjacency: str | None) -> str:
    """A guarantee's unit, adjacency and trust in one phrase, for a run's table and page.

    >>> unit_and_trust("local", "client", "replace")
    'client level, replace adjacency, local trust'
    """
    return f"{unit} level, {adjacency} adjacency, {trust} trust"


def seen_under(trust: Word) -> str:
    """Who sees what under a trust, in words for the sentence of a run's guarantee."""
    match trust:
        case "local":
            return "the view of a server that reads every message"
        case "secure-aggregation":
            return "the view of a server that learns sums only"
        case "central":
            return "what a trusted server gives out"
        case _ as never:
            assert_never(never)


def guarantee_sentence(release: Mapping[str, Any], delta: float, upper: float, who: str) -> str:
    """A run's guarantee in one sentence for its page: unit, trust, adjacency, ε, δ and whose it is."""
    neighbours = NEIGHBOURS[release["unit"], release["adjacency"]]
    seen = f"{seen_under(release['trust'])} ({unit_and_trust(release['trust'], release['unit'], release['adjacency'])})"
    if upper == float("inf"):
        changed = f"{neighbours.lower()} may change {seen} without bound"
        return f"No ε is certified at δ = {short_number(delta)} for {who}: {changed}."
    return (
        f"{neighbours} changes {seen} by no more than (ε, δ)-differential privacy with ε = {rounded_up(upper)} and "
        f"δ = {short_number(delta)} allows; this holds for {who}, and for everybody else at least as well."
    )
