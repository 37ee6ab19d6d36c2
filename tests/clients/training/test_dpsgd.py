"""DP-SGD of one client: noise by a schedule, ellipsoids, a clip norm that is the unit; and the study that ships."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx

from clients.training.cohort import Cohort
from clients.training.prepared import prepared_study
from fedpriv._base.arrays import Rows
from fedpriv.accounting.account import Account
from fedpriv.errors import FedprivError
from fedpriv.releases import SUMS, ellipsoid_axes, events_in_turn
from fedpriv.studies import file as study_file
from server import rounds
from simulations.audit.sources import source_of
from simulations.command_line import main
from simulations.report.run.runs import read_run
from simulations.runs.direct import Here

ONE = np.array([0])
STUDY = """
data.kind = "Digits"
clients = { count = 2, records = 60 }
[privacy.release]
kind = "DpSgd"
clip = 0.5
noise = 2.0
sampling = 1.0
[run]
rounds = 9
"""


def update(weights: Rows, round: int, *overrides: str, without: int = 0) -> np.ndarray:
    """A client's update in a round at some weights, in records: the last records left out."""
    cohort = Cohort(prepared_study(study_file.parsed_study(STUDY, overrides=overrides)))
    out = np.empty((1, cohort.net.dimension), np.float32)
    own = cohort.division.of(ONE)[0]  # type: ignore[call-arg]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clients.training.releasing.records_of", lambda *_: own[: len(own) - without])
        cohort._train(weights, round, ONE, out)
    return out[0].astype(float) * 60


def test_each_round_draws_the_noise_of_its_schedule() -> None:
    zeros, still = np.zeros(650, np.float32), update(np.zeros(650, np.float32), 1, "privacy.release.noise=1e-9")
    for round, wanted in ((1, 2.0), (9, 0.5)):
        noise = update(zeros, round, "privacy.release.schedule=linear", "privacy.release.to=0.25") - still
        assert noise.std() == approx(0.5 * wanted, rel=5 / (2 * 650) ** 0.5)


def test_one_record_moves_what_an_ellipsoid_releases_by_its_axes_at_most() -> None:
    """Divided by the axes, which no record has a part in, the sum moves by the clip norm at most."""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=650).astype(np.float32) * rng.choice([0.01, 1.0], 650).astype(np.float32)
    axes = ellipsoid_axes(weights.astype(float))  # digits begin with weights of 0
    given = "privacy.release.shape=ellipsoid", "privacy.release.noise=1e-9"
    moved = (update(weights, 3, *given) - update(weights, 3, *given, without=1)) / axes
    assert 0.49 < np.linalg.norm(moved) <= 0.5 * (1 + 1e-6)


def test_the_noise_of_an_ellipsoid_is_as_long_as_its_axes() -> None:
    weights = np.where(np.arange(650) < 325, 0.0, 1.0).astype(np.float32)
    still = update(weights, 1, "privacy.release.shape=ellipsoid", "privacy.release.noise=1e-9")
    noise = update(weights, 1, "privacy.release.shape=ellipsoid") - still
    axes = ellipsoid_axes(weights.astype(float))
    for half in (slice(0, 325), slice(325, None)):
        assert noise[half].std() == approx(2.0 * 0.5 * axes[half][0], rel=5 / 650**0.5)


def test_a_clip_norm_that_adapts_is_the_unit_of_what_leaves() -> None:
    release = {"clip": 0.25, "noise": 1e-9, "sampling": 1.0, "count_noise": 9.0}
    found = {
        units: update(np.zeros(650, np.float32), 1, f"privacy.release={{kind='AdaptiveDpSgd', units='{units}', "
                      + ", ".join(f"{name}={value}" for name, value in release.items()) + "}")
        for units in ("clip", "gradient")
    }  # fmt: skip
    assert found["clip"] == approx(found["gradient"] / 0.25, rel=1e-4, abs=1e-6)


