"""Propose-test-release whose test is a coin: what is drawn, what it costs, what is refused (docs/ptr.md)."""

from __future__ import annotations

import json
from itertools import product
from math import ceil, exp, inf, log, log1p
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy.special import ndtr, ndtri

from fedpriv import releases as private_sums
from fedpriv.accounting.account import Account
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.event import by_hand, event_as_data, event_of
from fedpriv.accounting.ledger import Ledger
from fedpriv.accounting.published.ptr import ptr_published
from fedpriv.curves._densities import gaussian_stick
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Gaussian, Ptr
from fedpriv.mechanisms.ptr_pairs import MANY, ptr_attained
from fedpriv.mechanisms.ptr_renyi import ConditionNotMet, theorem_4_2, theorem_4_3
from fedpriv.releases.ptr import check_trimmed, passes_test, safety_margin
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.file import parsed_study
from simulations.command_line import main

ROW = {"sampling": 256 / 60000, "rounds": 2000, "dimension": 2, "geometry": "l2"}  # of [P]'s MNIST experiments


def coin(noise=1.1, bound=0.5, failure=1e-8, trimmed=36, clip=1.0):
    return Ptr(clip=clip, bound=bound, noise=noise, failure=failure, trimmed=trimmed)


def epsilon(mechanism, delta=1e-5, **facts):
    return Account((by_hand(mechanism=mechanism, **facts),)).epsilon(delta).bounds


# --- the coin ---------------------------------------------------------------------------------------------------------


@given(st.floats(1e-300, 0.5), st.integers(1, 10**6), st.integers(0, 10**6))
def test_the_coin_goes_from_its_failure_to_its_complement_and_never_back(failure, more, margin):
    trimmed = ceil(-2 * float(ndtri(failure))) + more
    mechanism = coin(failure=failure, trimmed=trimmed)
    assert mechanism.coin(0) == (True, failure)
    assert mechanism.coin(trimmed) == mechanism.coin(trimmed + margin) == (False, failure)
    here, next_ = mechanism.coin(margin), mechanism.coin(margin + 1)
    assert failure * (1 - 1e-12) <= here.chance <= 0.5
    rises = (next_.chance - here.chance) if next_.passes else (here.chance - next_.chance)
    assert rises >= -1e-13 * here.chance or here.passes > next_.passes
    within = min(margin, trimmed)
    if 2 * within != trimmed:  # the other side of the coin at the margin that is as far from the other end
        assert mechanism.coin(trimmed - within) == (not here.passes, here.chance)


@pytest.mark.parametrize("margin", [0, 1, 3, 4, 6, 9])
def test_the_coin_is_tossed_as_often_as_it_is_costed(margin):
    mechanism, rng, count = coin(failure=0.02, trimmed=6), np.random.default_rng(5), 20_000
    seen, chance = sum(passes_test(mechanism, margin, rng) for _ in range(count)), mechanism.passing(margin)
    assert abs(seen - count * chance) <= 4 * np.sqrt(count * chance * (1 - chance))


def test_what_is_drawn_is_the_float_that_is_costed_to_the_last_bit():
    """Its rarer side is tossed by that float, exactly; and its logarithm is what the curves are made of."""
    mechanism = coin()
    for margin in range(40):
        rarer, chance = mechanism.coin(margin)
        own, other = mechanism.log_chances(margin)[:: 1 if rarer else -1]
        assert own == log(chance)
        assert other == log1p(-chance)


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_at_the_papers_setting_it_costs_a_little_more_than_no_test_at_all():
    none, laplace = (
        epsilon(Gaussian(clip=1, noise=1.1), **ROW),
        Ptr(clip=1, bound=0.5, noise=1.1, test_noise=1, failure=1e-8),
    )
    low, high = epsilon(coin(), **ROW)
    assert 0.90643 - 1e-5 <= high <= 0.9065
    assert 0.8472 < low <= high
    assert low < none.upper < high < 1.07 * none.upper
    assert epsilon(laplace, seen="branch", **ROW).upper == approx(1.37509, abs=2e-5)


