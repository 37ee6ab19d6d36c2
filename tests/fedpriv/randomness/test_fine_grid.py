"""The grid that noise is added on: its draws have exactly the law they should, and no bit of what leaves says more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import exp, expm1, inf, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.random import PCG64, Generator
from pytest import approx
from scipy.special import chdtrc, ndtr

from benchmarks.grid import parity
from fedpriv.accounting._witnesses import REACHED, witnesses_of
from fedpriv.accounting.event import by_hand
from fedpriv.channel.encoding import Seeded, encoded_rows
from fedpriv.errors import FedprivError
from fedpriv.estimation import DpMean, moments
from fedpriv.mechanisms import Gaussian, Laplace, Ptr
from fedpriv.randomness import grid as fine_grid
from fedpriv.randomness import wide as sampling_wide
from fedpriv.randomness._inversion import fixed_exp
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.grid import FINE, FineGrid
from fedpriv.randomness.streams import random_words, stream
from fedpriv.randomness.wide import BLOCK, Power, Rounded, in_cells, rounded_real
from fedpriv.releases import SUMS, Batch, Blocks, DpSgd, PrivateSum
from fedpriv.releases.ptr import passes_test

POWERS: tuple[Power, ...] = (1, 2)
SMALL: dict[str, dict[str, Any]] = {
    "DpSgd": {"clip": 0.5, "noise": 1.2, "sampling": 0.2},
    "TrimmedGaussian": {"clip": 0.5, "noise": 1.2, "sampling": 0.2, "trimmed": 2},
    "Ptr": {"clip": 0.5, "bound": 0.5, "noise": 1.2, "test_noise": 1.0, "failure": 1e-3, "sampling": 0.2, "trimmed": 3},
    "AdaptiveDpSgd": {"clip": 0.5, "noise": 1.2, "sampling": 0.2, "count_noise": 2.0},
}
mechanisms = pytest.mark.parametrize("mechanism", [Gaussian(clip=1, noise=2), Laplace(clip=1, noise=2)], ids=repr)
both = pytest.mark.parametrize("power", POWERS)


def above(k: Any, scale: float, power: int) -> Any:
    """The chance that real noise passes k: by numpy, or by mpmath in as many digits as it is set to."""
    if isinstance(k, np.ndarray):
        return ndtr(-k / scale) if power == 2 else np.where(k < 0, 1 - np.exp(k / scale) / 2, np.exp(-k / scale) / 2)
    return mp.ncdf(-k / mpf(scale)) if power == 2 else mp.exp(-k / mpf(scale)) / 2


# --- the draws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.4, 1.0, 7.3])
@both
def test_rounded_noise_has_the_law_of_real_noise_rounded(scale: float, power: Power) -> None:
    count = 200_000
    drawn = rounded_real(scale, power).draw(count, np.random.default_rng(5))
    most = int(np.ceil(scale * 3))
    edges = np.arange(-most, most + 1) + 0.5
    chance = -np.diff(above(np.concatenate(([-inf], edges, [inf])), scale, power))
    seen = np.bincount(np.searchsorted(edges, drawn), minlength=chance.size)
    assert chdtrc(chance.size - 1, float(((seen - count * chance) ** 2 / (count * chance)).sum())) > 1e-3


@both
def test_wide_noise_has_the_law_of_real_noise_far_into_its_tails(power: Power) -> None:
    count, scale = 2_000_000, 2.0**30 * 1.37
    drawn = rounded_real(scale, power).draw(count, stream(1, "wide noise")) / scale
    edges = np.array([0.0, 0.1, 0.7, 1.5, 3.0, 3.6, 3.7, 4.2, 7.7, 8.5])[: 8 if power == 2 else 10]
    edges = np.unique(np.concatenate((-edges, edges)))
    chance = -np.diff(above(np.concatenate(([-inf], edges, [inf])), 1.0, power))
    seen = np.bincount(np.searchsorted(edges, drawn), minlength=chance.size)
    assert chdtrc(chance.size - 1, float(((seen - count * chance) ** 2 / (count * chance)).sum())) > 1e-3


@pytest.mark.parametrize("scale", [20.0, 300.0])
@both
def test_the_layers_cover_every_point_under_the_curve_once(scale: float, power: Power) -> None:
    """The chance of a cell, all layers and blocks added up in exact areas, is the integral of the curve over it."""
    law = in_cells(scale, power, 1)
    with mp.workdps(30):
        area = mpf(law.area)
        heights = [mpf(0)]
        for cells in law.cells:
            heights.append(heights[-1] + area / int(cells))
        assert heights[-1] >= 1
        curve = lambda x: mp.exp(-((x / mpf(scale)) ** power) / power)  # noqa: E731
        for cell in sorted({0, 1, int(scale) // 3, int(scale), law.edge - 1, law.edge, law.edge + 3 * law.block + 1}):
            found = mpf(0)
            for layer in range(256):
                inside = cell < (law.edge if layer == 0 else int(law.cells[layer]))
                if cell < int(law.inner[layer]):  # accepted unseen, so all of it must lie under the curve
                    assert curve(mpf(cell + 1)) >= heights[layer + 1]
                    assert inside
                if inside:
                    found += covered(curve, cell, heights[layer], heights[layer + 1])
            if cell >= law.edge:
                block = (cell - law.edge) // law.block
                assert curve(mpf(law.edge + block * law.block)) <= heights[1] / 2**block  # or some of it were missing
                found += covered(curve, cell, mpf(0), heights[1] / 2**block)
            assert abs(found - mp.quad(curve, [cell, cell + 1])) < mpf(10) ** -20


def covered(curve: Callable[[Any], Any], cell: int, low: Any, high: Any) -> Any:
    """The area under the curve between two heights, within a cell: an integrand is smooth but where it meets either."""
    first, last = curve(mpf(cell)), curve(mpf(cell + 1))
    if low >= first or high <= last:
        return mpf(0) if low >= first else high - low
    met = [height for height in (high, low) if first > height > last]
    ends = [
        mp.findroot(lambda x, h=height: curve(x) - h, (cell, cell + 1), solver="anderson", tol=mpf(10) ** -50)
        for height in met
    ]
    return mp.quad(lambda x: min(max(curve(x) - low, mpf(0)), high - low), [cell, *ends, cell + 1])


@pytest.mark.parametrize("scale", [300.0, 2.0**27 * 1.37])
@both
def test_exact_arithmetic_decides_every_draw_as_double_precision_does(scale: float, power: Power) -> None:
    law = in_cells(scale, power, 1)
    quick = law.draw(4000, stream(3, "doubt"))
    slow = law.draw(4000, stream(3, "doubt"), doubt=2.0)  # nothing near the curve is left to floats
    assert np.array_equal(quick, slow)
    assert any(exactly(law, int(word))[1] for word in random_words(4000, stream(3, "doubt")))


def exactly(law: Rounded, word: int) -> tuple[int, int]:
    """The cell of a draw by its definition, and how many more words it took."""
    more = iter(random_words(400, stream(4, "more")).tolist())
    cell, _ = law._slowly(word, more)
    return cell, 400 - len(list(more))


def test_a_draw_that_floats_cannot_decide_takes_more_digits_until_it_is_decided() -> None:
    law, layer = in_cells(2.0**27, 2, 1), 100
    areas = [int(Fraction(law.area) * (1 << 400) / int(cells)) for cells in law.cells[: layer + 1]]
    lower, height = sum(areas[:-1]), sum(areas)  # of the layer's edges, times 2⁴⁰⁰
    cell = (int(law.inner[layer]) + int(law.cells[layer])) // 2
    across = 12345
    curve = fixed_exp((Fraction((cell << 64) + across, 1 << 64) / Fraction(law.scale)) ** 2 / 2, 400)
    up = ((curve - lower) << 64) // (height - lower)  # the first 64 digits of a point on the curve
    assert 0 < up < 1 << 64
    asked: list[int] = []
    for more, under in (
        ([0, 0], True),
        ([(1 << 64) - 1] * 2, False),
    ):  # then as low, or as far right and high, as can be
        words = iter([across, up, *more, *more, *more])
        assert law._under(cell, layer, None, words) is under
        asked.append(8 - len(list(words)))
    assert min(asked) >= 4


@both
def test_tails_have_no_end(power: Power) -> None:
    """A word of zeros, as seldom as one in 2⁶⁴, leads 64 blocks farther out: there the curve decides as anywhere."""
    law = in_cells(2.0**30, power, 1)
    beyond = next(word << 9 for word in range(1 << 54, 1 << 55, 1 << 45) if place(law, word << 9) >= law.edge)
    far = law.edge + 65 * law.block
    for up, under in ((0, True), ((1 << 64) - 1, False)):
        words = iter([0, 2, 5, up, *[0] * 6, *[beyond >> 9 << 9, 2, 0, 0, 0] * 3])
        if under:
            cell, _ = law._slowly(beyond, words)
            assert cell >= far
        else:
            assert law._slowly(beyond, words)[0] < far  # rejected there, so begun anew
    source = Rigged([beyond])
    assert abs(int(law.draw((), source))) >= (far >> 1)  # type: ignore[arg-type]


def place(law: Rounded, word: int) -> int:
    return word * int(law.cells[0]) >> 64


class Rigged:
    """A generator whose first words are given, then zeros."""

    bit_generator = None

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def integers(self, low: int, high: int, count: int, **_: object) -> np.ndarray[Any, Any]:
        """The next words; two of zeros and then ones that end a tail."""
        found = [*self._words, 0, 2, *[0] * count][:count]
        self._words = []
        return np.array(found, np.uint64)


@both
def test_draws_are_the_same_whatever_the_block_they_are_asked_in(power: Power) -> None:
    law = rounded_real(2.0**27, power)
    rows = 40
    words = np.stack([random_words(law.words(650), stream(1, "rows", 2, row)) for row in range(rows)])
    together = np.empty((rows, 650), np.int64)
    late = law.rows(words, together)
    assert late.size == 0
    for row in range(rows):
        assert np.array_equal(together[row], law.draw(650, stream(1, "rows", 2, row)))


def test_rows_whose_words_run_out_are_named() -> None:
    law, out = rounded_real(2.0**27, 2), np.empty((3, 650), np.int64)
    words = np.stack([random_words(651, stream(1, "rows", 2, row)) for row in range(3)])
    assert law.rows(words, out).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "rng", [Generator(PCG64(1)), np.random.Generator(np.random.MT19937(1)), cryptographic_generator()]
)
def test_any_generator_will_do(rng: Generator) -> None:
    drawn = rounded_real(2.0**27, 2).draw(50_000, rng)
    assert drawn.std() == approx(2.0**27, rel=0.02)


def test_noise_wider_than_can_be_drawn_is_refused() -> None:
    with pytest.raises(FedprivError, match="at most 2\\^48 cells wide"):
        rounded_real(2.0**48, 2)


# --- the grid ---------------------------------------------------------------------------------------------------------

sizes = st.floats(1e-3, 1e3)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9), sizes, sizes)
def test_rounding_toward_zero_lengthens_nothing(x: list[float], clip: float, noise: float) -> None:
    grid = FineGrid.of(clip, noise)
    whole = grid.whole(x)
    assert (np.abs(whole * grid.step) <= np.abs(x)).all()
    assert (np.abs(x) - np.abs(whole * grid.step) < grid.step).all()
    assert (whole == np.rint(whole)).all()


@given(st.floats(1e-250, 1e250), st.floats(1e-250, 1e250))
def test_the_step_is_a_power_of_two_far_below_clip_and_noise(clip: float, noise: float) -> None:
    step = FineGrid.of(clip, noise).step
    assert np.frexp(step)[0] == 0.5
    assert noise / step < 2.0**46
    assert clip / step <= 2.0**33
    if 2.0**-7 < noise / clip < 2.0**19:
        assert step <= FINE * min(clip, noise) < 2 * step


def test_a_sum_of_more_records_than_is_exact_is_refused_before_any_is_seen() -> None:
    release = SUMS.made("DpSgd", {"clip": 1.0, "noise": 1e-6, "sampling": 0.5})
    release.check(2.0**18)
    with pytest.raises(FedprivError, match="are exact with more noise only"):
        release.check(2.0**21)


# --- what leaves ------------------------------------------------------------------------------------------------------


def rows_of(count: int, size: float = 1.0) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(count).normal(size=(count, 64)) * size).astype(np.float32)


def released(kind: str, rows: np.ndarray[Any, Any], seed: int = 1) -> tuple[PrivateSum, np.ndarray[Any, Any]]:
    release = SUMS.made(kind, SMALL[kind])
    batch = Batch.of(release, rows, np.arange(len(rows)), 10.0)
    return release, np.asarray(release.released(batch, np.random.default_rng(seed)).total)


@pytest.mark.parametrize("kind", SMALL)
def test_every_released_number_is_a_multiple_of_the_step(kind: str) -> None:
    release, total = released(kind, rows_of(12))
    steps = total / release.fine.step
    assert (steps == np.rint(steps)).all()
    assert np.unique(np.abs(steps) % 2).tolist() == [0.0, 1.0]


@mechanisms
def test_every_coordinate_of_a_message_is_a_multiple_of_the_step(mechanism: Any) -> None:
    steps = mechanism.encode(np.linspace(-1, 1, 999), np.random.default_rng(1)) / mechanism.fine.step
    assert (steps == np.rint(steps)).all()


@mechanisms
def test_messages_of_many_clients_have_the_bits_of_each_alone(mechanism: Any) -> None:
    rows, noise = rows_of(30, 0.1), Seeded(seed=1, round=2, clients=np.arange(30)[::-1].copy())
    together = encoded_rows(mechanism, rows, np.full(30, 0.5), noise)
    for row in range(30):
        assert np.array_equal(together[row], mechanism.encode(rows[row].astype(float) * 0.5, noise.one(row)))
    long = np.zeros((2, BLOCK + 5), np.float32)
    found = encoded_rows(mechanism, long, np.ones(2), Seeded(1, 2, np.array([0, 1])))
    assert np.array_equal(found[1], mechanism.encode(long[1].astype(float), stream(1, "encode", 2, 1)))


@pytest.mark.parametrize("kind", ["DpSgd", "AdaptiveDpSgd"])
def test_a_sum_is_exact_so_that_neither_blocks_nor_order_show(kind: str) -> None:
    release, rows = SUMS.made(kind, SMALL[kind]), rows_of(300)
    batch = Batch.of(release, rows, np.arange(300), 10.0)
    total = batch.summed(batch.usable, release)
    blocks = Blocks(release, 64, 10.0)
    for part in np.array_split(rows[::-1], 7):
        blocks.add(np.ascontiguousarray(part))
    assert np.array_equal(blocks.summed(blocks.usable, release), total)


def test_each_record_of_a_sum_is_rounded_toward_zero_by_itself() -> None:
    """Or the rounding of the sum would be a secret of all records: one more could move every coordinate by a step."""
    release = DpSgd(clip=1.0, noise=1.0, sampling=1.0)
    step = release.fine.step
    rows = np.full((3, 64), 1.75 * step, np.float32)
    batch = Batch.of(release, rows, np.arange(3), 3.0)
    assert batch.summed(batch.usable, release).tolist() == [3.0] * 64


@given(st.integers(0, 11), st.sampled_from(sorted(SMALL)))
def test_a_record_moves_a_sum_by_no_more_than_the_clip_norm(left_out: int, kind: str) -> None:
    release, rows = SUMS.made(kind, SMALL[kind]), rows_of(12)
    batch = Batch.of(release, rows, np.arange(12), 10.0)
    others = batch.usable
    others[left_out] = False
    moved = batch.summed(batch.usable, release) - batch.summed(others, release)
    assert np.linalg.norm(moved) * release.fine.step <= release.clip
    assert np.linalg.norm(moved) * release.fine.step >= release.clip * (1 - 1e-5) - 8 * release.fine.step


def test_rows_that_are_not_rounded_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: sums of floats as they are, which leave their own low bits in what is released."""
    monkeypatch.setattr("fedpriv.releases._batch.add_toward_zero", unrounded)
    monkeypatch.setattr(FineGrid, "real", lambda grid, total, noise: (total + noise) * grid.step)
    with pytest.raises(AssertionError):
        test_every_released_number_is_a_multiple_of_the_step("DpSgd")
    with pytest.raises(AssertionError):
        test_a_sum_is_exact_so_that_neither_blocks_nor_order_show("DpSgd")


