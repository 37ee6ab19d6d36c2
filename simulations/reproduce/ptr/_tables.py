"""[P] Tables 1, 3 and 4 on the data that are there: which studies each of them sets side by side.

TSGD+Gaussian, DPSGD and TSGD+PTR at equal ε, under corruptions of records. A table is a grid of studies, as those of
`fedpriv sweep`; its directory is a sweep's.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from clients.data import Digits, Idx
from clients.data.identity import data_digest, data_title
from fedpriv._base.tables import Table
from fedpriv.errors import FedprivError
from fedpriv.studies.study import Study
from simulations.reproduce.ptr.tables_published import DPSGD, GAUSSIAN, PTR, RELEASES, TABLES

# the axes of a table's grid
CORRUPTION = "corruption"
EPSILON = "privacy.epsilon"
RELEASE = "privacy.release"
DIGITS = "digits"  # the data that are always there
BOUND = 0.5  # τ/R

ACTS: dict[str, dict[str, Any]] = {
    "label": {"kind": "RandomLabel"},
    "feature": {"kind": "FeatureNoise", "deviation": 10.0},
    "gradient": {"kind": "RandomNoise", "deviation": 10.0},
    "targeted label": {"kind": "LabelFlip"},
    "gradient sign": {"kind": "SignFlip"},
}
MEANING = {
    "label": "any other label",
    "feature": "N(0, 100) on every feature",
    "gradient": "N(0, 100) on every coordinate of the record's gradient",
    "targeted label": "the label L − 1 − y, L the number of classes (25 − y in [P])",
    "gradient sign": "the record's gradient upside down",
}

FULL = 2000  # steps of a table that nothing scales down
LEAST = 100  # the fewest steps that are worth while
STEP_SECONDS = 0.06  # of the CNN on batches of 256, both of two cores at work
FIRST = 0.8  # of the budget that a whole table of one seed may take


def studies(
    name: str,  # of TABLES
    minutes: float | None,  # all that the table may take; None: as long as it takes
    workers: int,  # cells that run side by side
    data: str | None = None,  # a directory of idx files, or the word for digits; None: images if there are any
) -> Table:
    """A table of [P] as a study with a [sweep], on the data named or there, in as many steps as the minutes allow."""
    table = TABLES[name]
    try:
        images = None if data == DIGITS else Idx(path=data, divide=255.0, subtract=0.3).resolved()
    except FedprivError:
        if data is not None:
            raise
        images = None  # nor are there any in $FEDPRIV_DATA, or where Debian puts them
    steps = FULL
    if minutes is not None:  # a table of one seed is there well within them
        each = FIRST * 60 * minutes * workers / (len(table.published) * len(RELEASES) * STEP_SECONDS)
        steps = max(LEAST, min(FULL, int(min(each, FULL)) // 10 * 10))
    base, ptr, seeds = _settings(images, steps)
    gaussian = {setting: ptr[setting] for setting in ("clip", "sampling")}
    releases = [
        {"label": GAUSSIAN, "kind": "TrimmedGaussian", **gaussian, "trimmed": ptr["trimmed"]},
        {"label": DPSGD, "kind": "DpSgd", **gaussian},
        {"label": PTR, "kind": "Ptr", **ptr},
    ]
    corruptions = []
    for row in table.rows:
        what, _, share = row.rpartition(" ")
        act = ACTS[what or "label"]  # of "none", any that strikes nobody
        corruptions.append({"label": row, **act, "share": float(share) if what else 0.0})
    return {
        "name": name, "about": table.about, **base,
        "privacy": {"delta": 1e-5, "release": {"kind": "DpSgd", **gaussian}},
        "sweep": {
            "run.seed": list(range(1, seeds + 1)), EPSILON: table.epsilons,
            CORRUPTION: corruptions, RELEASE: releases,
        },
    }  # fmt: skip


def _settings(images: Idx | None, steps: int) -> tuple[Table, Table, int]:
    """What all cells of a table of [P] share, what TSGD+PTR is told, and how many seeds: for images or digits.

    The digits have the settings of the study `ptr` but for b: a batch is a quarter of all there is, which makes the
    test dear. At ε = 3 its price is 2.0 times the noise for b = 3, 1.4 times for b = 4; for b = 5 the batch is too
    small.
    """
    if images is None:
        digits = Digits()
        records, data, model = len(digits.load()), {"kind": "Digits", **asdict(digits)}, "Logistic"
        steps, server, seeds = 60, {"step": 1.0, "momentum": 0.5}, 10
        clip, test_noise, sampling = 3.0, 4.0, 0.25
    else:
        data = {"kind": "Idx", "path": images.path, "divide": images.divide, "subtract": images.subtract}
        records, model = len(images.load()), "TutorialCnn"
        server, seeds = {"step": min(0.15 * FULL / steps, 0.6)}, 5  # fewer steps are longer ones
        clip, test_noise, sampling = 1.0, 1.0, min(256 / records, 1.0)
    base = {
        "data": data, "clients": {"count": 1, "records": records}, "training": {"model": {"kind": model}},
        "server": server, "run": {"rounds": steps, "evaluate_every": steps, "checkpoint_every": 100},
    }  # fmt: skip
    ptr = {"clip": clip, "bound": BOUND, "test_noise": test_noise, "failure": 1e-8, "trimmed": 0.25}
    return base, {**ptr, "sampling": sampling}, seeds


def data_of(study: Study) -> str:
    """The data that the cells of a reproduced table were trained on, in words for its page."""
    if study.data.kind == "Digits":
        return "scikit-learn's digits"
    images = Idx(**study.data.settings)
    return data_title(data_digest(images.load())) or f"the idx files in {images.path}"


def scaled_down(study: Study, seeds: int) -> list[str]:
    """What of [P]'s experiment is smaller or other here, in sentences for the table's page."""
    steps = study.run.rounds
    said = [
        "all three take the same number of steps, and their noise is calibrated to ε: [P] fixes the noise (σ = .7, 1.1 "
        "for TSGD+PTR), accounts for it by Rényi divergences, and does not say how many steps it takes. Those noises "
        "are not alike: in 2,000 steps on 60,000 images they cost ε = 2.75 and 1.38",
        "δ = 1e-5, where [P] names none for its experiments; what is charged for a test is the branch it took, where "
        "[P] charges its noisy margin",
        "F goes up after a test that failed, as in [P] Algorithm 2 (its Appendix B.1.3 says down), and never past half "
        "the batch (`most`), where [P] has no cap",
        "the longest gradients are trimmed by their length before clipping; [P] clips first",
        "corrupted features are moved by N(0, 100) in the units the model sees, x/255 − .3 for images",
        "no CIFAR-10, the other half of [P]'s Table 1",
    ]
    if study.data.kind == "Digits":
        return [
            "the data: 1,437 digits of 8 × 8, and 360 held out, in the place of 60,000 images (`--data`, FEDPRIV_DATA, "
            "or on Debian `apt-get install dataset-fashion-mnist`)",
            "the model: logistic regression, not a CNN",
            f"batches of 359 expected, R = 3, b = 4, {steps} steps of 1 with momentum .5; [P] has batches of 256, "
            "R = 1, b = 1 and steps of .15",
            *said,
        ]
    fewer = f"; {FULL:,} steps of .15 without a budget" if steps < FULL else ""
    many = "1 seed" if seeds == 1 else f"{seeds} seeds"
    return [f"{steps:,} steps of {study.server.step:.3g}{fewer}", f"{many} of [P]'s 5", *said]
