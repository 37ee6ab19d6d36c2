"""What an audit found, for people: each number, and what it proves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.auditing.verdict import as_level

Rows = list[tuple[str, str]]
MEANINGS = {
    "guesses": "each canary held one of two inputs by a fair coin, and a guesser who knows both inputs and every "
    "probability of the mechanism named it from what left",
    "μ, audited": "with that confidence the mechanism is not μ-GDP for any smaller μ, whatever made the guesses",
    "μ, certified": "the most that the certificate allows such guesses: a larger audited μ would refute it",
    "ε, audited": "with that confidence no smaller ε holds at this δ. It is a statement about a tail that few trials "
    "see: how far it stays below says little of the certificate",
    "ε, by the shape": "what the audited μ would cost if the mechanism's curve were Gaussian: no proof",
    "ε, certified": "proved from above for all inputs, and from below by explicit data",
    "verdict": "an audit tries one pair of inputs and one guesser: it can refute a certificate, never prove it",
}


def audit_rows(found: Mapping[str, Any]) -> Rows:
    """What an audit found, row by row for a terminal or a page: the name of a number, and what came of it."""
    mu, epsilon, sure = found["mu"], found["epsilon"], confidence_words(found["confidence"])
    of, delta = mu["of_epsilon"], short_number(found["delta"])
    beside = f"of μ = {of:.6g}, at which G_μ costs the certified ε, audited {mu['audited'] / of:.0%}"
    if mu["pair"] is not None:
        beside += f", held by these inputs {mu['pair'] / of:.0%}"
    told = [
        ("trial", found["trial"]),
        ("guesses", f"{found['right']:,} of {found['canaries']:,} right"),
        ("μ, audited", f"at least {rounded_down(mu['audited'], 6)} {sure}"),
        ("μ, certified", f"at most {rounded_up(mu['certified'], 6)}; {beside}"),
        ("ε, audited", f"at least {rounded_down(epsilon['audited'], 6)} at δ = {delta} {sure}, whatever the shape"),
        ("ε, by the shape", f"{short_number(epsilon['shape'])}, were the mechanism's shape that of G_μ: no proof"),
        ("ε, certified", f"at most {rounded_up(epsilon['upper'], 6)}, at least {rounded_down(epsilon['lower'], 6)}"),
        ("proof, audited", found["proof"]["audited"]),
        ("proof, certified", found["proof"]["certified"]),
    ]
    if found["repeated"]:
        told.append(("noise", f"{found['repeated']:,} messages are the same as another: they share their noise"))
    faults, seen = found.get("faults", ()), found.get("seen")
    told += [(f"FAULT: {each['about']}", each["words"]) for each in faults]
    if seen is not None and not faults:  # of a node, whatever else a server sees of it was compared
        alike = f"{seen['asks']:,} questions, {seen['answers']:,} answers, of both alike"
        told.append(("all else", f"{alike}: what was seen of them is the same"))
    return [*told, ("verdict", verdict_words(found))]


def verdict_words(found: Mapping[str, Any]) -> str:
    """An audit's verdict in words: whether the certificate stands."""
    return "the certificate stands" if found["stands"] else "THE CERTIFICATE IS REFUTED"


def confidence_words(confidence: float) -> str:
    """The confidence of an audit's bounds in words, "at 99% confidence".

    >>> confidence_words(0.99), confidence_words(0.9999)
    ('at 99% confidence', 'at 0.9999 confidence')
    """
    return f"at {confidence:.0%} confidence" if confidence < 0.995 else f"at {as_level(confidence)} confidence"


def in_a_line(found: Mapping[str, Any]) -> str:
    """What an audit found in one line: the two bounds, the verdict, and what else refutes the certificate."""
    mu = found["mu"]
    beside = [f"FAULT: {each['about']}: {each['words']}" for each in found.get("faults", ())]
    if found["repeated"]:
        beside.append(f"{found['repeated']:,} messages are the same as another")
    return "; ".join([
        f"μ at least {rounded_down(mu['audited'])} {confidence_words(found['confidence'])} of {found['canaries']:,} "
        f"canaries, certified at most {rounded_up(mu['certified'])}: {verdict_words(found)}", *beside,
    ])  # fmt: skip


def without_curves(found: Mapping[str, Any]) -> dict[str, Any]:
    """What an audit found, without the curves of audit.json, so that it fits a terminal or a summary."""
    return {name: value for name, value in found.items() if name != "curves"}
