"""[P] Tables 1, 3 and 4 on the data that are there: which studies each of them sets side by side.

TSGD+Gaussian, DPSGD and TSGD+PTR by either test at equal ε, under corruptions of records. A table is a grid of
studies, as those of `fedpriv sweep`; its directory is a sweep's.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from clients.data import Arrays, Digits, Idx
from clients.data.identity import data_digest, data_title
from fedpriv._base.tables import Table
from fedpriv.errors import FedprivError
from fedpriv.studies.study import Study
from simulations.reproduce.ptr.tables_published import (
    BUDGET,
    COIN,
    DPSGD,
    EPSILON,
    FREE,
    GAUSSIAN,
    TABLES,
    UP,
    PaperTable,
)

# the axes of a table's grid
CORRUPTION = "corruption"
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
COLOUR = 1000  # of CIFAR-10's: 20 times all images
SPENT = 40_000  # at most, of trainings that end when ε is spent
LEAST = 100  # the fewest steps that are worth while
STEP_SECONDS = 0.05  # of the CNN on batches of 256, both of two cores at work
FIRST = 0.8  # of the budget that a whole table of one seed may take
PRINTED = {GAUSSIAN: 0.7, DPSGD: 0.7}  # σ in [P]; that of every propose-test-release is 1.1


def studies(
    name: str,  # of TABLES
    minutes: float | None,  # all that the table may take; None: as long as it takes
    workers: int,  # cells that run side by side
    data: str | None = None,  # a directory of idx files, or of arrays for CIFAR-10's; digits; None: images if there are
) -> Table:
    """A table of [P] as a study with a [sweep], on the data named or there, in as many steps as the minutes allow."""
    table = TABLES[name]
    images = _images(table, data)
    steps = FULL if not table.colour else COLOUR
    if minutes is not None and table.axis == EPSILON:  # a table of one seed is there well within them
        seconds = STEP_SECONDS * (7 if table.colour else 1)
        each = FIRST * 60 * minutes * workers / (len(table.published) * len(table.releases) * seconds)
        steps = max(LEAST, min(steps, int(min(each, steps)) // 10 * 10))
    base, ptr, seeds = _settings(images, steps)
    if table.axis == BUDGET:
        base["run"] |= {"rounds": SPENT, "evaluate_every": LEAST}  # nobody knows which step is the last
    corruptions = []
    for row in table.rows:
        what, _, share = row.rpartition(" ")
        act = ACTS[what or "label"]  # of "none", any that strikes nobody
        corruptions.append({"label": row, **act, "share": float(share) if what else 0.0})
    releases = [_release(table, label, ptr) for label in table.releases]
    first = {setting: value for setting, value in releases[0].items() if setting != "label"}
    return {
        "name": name, "about": table.about, **base,
        "privacy": {"delta": 1e-5, "release": first},
        "sweep": {
            "run.seed": list(range(1, seeds + 1)), table.axis: table.epsilons,
            CORRUPTION: corruptions, RELEASE: releases,
        },
    }  # fmt: skip


def _images(table: PaperTable, data: str | None) -> Idx | Arrays | None:
    """The images that a table is trained on, those named or there; None for digits."""
    if table.colour:
        return Arrays(path=str(data), divide=255.0, subtract=0.3).resolved()
    try:
        if data != DIGITS:
            return Idx(path=data, divide=255.0, subtract=0.3).resolved()
    except FedprivError:
        if data is not None:
            raise  # else there are none in $FEDPRIV_DATA, or where Debian puts them
    if table.axis == BUDGET:
        raise FedprivError("[P]'s noises spend every ε in a step or two on digits: --data names images")
    return None


def _release(table: PaperTable, label: str, ptr: Table) -> Table:
    """A column of a table of [P] as a study's release, given what TSGD+PTR is told."""
    noise = {"noise": PRINTED.get(label, 1.1)} if table.axis == BUDGET else {}
    plain = {"label": label, "clip": ptr["clip"], "sampling": ptr["sampling"], **noise}
    if label == DPSGD:
        return {"kind": "DpSgd", **plain}
    if label == GAUSSIAN:
        return {"kind": "TrimmedGaussian", **plain, "trimmed": ptr["trimmed"]}
    told = {setting: value for setting, value in ptr.items() if setting != "test_noise" or not label.startswith(COIN)}
    up, free = ({"after_pass": "more"} if UP in label else {}), ({"most": 1.0} if FREE in label else {})
    return {"kind": "Ptr", **plain, **told, **up, **free}


