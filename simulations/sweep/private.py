"""One cell of a grid chosen at a certified ε: what `fedpriv sweep --private` and `fp.sweep_private` do.

A secret number of trials, each of a cell drawn by lot, run one after the other; the best by accuracy is let out, and
nothing of the others. docs/proofs/choosing.md has what that costs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, floor, log, log10
from pathlib import Path
from typing import Any

from clients.training.prepared import net_of, pool_of
from fedpriv._base.own_modules import look_for_modules
from fedpriv._base.spelling import rounded_up, short_number
from fedpriv.accounting.event import Event
from fedpriv.accounting.selection import Selection, TrialLaw, epsilon_of_all
from fedpriv.curves.compose import Bounds
from fedpriv.errors import FedprivError, positive, probability
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.file import Changes, changes_by_path
from fedpriv.studies.promise import events_in_all
from fedpriv.studies.study import Study
from simulations.runs.directory import next_free
from simulations.sweep._axes import Axis, axes_of
from simulations.sweep._trials import best_trial, check_selection_directory, opened_selection
from simulations.sweep.grid import SEED, Grid, grid_of
from simulations.sweep.stop import Stop
from simulations.sweep.sweeping import resolved_cells

__all__ = ["check_selection_directory", "priced_offer", "run_selection", "sweep_private"]

File = str | os.PathLike[str]
TRIALS = 10.0  # on average, unless said
TARGET = "privacy.epsilon"  # what the choice itself gives all cells
SETTLED = (TARGET, SEED)  # axes that nothing is chosen by: they are left out
ALIKE = (  # what all trials must share for one ε to speak of all of them; what of `privacy` is no promise may vary
    "data", "clients", "masking", "corruption", "evaluation", "server.retries", "privacy.delta", "privacy.trust",
    "privacy.unit", "privacy.adjacency", "privacy.budget", "privacy.noise", "privacy.colluding", "privacy.dropouts",
    *SETTLED,
)  # fmt: skip
FREE = "data.features"  # which are of each record by itself
CLOSE = 0.995  # of the target, as near as the cells' own ε is sought
GUESSES = 60  # at the cells' own ε
DIGITS = 4  # it is written with
SEEN = "for whoever sees only what is let out; who runs the trials, or times them, sees more"


@dataclass(frozen=True, eq=False)
class Offer:
    """What is chosen from, and at what price: cells ready to be run, and what one trial and the choice cost."""

    grid: Grid
    left_out: tuple[str, ...]  # axes of the study's grid that nothing is chosen by
    law: TrialLaw
    trials: tuple[tuple[Event, ...], ...]  # what a run of each cell gives away, of each client that may be the worst
    delta: float

    @property
    def epsilon(self) -> Bounds:
        """ε of the choice, from both sides; from below only where one client is the worst of every cell."""
        selection = Selection(self.law, self.trials)
        if len(self.trials) > len(self.grid.cells):
            return Bounds(0.0, selection.upper_epsilon(self.delta))
        return selection.epsilon(self.delta).bounds

    @property
    def facts(self) -> dict[str, Any]:
        """What is known before any trial: ε of the choice, of one trial, and of looking at as many, or at all cells."""
        counts, runs, cells = Counter(self.trials), round(self.law.mean), len(self.grid.cells)
        event, privacy = self.trials[0][0], self.grid.cells[0].study.privacy
        as_many = max(epsilon_of_all({events: runs}, self.delta) for events in counts)
        return {
            "name": self.grid.name, "cells": cells, "left_out": list(self.left_out),
            "trials": {"mean": self.law.mean, "law": "geometric"},
            "epsilon": self.epsilon._asdict(), "delta": self.delta,
            "unit": event.unit, "adjacency": event.adjacency, "trust": privacy.trust, "seen": SEEN,
            "own_epsilon": max(epsilon_of_all({events: 1}, self.delta) for events in counts),
            "looking_at": [
                {"runs": runs, "epsilon": as_many},
                {"runs": cells, "epsilon": epsilon_of_all(counts, self.delta)},
            ],
        }  # fmt: skip


def sweep_private(
    study: Study | File | Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]] | None = None,
    directory: File | None = None,
    *,
    epsilon: float,
    delta: float | None = None,
    trials: float = TRIALS,
    overrides: Changes = (),
) -> dict[str, Any]:
    """Choose one cell of a grid at a certified ε, and train it: what was chosen, and what choosing it cost.

    Every cell's noise is calibrated so that the choice as a whole costs at most ε at δ (the study's, unless given). A
    secret number of trials, so many on average, each of a cell drawn by lot, run one after the other; the best by its
    accuracy is let out into the directory: selection.json, selected.toml and model.npz. Nothing of the others is kept.
    Study, grid, directory and overrides are as in `sweep`.

    >>> import fedpriv as fp, tempfile
    >>> few, steps = {"clients.count": 60, "run.rounds": 1}, {"server.step": [1.0, 4.0]}
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = fp.sweep_private("digits", steps, f"{place}/one", epsilon=4, trials=2, overrides=few)
    >>> 3.9 < found["epsilon"]["upper"] <= 4, found["place"]["server.step"] in ("1.0", "4.0")
    (True, True)
    """
    if not isinstance(study, Study | Mapping):
        study = os.fspath(study)
        look_for_modules(Path() if "\n" in study else Path(study).parent)
    out = None if directory is None else Path(directory)
    if out is not None:
        check_selection_directory(out)
    return run_selection(priced_offer(study, overrides, grid, epsilon=epsilon, delta=delta, trials=trials), out)


def run_selection(offer: Offer, out: Path | None) -> dict[str, Any]:
    """Draw and run an offer's trials, and let out the best into `out`: what `fedpriv sweep --private --json` prints."""
    out = out or next_free(offer.grid.name)[0]
    with opened_selection(out, {"directory": str(out), **offer.facts}) as let_out:
        return let_out(best_trial(offer.grid.cells, offer.law, cryptographic_generator()))