@pytest.mark.parametrize(
    ("failure", "trimmed", "truth"), [(0.45, 1, 9.62447444), (0.3, 2, 9.42915123), (0.1, 36, 8.87686946)]
)
def test_a_likely_failure_leaves_the_bound_tight(failure, trimmed, truth):
    """However likely the test is to pass wrongly, noise is looked at far enough out."""
    found = Ptr(clip=1, bound=0.5, noise=1, failure=failure, trimmed=trimmed).tradeoff().epsilon(1e-5)
    assert truth <= found <= truth * (1 + 1e-6)


def test_one_release_is_told_apart_by_real_data_as_well_as_is_certified():
    low, high = epsilon(coin(), dimension=2, geometry="l2")
    assert high == approx(4.095523, abs=2e-5)
    assert low == approx(high, rel=1e-5)


@pytest.mark.parametrize("trimmed", [36, MANY, MANY + 1])
def test_the_gaussian_form_lies_above_the_hull_and_near_it_where_there_are_many_margins(trimmed):
    mechanism = coin(trimmed=trimmed)
    curve, form = mechanism.tradeoff(), Tradeoff.gaussian(np.hypot(mechanism.step, 1 / 1.1))
    if trimmed == 36:
        assert form.epsilon(1e-5) == approx(4.180753, abs=1e-6)
    for level in (0.0, 0.5, 1.0, 3.0):
        assert curve.delta(level) <= form.delta(level) * (1 + 1e-6)
        assert trimmed == 36 or curve.delta(level) == approx(form.delta(level), rel=1e-2)


@pytest.mark.parametrize(
    ("noise", "failure", "trimmed"),
    [(1.1, 1e-8, 36), (0.6, 0.25, 3), (4.0, 1e-5, 20), (1.0, 0.5, 1), (2.0, 0.05, MANY + 3)],
)
def test_no_margin_is_told_apart_better_than_the_hull_of_the_coins_margins(noise, failure, trimmed):
    """Every m, past F too, by the closed form of its pair, in both directions; one attains the hull somewhere."""
    mechanism, reached = coin(noise, 0.5, failure, trimmed), 0.0
    curve = mechanism.tradeoff()
    for (sign, hull), level in product(((1, curve), (-1, curve.inverse)), np.linspace(-2, 6, 33)):
        bound = hull.delta(level)
        no_margin = (1 - failure) * gaussian_stick(1 / noise, level) + failure * gaussian_stick(2 / noise, level)
        assert no_margin <= bound * (1 + 1e-9)
        reached = max(reached, no_margin / bound)
        for m in range(1, trimmed + 5):
            before, after = (mechanism.log_chances(at) for at in (m, m - 1)[::sign])
            edge = sum(exp(q) * gaussian_stick(1 / noise, level - (q - p)) for p, q in zip(before, after, strict=True))
            assert edge <= bound * (1 + 1e-9) + 1e-12
            reached = max(reached, edge / bound)
    assert reached > 1 - (1e-4 if trimmed <= MANY else 0.05)


SETS = 60
GRID = np.linspace(-16, 16, 1601)


