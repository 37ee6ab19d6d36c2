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

from clients.models.arrays import Floats
from clients.models.gradients import block_slices, torch_on_one_thread
from clients.models.randomised import as_trained, network_of
from clients.robustness.attacked import WORST, accuracies_under, attacked_images
from clients.robustness.certifying import Terms, verdicts_of
from clients.robustness.stobatch import smoothed_network
from clients.training.prepared import Prepared
from fedpriv._base.files import replace_file
from fedpriv._base.tables import toml_text
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
CONFIDENCE = 0.999  # of each verdict
PSI = 2.0  # ψ, what StoBatch's noise is divided by in use


class Judged(NamedTuple):
    """A trained network as it is in use."""

    network: nn.Module
    smoothing: Smoothing | None  # its noise, and so what it certifies; None where it has none


def measured(cell: Cell, scale: Scale, sizes: Sequence[float], folder: Path) -> dict[str, Any]:
    """Train a cell of [S]'s figures and ask its network for accuracies, or read what an earlier time found."""
    file = folder / f"{scale.name(cell)}.json"
    if file.is_file():
        known: dict[str, Any] = json.loads(file.read_text())
        return known
    torch_on_one_thread()
    begun = time.monotonic()
    plan, place = planned(study_file.parsed_study(toml_text(study(cell, scale)))), folder / scale.trained(cell)
    epsilon = inf  # of an example, certified: nothing protects it where noise is drawn as printed
    if cell.draw == PRINTED:
        as_printed(plan, place)
        judged = _judged(cell, plan, _weights(plan, place), noise_of_inputs(plan))
    else:
        result = rounds.run_rounds(plan.study, place, Here(), resume=(place / STUDY).is_file(), quiet=True)
        epsilon = inf if result["epsilon"] is None else float(result["epsilon"]["upper"])
        judged = _judged(cell, plan, _weights(plan, place), None)
    seconds = time.monotonic() - begun
    found = {"cell": asdict(cell), "seconds": seconds, "example_epsilon": epsilon if epsilon < inf else None}
    found |= _asked(judged, plan, scale, sizes) | {"asked_seconds": time.monotonic() - begun - seconds}
    replace_file(file, json.dumps(found).encode(), mode=0o644)
    return found


def _weights(plan: Prepared, place: Path) -> Floats:
    """The weights that a training of [S]'s figures has ended with, from its checkpoint."""
    state = checkpoint.load_checkpoint(place, plan.study.id, State.begun(plan.study, plan.net.initial()))
    assert state is not None  # the run has ended
    return state.weights.astype(np.float32)


def _judged(cell: Cell, plan: Prepared, weights: Floats, kept: torch.Tensor | None) -> Judged:
    """A trained network of [S]'s figures as it is asked: with its robust noise, and what that certifies.

    `kept` is the one noise that all examples of training had, if they had one: it is added to inputs, too.
    """
    network = network_of(plan.net, weights)
    noised: tuple[nn.Module, Smoothing | None] = as_trained(network, plan.pool.shape) or (network, None)
    if cell.method == STOBATCH and (own := plan.study.privacy.kept) is not None:
        noised = smoothed_network(network, plan.pool.shape, mechanism_of(own).noise, PSI)
    judged, smoothing = noised
    return Judged(judged if kept is None else nn.Sequential(_Shifted(kept), judged).eval(), smoothing)


class _Shifted(nn.Module):
    """The one noise that all examples of training had: without it the network has never seen such inputs."""

    by: torch.Tensor

    def __init__(self, by: torch.Tensor) -> None:
        """A first layer for a network that was trained with one noise in all examples: that noise."""
        super().__init__()
        self.register_buffer("by", by)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add to inputs the one noise that the network was trained with, before it classifies them."""
        return x + self.by


def _asked(judged: Judged, plan: Prepared, scale: Scale, sizes: Sequence[float]) -> dict[str, Any]:
    """A trained network's accuracy, under attacks of each size, and certified by radius where its noise certifies."""
    x, y = plan.pool.x_test[: scale.images], plan.pool.y_test[: scale.images]
    smoothing = judged.smoothing or GaussianSmoothing(noise=1.0)  # which nothing is judged by where there is none
    terms = Terms(smoothing=smoothing, draws=scale.draws, confidence=CONFIDENCE)
    found: dict[str, Any] = {"images": len(x)}
    if judged.smoothing is None:
        with torch.inference_mode():
            taken = torch.cat([judged.network(torch.tensor(x[part])).argmax(1) for part in block_slices(len(x), 256)])
        found["accuracy"] = float((taken.numpy() == y).mean())
    else:
        own = list(verdicts_of(judged.network, x, terms))
        found["accuracy"] = float(np.mean([verdict.best == label for verdict, label in zip(own, y, strict=True)]))
        right = np.array([verdict.prediction == label for verdict, label in zip(own, y, strict=True)])
        for name, field in (("certified", "radius"), ("as_published", "published")):  # as proved, as the paper prints
            reach = np.array([in_linf(getattr(verdict, field), smoothing.norm, x[0].size) for verdict in own])
            found[name] = {str(radius): float((right & (reach >= radius)).mean()) for radius in RADII}
    under = {}
    for size in sizes:
        every = [one for each in attacked_images(judged.network, x, y, terms, size) for one in each]
        right, shares = np.zeros(len(x)), accuracies_under(every, y)
        for one in every:
            right[one.image] += one.best == y[one.image]
        withstood = (right * len(x) / len(every)).tolist()  # of each image, the share of the attacks
        taken_right = {name: share for name, (share, _) in shares.items()}
        under[str(size)] = taken_right | {"not_surely_wrong": shares[WORST][1], "withstood": withstood}
    return found | {"under": under}