def unrounded(rows: Any, factors: Any, kept: Any, total: Any) -> None:
    total += factors[kept] @ rows[kept].astype(float)


def test_the_parity_of_low_bits_near_zero_tells_nothing() -> None:
    """Find 4 of an audit: of float noise, odd multiples of 2⁻⁵³ near 0 told on which side of 1 a sum lay."""
    found = parity(2_000_000, near=2.0**-10)
    assert found["odd bits"] == {"absent": 0, "present": 0}
    assert min(found["seen"].values()) > 500
    assert abs(found["z of odd steps"]) < 4


@pytest.mark.parametrize("margin", [0, 3, 7])
def test_a_test_passes_as_often_as_its_certificate_says(margin: int) -> None:
    ptr, rng, count = Ptr(clip=1, bound=0.5, noise=1, test_noise=1.5, failure=0.01), np.random.default_rng(2), 3000
    seen = sum(passes_test(ptr, margin, rng) for _ in range(count))
    chance = ptr.passing(margin)
    assert seen == approx(count * chance, abs=4 * sqrt(count * chance * (1 - chance)) + 1)


def test_an_estimate_is_a_function_of_whole_numbers() -> None:
    data = np.random.default_rng(1).normal(size=(3000, 2))
    found = DpMean(epsilon=1, delta=1e-5, bound=5.0).estimate(data, np.random.default_rng(2))
    again = DpMean(epsilon=1, delta=1e-5, bound=5.0).estimate(data[::-1], np.random.default_rng(2))
    assert found.mean is not None
    assert again.mean is not None
    assert np.array_equal(found.mean, again.mean)  # a sum of floats would tell the order of the records
    drawn = moments.symmetric_noise(60, 1000.0, np.random.default_rng(3))
    assert (drawn == drawn.T).all()
    assert np.diag(drawn).std() == approx(1000, rel=0.3)
    assert drawn[np.triu_indices(60, 1)].std() == approx(1000 / sqrt(2), rel=0.1)