def test_a_run_whose_noise_changes_records_what_each_of_its_rounds_cost(tmp_path: Path) -> None:
    changes = ["privacy.release.schedule=exponential", "privacy.release.to=0.5", "privacy.release.sampling=0.3"]
    own = study_file.parsed_study(STUDY, overrides=changes)
    result = rounds.run_rounds(own, tmp_path, Here(), quiet=True)
    release = SUMS.of(own.privacy.release)  # type: ignore[arg-type]
    run = read_run(tmp_path)
    for line in run.rounds:
        alone = Account(events_in_turn(release, 650, line["round"], 9, 1)).epsilon(1e-5).bounds
        assert alone.lower <= line["epsilon"]["upper"] <= alone.upper * (1 + 1e-4)
    assert run.account is not None
    assert run.account.events == events_in_turn(release, 650, 9, 9, 1)
    assert run.account.upper_epsilon(1e-5) == approx(result["epsilon"]["upper"], rel=1e-4)
    with pytest.raises(FedprivError, match="schedule=constant"):
        source_of(own)


@pytest.mark.slow
def test_the_study_dpsgd_learns_at_epsilon_3_and_a_clip_norm_that_adapts_is_no_worse(tmp_path: Path) -> None:
    """Means of three seeds of 360 images: of a fixed R that is right, of one 16 times too long, of one that adapts."""
    found: dict[str, Any] = {}
    for name, clip, extra, step in (
        ("right", 0.25, "kind='DpSgd'", 4.0), ("long", 4.0, "kind='DpSgd'", 0.25),
        ("adapts", 4.0, "kind='AdaptiveDpSgd', count_noise=60.0", 1.0),
    ):  # fmt: skip
        each = []
        for seed in (1, 2, 3):
            own = study_file.read_study("dpsgd", [
                f"run.seed={seed}", f"server.step={step}", "run.evaluate_every=60",
                f"privacy.release={{{extra}, clip={clip}, sampling=0.5}}",
            ])  # fmt: skip
            result = rounds.run_rounds(own, tmp_path / f"{name}{seed}", Here(), quiet=True)
            assert result["epsilon"]["upper"] <= 3.0
            each.append(result["accuracy"])
        found[name] = np.mean(each)
    assert found["right"] > 0.93
    assert found["adapts"] > found["right"] - 0.01
    assert found["adapts"] > found["long"] + 0.01


def said(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*shlex.split(line), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_release_is_accounted_and_calibrated_by_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    found = said("account DpSgd clip=3 noise=4 sampling=0.01 --rounds 10000 --delta 1e-5", capsys)
    alone = said("account Gaussian clip=1 noise=4 --sampling 0.01 --rounds 10000 --delta 1e-5", capsys)
    assert found["epsilon"] == alone["epsilon"]
    assert (found["kind"], found["settings"]["clip"], found["unit"]) == ("DpSgd", 3, "record")
    assert found["published"]["[L] moments accountant (Abadi et al. 2016)"]["epsilon"] == approx(1.258575, abs=1e-6)
    found = said(
        "calibrate DpSgd clip=1 sampling=0.1 schedule=linear to=0.5 --rounds 50 --epsilon 3 --delta 1e-5", capsys
    )
    assert 2.99 < found["epsilon"]["upper"] <= 3.0
    assert (found["rounds"], found["settings"]["schedule"]) == (50, "linear")
    found = said(
        "calibrate AdaptiveDpSgd clip=1 sampling=0.1 count_noise=9 --rounds 50 --epsilon 3 --delta 1e-5", capsys
    )
    assert 2.98 < found["epsilon"]["upper"] <= 3.0
    assert found["settings"]["units"] == "clip"


def test_ptr_is_the_release_where_it_has_its_settings_and_else_the_mechanism(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = "Ptr clip=3 bound=.5 noise=4 test_noise=3 failure=1e-8"
    release = said(f"account {own} sampling=.25 trimmed=.25 --delta 1e-5", capsys)
    assert (release["seen"], release["settings"]["trimmed"], release["sampling"]) == ("branch", 0.25, 0.25)
    assert said(f"account {own} --sampling .25 --delta 1e-5", capsys)["seen"] == "margin"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("account DpSgd clip=1 noise=4 sampling=.1 --sampling .5", "sampling among them"),
        ("account DpSgd clip=1 noise=4 sampling=.1 --trust central", "--trust"),
        ("account DpSgd clip=1 noise=4", "needs sampling"),
        ("account DpSgdd clip=1 noise=4", "unknown mechanism"),
        ("calibrate DpSgd clip=1 noise=2 sampling=.1 --epsilon 1 --delta 1e-5", "all settings of DpSgd are given"),
        ("calibrate DpSgd clip=1 sampling=.1 --free clip --epsilon 1 --delta 1e-5", "--free"),
    ],
)
def test_a_release_takes_its_own_settings_alone(line: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) == 2
    assert why in capsys.readouterr().err
