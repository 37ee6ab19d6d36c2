"""What an accuracy is of, in words: records that are treated as public, or clients' own, asked about privately."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedpriv._base.spelling import rounded_down, rounded_up
from server.progress.words import measured_words, share_words

FEW = 20  # classes that are shown one by one


def public_words(examples: int, evaluation: Mapping[str, Any] | None = None) -> str:
    """Whose records a run's accuracy is measured on, in a sentence for results, reports and forecasts.

    >>> public_words(360)
    'on the 360 records the server holds out, which are treated as public: ε covers clients, and says nothing of them'
    """
    if not examples or (evaluation is not None and not evaluation["public"]):
        return "none is measured on records of the server's"
    return (
        f"on the {examples:,} records the server holds out, which are treated as public: ε covers clients, and says "
        "nothing of them"
    )


def asked_words(evaluation: Mapping[str, Any]) -> str:
    """What a run's clients are asked about its model, for reports and forecasts.

    >>> asked_words({"every": 5, "held_out": 0})
    'each 5 rounds clients answer about all that they train on: charged, and in ε'
    """
    about = (
        f"{evaluation['held_out']:,} of their own, kept out of training"
        if evaluation["held_out"]
        else "all that they train on"
    )
    every = "each round" if evaluation["every"] == 1 else f"each {evaluation['every']:,} rounds"
    once = ", and tell once of which class one of these is" if evaluation.get("labels") else ""
    return f"{every} clients answer about {about}{once}: charged, and in ε"


def answers_words(found: Mapping[str, Any]) -> str:
    """What clients' answers came to, with its interval, for a run's table and page.

    >>> answers_words({"accuracy": 0.63, "low": 0.386, "high": 0.874, "answered": 300})
    '0.630, from 0.386 to 0.874 (19 times in 20), by 300 answers'
    >>> answers_words({"accuracy": 0.63, "low": 0.386, "high": 0.874, "answered": 300, "lied": 0.3})
    '0.630, from 0.386 to 0.874 (19 times in 20), by 300 answers; Byzantine clients could have moved it by 0.3'
    """
    lied = f"; Byzantine clients could have moved it by {rounded_up(found['lied'], 2)}" if found.get("lied") else ""
    between = f"from {rounded_down(found['low'], 3)} to {rounded_up(found['high'], 3)}"
    return f"{share_words(found['accuracy'])}, {between} (19 times in 20), by {found['answered']:,} answers{lied}"


def labels_rows(found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Rows of a run's table on which classes clients' records are of, by the labels they told; none without them.

    >>> told = {"answered": 40, "classes": [{"share": 0.25, "low": 0.125, "high": 0.5}]}
    >>> labels_rows(told)
    [('labels', 'class 0: 0.250, from 0.125 to 0.5'), ('', 'all together 19 times in 20, by 40 labels told')]
    """
    if not found:
        return []
    said = []
    for at, own in enumerate(found["classes"][:FEW]):
        between = f"from {rounded_down(own['low'], 3)} to {rounded_up(own['high'], 3)}"
        said.append(f"class {at}: {share_words(own['share'])}, {between}")
    said += ["the others stand in the records"] * (len(found["classes"]) > FEW)
    lied = f"; Byzantine clients could have moved each by {rounded_up(found['lied'], 2)}" if found.get("lied") else ""
    said.append(f"all together 19 times in 20, by {found['answered']:,} labels told{lied}")
    return [("labels" if not at else "", words) for at, words in enumerate(said)]


def accuracy_rows(measured: Mapping[str, Any], said: str, found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Rows of a run's table on its accuracy, or R²: on held-out records, by class, a backdoor's, by clients' answers.

    >>> accuracy_rows({"accuracy": 0.5, "accuracy_by_class": {"0": 1.0, "1": 0.0}, "backdoor": 0.8341}, "", None)[1:]
    [('by class', '0: 1.000, 1: 0.000'), ('backdoor', '0.834 of the records with its trigger are taken for its target')]
    """
    rows = [measured_words(measured), *([("", said)] if said else [])]
    if own := measured.get("accuracy_by_class"):
        shown = ", ".join(f"{name}: {share_words(share)}" for name, share in list(own.items())[:FEW])
        rows.append(("by class", shown + "; the others stand in the records" * (len(own) > FEW)))
    if (success := measured.get("backdoor")) is not None:
        rows.append(("backdoor", f"{share_words(success)} of the records with its trigger are taken for its target"))
    return [*rows, ("by answers", answers_words(found))] if found else rows


def accuracy_sentences(examples: int, evaluation: Mapping[str, Any] | None) -> list[str]:
    """What a run's page says of its accuracy beside the guarantee: whose records are public, what answers say."""
    said = [f"Accuracy: {public_words(examples, evaluation)}."]
    if evaluation is not None:
        said.append(
            f"Of the model, {asked_words(evaluation)}. The interval holds 19 times in 20 for the mean over the clients "
            "that answered, if each drew its answer as the mechanism says."
        )
    return said