def _settings(images: Idx | Arrays | None, steps: int) -> tuple[Table, Table, int]:
    """What all cells of a table of [P] share, what TSGD+PTR is told, and how many seeds: for images or digits.

    The digits have the settings of the study `ptr` but for b: a batch is a quarter of all there is, which makes the
    test dear. At ε = 3 its price is 2.0 times the noise for b = 3, 1.4 times for b = 4; for b = 5 the batch is too
    small.
    """
    bound = BOUND
    if images is None:
        digits = Digits()
        records, data, model = len(digits.load()), {"kind": "Digits", **asdict(digits)}, "Logistic"
        steps, server, seeds = 60, {"step": 1.0, "momentum": 0.5}, 10
        clip, test_noise, sampling = 3.0, 4.0, 0.25
    else:
        colour = isinstance(images, Arrays)
        scale = {"path": images.path, "divide": images.divide, "subtract": images.subtract}
        data = {"kind": type(images).__name__, **scale}
        records, model, seeds, test_noise = len(images.load()), "TutorialCnn", 5, 1.0
        clip, bound, batch, step, full = (3.0, 2 / 3, 1024, 0.1, COLOUR) if colour else (1.0, BOUND, 256, 0.15, FULL)
        server = {"step": min(step * full / steps, 4 * step)}  # fewer steps are longer ones
        sampling = min(batch / records, 1.0)
    base = {
        "data": data, "clients": {"count": 1, "records": records}, "training": {"model": {"kind": model}},
        "server": server, "run": {"rounds": steps, "evaluate_every": steps, "checkpoint_every": 100},
    }  # fmt: skip
    ptr = {"clip": clip, "bound": bound, "test_noise": test_noise, "failure": 1e-8, "trimmed": 0.25}
    return base, {**ptr, "sampling": sampling}, seeds


def data_of(study: Study) -> str:
    """The data that the cells of a reproduced table were trained on, in words for its page."""
    if study.data.kind == "Digits":
        return "scikit-learn's digits"
    images = (Idx if study.data.kind == "Idx" else Arrays)(**study.data.settings)
    files = "idx files" if isinstance(images, Idx) else "arrays"
    return data_title(data_digest(images.load())) or f"the {files} in {images.path}"


def scaled_down(study: Study, seeds: int) -> list[str]:
    """What of [P]'s experiment is smaller or other here, in sentences for the table's page."""
    steps = study.run.rounds
    equal = (
        "all releases take the same number of steps, and their noise is calibrated to ε: [P] fixes the noise (σ = .7, "
        "1.1 for TSGD+PTR) and trains until ε is spent. Those noises are not alike: in 2,000 steps on 60,000 images "
        "they cost ε = 2.75 and 1.38, so TSGD+PTR takes more steps (by [P]'s own Rényi bounds 4,136 to ε = 3, and "
        "TSGD+Gaussian 1,022)"
    )
    printed = (
        "the noises are [P]'s (σ = .7, 1.1 for TSGD+PTR), and each training ends when ε is spent: TSGD+PTR is trained "
        "for longer, which its trimming has nothing to do with. Steps are counted by the exact accountant; by [P]'s "
        "Rényi bounds ε = 3 is spent after 1,022 and 4,136. Accuracy is that of the last hundredth step"
    )
    said = [
        equal if study.privacy.budget is None else printed,
        "δ = 1e-5, where [P] names none for its experiments; what is charged for a test is the branch it took, where "
        "[P] charges its noisy margin; a coin in the test's place is not [P]'s",
        "F goes up after a test that failed, as in [P] Algorithm 2 (its Appendix B.1.3 says down), and never past half "
        "the batch (`most`), where [P] has no cap, unless the release's name says otherwise",
        "the longest gradients are trimmed by their length before clipping; [P] clips first",
        "corrupted features are moved by N(0, 100) in the units the model sees, x/255 − .3 for images",
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
    many = "1 seed" if seeds == 1 else f"{seeds} seeds"
    if study.privacy.budget is not None:
        return [f"{many} of [P]'s 5", *said]
    full, step = (COLOUR, ".1") if study.data.kind == "Arrays" else (FULL, ".15")
    fewer = f"; {full:,} steps of {step} without a budget" if steps < full else ""
    return [f"{steps:,} steps of {study.server.step:.3g}{fewer}", f"{many} of [P]'s 5", *said]
