"""What a line of a run's records must hold, checked by name; it may hold more."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import inf, nan
from typing import Any

from fedpriv.errors import FedprivError

FORMAT = 1  # of the lines that this version writes
WORDS = {"inf": inf, "-inf": -inf, "nan": nan}  # JSON has no such numbers

Line = dict[str, Any]
Check = Callable[[Any], bool]


def is_number(value: Any) -> bool:
    """Whether a value in a record line is a number, or the word for one that JSON has not."""
    return value in WORDS if isinstance(value, str) else is_finite(value)


def is_finite(value: Any) -> bool:
    """Whether a value in a record line is a number as JSON writes it."""
    return type(value) in (int, float)


def is_count(value: Any) -> bool:
    """Whether a value in a record line is a whole number, zero or more."""
    return type(value) is int and value >= 0


def is_share(value: Any) -> bool:
    """Whether a value in a record line is a number from 0 to 1."""
    return is_finite(value) and 0 <= value <= 1


def is_word(value: Any) -> bool:
    """Whether a value in a record line is text."""
    return isinstance(value, str)


def is_data(value: Any) -> bool:
    """Whether a value says of a run's data what `clients.data.identity` makes: kind, hash, counts and shape."""
    return (
        is_table(value)
        and all(is_word(value.get(name)) for name in ("kind", "sha256"))
        and all(is_count(value.get(name)) for name in ("records", "held_out", "classes", "classes_absent"))
        and all(
            isinstance(found := value.get(name), list) and all(map(is_count, found)) for name in ("shape", "absent")
        )
    )


def is_table(value: Any) -> bool:
    """Whether a value in a record line is an object: values by name."""
    return isinstance(value, dict)


def _each(check: Check, *needed: str) -> Check:
    """A check of an object in a record line: these names are there, and every value passes the given check."""
    return lambda value: isinstance(value, dict) and set(needed) <= set(value) and all(map(check, value.values()))


def _or_null(check: Check) -> Check:
    """A check of a value in a record line that may also be null."""
    return lambda value: value is None or check(value)


def is_epsilon(value: Any) -> bool:
    """Whether a value in a record line is an ε: numbers `lower` and `upper`, and an estimate where there is one."""
    return _each(_or_null(is_number), "lower", "upper", "clt")(value) and None not in (value["lower"], value["upper"])


def is_units(value: Any) -> bool:
    """Whether a record's value is a run's ε for each unit, with its adjacency."""
    return is_table(value) and all(
        is_table(own) and is_word(own.get("adjacency")) and is_epsilon(own.get("epsilon")) for own in value.values()
    )


def is_mu(value: Any) -> bool:
    """μ from both sides, and up to what."""
    return _each(is_number, "lower", "upper", "up_to")(value)


def is_beta(value: Any) -> bool:
    """Type II errors from both sides, by the type I error."""
    return _each(_each(is_share, "lower", "upper"))(value)


def is_found(value: Any) -> bool:
    """Whether a value in a record line is what clients' answers came to: an accuracy, and between what it lies."""
    return (
        _each(is_finite, "accuracy", "error", "low", "high", "answered")(value)
        and is_share(value["low"]) and is_share(value["high"]) and is_count(value["answered"])
    )  # fmt: skip


def is_histogram(value: Any) -> bool:
    """Whether a value in a record line is what clients' labels came to: of each class a share, and between what."""
    return is_table(value) and is_count(value.get("answered")) and isinstance(value.get("classes"), list) and all(
        _each(is_finite, "share", "low", "high")(own) and is_share(own["low"]) and is_share(own["high"])
        for own in value["classes"]
    )  # fmt: skip


