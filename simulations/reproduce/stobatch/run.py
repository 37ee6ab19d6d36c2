"""Running a figure of [S] for so many minutes: its trainings by a crew, what is finished already taken as it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from clients.data.identity import data_identity, in_words, same_data
from fedpriv._base.files import replace_file
from fedpriv.errors import FAULTS, FedprivError, reason
from server.progress.live_line import LiveLine
from server.progress.words import duration_words
from simulations.flower.surroundings import usable_cores
from simulations.reproduce.stobatch._cells import Cell, Scale, cells, data, full
from simulations.reproduce.stobatch.published import ADLM, FIGURES, PIXELDP, PLAIN, SECURE, STOBATCH
from simulations.sweep.crew import Crew
from simulations.sweep.stop import Stop

SCALE = "scale.json"
SEEDS = 3  # at most
SHORT = 4.0  # minutes, below which images take too long
KEPT = 10.0  # seconds for starting processes and for the page
TRUSTED = 0.5  # of the time that a pilot says there is: other programs run too
BEGINNING = 2.0  # seconds before a training
RADIUS = 0.1  # seconds for a radius by the accountant's curve
PLAIN_DRAW = 0.35  # of a pass, forward and back, that a draw of noise takes

Found = list[dict[str, Any]]


def worked_trainings(
    name: str,  # of FIGURES
    out: Path,
    minutes: float | None,  # all that it may take; None: as long as it takes
    named: str | None,  # the data: a directory, or the word for digits; None: images if there are any
    images: int | None = None,  # held out, that are attacked and certified; None: as many as fit
) -> tuple[Scale, Found, list[str]]:
    """Run as many trainings of a figure of [S] as the minutes allow: results by seed, and why some failed."""
    until = None if minutes is None else time.monotonic() + max(60 * minutes - KEPT, 48 * minutes)
    scale = _scale(name, out, minutes, named, images)
    folder = out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    all_cells = [cell for seed in range(1, SEEDS + 1) for cell in cells(name, seed)]
    missing = [cell for cell in all_cells if not (folder / f"{scale.name(cell)}.json").is_file()]
    failed = _work(name, missing, scale, folder, until) if missing else []
    files = [folder / f"{scale.name(cell)}.json" for cell in all_cells]
    return scale, [json.loads(file.read_text()) for file in files if file.is_file()], failed


def _work(name: str, missing: list[Cell], scale: Scale, folder: Path, until: float | None) -> list[str]:
    """Run a figure's missing trainings side by side, seed after seed, until all are done or time is up: the faults."""
    jobs = [Training(cell, scale, FIGURES[name].sizes, folder) for cell in missing]
    ended, failed, line = 0, list[str](), LiveLine(quiet=False)
    try:
        with Stop() as stop, redirect_stdout(StringIO()):  # where Ray tells of workers that died
            crew = Crew(None, None)
            try:
                for done in crew.work(jobs):
                    stop.check()
                    if done is not None:
                        ended += 1
                        failed += [] if done.fault is None else [f"{done.job.title}: {done.fault}"]
                    left = (
                        [] if until is None else [f"at most {duration_words(max(until - time.monotonic(), 0.0))} left"]
                    )
                    line.show(f"training {ended} of {len(missing)}", ended / len(missing), left)
                    if until is not None and time.monotonic() > until:
                        break
            finally:
                line.clear()
                crew.close()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on") from None
    return failed


@dataclass(frozen=True)
class Training:
    """One training and what it is asked. See `simulations.sweep.crew.Job`."""

    cell: Cell
    scale: Scale
    sizes: tuple[float, ...]  # μ of the attacks, in ℓ∞
    folder: Path  # of what is found

    @property
    def id(self) -> str:
        """The name of this job's file of results, by which the crew tells it from other trainings."""
        return self.scale.name(self.cell)

    @property
    def title(self) -> str:
        """The training in words, for the crew's line of a training that failed."""
        return self.cell.title

    @property
    def alike(self) -> str:
        """Its own id, so the crew takes no training's time for another's, and the most telling come first."""
        return self.id

    def call(self) -> Callable[[], str | None]:
        """What a worker of the crew calls to run this training and keep what it found; gives why it failed."""
        return partial(_trained, self.cell, self.scale, self.sizes, self.folder.absolute())

    def died(self, fault: str) -> None:
        """Nothing: a training whose workers died leaves no file, so the same command tries it again."""


