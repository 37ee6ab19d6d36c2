"""Running a figure of [S] for so many minutes: its trainings in processes, what is finished already taken as it is."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from clients.data_identity import identity, in_words, same
from clients.pool import Pool
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.files import replaced
from server.live_line import LiveLine
from server.words import duration
from simulations.reproduce.stobatch_cells import Cell, Scale, cells, data, full
from simulations.reproduce.stobatch_published import ADLM, FIGURES, PIXELDP, PLAIN, SECURE, STOBATCH
from simulations.surroundings import cores

SCALE = "scale.json"
SEEDS = 3
SHORT = 4.0  # minutes, below which images take too long
KEPT = 10.0  # seconds for starting processes and for the page
TRUSTED = 0.5  # of the time that a pilot says there is: other programs run too
BEGINNING, RADIUS = 2.0, 0.1  # seconds before a training, and for a radius by the accountant's curve
PLAIN_DRAW = 0.35  # of a pass, forward and back, that a draw of noise takes

Found = list[dict[str, Any]]


def worked(
    name: str, out: Path, minutes: float | None, named: str | None, images: int | None = None
) -> tuple[Scale, Found, list[str]]:
    """Every training that the minutes allow: what is known of each by seed, and why some failed."""
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
    """Cells side by side, one seed's before the next one's, until all are done or the time is up."""
    line, failed = LiveLine(quiet=False), list[str]()
    crew = ProcessPoolExecutor(cores(), mp_context=multiprocessing.get_context("spawn"), initializer=_quiet)
    asked = [crew.submit(_one, (cell, scale, FIGURES[name].sizes, folder)) for cell in missing]
    try:
        left = None if until is None else max(until - time.monotonic(), 0.01)
        for done, found in enumerate(as_completed(asked, timeout=left), 1):
            failed += [why] if (why := found.result()) else []
            words = [] if until is None else [f"at most {duration(max(until - time.monotonic(), 0.0))} left"]
            line.show(f"training {done} of {len(missing)}", done / len(missing), words)
    except TimeoutError:
        pass
    except BrokenProcessPool:
        failed.append("a process that trained was killed, for want of memory perhaps: the same command goes on")
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on") from None
    finally:
        line.clear()
        for process in multiprocessing.active_children():
            process.kill()
        crew.shutdown(cancel_futures=True)
    return failed


def _quiet() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who began them ends them


def _one(task: tuple[Cell, Scale, tuple[float, ...], Path]) -> str:
    """One training in a process of its own; why it failed."""
    from simulations.reproduce.stobatch_measured import measured

    try:
        measured(*task)
    except FedprivError as error:
        return f"{task[0].title}: {error}"
    except FAULTS as error:
        return f"{task[0].title}: {reason(error)}"
    return ""


def _scale(name: str, out: Path, minutes: float | None, named: str | None, images: int | None) -> Scale:
    """What the directory was begun with, whatever the budget then was; else as large as the minutes allow.

    Another number of images is asked of the same trainings.
    """
    file = out / SCALE
    if file.is_file():
        begun = json.loads(file.read_text())
        if begun.pop("figure") != name:
            raise FedprivError(f"{out}: holds another figure than {name}: --out names another place")
        was = begun.pop("made", None)
        scale = Scale(**begun)
        _check_data(out, was, scale)
        if named is not None and scale.data != data(named)[0]:
            raise FedprivError(f"{out}: was begun on other data than {named}: --out names another place")
    else:
        table, digits = data("digits" if named is None and minutes is not None and minutes < SHORT else named)
        scale = full(table, digits)
        if minutes is not None:
            scale = _fitting(name, scale, 60 * minutes - KEPT)
    if images is not None:
        scale = replace(scale, images=_held_out(scale, images))
    out.mkdir(parents=True, exist_ok=True)
    made = identity(str(scale.data["kind"]), _pool(scale))
    replaced(file, json.dumps({"figure": name, "made": made, **asdict(scale)}).encode(), mode=0o644)
    return scale


def _check_data(out: Path, was: dict[str, Any] | None, scale: Scale) -> None:
    """Refuse to go on with trainings on other data, or on data that an earlier version did not name."""
    if was is None and scale.data["kind"] == "Digits":
        return  # there are no others
    now = identity(str(scale.data["kind"]), _pool(scale))
    if was is None or not same(was, now):
        there = "data that an earlier version did not name" if was is None else in_words(was)
        raise FedprivError(f"{out}: was begun on {there}; here are {in_words(now)}: --out names another place")


def _held_out(scale: Scale, images: int) -> int:
    """So many, if there are."""
    most = len(_pool(scale).x_test)
    if not 1 <= images <= most:
        raise FedprivError(f"--images: {most:,} are held out, got {images:,}")
    return images


def _pool(scale: Scale) -> Pool:
    from clients.data import make_data

    own = {name: value for name, value in scale.data.items() if name != "kind"}
    return make_data(str(scale.data["kind"]), own).load()


def _fitting(name: str, scale: Scale, seconds: float) -> Scale:
    """Fewer images and draws, then as many steps as there is time for."""
    unit, own = _unit(scale), cells(name, 1)
    passes = TRUSTED * max(seconds, 20) * cores() / unit
    scale = replace(scale, inner=3 if seconds > 120 else 2)
    for images, draws in ((scale.images, scale.draws), (200, 500), (100, 200), (50, 100), (20, 60)):
        scale = replace(scale, images=min(images, scale.images), draws=min(draws, scale.draws))
        asked = sum(_asking(cell, scale, len(FIGURES[name].sizes), unit) for cell in own)
        if asked < passes / 3:
            break
    steps = int((passes - asked) / sum(_step(cell, scale) for cell in own))
    return replace(scale, steps=max(5, min(steps, scale.steps)))


def _step(cell: Cell, scale: Scale) -> float:
    """Passes of a record, forward and back, in a step of training."""
    costs = {
        STOBATCH: scale.batch * (scale.inner + 4.0),
        ADLM: 2.0 * scale.batch,
        PIXELDP: scale.batch,
        PLAIN: scale.batch,
    }
    return costs.get(cell.method, 3.0 * min(scale.batch, scale.records / 4))


def _asking(cell: Cell, scale: Scale, sizes: int, unit: float) -> float:
    """And in what is asked afterwards, and goes before."""
    each, more = 35.0 * sizes, BEGINNING + RADIUS * scale.images * (cell.method == STOBATCH)
    if cell.method in (STOBATCH, PIXELDP, SECURE):
        each = each * 8 + PLAIN_DRAW * scale.draws * (4 * sizes + 1)
    return scale.images * 2 * each + more / unit


def _unit(scale: Scale) -> float:
    """Seconds of a pass, on this machine and now."""
    from clients.gradients import one_thread
    from clients.models import make_model

    one_thread()
    pool = _pool(scale)
    kind = {name: value for name, value in scale.model.items() if name != "kind"}
    net = make_model(str(scale.model["kind"]), kind).build(pool.shape, pool.classes, 1)
    x, y = pool.x_test[None, :128], pool.y_test[None, :128]
    out, times = np.empty((1, net.dimension), np.float32), list[float]()
    for _ in range(4):
        begun = time.perf_counter()
        net.gradients(net.initial(), x, y, out)
        times.append((time.perf_counter() - begun) / x.shape[1])
    return sorted(times)[-2]  # other programs run too
