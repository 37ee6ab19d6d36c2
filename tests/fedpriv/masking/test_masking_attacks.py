"""Attacks on masked sums by a server that lies to nodes that know each other's keys, on the real state machines.

The server has seen the circle before it says who drops out, keeps every message, and chooses the worst. What would open
without a rule is opened here with that rule weakened: each attack is one that works.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpriv.errors import FedprivError
from fedpriv.masking import _graph as graph
from fedpriv.masking import member
from fedpriv.masking._graph import Arrangement
from fedpriv.masking.roster import Owner
from fedpriv.masking.survivors import SIGNED
from tests.lying_server import LyingSum, known
from tests.masked_cuts import Circle, Setting, Told, opened, searched, smallest, those, weaker
from tests.masked_sums import terms


def vectors(members: int) -> Any:
    return np.random.default_rng(1).integers(0, 1 << 20, (members, 3))


def lying(members: int, threshold: int, **settings: Any) -> LyingSum:
    own = terms(threshold, members, settings.pop("colluding", 0), settings.pop("neighbours", None))
    return LyingSum(vectors(members), own, identities=known(members), **settings)


@pytest.fixture
def arrangement(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Another graph than the one that is safe, for all who ask."""
    return lambda degree, threshold: monkeypatch.setattr(graph, "arranged", lambda *_: Arrangement(degree, threshold))


# --- as many clients as were promised -------------------------------------------------------------------------------


def counted(true: list[int]) -> LyingSum:
    """Five nodes of 40 clients, 120 are promised; the server has got vectors of `true` clients, and lists 40 each.

    Of those who open it lists the truth, for they would refuse.
    """
    own = LyingSum(vectors(5), terms(120, 5), clients=dict.fromkeys(range(5), 40), identities=known(5),
                   survivors=frozenset(range(5)), actual=dict(enumerate(true)))  # fmt: skip
    own.begin()
    own.masked()
    return own


@pytest.mark.parametrize("openers", [*combinations(range(5), 3), *combinations(range(5), 4)])
def test_the_clients_of_those_who_sign_reach_the_threshold_or_nothing_opens(openers: tuple[int, ...]) -> None:
    own = counted([14 if each in openers else 1 for each in range(5)])
    own.claims = dict.fromkeys(openers, 14)
    missing = 120 - 14 * len(openers)
    others = [each for each in range(5) if each not in openers]
    own.claims |= {each: min(40, missing) for each in others}
    own.open()
    assert not own.given
    assert all("clients" in own.refusals[each] for each in openers)


def test_the_server_that_had_42_clients_of_120_has_none() -> None:
    own = counted([13, 13, 14, 1, 1])
    own.claims = {0: 13, 1: 13, 2: 14}
    own.open()
    assert sorted(own.signatures) == [0, 1, 2]  # the three who are listed as they are
    assert own.refusals[0] == ("masking: 3 nodes, of 40 clients, have signed who survives, 3 and 120 are needed")
    assert not own.given


def test_signers_who_speak_for_the_threshold_open_whatever_becomes_of_the_others() -> None:
    own = counted([40, 40, 40, 1, 1])
    own.open()
    assert own.givers == {0, 1, 2}
    with pytest.raises(FedprivError, match="shares of node"):
        own.sum_of([0, 1, 2])
    assert (own.sum_of(range(5)) == own.plain_of(range(5))).all()  # 122 clients, of whom 120 are counted by themselves


def test_a_vector_is_of_as_many_clients_as_the_roster_says_or_there_is_none() -> None:
    own = lying(4, 3)
    own.begin()
    with pytest.raises(FedprivError, match="a vector of 2 clients is asked for, where the roster says 1"):
        member.received_shares(own.states[0], own.terms, 0, 2, own.session.letters(0), own.who[0])


# --- one piece ------------------------------------------------------------------------------------------------------


def cut(own: LyingSum, first: int, length: int) -> frozenset[int]:
    """Choose who survives: all but two gaps of half the neighbours, with so many members between them."""
    half, count = own.session.roster.arrangement.degree // 2, len(own.session.roster.entries)
    gone = own.at(*range(first, first + half), *range(first + half + length, first + 2 * half + length))
    own.survivors = frozenset(range(count)) - gone | own.colluders
    return own.at(*range(first + half, first + half + length))


