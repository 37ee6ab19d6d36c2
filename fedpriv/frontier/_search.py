"""Settings tried for one mechanism, each calibrated to the target, by the names of its fields: so new kinds fit in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from itertools import product
from math import inf, sqrt
from typing import Any

from fedpriv.accounting.calibration import calibrate
from fedpriv.errors import FedprivError
from fedpriv.frontier.candidates import CLIP, Candidate, Target, candidate_of
from fedpriv.mechanisms import MECHANISMS
from fedpriv.trust import Word

TRIED: Mapping[str, tuple[float, ...]] = {  # every combination is a point of the frontier; another one is calibrated
    "trials": (1, 3, 7, 15, 31, 63),  # as many votes as their bits can count
    "levels": (1, 2, 8, 32, 128, 512),
    "spread": (8 * CLIP, 4 * CLIP, 2 * CLIP, CLIP, CLIP / 2, CLIP / 4),
}
PEAKS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0)  # in clip/√d, below the clip itself
BEGUN = 4  # the place in PEAKS that is tried first: one coordinate in 370 of a sphere is larger
BETTER = 0.998  # of the error: calibration meets ε to a thousandth, so that less is no difference
SETTLED = 0.1  # of the noise: less bias than that is worth no more levels


def candidates_of(target: Target, kind: str, word: Word) -> Iterator[Candidate]:
    """The calibrated mechanisms of a kind under a trust, a point of the frontier each, at the peak of least error.

    Raises what refuses the first of them, where none meets the target.
    """
    refused: list[FedprivError] = []
    found = None
    for settings in settings_tried(kind):
        try:
            found = _at_best_peak(target, kind, settings, word, found)
        except FedprivError as error:
            refused.append(error)
            continue
        yield found
        own = found.mechanism  # where a grid's coordinates are costed one by one, levels change no noise
        boxed = hasattr(own, "grid") and own.vector(target.dimension, "replace") is None
        if boxed and found.error is not None and found.error.bias <= SETTLED * found.error.noise:
            return
    if found is None:
        raise min(refused, key=lambda error: getattr(error, "best", inf))


def settings_tried(kind: str) -> list[dict[str, float]]:
    """What is tried of all settings that a kind needs beside clip, peak and the one that is calibrated."""
    cls = MECHANISMS.named(kind)
    needed = [own.name for own in fields(cls) if own.default is MISSING and own.name != "clip"]
    changing = [name for name in needed if name in cls.effects]
    if not changing:
        raise FedprivError("nothing that it needs to be told changes its ε")
    free = next((name for name in changing if name not in TRIED), changing[-1])
    others = [name for name in needed if name != free]
    if unknown := [name for name in others if name not in TRIED]:
        raise FedprivError(f"what {', '.join(unknown)} should be is not known to a search")
    return [dict(zip(others, own, strict=True)) for own in product(*(TRIED[name] for name in others))]


def _at_best_peak(
    target: Target, kind: str, settings: Mapping[str, float], word: Word, before: Candidate | None
) -> Candidate:
    """The candidate of these settings at the peak with the least error: downhill from that of the settings before.

    A smaller peak says less of each coordinate, so that less noise hides it, and cuts more off.
    """
    if "peak" not in [own.name for own in fields(MECHANISMS.named(kind))]:
        return _calibrated(target, kind, settings, word)
    unit = CLIP / sqrt(target.dimension)
    peaks = [*(float(f"{each * unit:.3g}") for each in PEAKS if each * unit < 0.99 * CLIP), CLIP]
    place = peaks.index(before.mechanism.peak) if before else min(BEGUN, len(peaks) - 1)
    best = _calibrated(target, kind, {**settings, "peak": peaks[place]}, word)
    for row in (peaks[:place][::-1], peaks[place + 1 :]) if best.error is not None else ():
        first = best
        for peak in row:
            try:
                beside = _calibrated(target, kind, {**settings, "peak": peak}, word)
            except FedprivError:  # a peak above the spread
                break
            if not beside.distance < BETTER * best.distance:
                break
            best = beside
        if best is not first:
            break
    return best


def _calibrated(target: Target, kind: str, settings: Mapping[str, Any], word: Word) -> Candidate:
    """The candidate of these settings, its free one calibrated to the target."""
    mechanism, cost = calibrate(
        kind, {"clip": CLIP, **settings}, lambda own: target.event(own, word), epsilon=target.epsilon,
        delta=target.delta,
    )  # fmt: skip
    return candidate_of(target, mechanism, word, cost)