def priced_offer(
    source: str | Study | Mapping[str, Any],
    overrides: Changes = (),
    axes_given: Mapping[str, Any] | None = None,
    *,
    epsilon: float,
    delta: float | None = None,
    trials: float = TRIALS,
) -> Offer:
    """A study's grid, its cells' noise calibrated so that choosing one of them privately costs ε at δ at most."""
    positive(epsilon=epsilon)
    law = TrialLaw.geometric(trials)
    given = {TARGET: epsilon}
    if delta is not None:
        probability(delta=delta)
        given["privacy.delta"] = delta
    grid, left_out = grid_to_choose_from(source, changes_by_path(overrides), axes_given, given)
    _ = resolved_cells(grid, True, Stop())  # what no ε would make right is refused by the cell's name
    dimensions = [dimension_to_price(cell.study) for cell in grid.cells]
    delta = grid.cells[0].study.privacy.delta

    def trials_at(own: float) -> tuple[tuple[Event, ...], ...]:
        """What a run of each cell gives away where each costs so much by itself."""
        studies = (study_costing(cell.study, own) for cell in grid.cells)
        each = (
            events_in_all(calibrated_study(study, dim), dim) for study, dim in zip(studies, dimensions, strict=True)
        )
        return tuple(events for several in each for events in several)

    own = largest_own_epsilon(trials_at, law, epsilon, delta)
    cells = resolved_cells(grid.each(lambda study: study_costing(study, own)), True, Stop())
    return Offer(cells, left_out, law, trials_at(own), delta)


def study_costing(study: Study, own: float) -> Study:
    """A cell's study of a private choice, to be calibrated to this ε by itself."""
    return replace(study, privacy=replace(study.privacy, epsilon=own))


def dimension_to_price(study: Study) -> int:
    """The coordinates of an update of a cell's study; refused where no ε of a private choice speaks of its trial."""
    check_messages_alone(study)
    pool = pool_of(study)
    if not len(pool.y_test) and study.evaluation is None:
        raise FedprivError("there is no accuracy to choose by: data.held_out, or an [evaluation]")
    if study.privacy.budget is not None:
        raise FedprivError("privacy.budget ends a run by what it has spent: --private takes --epsilon in its place")
    return net_of(study, pool).dimension


def check_messages_alone(study: Study) -> None:
    """Refuse, of a private choice, a study that takes clients' records past the messages that are charged."""
    attack = study.attacker
    if getattr(attack, "source", None) is not None and hasattr(attack, "informed"):
        raise FedprivError(
            "attack: with a source its attackers train on other clients' records, which no message of theirs is "
            "charged for, and no ε of a choice covers what comes of it: no source, or another attack"
        )


