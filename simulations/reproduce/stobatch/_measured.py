"""One training of [S]'s figures and what it is asked: accuracy, accuracy under attack, certified accuracy."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from clients.models.gradients import blocks, torch_on_one_thread
from clients.models.randomised import as_trained, network_of
from clients.robustness.attacked import WORST, accuracies, attacked
from clients.robustness.certifying import Terms, Verdict, verdicts
from clients.robustness.stobatch import smoothed
from clients.training.prepared import Prepared
from fedpriv._base.files import replaced
from fedpriv._base.tables import toml
from fedpriv.certified import GaussianSmoothing, Smoothing
from fedpriv.certified.smoothing import in_linf
from fedpriv.releases.kept import mechanism_of
from fedpriv.studies import file as study_file
from server import rounds
from server.directory import STUDY, checkpoint
from server.directory.checkpoint import State
from server.rounds import planned
from simulations.reproduce.stobatch._cells import Cell, Scale, study
from simulations.reproduce.stobatch._printed import as_printed, noise_of_inputs
from simulations.reproduce.stobatch.published import PRINTED, STOBATCH
from simulations.runs.direct import Here

RADII = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # in ℓ∞
CONFIDENCE, PSI = 0.999, 2.0  # of each verdict; ψ, what StoBatch's noise is divided by in use


class Judged(NamedTuple):
    """A trained network as it is in use, and what its noise certifies where it has any."""

    network: nn.Module
    smoothing: Smoothing | None


def measured(cell: Cell, scale: Scale, sizes: Sequence[float], folder: Path) -> dict[str, Any]:
    """Train and ask, or read what was found before."""
    file = folder / f"{scale.name(cell)}.json"
    if file.is_file():
        known: dict[str, Any] = json.loads(file.read_text())
        return known
    torch_on_one_thread()
    begun = time.monotonic()
    plan = planned(study_file.parsed(toml(study(cell, scale))))
    judged, epsilon = _trained(cell, plan, folder / scale.trained(cell))
    seconds = time.monotonic() - begun
    found = {"cell": asdict(cell), "seconds": seconds, "example_epsilon": epsilon}
    found |= _asked(judged, plan, scale, sizes) | {"asked_seconds": time.monotonic() - begun - seconds}
    replaced(file, json.dumps(found).encode(), mode=0o644)
    return found


def _trained(cell: Cell, plan: Prepared, place: Path) -> tuple[Judged, float | None]:
    """The network, and the certified ε of an example; None where nothing protects it."""
    if cell.draw == PRINTED:
        as_printed(plan, place)
        return _judged(cell, plan, _weights(plan, place), noise_of_inputs(plan)), None
    driver = Here()
    result = rounds.run(plan.study, place, driver, resume=(place / STUDY).is_file(), quiet=True)
    epsilon = inf if result["epsilon"] is None else float(result["epsilon"]["upper"])
    return _judged(cell, plan, _weights(plan, place), None), epsilon if epsilon < inf else None


def _weights(plan: Prepared, place: Path) -> np.ndarray[Any, np.dtype[np.float32]]:
    state = checkpoint.load(place, plan.study.id, State.begun(plan.study, plan.net.initial()))
    assert state is not None  # the run has ended
    return state.weights.astype(np.float32)


def _judged(cell: Cell, plan: Prepared, weights: Any, kept: torch.Tensor | None) -> Judged:
    network = network_of(plan.net, weights)
    noised: tuple[nn.Module, Smoothing | None] = as_trained(network, plan.pool.shape) or (network, None)
    if cell.method == STOBATCH and (own := plan.study.privacy.kept) is not None:
        noised = smoothed(network, plan.pool.shape, mechanism_of(own).noise, PSI)
    judged, smoothing = noised
    return Judged(judged if kept is None else nn.Sequential(_Shifted(kept), judged).eval(), smoothing)


class _Shifted(nn.Module):
    """The one noise that all examples of training had: without it the network has never seen such inputs."""

    def __init__(self, by: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("by", by)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and that noise."""
        by: Any = self.by
        moved: torch.Tensor = x + by
        return moved


def _asked(judged: Judged, plan: Prepared, scale: Scale, sizes: Sequence[float]) -> dict[str, Any]:
    x, y = plan.pool.x_test[: scale.images], plan.pool.y_test[: scale.images]
    smoothing = judged.smoothing or GaussianSmoothing(noise=1.0)  # which nothing is judged by where there is none
    terms = Terms(smoothing=smoothing, draws=scale.draws, confidence=CONFIDENCE)
    found: dict[str, Any] = {"images": len(x)}
    if judged.smoothing is None:
        with torch.inference_mode():
            taken = torch.cat([judged.network(torch.tensor(x[part])).argmax(1) for part in blocks(len(x), 256)])
        found["accuracy"] = float((taken.numpy() == y).mean())
    else:
        own = list(verdicts(judged.network, x, terms))
        found["accuracy"] = float(np.mean([verdict.best == label for verdict, label in zip(own, y, strict=True)]))
        found |= _certified(own, y, judged.smoothing, x[0].size)
    under = {str(size): _under(judged.network, x, y, terms, size) for size in sizes}
    return found | {"under": under}


def _under(network: nn.Module, x: Any, y: Any, terms: Terms, size: float) -> dict[str, Any]:
    """Accuracy under each attack, under the worst of them for each image, and what they do not surely mislead.

    And, image by image, the share of the attacks that it withstands.
    """
    every = [one for each in attacked(network, x, y, terms, size) for one in each]
    right, found = np.zeros(len(x)), accuracies(every, y)
    for one in every:
        right[one.image] += one.best == y[one.image]
    withstood = (right * len(x) / len(every)).tolist()
    shares = {name: own for name, (own, _) in found.items()}
    return shares | {"not_surely_wrong": found[WORST][1], "withstood": withstood}


def _certified(own: Sequence[Verdict], y: Any, smoothing: Smoothing, dimension: int) -> dict[str, Any]:
    """Certified accuracy by the radius in ℓ∞, by ours and by the one that the paper prints."""
    right = np.array([verdict.prediction == label for verdict, label in zip(own, y, strict=True)])
    ours, theirs = (
        np.array([in_linf(getattr(verdict, name), smoothing.norm, dimension) for verdict in own])
        for name in ("radius", "published")
    )
    return {
        "certified": {str(radius): float((right & (ours >= radius)).mean()) for radius in RADII},
        "as_published": {str(radius): float((right & (theirs >= radius)).mean()) for radius in RADII},
    }