@pytest.mark.parametrize("rate", [0.1, 0.4, 1.0])
@pytest.mark.parametrize(("failure", "trimmed"), [(0.05, 4), (0.2, 2), (0.02, 6), (0.1, 3)])
def test_no_sampled_data_sets_are_told_apart_better_than_the_curve_of_the_coin_says(rate, failure, trimmed):
    """Exact laws: every subset that may be drawn, both directions, whatever F has come to: the coin's F stays."""
    mechanism, rng = coin(1.3, 0.5, failure, trimmed), np.random.default_rng(7)
    curve, closest = mechanism.tradeoff(), 0.0
    curve = curve if rate == 1 else curve.subsampled(rate, "add-remove")
    sets = [tuple(rng.choice([0.0, 0.3, 0.5, 1.0, -1.0], size)) for size in rng.integers(0, 7, SETS // 4)]
    sets += [(0.5,) * trimmed, (1.0,) * (trimmed + 1), (0.5,) * (trimmed - 1) + (1.0,), ()]
    for others, now in product(sets, (1, trimmed, trimmed + 2)):
        extra = (1.0, -1.0, 0.5)[int(rng.integers(3))] if others else 1.0
        p = law_of(others, mechanism, now, rate)
        q = (1 - rate) * p + rate * law_of(others, mechanism, now, rate, joined=extra)
        for level in (-0.5, 0.0, 0.4, 1.0, 2.0):
            for first, second, bound in ((p, q, curve.delta(level)), (q, p, curve.inverse.delta(level))):
                edge = np.maximum(second - exp(level) * first, 0).sum()
                assert edge <= bound * (1 + 1e-4) + 1e-6
                closest = max(closest, edge / bound) if bound > 1e-3 and level >= 0 else closest
    assert closest > (0.97 if rate == 1 else 0.5)


def law_of(others, mechanism, trimmed, rate, joined=None):
    """Masses of (branch, sum) on a grid: mixed over all subsets of the others, `joined` always there."""
    masses = np.zeros((2, GRID.size - 1))
    for drawn in product((False, True), repeat=len(others)):
        share = rate ** sum(drawn) * (1 - rate) ** (len(others) - sum(drawn))
        if not share:
            continue
        batch = [record for record, there in zip(others, drawn, strict=True) if there]
        batch += [] if joined is None else [joined]
        ranked = sorted(batch, key=lambda value: (abs(value), value))
        chance = mechanism.passing(safety_margin(mechanism, [abs(value) for value in batch], trimmed))
        short = sum(ranked[: max(len(batch) - trimmed, 0)])
        for row, weight, centre, scale in ((0, 1 - chance, sum(batch), 1.0), (1, chance, short, mechanism.bound)):
            masses[row] += share * weight * np.diff(ndtr((GRID - centre) / (scale * mechanism.noise)))
    return masses


@pytest.mark.parametrize("sampling", [1.0, 0.1])
@pytest.mark.parametrize(
    "settings_", [(1e-3, 0.5, 1e-8, 36), (1, 1e-3, 0.5, 1), (1e9, 0.5, 0.1, 1000), (0.05, 0.5, 1e-300, 75)]
)
def test_noise_beyond_all_reason_still_has_bounds(settings_, sampling):
    low, high = epsilon(coin(*settings_), rounds=3, sampling=sampling)
    assert 0 <= low <= high < inf or settings_[0] == 1e-3
    assert not np.isnan(high)


def test_a_bound_as_large_as_the_clip_is_the_gaussian_mechanism():
    assert epsilon(coin(2.0, 1.0, 0.3, 2)).upper == approx(epsilon(Gaussian(clip=1, noise=2.0)).upper, rel=1e-9)


def test_the_mu_that_is_named_and_the_divergences_hold_for_the_curve():
    mechanism, alpha = coin(1.1, 0.5, 1e-3, 12), np.linspace(0.001, 0.999, 200)
    assert (Tradeoff.gaussian(mechanism.mu)(alpha) <= mechanism.tradeoff()(alpha) + 1e-9).all()
    order = 3.0
    found = [
        log(sum(exp(order * q - (order - 1) * p) for p, q in zip(*both, strict=True))) / (order - 1)
        for m in range(1, 13)
        for both in (
            (mechanism.log_chances(m), mechanism.log_chances(m - 1)),
            (mechanism.log_chances(m - 1), mechanism.log_chances(m)),
        )
    ]
    assert max(found) <= order * mechanism.step**2 / 2
    assert max(found) + order / (2 * 1.1**2) <= theorem_4_3(mechanism, order) * (1 + 1e-12)


def test_what_data_reach_is_named():
    found = ptr_attained(coin(), "branch", rate=1.0, rounds=1, dimension=1)
    assert found[0].proof == "explicit records: one of norm clip joins a batch with a margin of 1"
    assert found[-1].proof == "explicit records: all of norm clip, no margin"
    many = ptr_attained(coin(), "branch", rate=0.1, rounds=9, dimension=2)
    assert [own.proof for own in many] == [
        "explicit records: one of norm clip joins many longer ones at right angles to it, no margin, Poisson sampled"
    ]


def test_the_table_of_the_page_is_what_the_accountant_says():
    page = (Path(__file__).parents[3] / "docs" / "ptr.md").read_text(encoding="utf-8")
    rows = [line.replace(",", "").strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if len(row) == 10 and row[0][0].isdigit()]
    assert len(rows) == 8
    for noise, bound, trimmed, _, rate, rounds, none, most, least, _ in rows[::3]:  # of Laplace noise: test_ptr.py
        facts = {"sampling": float(rate), "rounds": int(rounds), "dimension": 2, "geometry": "l2"}
        found = epsilon(coin(float(noise), float(bound), 1e-8, int(trimmed)), **facts)
        own = epsilon(Gaussian(clip=1, noise=float(noise)), **facts)
        said = [f"{each:.4f}" for each in (own.upper, found.upper, found.lower)]
        assert said == [none, most, least]


# --- the release that trains ------------------------------------------------------------------------------------------


def released(mechanism, records, trimmed, rng, kind=None):
    """(whether it passed, the sum) of `private_sums.Ptr` on a batch: F of the next step shows the branch."""
    rows = np.asarray(records, dtype=np.float32)
    kind = kind or private_sums.Ptr(
        clip=mechanism.clip, bound=mechanism.bound, noise=mechanism.noise, failure=mechanism.failure,
        sampling=0.5, trimmed=trimmed, sure=mechanism.trimmed, step=1,
    )  # fmt: skip
    found = kind.released(private_sums.Batch.of(kind, rows, np.arange(len(rows)), 10_000.0), rng)
    return found.settings[0] < trimmed, found.total


@pytest.mark.slow
@pytest.mark.parametrize("trimmed", [3, 6, 9], ids=["F below the coin's", "F as begun", "F above it"])
def test_an_attack_on_the_release_that_trains_comes_near_the_certified_curve_and_never_past_it(trimmed):
    """d = 1: records of norm τ and one of norm R that joins them; the best test on (branch, sum), 12,000 times each."""
    mechanism, runs = coin(noise=1.1, failure=0.02, trimmed=6), 12_000
    without = np.full((12, 1), 0.49999)  # lengths are rounded up: one of exactly τ may count as longer
    batches = (without, np.vstack([without, [[1.0]]]))
    if trimmed > 6:  # margins past the coin's F are alike: five more long ones bring it back
        batches = tuple(np.vstack([batch, np.full((5, 1), 1.0)]) for batch in batches)
    rng, margins = np.random.default_rng(6), [safety_margin(mechanism, batch[:, 0], trimmed) for batch in batches]
    sums = [(float(batch.sum()), float(np.sort(batch[:, 0])[: len(batch) - trimmed].sum())) for batch in batches]
    seen = [np.array([released(mechanism, batch, trimmed, rng) for _ in range(runs)], object) for batch in batches]
    for level in (0.25, 0.5, 1.0):
        inside = [loss_of(found, mechanism, sums, margins) > level for found in seen]
        rates = [hits.mean() for hits in inside]
        error = np.sqrt(rates[1] * (1 - rates[1]) / runs + exp(2 * level) * rates[0] * (1 - rates[0]) / runs)
        edge, bound = rates[1] - exp(level) * rates[0], mechanism.tradeoff().delta(level)
        assert edge < bound + 4 * error
        assert edge > 0.7 * bound


def loss_of(found, mechanism, sums, margins):
    """ln(Q/P) of each (branch, sum)."""
    passed, total = found[:, 0].astype(bool), np.array([float(own[0]) for own in found[:, 1]])
    chances = [np.where(passed, *mechanism.log_chances(m)) for m in margins]
    scale = mechanism.noise * np.where(passed, mechanism.limit, mechanism.clip)
    squares = [((total - np.where(passed, short, full)) / scale) ** 2 / 2 for full, short in sums]
    return chances[1] - chances[0] + squares[0] - squares[1]


def test_the_coins_f_stays_where_f_moves():
    kind = private_sums.Ptr(clip=1, bound=0.5, noise=1, failure=1e-3, sampling=0.5, trimmed=40)
    for moved in (1.0, 39.0, 60.0):
        later = private_sums.release_at(kind, (moved,))
        assert later.trimmed == moved
        assert later.mechanism == kind.mechanism == coin(1, 0.5, 1e-3, 40)


def test_the_branch_that_the_coin_takes_is_the_one_that_is_released():
    rng, tame, wild = np.random.default_rng(1), np.full((200, 2), 0.2), np.full((200, 2), 3.0)
    mechanism = coin(noise=1e-6, failure=1e-6, trimmed=40)
    passed, total = released(mechanism, tame, 40, rng)
    assert passed
    assert total == approx([160 * 0.2] * 2, abs=1e-4)
    passed, total = released(mechanism, wild, 40, rng)
    assert not passed
    assert total == approx([200 / np.sqrt(2)] * 2, rel=2e-5)


# --- settings, ledgers, studies ---------------------------------------------------------------------------------------


def test_calibration_finds_the_noise(capsys):
    given_ = {"clip": 1.0, "bound": 0.5, "failure": 1e-8, "trimmed": 36, "test": "coin"}
    facts = {"sampling": 256 / 60000, "rounds": 2000}
    found, cost = calibrate("Ptr", given_, lambda own: by_hand(own, **facts), epsilon=3, delta=1e-5)
    assert 2.97 < cost.bounds.upper <= 3
    assert found.noise < 0.694  # Laplace: .767, no test: .683
    words = ["Ptr", "clip=1", "bound=0.5", f"noise={found.noise}", "failure=1e-8", "trimmed=36", "test=coin"]
    assert (
        main(["account", *words, "--sampling", str(256 / 60000), "--rounds", "2000", "--delta", "1e-5", "--json"]) == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert said["epsilon"]["upper"] == approx(cost.bounds.upper, rel=1e-6)
    assert said["seen"] == "branch"
    assert said["published"] == {}  # the paper has Laplace noise


def test_the_papers_theorems_are_of_the_laplace_test_alone():
    assert ptr_published(coin(), rounds=1, rate=1, delta=1e-5) == {}
    assert (
        len(ptr_published(Ptr(clip=1, bound=0.5, noise=9, test_noise=5, failure=1e-5), rounds=1, rate=1, delta=1e-5))
        == 3
    )
    with pytest.raises(ConditionNotMet, match="test_noise must be given"):
        theorem_4_2(coin(), 1e-5)


def test_a_ledger_keeps_it_and_one_of_before_keeps_its_laplace_test(tmp_path):
    event = by_hand(coin(), sampling=0.01, rounds=5)
    ledger = Ledger().add(event)
    ledger.save(tmp_path / "ledger.json")
    assert Ledger.load(tmp_path / "ledger.json").epsilon(1e-5) == ledger.epsilon(1e-5)
    before = {"clip": 1.0, "bound": 0.5, "noise": 9.0, "test_noise": 2.0, "failure": 1e-5}
    own = by_hand(Ptr(**before), seen="branch")
    line = event_as_data(own)
    assert list(line["settings"].items()) == list(before.items())  # to the byte as it was written then
    assert event_of(line) == own
    assert own.mechanism.step is None


RELEASE = '{ kind = "Ptr", clip = 3.0, bound = 0.5, noise = 3.0, failure = 1e-8, sampling = 0.25, trimmed = 0.25 }'
STUDY = """
data = { kind = "Digits", divide = 16.0, subtract = 0.3 }
clients = { count = 1, records = 1437 }
privacy = { epsilon = 4.0, release = RELEASE }
run = { rounds = 60 }
""".replace("RELEASE", RELEASE)


def test_a_study_takes_the_coin_unless_it_has_laplace_noise_and_ids_of_before_stay():
    own = parsed_study(STUDY)
    assert own.privacy.release.settings["sure"] == 89  # the share of 359.25 records expected
    whole = calibrated_study(own, 650)
    assert whole.privacy.private_sum.mechanism.trimmed == 89
    assert parsed_study(STUDY, overrides=["privacy.release.trimmed=100"]).privacy.private_sum.mechanism.trimmed == 100
    noisy = parsed_study(STUDY, overrides=["privacy.release.test_noise=3.0", "privacy.release.noise=3.202197"])
    assert "sure" not in noisy.privacy.release.settings
    assert noisy.privacy.private_sum.mechanism.test_noise == 3.0
    assert noisy.id.hex() == "628c99339798b132"  # of the release before there was a coin


def test_a_study_may_calibrate_the_noise_of_a_laplace_test():
    own = parsed_study(STUDY, overrides=["privacy.release.noise=4.0", "privacy.release.test='laplace'", "run.rounds=2"])
    whole = calibrated_study(own, 650)
    assert whole.privacy.release.settings["test_noise"] > 0.2


def test_an_account_of_a_release_tells_the_settings_that_it_has(capsys):
    words = ["Ptr", "clip=1", "bound=0.5", "failure=1e-8", "noise=5", "trimmed=64", "sampling=0.01", "--delta", "1e-5"]
    assert main(["account", *words]) == 0
    assert "failure=1e-8 sampling=0.01 trimmed=64 sure=64 step=0.02" in capsys.readouterr().out


def test_a_dry_run_costs_the_coin(capsys, tmp_path: Path):
    file = tmp_path / "own.toml"
    file.write_text(STUDY, encoding="utf-8")
    assert main(["run", str(file), "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seen"] == "branch"
    assert 0.9 * found["epsilon"]["upper"] < found["epsilon"]["lower"] <= found["epsilon"]["upper"] <= 4


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"trimmed": 5}, "trimmed must be at least 12 for the coin to go from failure = 1e-08 to 1 - 1e-08, got 5"),
        ({"trimmed": 0}, "trimmed must be at least 1, got 0"),
        ({"trimmed": 36.0}, "trimmed must be a whole number"),
        ({"trimmed": None}, "test = 'coin' needs trimmed; test = 'laplace' has test_noise in its place"),
        ({"test": "coin", "test_noise": 1.0}, "test_noise is of test = 'laplace', and this is a coin: leave it out"),
        ({"test_noise": 1.0}, "trimmed is of test = 'coin', and this is Laplace noise: leave it out"),
        ({"test": "laplace", "trimmed": None}, "test = 'laplace' needs test_noise"),
        ({"test": "dice"}, "test 'dice' is unknown.*choices: coin, laplace"),
        ({"failure": 0.6}, "failure must be between 1e-300 and 1/2"),
    ],
)
def test_settings_that_do_not_go_together_are_named(changed, named):
    own = {"clip": 1.0, "bound": 0.5, "noise": 1.0, "failure": 1e-8, "trimmed": 36}
    with pytest.raises(FedprivError, match=named):
        Ptr(**{**own, **changed})


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"trimmed": 0.25}, "trimmed = 0.25 is a share, and a share needs a number of records: give sure"),
        ({"sure": 7}, "sure must be at least 12 for the coin to go from failure = 1e-08 to 1 - 1e-08, got 7"),
        ({"trimmed": 4}, "trimmed must be at least 12 for the coin"),
        ({"sure": 40, "test_noise": 1.0}, "sure is of test = 'coin'"),
    ],
)
def test_releases_that_do_not_go_together_are_named(changed, named):
    own = {"clip": 1.0, "bound": 0.5, "noise": 1.0, "failure": 1e-8, "trimmed": 36, "sampling": 0.5}
    with pytest.raises(FedprivError, match=named):
        private_sums.Ptr(**{**own, **changed})


def test_an_f_at_which_the_coin_hardly_ever_passes_is_refused():
    check_trimmed(coin(), 18, 256)
    with pytest.raises(FedprivError, match=r"trimmed must be at least 18 for the test to pass \(half of sure = 36\)"):
        check_trimmed(coin(), 17, 256)
    kind = private_sums.Ptr(clip=1, bound=0.5, noise=1, failure=1e-8, sampling=0.5, trimmed=36, sure=60, most=0.25)
    with pytest.raises(FedprivError, match="most must be at least 30 for the test to pass, got 25 of 100"):
        kind.check(100.0)


def test_nothing_but_the_branch_of_a_coin_is_ever_seen():
    for ask in (lambda: by_hand(coin(), seen="margin"), lambda: coin().tradeoff(seen="margin")):
        with pytest.raises(FedprivError, match="a coin shows its branch alone, seen = 'branch'"):
            ask()
    assert by_hand(coin()).seen == "branch"