RUN: Mapping[str, Check] = {
    "study": is_word, "name": is_word, "clients": is_count, "byzantine": is_count, "dimension": is_count,
    "mechanism": is_table, "aggregation": is_table, "attack": _or_null(is_table), "release": _or_null(is_table),
    "trust": is_word, "delta": is_number, "rounds": is_count, "client_bytes": is_count,
    "bits": _each(_or_null(is_number), "packed", "entropy", "masked"), "model": is_word, "test_examples": is_count,
}  # fmt: skip
IN_SOME_RUNS: Mapping[str, Check] = {  # of the data those of earlier versions do not say
    "data": is_data, "evaluation": lambda value: is_table(value) and is_table(value.get("release")),
}  # fmt: skip
ROUND: Mapping[str, Check] = {
    "round": is_count, "asked": is_count, "answered": is_count, "rejected": _each(is_count), "failed": _each(is_count),
    "skipped": _or_null(is_word), "loss": _or_null(is_number), "accuracy": _or_null(is_number),
    "epsilon": _or_null(is_epsilon), "bytes_up": is_count,
}  # fmt: skip
IN_SOME_ROUNDS: Mapping[str, Check] = {
    "still": lambda value: value is True,  # where the direction was 0 in every coordinate
    "mu": _or_null(is_mu), "beta": _or_null(is_beta), "r2": _or_null(is_number), "evaluated": _or_null(is_found),
    "labels": _or_null(is_histogram), "accuracy_by_class": _each(is_share), "backdoor": is_share,
    "tolerance": _or_null(is_share), "votes": _or_null(_each(_or_null(is_finite))), "adapted": _each(is_finite),
    "attack_failed": lambda value: is_table(value) and is_count(value.get("acted")) and is_word(value.get("why")),
}  # fmt: skip
END: Mapping[str, Check] = {
    "why": is_word, "rounds": is_count, "worst_client": _or_null(is_count), "releases_of_worst": is_count,
    "epsilon": is_epsilon,
}  # fmt: skip
IN_SOME_ENDS: Mapping[str, Check] = {  # units: of runs whose messages are costed for several
    "mu": is_mu, "beta": is_beta, "units": is_units, "answers_of_worst": is_count,
    "labels_of_worst": is_count, "labels_possible": is_count,
    "releases_possible": is_count, "answers_possible": is_count,  # of those that ended early, and
    "of_rounds_done": lambda value: is_table(value) and is_epsilon(value.get("epsilon")),
}  # fmt: skip
TIMING: Mapping[str, Check] = {"round": is_count, "seconds": is_finite, "parts": _each(is_finite)}


def check(place: str, line: Line, wanted: Mapping[str, Check]) -> None:
    """Refuse a record line, naming its place, that lacks a name or holds under it what cannot stand there."""
    for name, fits in wanted.items():
        if name not in line:
            raise FedprivError(f"{place}: lacks {name!r}")
        if not fits(line[name]):
            raise FedprivError(f"{place}: {name} cannot be {json.dumps(line[name])[:60]}")


def check_run(place: str, line: Line) -> None:
    """Refuse a records file whose first line does not describe a run, or does in a format newer than this."""
    if line.get("kind") != "run" or type(line.get("format")) is not int:
        raise FedprivError(f'{place}: the first line must describe the run ("kind":"run") and name its format')
    if not 1 <= line["format"] <= FORMAT:
        raise FedprivError(f"{place}: records of format {line['format']}, where this version reads 1 to {FORMAT}")
    check(place, line, RUN)
    check(place, line, {name: fits for name, fits in IN_SOME_RUNS.items() if name in line})


def check_round(place: str, line: Line, expected: int) -> None:
    """Refuse a line of a run's records that is not, or does not describe, the round expected there."""
    if line.get("kind") != "round":
        raise FedprivError(f"{place}: must be a round, or an end that nothing follows, got kind {line.get('kind')!r}")
    check(place, line, ROUND)
    check(place, line, {name: fits for name, fits in IN_SOME_ROUNDS.items() if name in line})
    if line["round"] != expected:
        raise FedprivError(f"{place}: must be round {expected}, got {line['round']}")


def check_end(place: str, line: Line) -> None:
    """Refuse, as a run's records are read, a last line that does not say how the run ended."""
    check(place, line, END)
    check(place, line, {name: fits for name, fits in IN_SOME_ENDS.items() if name in line})