@pytest.mark.parametrize(("threshold", "opens"), [(7, True), (8, False)])
def test_one_share_more_than_a_gap_leaves_keeps_the_sum_in_one_piece(
    threshold: int, opens: bool, arrangement: Callable[[int, int], None]
) -> None:
    arrangement(12, threshold)
    own = lying(40, 25)
    own.begin()
    part = cut(own, 3, threshold)  # long enough for its own seeds
    own.masked()
    own.open()
    assert not own.refusals  # one list, which all 28 that are left have signed and opened
    assert len(own.givers) == 28
    if opens:
        assert (own.sum_of(part) == own.plain_of(part)).all()
        return
    with pytest.raises(FedprivError, match=r"7 shares of node .*'s (key|seed), where 8 are needed"):
        own.sum_of(part)


@pytest.mark.parametrize(("threshold", "colluders", "opens"), [
    (8, (0, 1), True), (9, (0, 1), False), (8, (0,), False), (8, (), False), (10, (0, 2, 1, 3), False),
    (9, (0, 2, 1, 3), True),
])  # fmt: skip
def test_colluders_count_where_both_gaps_hold_enough_of_them(
    threshold: int, colluders: tuple[int, ...], opens: bool, arrangement: Callable[[int, int], None]
) -> None:
    """Even ones stand in the first gap, odd ones in the second."""
    arrangement(12, threshold)
    own = lying(40, 25)
    own.begin()
    places = [5 + each // 2 if each % 2 == 0 else 5 + 6 + 9 + each // 2 for each in colluders]
    own.colluders = own.at(*places)
    part = cut(own, 3, 9)
    own.masked()
    own.open()
    if opens:
        assert (own.sum_of(part) == own.plain_of(part)).all()
        return
    with pytest.raises(FedprivError, match=r"shares of node .*'s (key|seed)"):
        own.sum_of(part)


@pytest.mark.parametrize("told", ["one model", "two models"])
def test_a_part_that_was_sent_another_model_refuses_to_open_what_the_others_have_signed(
    told: str, arrangement: Callable[[int, int], None]
) -> None:
    arrangement(12, 7)  # a graph that comes apart, so that only the signatures are left to stop it
    own = lying(40, 21)
    own.begin()
    part = cut(own, 3, 7)
    if told == "two models":
        own.models = dict.fromkeys(part, b"TRAP")
    own.masked()
    own.open()
    if told == "one model":
        assert (own.sum_of(part) == own.plain_of(part)).all()
        return
    assert set(own.refusals) == set(part)
    assert "7 nodes, of 7 clients, have signed who survives, 21 and 21 are needed" in own.refusals[min(part)]
    with pytest.raises(FedprivError, match=r"0 shares of node .*'s seed"):
        own.sum_of(part)


# --- one session ----------------------------------------------------------------------------------------------------


def test_keys_of_an_earlier_session_of_the_same_round_are_nobody_present() -> None:
    before = lying(5, 3)
    before.begin()  # node 1 drops out here: its pairing key would be the server's
    own = LyingSum(vectors(5), terms(3, 5), identities=before.who)
    own.changes = {"keys": lambda each, answer: None if each == 1 else answer}
    own.keys()
    own.session._keys[1] = before.session.roster.entries[1]  # signed, by node 1 itself
    own.changes = {"shares": lambda each, answer: None if each == 1 else answer}
    for each in (0, 2, 3, 4):
        own.states[each], answer = own.dealt(each, own.session.roster.content)
        own.session.take_shares(each, answer)
    own.session._shared[1] = before.session._shared[1]  # its signature is of the other session's roster
    for each in (0, 2, 3, 4):
        with pytest.raises(FedprivError, match="node 1 has not signed this roster"):
            own.heard(each, own.session.letters(each))


@pytest.mark.parametrize("forged", [bytes(64), b"?" * 64])
def test_who_has_shared_without_a_signature_of_the_roster_is_not_present(forged: bytes) -> None:
    own = lying(5, 3)
    own.begin()
    told = bytearray(own.session.letters(0))
    told[4 + SIGNED.itemsize * 2 + 4 : 4 + SIGNED.itemsize * 3] = forged
    with pytest.raises(FedprivError, match="node 2 has not signed this roster"):
        own.heard(0, bytes(told))


def test_a_list_signed_about_others_present_is_no_list() -> None:
    own = lying(5, 3)
    own.begin()
    everyone = own.session.letters(0)
    own.session._shared = {each: own.session._shared[each] for each in (0, 1, 2, 3)}
    for cached in ("present", "_told_present"):
        own.session.__dict__.pop(cached, None)
    fewer = {each: own.session.letters(each) for each in (0, 1, 2, 3)}
    for each in range(4):
        own.states[each], _ = own.hidden(each, own.heard(each, everyone if each == 0 else fewer[each]))
    own.survivors = frozenset(range(4))
    own.open()
    assert set(own.refusals) == {0}
    assert "1 nodes, of 1 clients, have signed" in own.refusals[0]


# --- what the owner asks --------------------------------------------------------------------------------------------


def test_an_owner_refuses_fewer_neighbours_or_colluders_than_its_own() -> None:
    own = lying(60, 55, neighbours=16)
    own.keys()
    roster = own.session.roster
    assert roster.arrangement.degree == 16
    for owner, words in (
        (Owner(), "16 neighbours of 60 nodes, at least"), (Owner(neighbours=0), "at least 59 in this client's policy"),
        (Owner(neighbours=18), "at least 18"), (Owner(neighbours=16, colluding=1), "colluding = 0, at least 1"),
    ):  # fmt: skip
        with pytest.raises(FedprivError, match=words):
            member.shared_secrets(own.states[0], own.terms, 0, 1, roster.content, own.who[0], owner)
    assert member.shared_secrets(own.states[0], own.terms, 0, 1, roster.content, own.who[0], Owner(neighbours=16))


def test_an_owner_who_says_nothing_takes_the_graph_of_a_study_that_says_nothing() -> None:
    for members in (5, 40, 200):
        entries = lying(members, members * 9 // 10)
        entries.keys()
        Owner().check(entries.session.roster)


# --- every choice a server has --------------------------------------------------------------------------------------


def safe(circle: Circle) -> bool:
    """What the graph promises, of this very circle."""
    degree, threshold = circle.arrangement
    half, closed = degree // 2, circle.closed
    gaps = [those([(place + step) % circle.members for step in range(half)]) for place in range(circle.members)]
    enough = [gap for gap in gaps if (gap & circle.colluders).bit_count() + half + 1 >= threshold]
    corrupt = max((each & circle.colluders).bit_count() for each in closed)
    return 2 * threshold > degree + 1 + corrupt and all(one & other for one, other in combinations(enough, 2))


def pieces(circle: Circle) -> bool:
    """Whether some choice of who is present and who survives opens a part without all who have opened the list."""
    for state in product(range(3), repeat=circle.members):
        present = those([each for each, how in enumerate(state) if how or circle.colluders >> each & 1])
        survivors = those([each for each, how in enumerate(state) if how == 2])
        givers, parts = opened(circle, survivors, Told(present=present, members=present))
        if any(givers & ~part for part in parts):
            return True
    return False


@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("colluders", [(), (0,), (0, 1), (0, 3)])
def test_on_small_circles_every_choice_of_dropouts_leaves_one_piece_where_the_graph_is_safe(
    degree: int, colluders: tuple[int, ...]
) -> None:
    came_apart = 0
    for threshold in range(1, degree + 2):
        circle = Circle(members=7, arrangement=Arrangement(degree, threshold), colluders=those(colluders))
        apart = pieces(circle)
        assert not (safe(circle) and apart)
        came_apart += apart
    assert came_apart  # below its threshold a graph is cut, by the same search


EACH = [  # of a member: present to the first, surviving, present to the second, and which of the two it was told
    (0, 0, 0, None), (1, 0, 0, 0), (1, 0, 1, 0), (1, 0, 1, 1), (1, 1, 0, 0), (1, 1, 1, 0), (1, 1, 1, 1), (0, 0, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("members", "degree", "threshold", "colluders", "apart"), [
    (5, 2, 3, (), False), (5, 2, 3, (0,), False), (5, 2, 2, (), True), (6, 4, 4, (), False), (6, 4, 2, (), True),
])  # fmt: skip
def test_telling_members_of_others_present_or_of_other_models_opens_no_more(
    members: int, degree: int, threshold: int, colluders: tuple[int, ...], apart: bool
) -> None:
    circle = Circle(members=members, arrangement=Arrangement(degree, threshold), colluders=those(colluders))
    found = False
    first = (
        EACH if colluders else [each for each in EACH if each[1] and each[3] == 0]
    )  # somebody opens, or nothing does
    for choice in product(first, *[EACH] * (members - 1)):
        one, left, two = (those([each for each in range(members) if choice[each][at]]) for at in range(3))
        members_of = [those([each for each in range(members) if choice[each][3] == which]) for which in (0, 1)]
        told = (Told(present=one | circle.colluders, members=members_of[0]),
                Told(present=two | circle.colluders, members=members_of[1]))  # fmt: skip
        givers, parts = opened(circle, left, *told)
        if any(givers & ~part for part in parts):
            found = True
            break
    assert found == apart
    assert apart or safe(circle)


@given(st.data())
@settings(max_examples=40)
def test_what_opens_by_the_rules_of_the_graph_is_what_real_states_open(data: st.DataObject) -> None:
    count = data.draw(st.integers(5, 9))
    degree = data.draw(st.sampled_from([each for each in (2, 4, 6) if each < count - 1]))
    threshold = data.draw(st.integers(2, degree + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "arranged", lambda *_: Arrangement(degree, threshold))
        own = lying(count, count // 2 + 1)
        own.begin()
        places = data.draw(st.permutations(range(count)))
        gone = places[: data.draw(st.integers(0, count - count // 2 - 1))]
        colluding = [each for each in places[:2] if data.draw(st.booleans())]
        left = sorted(set(range(count)) - set(gone) | set(colluding))
        own.colluders, own.survivors = own.at(*colluding), own.at(*left)
        own.masked()
        own.open()
    circle = Circle(members=count, arrangement=Arrangement(degree, threshold), colluders=those(colluding))
    everyone = (1 << count) - 1
    givers, parts = opened(circle, those(left), Told(present=everyone, members=everyone))
    assert own.givers == own.at(*(each for each in range(count) if givers >> each & 1))
    honest = [each for each in left if each not in colluding]
    unions = {sum(some) for size in range(1, len(parts) + 1) for some in combinations(parts, size)}
    for size in range(1, len(honest) + 1):
        for some in combinations(honest, size):
            try:
                opens = bool((own.sum_of(own.at(*some)) == own.plain_of(own.at(*some))).all())
            except FedprivError:
                opens = False
            assert opens == (those(some) in unions)


# --- rosters by the thousand ----------------------------------------------------------------------------------------


def test_no_sum_of_fewer_clients_than_are_charged_opens_on_any_roster_by_the_worst_dropouts() -> None:
    for setting, found in searched(150, seed=1):  # all 10,000: python tests/masked_cuts.py
        assert found >= setting.charged


@pytest.mark.parametrize(("members", "survivors", "degree"), [(500, 450, 42), (390, 332, 58), (500, 375, 122)])
def test_the_search_cuts_a_graph_whose_threshold_is_what_a_gap_leaves(
    members: int, survivors: int, degree: int
) -> None:
    circle = Circle(members=members, arrangement=Arrangement(degree, degree // 2 + 2))
    setting = Setting(circle=circle, clients=[1] * members, nodes=survivors, threshold=survivors)
    assert smallest(setting, Random(1)) == survivors
    assert smallest(weaker(setting), Random(1)) == degree // 2 + 1
