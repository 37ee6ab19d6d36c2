"""Laws over every mechanism, bound, trust, unit and adjacency: what leaves is charged, or nothing is certified."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import product
from math import fsum, isinf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tried import TRIED

from fedpriv.accounting.account import Account
from fedpriv.accounting.course import LEVELS
from fedpriv.accounting.event import Event, by_hand, event_as_data, event_of
from fedpriv.bounds import Bound, Box, Norm, Normalised
from fedpriv.channel import Channel
from fedpriv.channel.encoding import Seeded
from fedpriv.curves.compose import ROUGH
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    MECHANISMS,
    BinomialNoise,
    Gaussian,
    Laplace,
    Sign,
    Ternarize,
)
from fedpriv.mechanisms.plain import Plain
from fedpriv.packed.symbols import packing_of
from fedpriv.studies.study import Kind
from fedpriv.studies.tables import Privacy
from fedpriv.trust import Central, Local, Sums

ROOT = Path(__file__).parents[3]
EVERY = TRIED
BOUNDLESS = (Ternarize, BinomialNoise, Sign)  # an outcome gives a client away for certain: ε = ∞ below their δ
HOWS: list[Any] = ["clip", "normalise", "coordinates"]
SIZES = [0.0, 1e-42, 1e-3, 0.2, 1.0, 7.0, 3e38]


def updates(size: float) -> np.ndarray[Any, Any]:
    draws = np.random.default_rng(7).uniform(-1, 1, (6, 40))
    draws[1, 1:], draws[2] = 0.0, 1.0
    return (draws * size).astype(np.float32)


def test_every_mechanism_there_is_keeps_these_laws() -> None:
    assert {type(each).__name__ for each in EVERY} == set(MECHANISMS)


@pytest.mark.parametrize("mechanism", [*EVERY, Plain(clip=1.0)], ids=repr)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("size", SIZES)
def test_what_is_encoded_is_within_the_bound_that_is_charged(mechanism: Any, how: Any, size: float) -> None:
    channel, rows = Channel.of(how, mechanism), updates(size)
    noise = Seeded(seed=1, round=2, clients=np.arange(len(rows)))
    sent = packing_of(mechanism).unpack(channel.messages(rows, noise), rows.shape[1])
    within = channel.bounded(rows).applied
    peak = np.clip(within, -mechanism.peak, mechanism.peak)
    for row in range(len(rows)):
        if isinstance(channel.bound, Box):
            assert np.abs(within[row]).max() <= mechanism.peak
        else:
            assert fsum(within[row] ** 2) <= mechanism.clip**2
        held = mechanism.encode(peak[row], noise.one(row))  # the message of what is charged, and of nothing else
        assert np.array_equal(sent[row], held.astype(sent.dtype))


@pytest.mark.parametrize("mechanism", [Gaussian(clip=1e-3, noise=1e-9), Laplace(clip=1e-3, noise=1e-9)], ids=repr)
@pytest.mark.parametrize("how", HOWS)
def test_what_noise_is_added_to_is_within_the_clip(mechanism: Any, how: Any) -> None:
    channel, rows = Channel.of(how, mechanism), updates(1e6)
    sent = packing_of(mechanism).unpack(channel.messages(rows, Seeded(1, 1, np.arange(len(rows)))), rows.shape[1])
    assert np.abs(sent).max() <= 1.001e-3


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_rows_that_are_not_finite_are_never_encoded(mechanism: Any) -> None:
    for how, bad in product(HOWS, (np.nan, np.inf, -np.inf)):
        rows = updates(1.0)
        rows[3, 5] = bad
        channel = Channel.of(how, mechanism)
        assert channel.bounded(rows).finite.tolist() == [True, True, True, False, True, True]
        with pytest.raises(FedprivError, match="row 3 of the updates is not finite"):
            channel.messages(rows, Seeded(1, 1, np.arange(len(rows))))


def bounds_of(mechanism: Any) -> list[Bound | None]:
    return [None, Norm(mechanism.clip), Normalised(mechanism.clip), Box(mechanism.peak)]


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("sampling", [1.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_every_row_of_the_table_is_certified_or_refused(mechanism: Any, dimension: int, sampling: float) -> None:
    legal = 0
    for bound, trust, unit, adjacency in product(
        bounds_of(mechanism), (Local(), Sums(3), Central()), ("client", "record"), ("replace", "add-remove")
    ):
        facts: dict[str, Any] = {"bound": bound, "trust": trust, "unit": unit, "adjacency": adjacency}
        try:
            event = Event(mechanism=mechanism, dimension=dimension, sampling=sampling, **facts)
            cost = Account((event,)).epsilon(1e-3)
        except FedprivError:
            continue
        legal += 1
        low, high = cost.bounds
        assert 0 <= low <= high
        assert not isinf(high) or isinstance(mechanism, BOUNDLESS)
        if sampling == 1:  # of samples it takes long; tests/fedpriv/accounting/test_course.py has some
            errors = Account((event,)).tradeoff(LEVELS, ROUGH)
            assert ((errors.lower >= 0) & (errors.lower <= errors.upper) & (errors.upper < 1)).all()
            least, most, _ = Account((event,)).mu_between(1e-6, ROUGH)
            assert 0 <= least <= most
        assert event_of(event_as_data(event)) == event
        by_itself = unit == "client" and not isinstance(trust, Central)
        assert not by_itself or (adjacency == "replace" and sampling == 1)
        if by_itself and isinstance(trust, Local):  # what any single client's message gives away at the least
            level = mechanism.peak if isinstance(bound, Box) or bound is None else min(mechanism.peak, mechanism.clip)
            assert high >= mechanism.between(level, -level).epsilon(1e-3) * (1 - 1e-6)
    assert legal


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_a_clients_own_message_is_charged_by_replacement(mechanism: Any) -> None:
    for trust in (Local(), Sums(40)):
        with pytest.raises(FedprivError, match=r"needs trust 'central', or unit 'record'|no certificate under secure"):
            Event(mechanism=mechanism, bound=Norm(mechanism.clip), dimension=2, trust=trust, unit="client",
                  adjacency="add-remove")  # fmt: skip


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_a_bound_of_another_number_than_is_charged_is_refused(mechanism: Any) -> None:
    for wrong in (Norm(2 * mechanism.clip), Normalised(2 * mechanism.clip), Box(2 * mechanism.peak)):
        with pytest.raises(FedprivError, match="they must be the same"):
            Channel(bound=wrong, mechanism=mechanism)
        with pytest.raises(FedprivError, match="they must be the same"):
            Event(mechanism=mechanism, bound=wrong, dimension=2, trust=Local(), unit="client", adjacency="replace")
    held = Channel.of("clip", mechanism).bounded(updates(1.0))
    with pytest.raises(FedprivError, match="were held to Norm"):
        Channel.of("coordinates", mechanism).messages(held, Seeded(1, 1, np.arange(6)))


def test_adding_and_removing_a_client_is_refused_in_a_study_too() -> None:
    for trust in ("local", "secure-aggregation"):  # a curator's rounds show nobody who sent
        with pytest.raises(FedprivError, match="who sends none is seen to be absent"):
            Privacy(mechanism=Kind("Gaussian", {"clip": 1, "noise": 4}), trust=trust, adjacency="add-remove")


def test_a_trust_that_nobody_has_proved_certifies_nothing() -> None:
    for trust in ("local", None, object()):
        with pytest.raises(FedprivError, match="trust must be one of Local, Sums, Central"):
            Event(mechanism=EVERY[0], bound=None, dimension=1, trust=trust, unit="client",  # type: ignore[arg-type]
                  adjacency="replace")  # fmt: skip
    with pytest.raises(FedprivError, match="'shuffle' is unknown"):
        by_hand(EVERY[0], trust="shuffle")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with a trust of which nothing is said but its name."""
    own = tmp_path_factory.mktemp("shuffled")
    for package in ("fedpriv", "clients", "server", "simulations"):
        shutil.copytree(ROOT / package, own / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", own)
    file = own / "fedpriv" / "trust.py"
    text = file.read_text(encoding="utf-8")
    text = text.replace('"secure-aggregation", "central"]', '"secure-aggregation", "central", "shuffle"]', 1)
    text = text.replace(
        "Trust = Local | Sums | Central", "class Shuffle:\n    pass\n\n\nTrust = Local | Sums | Central | Shuffle"
    )
    file.write_text(text, encoding="utf-8")
    return own


@pytest.mark.slow
def test_a_trust_added_by_its_name_alone_does_not_pass_the_type_check(shuffled: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "fedpriv/accounting/routes.py",
        "fedpriv/accounting/_witnesses.py", "fedpriv/studies/promise.py", "server/progress/words.py"],
        cwd=shuffled, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 1, found.stdout + found.stderr
    silent = {line.split(":")[0] for line in found.stdout.splitlines() if "assert_never" in line}
    needed = {
        "trust",
        "accounting/event",
        "accounting/routes",
        "accounting/_witnesses",
        "studies/promise",
        "studies/tables",
    }
    assert {f"fedpriv/{name}.py" for name in needed} | {"server/progress/words.py"} <= silent


@pytest.mark.parametrize(
    "command",
    [
        ["account", "StochasticSign", "clip=0.1", "scale=10", "--trust", "shuffle", "--delta", "1e-5"],
        ["run", "digits", "--dry-run", "--set", "privacy.trust=shuffle"],
        ["run", "digits", "--driver", "direct", "--set", "run.rounds=1", "--set", "privacy.trust=shuffle"],
    ],
    ids=lambda words: words[0] + words[2],
)
def test_no_command_certifies_anything_under_a_trust_added_by_its_name_alone(
    command: list[str], shuffled: Path, tmp_path: Path
) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "simulations.command_line", *command], cwd=shuffled, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert found.returncode != 0
    assert "at most" not in found.stdout + found.stderr