def _trained(cell: Cell, scale: Scale, sizes: tuple[float, ...], folder: Path) -> str | None:
    """Run a training in a worker of the crew, its results kept in `folder`; in a line why it failed, or None."""
    from simulations.reproduce.stobatch._measured import measured

    try:
        measured(cell, scale, sizes, folder)
    except FAULTS as error:
        return str(error) if isinstance(error, FedprivError) else reason(error)
    return None


def _scale(name: str, out: Path, minutes: float | None, named: str | None, images: int | None) -> Scale:
    """The scale a figure of [S] is run at: its directory's, if begun; else as large as the minutes allow, kept there.

    Another number of images is asked of the same trainings.
    """
    file = out / SCALE
    if file.is_file():
        begun = json.loads(file.read_text())
        if begun.pop("figure") != name:
            raise FedprivError(f"{out}: holds another figure than {name}: --out names another place")
        was = begun.pop("made", None)  # absent where an earlier version began it; of digits there are no others
        scale = Scale(**begun)
        now = data_identity(scale.data["kind"], scale.pool())
        unchanged = scale.data["kind"] == "Digits" if was is None else same_data(was, now)
        if not unchanged:
            there = "data that an earlier version did not name" if was is None else in_words(was)
            raise FedprivError(f"{out}: was begun on {there}; here are {in_words(now)}: --out names another place")
        if named is not None and scale.data != data(named)[0]:
            raise FedprivError(f"{out}: was begun on other data than {named}: --out names another place")
    else:
        table, digits = data("digits" if named is None and minutes is not None and minutes < SHORT else named)
        scale = full(table, digits)
        if minutes is not None:
            scale = _fitting(name, scale, 60 * minutes - KEPT)
    if images is not None:
        most = len(scale.pool().x_test)
        if not 1 <= images <= most:
            raise FedprivError(f"--images: {most:,} are held out, got {images:,}")
        scale = replace(scale, images=images)
    out.mkdir(parents=True, exist_ok=True)
    made = data_identity(scale.data["kind"], scale.pool())
    replace_file(file, json.dumps({"figure": name, "made": made, **asdict(scale)}).encode(), mode=0o644)
    return scale


def _asked_passes(own: Sequence[Cell], scale: Scale, sizes: int, unit: float) -> float:
    """How many passes of a record, forward and back, judging these trainings takes: to plan a budget."""
    asked = 0.0
    for cell in own:
        each, more = 35.0 * sizes, BEGINNING + RADIUS * scale.images * (cell.method == STOBATCH)
        if cell.method in (STOBATCH, PIXELDP, SECURE):
            each = each * 8 + PLAIN_DRAW * scale.draws * (4 * sizes + 1)
        asked += scale.images * 2 * each + more / unit
    return asked


def _fitting(name: str, scale: Scale, seconds: float) -> Scale:
    """A scale cut to so many seconds: fewer images and draws, then as many steps as there is time for."""
    unit, own, sizes = _unit(scale), cells(name, 1), len(FIGURES[name].sizes)
    passes = TRUSTED * max(seconds, 20) * usable_cores() / unit
    scale = replace(scale, inner=3 if seconds > 120 else 2)
    for images, draws in ((scale.images, scale.draws), (200, 500), (100, 200), (50, 100), (20, 60)):
        scale = replace(scale, images=min(images, scale.images), draws=min(draws, scale.draws))
        asked = _asked_passes(own, scale, sizes, unit)
        if asked < passes / 3:
            break
    batch = scale.batch
    costs = {STOBATCH: batch * (scale.inner + 4.0), ADLM: 2.0 * batch, PIXELDP: batch, PLAIN: batch}
    step = sum(costs.get(cell.method, 3.0 * min(batch, scale.records / 4)) for cell in own)  # passes in one of each
    return replace(scale, steps=max(5, min(int((passes - asked) / step), scale.steps)))


def _unit(scale: Scale) -> float:
    """The seconds of one record's pass through the scale's network, on this machine and now: to plan a budget by."""
    from clients.models import MODELS
    from clients.models.gradients import torch_on_one_thread

    torch_on_one_thread()
    pool = scale.pool()
    kind = {name: value for name, value in scale.model.items() if name != "kind"}
    net = MODELS.made(str(scale.model["kind"]), kind).build(pool.shape, pool.classes, 1)
    x, y = pool.x_test[None, :128], pool.y_test[None, :128]
    out, times = np.empty((1, net.dimension), np.float32), list[float]()
    for _ in range(4):
        begun = time.perf_counter()
        net.gradients(net.initial(), x, y, out)
        times.append((time.perf_counter() - begun) / x.shape[1])
    return sorted(times)[-2]  # other programs run too
