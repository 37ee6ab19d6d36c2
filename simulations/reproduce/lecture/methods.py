"""Which studies the figure of [L] on DP-SGD sets side by side: plain, and with each improvement that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import log
from typing import Any

from clients.data import Digits, Idx
from fedpriv._base.tables import Table
from fedpriv.errors import FedprivError
from simulations.reproduce.lecture import ABOUT

POINT = "point"  # the axis of its grid: a way to train, at an ε
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
ALL = 1000.0  # an ε at which there is next to no noise
SEEDS = 3
SMALL, LARGE = (0.1, 100), (1.0, 60)  # of digits: the share of the records in a step, and steps
IMAGES = (256 / 60_000, 600), (0.05, 300)
CLIP = 0.5


@dataclass(frozen=True)
class Method:
    """One way to train: what is other than in plain DP-SGD on small batches."""

    steps: tuple[float, float]  # of the server: up to ε = 1, and from ε = 4
    server: Mapping[str, Any] = field(default_factory=dict)
    release: Mapping[str, Any] = field(default_factory=dict)
    large: bool = False  # its batches

    def step(self, epsilon: float) -> float:
        """The server's step at an ε: between the two, in proportion to their logarithms.

        >>> Method((0.25, 1.0)).step(2.0), Method((0.25, 1.0)).step(8.0)
        (0.5, 1.0)
        """
        low, high = self.steps
        return round(low * (high / low) ** min(max(log(epsilon, 4), 0.0), 1.0), 4)


MOMENTUM = {"momentum": 0.9}
ADAM = {"optimiser": {"kind": "Adam", "second": 0.99}}
METHODS = {  # the steps were chosen on 300 of the digits to train on
    "SGD": Method((2.0, 4.0)),
    "momentum": Method((0.2, 0.5), MOMENTUM),
    "Adam": Method((0.05, 0.05), ADAM),
    "adaptive clipping": Method((0.05, 0.5), MOMENTUM, {"kind": "AdaptiveDpSgd", "clip": 1.0, "count_noise": 14.0}),
    "private steps and noise": Method((0.05, 0.05), ADAM, {"shape": "ellipsoid"}),
    "step decay": Method((0.5, 1.0), MOMENTUM | {"schedule": "cosine", "to": 0.1}),
    "noise decay": Method((0.2, 0.5), MOMENTUM, {"schedule": "linear", "to": 0.5}),
    "large batches": Method((0.5, 2.0), MOMENTUM, large=True),
}
LAST = "large batches"  # which is run without noise too


def point_label(method: str, epsilon: float) -> str:
    """What a way to train at an ε is called in the grid of the lecture's figure."""
    return f"{method}, ε = {epsilon:g}"


POINTS = [(method, epsilon) for epsilon in EPSILONS for method in METHODS] + [(LAST, ALL)]


def lecture_studies(name: str, minutes: float | None, workers: int, data: str | None = None) -> Table:
    """The figure of [L] as a study with a [sweep]: on digits, or on the idx files of images in a directory."""
    if data in (None, "digits"):
        digits = Digits()
        records, table, (small, large) = len(digits.load()), {"kind": "Digits", **asdict(digits)}, (SMALL, LARGE)
    else:
        images = Idx(path=data, divide=255.0, subtract=0.3).resolved()
        if (records := len(images.load())) < 10_000:
            raise FedprivError(f"--data {data}: {name} needs 10,000 images to train on, got {records:,}")
        table = {"kind": "Idx", "path": images.path, "divide": images.divide, "subtract": images.subtract}
        small, large = IMAGES
    return {
        "name": name, "about": ABOUT, "data": table, "clients": {"count": 1, "records": records},
        "training": {"model": {"kind": "Logistic"}}, "run": {"rounds": 1, "checkpoint_every": 1000},
        "privacy": {"delta": DELTA, "release": {"kind": "DpSgd", "clip": CLIP, "sampling": 1.0}},
        "sweep": {
            "run.seed": list(range(1, SEEDS + 1)),
            POINT: [_point(each, epsilon, *(large if METHODS[each].large else small)) for each, epsilon in POINTS],
        },
    }  # fmt: skip


def _point(method: str, epsilon: float, sampling: float, rounds: int) -> Table:
    """A way to train at an ε, as a value of the grid's axis: the settings that are its own, by dotted path."""
    own = METHODS[method]
    return {
        "label": point_label(method, epsilon), "privacy.epsilon": epsilon,
        "privacy.release": {"kind": "DpSgd", "clip": CLIP, "sampling": sampling, **own.release},
        "server": {"step": own.step(epsilon), **own.server},
        "run": {"rounds": rounds, "evaluate_every": rounds},
    }  # fmt: skip
