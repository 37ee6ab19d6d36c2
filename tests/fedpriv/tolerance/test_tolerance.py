"""How many attackers a vote survives: the papers' numbers, the exact count by other routes, the certificate, runs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil, comb, floor, inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pytest import approx

from fedpriv import records
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Binomial, Cldp, Gaussian, Mechanism, StochasticSign, Ternarize, Ternary
from fedpriv.studies import file as study_file
from fedpriv.tolerance import Vote, covered_share, least_mean
from fedpriv.tolerance._published import theorem_5, theorem_6, theorem_10, theorem_11
from server import rounds
from server.progress import Progress, result_table
from server.rounds.driver import Answer, Task
from simulations.runs.direct import Here


def votes(scale: float, trials: int, clip: float = 0.1) -> Binomial:
    return Binomial(clip=clip, scale=scale, trials=trials)


def symbols(spread: float, scale: float, clip: float = 0.1) -> Ternary:
    return Ternary(clip=clip, spread=spread, scale=scale)


@st.composite
def mechanisms(draw: st.DrawFn) -> Mechanism:
    """Of clip 1."""
    scale = draw(st.floats(1.01, 6))
    match draw(st.sampled_from(["Binomial", "StochasticSign", "Cldp", "Ternary", "Ternarize"])):
        case "Binomial":
            return Binomial(clip=1, scale=scale, trials=draw(st.integers(1, 5)))
        case "StochasticSign":
            return StochasticSign(clip=1, scale=scale)
        case "Cldp":
            return Cldp(clip=1, epsilon=scale)
        case "Ternary":
            return Ternary(clip=1, spread=scale, scale=scale * draw(st.floats(1.01, 5)))
    return Ternarize(clip=1, scale=scale)


@st.composite
def polls(draw: st.DrawFn, most: int = 40) -> Vote:
    return Vote(
        mechanism=draw(mechanisms()),
        honest=draw(st.integers(1, most)),
        mean=draw(st.floats(0.02, 1)),
        attack=draw(st.sampled_from(["blind", "omniscient"])),
    )


# --- the papers' numbers ------------------------------------------------------------------------------------------

PUBLISHED: list[tuple[Any, float]] = [
    (Vote(mechanism=votes(1, 16), honest=1000, mean=0.1), 829.69),
    (Vote(mechanism=votes(0.5, 16), honest=100, mean=0.1), 74.35),
    (Vote(mechanism=votes(0.5, 1), honest=100, mean=0.1), 26.05),
    (Vote(mechanism=votes(1, 16), honest=100, mean=0.1), 54.5),
    (Vote(mechanism=votes(1, 64), honest=1000, mean=0.1), 911),
    (Vote(mechanism=symbols(0.15, 0.5), honest=1000, mean=0.1), 815.06),
    (Vote(mechanism=symbols(0.25, 0.5), honest=1000, mean=0.1), 767),
    (Vote(mechanism=symbols(0.25, 0.5), honest=10_000, mean=0.1), 9200),
    (Vote(mechanism=votes(0.5, 16), honest=100, mean=0.1, probability=1.0), 16.57),
    (Vote(mechanism=votes(0.5, 16), honest=100, mean=0.1, attack="omniscient"), 16.57),
]


@pytest.mark.parametrize(("vote", "attackers"), PUBLISHED, ids=str)
def test_the_theorems_give_the_papers_numbers(vote: Vote, attackers: float) -> None:
    assert vote.published[1] == approx(attackers, rel=6e-4)


def test_a_sign_is_a_binomial_vote_of_one_trial() -> None:
    sign = StochasticSign(clip=0.1, scale=0.5)
    private = Cldp(clip=0.1, epsilon=1.0)
    for one, other in ((sign, votes(0.5, 1)), (private, votes(private.sign.scale, 1))):
        found, wanted = (Vote(mechanism=each, honest=100, mean=0.1) for each in (one, other))
        assert found.published == wanted.published
        assert (found.hoeffding, found.exact) == (wanted.hoeffding, wanted.exact)


def test_blind_attackers_are_those_of_theorem_10_and_11_at_the_probability_that_the_paper_names() -> None:
    assert theorem_10(100, 0.1, 0.5, 16, 0.5 + 0.1) == approx(theorem_5(100, 0.1, 0.5, 16))  # ½ + x̄/2B
    assert theorem_11(1000, 0.1, 0.15, 0.5, 0.25) == approx(theorem_6(1000, 0.1, 0.15, 0.5))  # p − q = x̄/B
    for mechanism, probability in ((votes(0.5, 3), 0.6), (symbols(0.15, 0.5), 0.25)):
        blind = Vote(mechanism=mechanism, honest=20, mean=0.1)
        named = Vote(mechanism=mechanism, honest=20, mean=0.1, probability=probability)
        assert named.chances(np.arange(30))[0] == approx(blind.chances(np.arange(30))[0], abs=1e-12)
        assert named.exact == blind.exact


def test_the_theorems_say_nothing_where_their_conditions_fail() -> None:
    assert theorem_5(100, 0.01, 0.5, 1) is None
    assert theorem_6(100, 0.01, 0.15, 0.5) is None
    assert theorem_10(100, 0.01, 0.5, 1, 1.0) is None
    assert theorem_11(100, 0.01, 0.15, 0.5, 0.3) is None


def test_theorem_6_with_its_printed_condition_alone_would_be_wrong() -> None:
    spread, scale, mean, honest = 0.005, 1.0, 0.0049, 100
    inner = 0.5 ** (1 / honest) - 1 + spread / scale
    room = sqrt(spread**2 - scale**2 * inner**2)
    assert mean > room
    assert honest * (mean - room) / (mean + room) == approx(2.92, abs=0.005)
    vote = Vote(mechanism=symbols(spread, scale, clip=0.00499), honest=honest, mean=mean)
    assert vote.chances(0)[0] == approx(0.390, abs=5e-4)
    assert vote.published == ("[F] Theorem 6", None)
    assert vote.exact == -1


# --- the exact number ---------------------------------------------------------------------------------------------


def test_the_example_survives_95_by_count_91_for_certain_and_26_by_the_paper() -> None:
    vote = Vote(mechanism=votes(0.5, 1), honest=100, mean=0.1)
    assert (vote.hoeffding, vote.exact) == (91, 95)
    right = vote.chances([95, 96, 97, 98, 99, 100])[0]
    assert (right > 0.5).tolist() == [True, False, True, False, True, False]  # even sums tie


def by_hand(mechanism: Any, honest: int, attackers: int, mean: float, attack: str) -> Fraction | float:
    """P(right), by adding the probabilities of all outcomes one client after the other."""
    own = mechanism.sign if isinstance(mechanism, Cldp) else mechanism
    if isinstance(own, Ternary | Ternarize):
        plus, minus = (float(f(np.array([mean]))[0]) for f in (own.plus, own.minus))
        client = {1: plus, 0: 1 - plus - minus, -1: minus}
        worst = -1
    else:
        trials = getattr(own, "trials", 1)
        p = 0.5 + mean / (2 * own.scale)
        client = {2 * k - trials: comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)}
        worst = -trials
    attacker = {worst: 1.0} if attack == "omniscient" else {-symbol: chance for symbol, chance in client.items()}
    total: dict[int, float] = {0: 1.0}
    for law in [client] * honest + [attacker] * attackers:
        grown: dict[int, float] = {}
        for have, chance in total.items():
            for symbol, p in law.items():
                grown[have + symbol] = grown.get(have + symbol, 0.0) + chance * p
        total = grown
    return sum(chance for vote, chance in total.items() if vote > 0)


@given(vote=polls(most=9), attackers=st.integers(0, 9))
def test_the_chance_is_that_of_all_outcomes_added_up(vote, attackers):
    found, error = vote.chances(attackers)
    assert found[0] == approx(by_hand(vote.mechanism, vote.honest, attackers, vote.mean, vote.attack), abs=1e-12)
    assert error < 1e-10


@given(vote=polls(most=7))
def test_the_exact_number_is_the_largest_up_to_which_all_are_right(vote):
    assume(vote.exact < 9)
    attackers = 0
    while by_hand(vote.mechanism, vote.honest, attackers, vote.mean, vote.attack) > 0.5 + 1e-12:
        attackers += 1
    assert vote.exact == attackers - 1
    assert all(vote.tolerates(k) == (k < attackers) for k in range(12))


@pytest.mark.parametrize("attack", ["blind", "omniscient"])
@pytest.mark.parametrize("mechanism", [votes(0.5, 3), symbols(0.2, 0.5), Ternarize(clip=0.1, scale=0.3)], ids=str)
def test_simulated_votes_agree_with_the_chance(mechanism: Any, attack: Any) -> None:
    runs, honest, attackers, rng = 20_000, 15, 4, np.random.default_rng(7)
    centre = 3 / 2 if isinstance(mechanism, Binomial) else 0
    worst = 0 if isinstance(mechanism, Binomial) else -1
    total = mechanism.encode(np.full((honest, runs), 0.1), rng).sum(axis=0, dtype=int)
    if attack == "blind":
        total = total + mechanism.encode(np.full((attackers, runs), -0.1), rng).sum(axis=0, dtype=int)
    else:
        total = total + attackers * worst
    right = float((total - (honest + attackers) * centre > 0).mean())
    chance = float(Vote(mechanism=mechanism, honest=honest, mean=0.1, attack=attack).chances(attackers)[0][0])
    assert 0.05 < chance < 0.95
    assert right == approx(chance, abs=4 * sqrt(chance * (1 - chance) / runs))


@pytest.mark.parametrize("mechanism", [votes(1, 64), symbols(0.15, 0.5)], ids=str)
def test_large_votes_agree_with_a_convolution_of_windows(mechanism: Any) -> None:
    honest, attackers = 600, 500
    vote = Vote(mechanism=mechanism, honest=honest, mean=0.002)
    client = np.array(vote.ballots[0].law)
    for _ in range(vote.ballots[0].trials - 1):
        client = np.convolve(client, vote.ballots[0].law)
    law = np.convolve(power(client, honest), power(client[::-1], attackers))
    half = (honest + attackers) * (len(client) - 1) // 2
    assert vote.chances(attackers)[0][0] == approx(law[half + 1 :].sum(), abs=1e-9)


def power(law: Any, times: int) -> Any:
    """The law of a sum, by repeated squaring."""
    if times == 1:
        return law
    half = power(law, times // 2)
    law_of_even = np.fft.irfft(np.fft.rfft(half, 2 * len(half)) ** 2, 2 * len(half))[: 2 * len(half) - 1]
    return np.convolve(law_of_even, law) if times % 2 else law_of_even


@given(vote=polls(), more=st.floats(1, 3))
def test_a_larger_mean_never_makes_omniscient_attackers_stronger(vote, more):
    mean = min(1.0, vote.mean * more)
    first, second = (
        Vote(mechanism=vote.mechanism, honest=vote.honest, mean=x, attack="omniscient") for x in (vote.mean, mean)
    )
    few = np.arange(6)
    assert (second.chances(few)[0] >= first.chances(few)[0] - 1e-12).all()
    assert second.exact >= first.exact


@given(vote=polls(), more=st.floats(1, 3))
def test_a_larger_mean_never_tolerates_fewer(vote, more):
    larger = Vote(mechanism=vote.mechanism, honest=vote.honest, mean=min(1.0, vote.mean * more), attack=vote.attack)
    assert larger.exact >= vote.exact


@given(vote=polls(), attackers=st.integers(0, 30))
def test_omniscient_attackers_are_no_weaker_than_blind_ones(vote, attackers):
    worst, blind = (
        Vote(mechanism=vote.mechanism, honest=vote.honest, mean=vote.mean, attack=attack)
        for attack in ("omniscient", "blind")
    )
    assert worst.chances(attackers)[0] <= blind.chances(attackers)[0] + 1e-12


@given(honest=st.integers(1, 8), attackers=st.integers(0, 8), scale=st.floats(1.01, 6), mean=st.floats(0.05, 1))
def test_omniscient_is_the_worst_that_attackers_who_know_every_vote_can_do(honest, attackers, scale, mean):
    p, least = 0.5 + mean / (2 * scale), 0.0
    for cast in product((-1, 1), repeat=honest):
        chance = float(np.prod([p if vote > 0 else 1 - p for vote in cast]))
        answers = range(-attackers, attackers + 1, 2)  # all that their votes can add up to
        least += chance * min(sum(cast) + answer > 0 for answer in answers)
    vote = Vote(mechanism=StochasticSign(clip=1, scale=scale), honest=honest, mean=mean, attack="omniscient")
    assert vote.chances(attackers)[0] == approx(least, abs=1e-12)


# --- the certificate ----------------------------------------------------------------------------------------------


@given(vote=polls(most=60))
def test_what_is_certified_for_all_data_holds_where_all_are_at_the_mean(vote):
    certified = vote.hoeffding
    if certified is not None:
        assert (vote.chances(np.arange(certified + 1))[0] > 0.5).all()
        assert vote.exact >= certified
    published = vote.published[1]
    if published is not None and vote.exact >= 0:
        assert vote.exact >= floor(published)


def spread_out(data: st.DataObject, count: int, mean: float) -> Any:
    """Different data within [−1, 1] of that mean."""
    x = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=count, max_size=count)))
    away = x - x.mean() if count else x
    return mean + away * min(1.0, (1 - mean) / max(np.abs(away).max(initial=0), 1e-9)) * (1 - 1e-12)


@given(mechanism=mechanisms(), honest=st.integers(1, 9), mean=st.floats(0.1, 0.95), data=st.data())
def test_what_is_certified_holds_for_any_data_of_that_mean(mechanism, honest, mean, data):
    vote = Vote(mechanism=mechanism, honest=honest, mean=mean * (1 - 1e-9))
    attackers = data.draw(st.integers(0, vote.hoeffding)) if vote.hoeffding is not None else None
    assume(attackers is not None)
    own = mechanism.sign if isinstance(mechanism, Cldp) else mechanism
    x = np.concatenate((spread_out(data, honest, mean), -spread_out(data, attackers, mean)))
    if isinstance(own, Ternary | Ternarize):
        laws = np.stack([own.minus(x), 1 - own.plus(x) - own.minus(x), own.plus(x)], axis=1)
    else:
        laws = np.stack([1 - own.chance(x), own.chance(x)], axis=1).repeat(getattr(own, "trials", 1), axis=0)
    total = np.ones(1)
    for law in laws:
        total = np.convolve(total, law)
    assert total[(len(total) - 1) // 2 + 1 :].sum() > 0.5


@given(n=st.integers(1, 60), k=st.integers(0, 60), room=st.floats(0, 5))
def test_a_binomial_with_a_mean_of_k_and_1_is_at_most_k_less_than_half_of_the_time(n, k, room):
    assume(k + 1 <= n)
    p = min(1.0, (k + 1 + room) / n)
    below = sum(comb(n, i) * Fraction(p) ** i * (1 - Fraction(p)) ** (n - i) for i in range(k + 1))
    assume(Fraction(p) * n >= k + 1)
    assert below < Fraction(1, 2)


def test_three_symbols_that_are_no_two_coins_have_no_certificate() -> None:
    assert Vote(mechanism=symbols(0.25, 0.5), honest=1000, mean=0.1).hoeffding == 995
    assert Vote(mechanism=symbols(0.26, 0.5), honest=1000, mean=0.1).hoeffding is None


# --- which coordinates are covered --------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ["blind", "omniscient"])
@pytest.mark.parametrize(("honest", "byzantine"), [(50, 0), (50, 7), (400, 40)])
def test_at_the_least_mean_the_attackers_are_tolerated_and_just_below_they_are_not(
    honest: int, byzantine: int, attack: Any
) -> None:
    mechanism = votes(2, 3, clip=1)
    least = least_mean(mechanism, honest, byzantine, attack)
    at = Vote(mechanism=mechanism, honest=honest, mean=least, attack=attack)
    below = Vote(mechanism=mechanism, honest=honest, mean=least * (1 - 1e-6), attack=attack)
    assert at.tolerates(byzantine)
    assert not below.tolerates(byzantine)


def test_where_no_mean_will_do_the_least_is_infinite_and_nothing_is_covered() -> None:
    assert least_mean(votes(1, 4), 100, 60, "omniscient") == inf
    assert covered_share(votes(1, 4), 100, 60, [0.1, -0.1], "omniscient") == 0.0


def test_a_coordinate_is_covered_from_the_least_mean_on_whatever_its_sign() -> None:
    mechanism = votes(2, 4, clip=1)
    least = least_mean(mechanism, 100, 10, "omniscient")
    means = np.array([least, -least, least * 0.99, 0.0])
    assert covered_share(mechanism, 100, 10, means, "omniscient") == 0.5


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_means_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(FedprivError, match="finite"):
        covered_share(votes(2, 4), 100, 10, [0.1, value])


# --- in a running study -------------------------------------------------------------------------------------------

FEW = ["clients.count=60", "privacy.epsilon=20.0", "clients.byzantine=4", "server.momentum=0.0"]


def ran(directory: Path, *overrides: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    study = study_file.read_study("digits", [*FEW, *overrides])
    result = rounds.run_rounds(study, directory, Here(1), quiet=True)
    return result, records.read_records(directory / "records.jsonl").rounds


@pytest.mark.parametrize("participation", ["All", "Fixed"])
def test_a_round_says_which_share_of_the_decoded_means_survives_all_attackers(
    participation: str, tmp_path: Path
) -> None:
    asked = 60 if participation == "All" else 25
    chosen = [] if participation == "All" else ["clients.participation={kind='Fixed', number=25}"]
    result, lines = ran(tmp_path, "server.tolerance=true", "run.rounds=1", *chosen)
    study = study_file.parsed_study((tmp_path / "study.toml").read_text())
    with np.load(tmp_path / "checkpoint.npz") as file:
        means = file["weights"] / -study.server.step  # the first round starts at zero
    byzantine = ceil(4 * asked / 60)
    share = covered_share(study.privacy.drawn_by, asked - byzantine, byzantine, means, "blind")
    assert 0 < share < 1
    assert lines[0]["tolerance"] == result["tolerance"] == share
    assert result["judged"] == "blind"  # what SignFlip is, and Alie is not
    worst = covered_share(study.privacy.drawn_by, asked - byzantine, byzantine, means, "omniscient")
    other, _ = ran(tmp_path / "other", "server.tolerance=true", "run.rounds=1", "attack={kind='Zero'}", *chosen)
    assert other["judged"] == "omniscient"
    assert worst < share


def test_rounds_that_are_not_evaluated_or_were_not_asked_say_nothing_of_it(tmp_path: Path) -> None:
    votes = ["aggregation.kind=MajorityVote", "server.step=0.01", "run.rounds=3", "run.evaluate_every=2"]
    result, lines = ran(tmp_path / "asked", "server.tolerance=true", *votes)
    assert [line["tolerance"] is None for line in lines] == [True, False, False]
    assert result["tolerance"] == lines[-1]["tolerance"]
    result, lines = ran(tmp_path / "not asked", *votes)
    assert result["tolerance"] is None
    assert not any("tolerance" in line for line in lines)
    assert result["accuracy"] == json.loads((tmp_path / "asked" / "result.json").read_text())["accuracy"]


def test_where_all_who_answer_may_be_byzantine_nothing_is_covered(tmp_path: Path) -> None:
    class FourAnswer(Here):
        def ask(self, task: Task) -> Iterator[Answer]:
            yield from super().ask(replace(task, clients=task.clients[:4]))

    local = ["privacy.trust=local", "privacy.epsilon=2000.0", "server.fewest=4", "run.rounds=1"]
    study = study_file.read_study("digits", [*FEW, "server.tolerance=true", *local])
    assert rounds.run_rounds(study, tmp_path, FourAnswer(1), quiet=True)["tolerance"] == 0.0


@pytest.mark.parametrize("share", [-0.1, 1.1, "most", True])
def test_records_hold_a_share(share: Any, tmp_path: Path) -> None:
    ran(tmp_path, "server.tolerance=true", "run.rounds=1")
    path = tmp_path / "records.jsonl"
    first, line, end = path.read_text().splitlines()
    changed = json.dumps(json.loads(line) | {"tolerance": share})
    path.write_text("\n".join([first, changed, end, ""]))
    with pytest.raises(FedprivError, match=r"records.jsonl:2: tolerance cannot be"):
        records.read_records(path)


def test_a_person_sees_it_while_the_run_goes_and_at_its_end(tmp_path: Path) -> None:
    screen = io.StringIO()
    progress = Progress(2, 60, False, screen)
    line = {
        "round": 2,
        "answered": 60,
        "rejected": {},
        "failed": {},
        "skipped": None,
        "accuracy": None,
        "epsilon": None,
    }
    progress.update(line | {"tolerance": 0.834}, {"seconds": 0.1})
    assert "tolerance covers 83% of votes" in screen.getvalue()
    result, _ = ran(tmp_path, "run.rounds=1")
    assert "tolerance" not in result_table(result)
    words = result_table(result | {"tolerance": 0.834})
    assert "83% of coordinates' votes survive all 4 attackers voting against it (estimate)" in words
    words = result_table(result | {"tolerance": 0.834, "judged": "blind"})
    assert "votes survive all 4 blind attackers (estimate)" in words


STUDIES = [
    (["server.tolerance=1"], "server.tolerance must be true or false, got 1"),
    (
        ["privacy.trust=local", "aggregation.kind=Median"],
        "or MajorityVote, and the mechanism .*; got Median of Binomial",
    ),
    (["privacy.mechanism={kind='Skellam', clip=1.0, levels=8}"], "server.tolerance is of votes .* got Mean of Skellam"),
]


@pytest.mark.parametrize(("changes", "message"), STUDIES, ids=str)
def test_a_study_without_votes_to_sum_has_no_tolerance(changes: list[str], message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        study_file.read_study("digits", ["server.tolerance=true", *changes])


def test_noisy_signs_have_a_tolerance_in_a_run(tmp_path: Path) -> None:
    signs = ["privacy.mechanism={kind='NoisySign', clip=1.0, noise=0.5}", "aggregation.kind=MajorityVote"]
    local = ["privacy.trust=local", "server.step=0.01", "run.rounds=1"]
    text = study_file.study_text(study_file.read_study("digits")).replace("epsilon = 4.0\n", "")
    study = study_file.parsed_study(text, overrides=["server.tolerance=true", *FEW[2:], *FEW[:1], *signs, *local])
    assert 0 < rounds.run_rounds(study, tmp_path, Here(1), quiet=True)["tolerance"] < 1


def test_votes_too_many_to_count_are_refused_before_the_first_round(tmp_path: Path) -> None:
    many = ["clients.count=1400", "privacy.mechanism={kind='Binomial', clip=1.0, scale=1e6, trials=1000000}"]
    text = study_file.study_text(study_file.read_study("digits")).replace("epsilon = 4.0\n", "")
    study = study_file.parsed_study(text, overrides=["server.tolerance=true", *many])
    with pytest.raises(FedprivError, match=r"server\.tolerance: honest must be at most 1,000, got 1400"):
        rounds.run_rounds(study, tmp_path / "run", Here(1), quiet=True)
    assert not (tmp_path / "run").exists()


# --- bad input ----------------------------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"mean": float("nan")}, "mean must be finite, got nan"),
    ({"mean": -0.1}, "mean must be positive, got -0.1"),
    ({"mean": 0}, "mean must be positive"),
    ({"mean": 0.2}, "mean must be at most the mechanism's peak = 0.1, got 0.2"),
    ({"honest": 0}, "honest must be at least 1"),
    ({"honest": 2.5}, "honest must be a whole number"),
    ({"honest": 10**12}, "honest must be at most 1,000,000,000, got 1000000000000"),
    ({"attack": "blnd"}, "did you mean 'blind'"),
    ({"probability": 0.5}, "probability must be above 0.5"),
    ({"probability": 1.1}, "and at most 1, got 1.1"),
    ({"probability": float("nan")}, "probability must be finite"),
    ({"mechanism": symbols(0.25, 0.5), "probability": 0.6}, "above 0.25, where a vote begins to harm, and at most 0.5"),
    ({"mechanism": Gaussian(clip=1, noise=1)}, "Gaussian has no tolerance here; mechanisms with one: Binomial"),
    ({"sampling": 0}, "sampling must be positive, got 0"),
    ({"sampling": 1.5}, "sampling must be .*1.*, got 1.5"),
    ({"sampling": float("nan")}, "sampling must be finite, got nan"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=str)
def test_what_cannot_be_a_vote_is_refused(changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"mechanism": votes(0.5, 1), "honest": 100, "mean": 0.1} | changes
    with pytest.raises(FedprivError, match=message):
        Vote(**settings)


def test_attackers_that_are_hardly_any_are_not_counted_for_ever() -> None:
    vote = Vote(mechanism=votes(0.5, 1), honest=100, mean=0.1, probability=0.5 + 1e-9)
    with pytest.raises(
        FedprivError, match="9,000,000,256 attackers and more are tolerated: their votes are nearly fair coins"
    ):
        _ = vote.exact