def grid_to_choose_from(
    source: str | Study | Mapping[str, Any],
    changes: list[tuple[str, Any]],
    axes_given: Mapping[str, Any] | None,
    given: Mapping[str, Any],  # ε and δ
) -> tuple[Grid, tuple[str, ...]]:
    """The grid of a private choice, whose cells differ in nothing that a promise is of, and the axes left out for that.

    Noise is the operating system's, so that no two trials share any; a round is never asked again, which would be one
    release more.
    """
    whole = grid_of(source, dict(changes), axes_given)
    axes = axes_of(whole.table["sweep"])
    for axis in (*axes, *whole.chosen):
        check_shared_settings(axis)
    left_out = tuple(axis.path for axis in axes if axis.path in SETTLED)
    kept = {path: own for path, own in whole.table["sweep"].items() if path not in SETTLED}
    if not any(axis.path in kept for axis in axes):
        raise FedprivError(f"{whole.file}: nothing is left to choose from: its [sweep] varies {' and '.join(left_out)}")
    changes = [(path, value) for path, value in changes if not path.startswith("sweep.")]
    forced = {**given, "privacy.noise": "cryptographic", "server.retries": 0, SEED: whole.seeds[0]}
    return grid_of(source, {**dict(changes), **forced}, kept), left_out


def check_shared_settings(axis: Axis) -> None:
    """Refuse an axis of a private choice over what all its trials must share, naming the setting."""
    for path in sorted(axis.paths - ({axis.path} & set(SETTLED))):
        alike = next((own for own in ALIKE if f"{path}.".startswith(f"{own}.")), None)
        if alike is not None and not f"{path}.".startswith(f"{FREE}."):
            raise FedprivError(
                f"sweep: {axis.path} varies {path}, and --private chooses among trials of the same clients, records "
                f"and promise, or no one ε would speak of them all: one value of {alike}"
            )


def largest_own_epsilon(
    trials_at: Callable[[float], tuple[tuple[Event, ...], ...]], law: TrialLaw, epsilon: float, delta: float
) -> float:
    """The largest ε, nearly, that each cell may cost by itself for a private choice to cost at most the target."""

    def cost_at(own: float) -> float:
        """The certified ε of the choice where each cell costs so much by itself."""
        return Selection(law, trials_at(own)).upper_epsilon(delta)

    if (most := cost_at(epsilon)) <= epsilon:
        return epsilon
    low, high, found, why = 0.0, epsilon, 0.0, ""
    guess = epsilon * epsilon / most
    for _ in range(GUESSES):
        own = shortened_epsilon(guess if low < guess < high else (low + high) / 2)
        try:
            cost = cost_at(own)
            guess = own * epsilon / cost * (1 + CLOSE) / 2
        except FedprivError as error:  # so little no noise of theirs costs
            low, why, guess = own, str(error), 0.0
        else:
            if cost <= epsilon:
                low = found = own
            else:
                high = own
            if found and (cost >= CLOSE * epsilon or low > CLOSE * high):
                return found
        if low > CLOSE * high:
            break
    raise unpaid_trials(trials_at(high), law, epsilon, delta, why)


def shortened_epsilon(own: float) -> float:
    """The ε that cells of a private choice are calibrated to, in few digits, rounded down.

    >>> shortened_epsilon(5.35793)
    5.357
    """
    scale = 10.0 ** (DIGITS - 1 - floor(log10(own)))
    return floor(own * scale) / scale


def unpaid_trials(
    trials: tuple[tuple[Event, ...], ...], law: TrialLaw, epsilon: float, delta: float, why: str
) -> FedprivError:
    """The error of a private choice that cannot be so cheap: what it needs, and how many trials could be paid for."""
    needed = Selection(law, trials).upper_epsilon(delta)
    low, high = 0.0, log(law.mean)
    affords = "no trial at all"
    if Selection(TrialLaw.geometric(1), trials).upper_epsilon(delta) <= epsilon:
        while high - low > 1e-3:
            middle = (low + high) / 2
            fits = Selection(TrialLaw(gamma=exp(-middle)), trials).upper_epsilon(delta) <= epsilon
            low, high = (middle, high) if fits else (low, middle)
        affords = f"--trials {short_number(floor(100 * exp(low)) / 100)}"
    return FedprivError(
        f"--epsilon {short_number(epsilon)} does not pay for {short_number(law.mean)} trials on average, which need "
        f"{rounded_up(needed)}: it pays for {affords}{f' ({why})' * bool(why)}"
    )