# --- what it costs ----------------------------------------------------------------------------------------------------


def hockey_stick(away: int, scale: float, power: int, epsilon: float) -> float:
    """δ of rounded noise against itself moved by so many steps, outcome by outcome."""
    edges = np.arange(-int(40 * scale) - 1, int(40 * scale) + away + 2) + 0.5
    p, q = (-np.diff(above(edges - moved, scale, power)) for moved in (0, away))
    return float(np.maximum(q - exp(epsilon) * p, 0).sum())


def of_real(shift: float, power: int, epsilon: float) -> float:
    if power == 2:
        return float(ndtr(shift / 2 - epsilon / shift) - exp(epsilon) * ndtr(-shift / 2 - epsilon / shift))
    return max(-expm1((epsilon - shift) / 2), 0.0)


@pytest.mark.parametrize("scale", [3.0, 20.0, 200.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
@both
def test_rounding_gives_away_no_more_than_real_noise_and_hardly_less(
    scale: float, power: Power, epsilon: float
) -> None:
    """Theorem 1, and Theorem 2 with steps that are far from fine: noise larger by (h/σ)², or a shift less by 2h."""
    away = int(scale)
    own = hockey_stick(away, scale, power, epsilon)
    assert own <= of_real(away / scale, power, epsilon) * (1 + 1e-9)
    reached = away / scale / (1 + scale**-2) if power == 2 else (away - 2) / scale
    assert own >= of_real(reached, power, epsilon) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("mechanism", "clip"), [(Gaussian(clip=1.3, noise=0.9), 1.3), (Laplace(clip=1.3, noise=3), 1.3)]
)
def test_the_lower_bound_is_of_noise_larger_by_what_the_grid_may_lose(mechanism: Any, clip: float) -> None:
    (witness,) = witnesses_of(by_hand(mechanism))
    ((curve, rounds),) = witness.parts
    larger = replace(mechanism, noise=mechanism.noise * REACHED)
    assert (curve.delta(0.5), rounds) == (larger.between(clip, 0.0).delta(0.5), 1)
    step = mechanism.fine.step
    assert (clip - 3 * step) / mechanism.noise >= clip / larger.noise


def test_sampler_and_grid_are_the_only_ones_there_are() -> None:
    assert fine_grid.rounded_real is sampling_wide.rounded_real
