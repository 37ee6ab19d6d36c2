"""The draws have exactly the probabilities they are given: by counting all beginnings of U, and by statistics."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import comb

import mpmath
import numpy as np
import pytest
import randomgen
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import MT19937, PCG64, SFC64, Generator, Philox

from fedpriv.errors import FedprivError
from fedpriv.randomness import _inversion as sampling_inversion
from fedpriv.randomness import binomial as sampling_binomial
from fedpriv.randomness import bits as sampling_bits
from fedpriv.randomness.exact import bernoulli, binomial, binomial_fixed, discrete_gaussian, poisson, skellam, ternary

GENERATORS = [Philox, PCG64, SFC64, MT19937, randomgen.ChaCha, randomgen.AESCounter]
ALL_BYTES = np.repeat(np.arange(256, dtype=np.uint8), 256)  # the first bytes of all pairs of bytes
probabilities = st.lists(st.floats(0, 1), max_size=40)


class Scripted:
    """A generator that gives the words it was told, and complains if asked for another number of them."""

    bit_generator = None

    def __init__(self, *answers):
        self.answers = [np.ascontiguousarray(answer).view(np.uint64) for answer in answers]

    def integers(self, low, high, size, **_):
        answer = self.answers.pop(0)
        assert answer.size == size
        return answer


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def second_bytes(firsts: list[int]) -> np.ndarray:
    """For each of these first bytes, all second bytes, as the beginnings of words."""
    return np.tile(np.arange(256, dtype=np.uint64) << np.uint64(56), len(firsts))


# Bernoulli


@pytest.mark.parametrize("k", [0, 1, 255, 256, 257, 12345, 32768, 65279, 65280, 65281, 65535])
def test_of_65536_beginnings_of_u_k_lie_below_k(k):
    ties = [k >> 8] if k & 255 else []
    rng = Scripted(ALL_BYTES, *([second_bytes(ties)] if ties else []))
    assert bernoulli(np.full(65536, k / 65536), rng).sum() == k
    assert not rng.answers


@pytest.mark.parametrize(
    ("power", "later"),
    [(-60, [2**12]), (-72, [1]), (-130, [0, 2**6]), (-1074, [0] * 16 + [2**22])],
)
def test_the_smallest_probabilities_are_met_to_the_last_digit(power, later):
    for miss in (0, 1):
        rng = Scripted(words(0), *map(words, [*later[:-1], later[-1] - 1 + miss]))
        assert bernoulli([2.0**power], rng) == [1 - miss]
        assert not rng.answers


def test_zero_never_and_one_always_happens():
    for byte in (0, 255):
        rng = Scripted(np.full(8, byte, np.uint8))
        assert bernoulli([0, 0, 0, 1, 1, 1, -0.0, 1], rng).tolist() == [0, 0, 0, 1, 1, 1, 0, 1]


def test_next_to_one_fails_only_at_the_last_digit():
    p = np.nextafter(1, 0)  # 1 − 2⁻⁵³: its digits are 255, then 2⁶⁴ − 2¹⁹
    for word, hit in ((2**64 - 2**19 - 1, 1), (2**64 - 2**19, 0)):
        assert bernoulli([p], Scripted(words(255), words(word))) == [hit]


@pytest.mark.parametrize("kind", GENERATORS)
def test_bernoulli_has_its_mean_in_every_bin_under_every_generator(kind):
    p = np.random.default_rng(1).random(300_000)
    errors = bernoulli(p, Generator(kind(2))) - p
    bins = (p * 20).astype(int)
    z = np.bincount(bins, errors) / np.sqrt(np.bincount(bins, p * (1 - p)))
    assert abs(z).max() < 4  # standard errors, for the largest of 20


@given(p=probabilities)
def test_bernoulli_is_reproducible_and_of_two_symbols(p):
    once, again = (bernoulli(p, np.random.default_rng(3)) for _ in range(2))
    assert once.tolist() == again.tolist()
    assert set(once.tolist()) <= {0, 1}


def test_bernoulli_keeps_the_shape_and_takes_single_precision():
    p = np.random.default_rng(1).random((3, 4, 5), np.float32)
    assert (
        bernoulli(p, np.random.default_rng(2)).tolist() == bernoulli(p.astype(float), np.random.default_rng(2)).tolist()
    )
    assert bernoulli(p.T, np.random.default_rng(2)).shape == (5, 4, 3)
    assert bernoulli(0.5, np.random.default_rng(2)).shape == ()


def test_blocks_do_not_show(monkeypatch):
    p = np.random.default_rng(1).random(5000)

    def draws():
        rng = np.random.default_rng(2)
        return [*bernoulli(p, rng), *ternary(p / 2, (1 - p) / 2, rng), *bernoulli(lambda x: x * x, rng, at=p)]

    whole = draws()
    monkeypatch.setattr(sampling_bits, "_BLOCK", 64)
    assert draws() == whole


def test_a_function_of_x_is_the_array_of_its_values():
    x = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    vote = lambda x: (2 + np.clip(x, -1, 1)) / 4  # noqa: E731
    other = lambda x: (2 - np.clip(x, -1, 1)) / 8  # noqa: E731
    y = x.astype(float)
    for draw, functions in ((bernoulli, [vote]), (ternary, [vote, other])):
        whole = draw(*(f(y) for f in functions), np.random.default_rng(2))
        assert draw(*functions, np.random.default_rng(2), at=x).tolist() == whole.tolist()


@pytest.mark.parametrize("wrong", [np.nan, -1e-300, np.nextafter(1, 2), np.inf, -np.inf])
@pytest.mark.parametrize(
    "draw", [bernoulli, lambda p, rng: ternary(p, [0, 0, 0], rng), lambda p, rng: binomial(3, p, rng)]
)
def test_what_is_no_probability_is_refused(draw: Callable, wrong):
    with pytest.raises(FedprivError, match=f"between 0 and 1, got {wrong}"):
        draw([0.5, wrong, 0.5], np.random.default_rng(1))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_value_is_refused_even_where_it_would_be_clipped(wrong):
    with pytest.raises(FedprivError, match=f"finite, got {wrong}"):
        bernoulli(lambda x: (2 + np.clip(x, -1, 1)) / 4, np.random.default_rng(1), at=[0.5, wrong])


def test_probabilities_of_several_shapes_are_refused():
    with pytest.raises(FedprivError, match="plus and minus must be arrays of one shape"):
        ternary([0.5], [0.5, 0.5], np.random.default_rng(1))
    with pytest.raises(FedprivError, match="or functions with at="):
        bernoulli(lambda x: x, np.random.default_rng(1))


# ternary


@pytest.mark.parametrize(
    ("j", "k"), [(0, 0), (1, 1), (300, 500), (12345, 23456), (32768, 32768), (32769, 32767), (40000, 25536), (65535, 1)]
)
def test_of_65536_beginnings_j_are_plus_and_k_are_minus(j, k):
    ties = {j >> 8} & set(range(256)) if j & 255 else set()
    ties |= {255 - (k >> 8)} if k & 255 else set()
    ties = {a for a in ties if not (a < j >> 8 or 255 - a < k >> 8)}
    rng = Scripted(ALL_BYTES, *([second_bytes(sorted(ties))] if ties else []))
    out = ternary(np.full(65536, j / 65536), np.full(65536, k / 65536), rng)
    assert ((out == 1).sum(), (out == -1).sum()) == (j, k)
    assert not rng.answers


def test_certain_signs_are_certain():
    for byte in (0, 255):
        assert ternary([1, 0, 0], [0, 1, 0], Scripted(np.full(8, byte, np.uint8))).tolist() == [1, -1, 0]


@given(p=probabilities, q=st.floats(0, 1))
def test_plus_and_minus_that_fill_one_never_give_zero(p, q):
    p = np.minimum(p, q)  # below, equal to and far from one another
    out = ternary(p, 1 - p, np.random.default_rng(1))
    assert (abs(out) == 1)[(p + (1 - p) == 1) & (p > 2**-52)].all()


def test_what_rounding_lets_the_sum_pass_one_by_is_taken_from_one_side():
    plus, minus = 1 - 2.0**-53, 2.0**-53 + 2.0**-60 + 2.0**-80  # U < plus holds first; 1 − U < minus is a tie then
    rng = Scripted(words(255), words(2**64 - 1 - 2**19 - 2**12))
    assert plus + minus == 1
    assert ternary([plus], [minus], rng) == [1]
    assert not rng.answers


def test_ternary_has_its_means():
    rng = np.random.default_rng(1)
    plus, minus = rng.dirichlet([1, 1, 1], 300_000).T[:2]
    out = ternary(plus, minus, rng)
    for p, hit in ((plus, out == 1), (minus, out == -1)):
        assert abs((hit - p).sum()) < 4 * np.sqrt((p * (1 - p)).sum())


def test_more_than_one_in_all_is_refused():
    with pytest.raises(FedprivError, match=r"plus \+ minus must be between 0 and 1, got 1\.2"):
        ternary([0.6], [0.6], np.random.default_rng(1))


# binomial


def chi_square(draws: np.ndarray, pmf: Callable[[int], float], low: int, high: int) -> float:
    """How far the counts are from their law, in standard errors of χ²; rare outcomes share a cell."""
    p = np.array([float(pmf(k)) for k in range(low, high + 1)])
    common = p * draws.size >= 10
    seen = np.bincount(np.clip(draws, low - 1, high + 1).astype(np.int64) - low + 1, minlength=high - low + 3)
    expected = np.append(p[common], max(1 - p[common].sum(), 1e-12)) * draws.size
    seen = np.append(seen[1:-1][common], draws.size - seen[1:-1][common].sum())
    expected, seen = (expected, seen) if expected[-1] >= 5 else (expected[:-1], seen[:-1])
    degrees = max(expected.size - 1, 1)
    return float((((seen - expected) ** 2 / expected).sum() - degrees) / np.sqrt(2 * degrees))


def binomial_pmf(trials: int, p: float) -> Callable[[int], float]:
    with mpmath.workdps(30):
        law = [
            mpmath.binomial(trials, k) * mpmath.mpf(p) ** k * (1 - mpmath.mpf(p)) ** (trials - k)
            for k in range(trials + 1)
        ]
    return lambda k: float(law[k])


@pytest.mark.parametrize("trials", [1, 2, 16, 37, 100, 101, 257, 1000])
def test_binomial_has_its_law(trials):
    shares = [0.5, 0.003, 0.1 + 1 / 512, 0.77, 1 - 2**-20]
    draws = binomial(trials, np.tile(shares, 40_000), np.random.default_rng(trials)).reshape(-1, len(shares))
    for p, column in zip(shares, draws.T, strict=True):
        assert chi_square(column, binomial_pmf(trials, p), 0, trials) < 5


@pytest.mark.parametrize(("trials", "kind"), [(1, np.uint8), (255, np.uint8), (256, np.uint16), (70_000, np.uint32)])
def test_binomial_takes_the_smallest_type_and_meets_the_extremes(trials, kind):
    out = binomial(trials, [0, 1, 0.5], np.random.default_rng(1))
    assert out.dtype == kind
    assert out[:2].tolist() == [0, trials]
    assert abs(float(out[2]) - trials / 2) <= 5 * trials**0.5 / 2


@given(trials=st.integers(1, 10**5))
def test_trials_are_shared_out_to_the_last_one(trials):
    pieces = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling_binomial, "_splits", lambda piece: pieces.append(piece) or Tied(0))
        binomial(trials, [0.5], np.random.default_rng(1))
    assert sum(pieces) == trials
    assert max(pieces) <= 512
    assert len(set(pieces)) <= 2


@pytest.mark.parametrize(("trials", "digit"), [(1, 0), (2, 255), (16, 77), (37, 255), (100, 0), (100, 128), (300, 60)])
def test_the_tables_are_within_a_tenth_of_their_margin(trials, digit):
    splits = sampling_binomial._splits(trials)
    size, exact = splits.outcomes.size, sampling_binomial._WholeNumbers(trials, digit, 56)
    for i in np.random.default_rng(1).choice(size - 1, min(size - 1, 200), replace=False):
        if i % (trials + 1) + i // (trials + 1) <= trials:
            error = int(splits.bounds[digit * size + i]) - (digit << 56) - exact[int(i)]
            assert abs(error) < int(sampling_binomial._MARGIN) / 10


def test_a_draw_on_the_edge_is_decided_by_whole_numbers():
    trials, digit, place = 16, 100, 7  # S = 6 or 7 with T = 0, on either side of this bound
    splits = sampling_binomial._splits(trials)
    edge = sampling_binomial._WholeNumbers(trials, digit, 56 + 64)[place]
    first, rest = edge >> 108, (edge >> 64) & (2**44 - 1)
    for beyond, expected in ((-2, place), (2, place + 1)):
        rng = Scripted(words(first << 4), words(rest << 20), words((edge + beyond) & (2**64 - 1)))
        assert splits.draw(np.array([digit], np.uint8), rng) == [expected]
        assert not rng.answers


def test_a_tie_among_ties_is_drawn_on():
    p = (100 + 2**-8 + 2**-40) / 256  # digits 100, 1, 0, 0, 0, 1, …
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling_binomial, "_splits", lambda trials: Tied(1))
        rng = Scripted(words(1), words(0), words(0))
        assert binomial(1, [p], rng) == [1]
    assert not rng.answers


class Tied:
    """Splits that are nothing but ties."""

    def __init__(self, ties: int):
        self.ties = ties

    def draw(self, digit, rng):
        return np.full(digit.size, self.ties << 10, np.uint16)


# one fixed law


def gaussian_distribution(sigma: float) -> Callable[[int], mpmath.mpf]:
    reach = int(25 * sigma) + 2
    weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for k in range(-reach, reach + 1)]
    sums = list(accumulate(weights))
    return lambda k: sums[k + reach] / sums[-1]


def poisson_distribution(mean: float) -> Callable[[int], mpmath.mpf]:
    return lambda k: mpmath.fsum(
        mpmath.exp(-mpmath.mpf(mean)) * mpmath.mpf(mean) ** j / mpmath.factorial(j) for j in range(k + 1)
    )


def binomial_distribution(trials: int, p: float) -> Callable[[int], mpmath.mpf]:
    p = mpmath.mpf(p)
    return lambda k: mpmath.fsum(comb(trials, j) * p**j * (1 - p) ** (trials - j) for j in range(k + 1))


LAWS = {
    "gaussian 0.3": (lambda: sampling_inversion._table("gaussian", 0.3), lambda: gaussian_distribution(0.3)),
    "gaussian 1": (lambda: sampling_inversion._table("gaussian", 1.0), lambda: gaussian_distribution(1.0)),
    "gaussian 7.7": (lambda: sampling_inversion._table("gaussian", 7.7), lambda: gaussian_distribution(7.7)),
    "gaussian 200": (lambda: sampling_inversion._table("gaussian", 200.0), lambda: gaussian_distribution(200.0)),
    "poisson 0.01": (lambda: sampling_inversion._table("poisson", 0.01), lambda: poisson_distribution(0.01)),
    "poisson 20.5": (lambda: sampling_inversion._table("poisson", 20.5), lambda: poisson_distribution(20.5)),
    "binomial 30 .1": (lambda: sampling_inversion._table("binomial", 0.1, 30), lambda: binomial_distribution(30, 0.1)),
    "binomial 99 .5": (lambda: sampling_inversion._table("binomial", 0.5, 99), lambda: binomial_distribution(99, 0.5)),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("bits", [64, 192])
def test_every_bound_is_within_one_unit_at_every_precision(name, bits):
    table = LAWS[name][0]()
    first, bounds = table.cumulative(bits)
    assert (bounds[0], bounds[-1]) == (0, 2**bits - 1)
    with mpmath.workprec(bits + 100):
        distribution = LAWS[name][1]()
        for i in range(0, len(bounds), len(bounds) // 40 + 1):
            assert abs(distribution(first + i) * 2**bits - bounds[i]) <= 1


@pytest.mark.parametrize("name", LAWS)
def test_a_fixed_law_is_met_far_out_and_on_the_edge(name):
    """U in the far tails, and beside a bound by the last of 128 or 256 bits, comes out where the definition says."""
    table = LAWS[name][0]()
    with mpmath.workprec(400):
        distribution = LAWS[name][1]()
        edge = int(distribution(table.first + len(table.bounds) // 2) * 2**256)
        for u in (12345 << 180, (1 << 256) - (1 << 190), edge - 2**130, edge + 2**130, edge - 2**9, edge + 2**9):
            digit, word, more = (
                u >> 240,
                (u >> 192) & (2**48 - 1),
                [(u >> shift) & (2**64 - 1) for shift in (128, 64, 0)],
            )
            rng = Scripted(words(digit), words(word << 16), words(more[0]), words(*more[1:]))
            assert table.open[digit]
            k = int(table.draw(1, rng)[0])
            low = distribution(k - 1) if "gaussian" in name or k > 0 else 0
            assert low * 2**256 <= u < distribution(k) * 2**256


def test_the_guide_leaves_open_what_the_margin_touches():
    cell = 2**48
    bounds = words(0, 5 * cell - 3, 9 * cell + 2, 20 * cell + 10, 2**64 - 1)
    start, undecided = sampling_inversion.guide(bounds, 16, np.uint64(4))
    assert np.flatnonzero(undecided).tolist() == [0, 4, 5, 8, 9, 20, 65535]
    assert start[[1, 6, 10, 21]].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("sigma", [0.3, 1.0, 12.5, 300.0])
def test_discrete_gaussian_has_its_law(sigma):
    reach = int(6 * sigma) + 1
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
    draws = discrete_gaussian(sigma, 200_000, np.random.default_rng(1))
    assert chi_square(draws, lambda k: weights[k + reach] / weights.sum(), -reach, reach) < 5


@pytest.mark.parametrize("variance", [0.2, 8.0, 500.0])
def test_skellam_has_its_law(variance):
    reach = int(8 * variance**0.5) + 2
    law = lambda k: mpmath.exp(-variance) * mpmath.besseli(k, variance)  # noqa: E731
    assert chi_square(skellam(variance, 200_000, np.random.default_rng(1)), law, -reach, reach) < 5


@pytest.mark.parametrize("mean", [0.2, 8.0, 500.0])
def test_poisson_has_its_law(mean):
    law = lambda k: mpmath.exp(-mean) * mpmath.mpf(mean) ** k / mpmath.factorial(k)  # noqa: E731
    assert chi_square(poisson(mean, 200_000, np.random.default_rng(1)), law, 0, int(mean + 10 * mean**0.5) + 5) < 5


@pytest.mark.parametrize(("trials", "p"), [(1, 0.3), (16, 0.5), (300, 0.9)])
def test_binomial_of_one_p_has_its_law(trials, p):
    assert (
        chi_square(binomial_fixed(trials, p, 200_000, np.random.default_rng(1)), binomial_pmf(trials, p), 0, trials) < 5
    )


@pytest.mark.parametrize(
    "draw",
    [
        lambda n, rng: discrete_gaussian(1e4, n, rng) / 1e4,
        lambda n, rng: skellam(1e8, n, rng) / 1e4,
        lambda n, rng: (binomial_fixed(10**6, 0.5, n, rng) - 500_000) / 500,
    ],
)
def test_wide_laws_have_their_moments(draw):
    z = draw(100_000, np.random.default_rng(1))
    assert abs(z.mean()) < 4 / 100_000**0.5
    assert abs(z.var() - 1) < 4 * (2 / 100_000) ** 0.5


def test_the_narrowest_noise_is_none():
    assert not discrete_gaussian(1e-3, 1000, np.random.default_rng(1)).any()
    assert binomial_fixed(7, 1.0, (2, 3), np.random.default_rng(1)).tolist() == [[7] * 3] * 2


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda rng: discrete_gaussian(0, 1, rng), "sigma must be positive"),
        (lambda rng: discrete_gaussian(np.nan, 1, rng), "sigma must be finite"),
        (lambda rng: discrete_gaussian(1e6, 1, rng), "standard deviation must be at most"),
        (lambda rng: skellam(-1, 1, rng), "variance must be positive"),
        (lambda rng: binomial_fixed(0, 0.5, 1, rng), "trials must be at least 1"),
        (lambda rng: binomial_fixed(3, 1.5, 1, rng), "p must be between 0 and 1"),
        (lambda rng: binomial(2.5, [0.5], rng), "trials must be a whole number"),
    ],
)
def test_what_is_no_setting_is_refused(draw, says):
    with pytest.raises(FedprivError, match=says):
        draw(np.random.default_rng(1))
