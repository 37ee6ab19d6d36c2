"""Masked sums without Flower: exact for all who stay, none for fewer, and members whom no server talks into more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from fedpriv.errors import FedprivError
from fedpriv.masking import _graph as graph
from fedpriv.masking import keys, masks, member, shamir
from fedpriv.masking._graph import arranged
from fedpriv.masking.identity import SIGNATURE, UNSIGNED, Identity
from fedpriv.masking.roster import Entry, Roster
from fedpriv.masking.survivors import SIGNED, SPEAKS
from fedpriv.wire import Rejected
from tests.masked_sums import MODEL, Sum, terms

PHASES = ("keys", "shares", "masked", "opened")


def vectors(members: int, dimension: int = 7, width: int = 20, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 1 << width, (members, dimension))


def silent(*who: int) -> Callable[[int, bytes], bytes | None]:
    return lambda each, answer: None if each in who else answer


def changed(who: int, change: Callable[[bytes], bytes]) -> Callable[[int, bytes], bytes]:
    return lambda each, answer: change(answer) if each == who else answer


# --- the sum ------------------------------------------------------------------------------------------------------


@given(st.data())
def test_whoever_drops_out_and_when_the_sum_is_that_of_the_survivors_or_there_is_none(data: st.DataObject) -> None:
    members = data.draw(st.integers(1, 7))
    clients = {each: data.draw(st.integers(1, 4)) for each in range(members)}
    asked = sum(clients.values())
    threshold = data.draw(st.integers(asked // 2 + 1, asked))
    leaves = {each: data.draw(st.sampled_from([*PHASES, "stays", "stays"])) for each in range(members)}
    gone = {phase: silent(*(each for each, when in leaves.items() if when == phase)) for phase in PHASES}
    own = Sum(vectors(members), terms(threshold, asked), clients=clients, changes=gone)
    try:
        total = own.total()
    except FedprivError:
        helping = [each for each, when in leaves.items() if when == "stays"]
        in_sum = [each for each, when in leaves.items() if when in ("stays", "opened")]
        there = [each for each, when in leaves.items() if when != "keys"]
        enough = sum(clients[each] for each in in_sum) >= threshold and 2 * len(helping) > len(there)
        assert not enough or len(helping) < own.session.roster.arrangement.threshold
        return
    assert (total == own.plain).all()
    assert sum(clients[each] for each in own.session.survivors) >= threshold


@pytest.mark.parametrize(
    ("width", "dimension"), [(1, 3), (7, 9), (8, 1), (9, 1000), (16, 5), (17, 5), (32, 5), (40, 5), (62, 5)]
)
def test_any_width_adds_up_modulo_its_own_power_of_two(width: int, dimension: int) -> None:
    own = Sum(vectors(4, dimension, width), terms(3, 4), width=width, changes={"masked": silent(2)})
    assert (own.total() == own.plain).all()
    assert list(own.session.survivors) == [0, 1, 3]


def test_fifty_members_of_whom_a_tenth_drops_out_take_under_ten_seconds() -> None:
    own = Sum(vectors(50, 100_000, 13), terms(45, 50), width=13, changes={"masked": silent(*range(0, 50, 10))})
    begun = perf_counter()
    total = own.total()
    assert perf_counter() - begun < 10
    assert (total == own.plain).all()
    assert len(own.session.survivors) == 45


@pytest.mark.parametrize("neighbours", [0, 24])
def test_a_sparse_graph_gives_the_sum_that_the_full_one_gives(neighbours: int) -> None:
    gone = {"shares": silent(3), "masked": silent(7, 11), "opened": silent(20)}
    own = Sum(vectors(40), terms(36, 40, neighbours=neighbours), changes=gone)
    assert own.total().tolist() == own.plain.tolist()
    assert own.session.roster.arrangement.degree == (neighbours or 39)


@pytest.mark.parametrize(("phase", "gone", "words"), [
    ("keys", (0, 1), r"speaks for 3 clients, where 4 are needed"),
    ("shares", (0, 1), "3 of 5 nodes, of 3 clients, have shared"),
    ("masked", (0, 1), "3 of 5 nodes, of 3 clients, have sent a masked vector"),
    ("opened", (0, 1), "3 shares of node 0's secret do not give it back"),
])  # fmt: skip
def test_below_the_threshold_there_is_no_sum_and_the_reason_is_said(
    phase: str, gone: tuple[int, ...], words: str
) -> None:
    with pytest.raises(FedprivError, match=words):
        Sum(vectors(5), terms(4, 5), changes={phase: silent(*gone)}).total()


# --- what it hides ------------------------------------------------------------------------------------------------


def test_the_same_vector_is_never_masked_alike_and_no_value_is_more_likely_than_another() -> None:
    seen = []
    for _ in range(2):
        own = Sum(np.zeros((3, 4000), np.int64), terms(2, 3), width=4,
                  changes={"masked": lambda each, answer: seen.append(answer) or answer})  # fmt: skip
        own.total()
    rows = [masks.whole_numbers(masks.unpacked_residues(answer, 4000, 4), 4) for answer in seen]
    for one, other in combinations(rows, 2):
        assert 150 < (one == other).sum() < 350  # 250 by chance, 15 standard deviations wide
    for row in rows:
        assert ((np.bincount(row, minlength=16) - 250) ** 2 / 250).sum() < 60  # χ² with 15 degrees


@given(st.data())
@settings(max_examples=13)
def test_a_server_that_names_other_survivors_to_each_gets_one_secret_of_a_member_at_most(data: st.DataObject) -> None:
    members = data.draw(st.integers(3, 6))
    threshold = data.draw(st.integers(members // 2 + 1, members))
    own = Sum(vectors(members), terms(threshold, members))
    own.keys()
    own.shares()
    own.masked()
    session, given = own.session, {each: {"seed": 0, "key": 0} for each in range(members)}
    for each in range(members):
        others = data.draw(st.sets(st.sampled_from([other for other in range(members) if other != each])))
        named = sorted({each, *others})
        content = survivors(*((other, 1) for other in named))
        if len(named) < threshold:
            with pytest.raises(FedprivError, match="survivors that speak for"):
                own.told(each, content)
            continue
        own.told(each, content)
        for ward in member.wards_of(session.roster, each, session.present):
            given[ward]["seed" if ward in named else "key"] += 1
    for found in given.values():
        assert min(found.values()) < session.roster.arrangement.threshold


def test_members_who_are_sent_different_models_have_no_sum() -> None:
    class Lied(Sum):
        def hidden(self, each: int, state: member.State) -> tuple[member.State, masks.Residues]:
            vector = masks.residues_of(self.vectors[each], self.width)
            return member.masked_vector(state, self.terms, each, vector, self.width, MODEL + b"!" * (each == 0), 1)

    own = Lied(vectors(4, 50), terms(3, 4))
    assert (own.total() == own.plain).sum() < 5


def test_what_a_member_answers_with_is_spent() -> None:
    own = Sum(vectors(3), terms(2, 3))
    own.total()
    assert {state.stage for state in own.states.values()} == {"spent"}
    for state in own.states.values():
        assert not any((state.channel, state.pairing, state.seed, state.own, state.held))
        with pytest.raises(FedprivError, match="opening asked where spent comes next"):
            member.opened_shares(state, own.terms, 0, own.session.opening(), Identity())


# --- what a server cannot talk a member into ----------------------------------------------------------------------


def begun(members: int = 4, threshold: int = 3) -> Sum:
    own = Sum(vectors(members), terms(threshold, members))
    own.keys()
    return own


def roster_with(own: Sum, change: Callable[[dict[int, Entry]], Any]) -> bytes:
    entries = dict(own.session.roster.entries)
    change(entries)
    return Roster.content.func(type("Forged", (), {"entries": entries}))  # type: ignore[attr-defined]


def spoken_for(clients: int) -> Callable[[dict[int, Entry]], None]:
    return lambda entries: entries.update({0: replace(entries[0], clients=clients)})


@pytest.mark.parametrize(("change", "words"), [
    (lambda entries: entries.pop(0), "does not hold this node as it is"),
    (lambda entries: entries.update({0: entries[0].__class__(1, b"c" * 32, entries[0].pairing)}), "as it is"),
    (lambda entries: entries.update({0: replace(entries[0], pairing=b"p" * 32)}), "as it is"),
    (spoken_for(0), "speaks for nobody"), (spoken_for(2), "lets node . speak for 2 clients, where it hosts 1"),
    (lambda entries: [entries.pop(each) for each in (1, 2)], "speaks for 2 clients, where 3"),
    (lambda entries: entries.update({2: entries[1]}), "two keys of the roster are the same"),
    (lambda entries: entries.update({2: replace(entries[2], channel=entries[1].pairing)}), "two keys"),
])  # fmt: skip
def test_a_roster_that_is_not_as_it_should_be_gets_no_shares(change: Any, words: str) -> None:
    own = begun()
    with pytest.raises(FedprivError, match=words):
        own.dealt(0, roster_with(own, change))


@pytest.mark.parametrize("content", [b"", b"x" * 135, b"x" * 137, b"x" * 136 * 5, bytes(136 * 10**6)], ids=len)
def test_a_roster_of_no_whole_entries_or_of_more_than_are_asked_is_refused(content: bytes) -> None:
    own = begun()
    with pytest.raises(FedprivError, match=f"a roster of {len(content)} bytes"):
        own.dealt(0, content)


def test_a_roster_whose_members_do_not_rise_is_refused() -> None:
    own = begun()
    content = own.session.roster.content
    with pytest.raises(FedprivError, match="must rise"):
        own.dealt(0, content[136:272] + content[:136] + content[272:])


@pytest.mark.parametrize("other", [terms(3, 4, round=2), replace(terms(3, 4), about=b"study two")])
def test_a_phase_of_another_round_or_study_is_refused(other: Any) -> None:
    own = begun()
    with pytest.raises(FedprivError, match="in another round or study"):
        member.shared_secrets(own.states[0], other, 0, 1, own.session.roster.content, Identity())


def test_phases_out_of_turn_are_refused() -> None:
    own = begun()
    state = own.states[0]
    with pytest.raises(FedprivError, match="opening asked where shares comes next"):
        member.opened_shares(state, own.terms, 0, b"", Identity())
    with pytest.raises(FedprivError, match="input asked where shares comes next"):
        member.received_shares(state, own.terms, 0, 1, b"", Identity())
    own.shares()
    with pytest.raises(FedprivError, match="shares asked where input comes next"):
        own.dealt(0, own.session.roster.content)
    own.masked()
    with pytest.raises(FedprivError, match="masking asked where opening comes next"):
        own.hidden(0, own.states[0])


def named(*who: int) -> bytes:
    return len(who).to_bytes(4, "little") + np.array([(each, bytes(64)) for each in who], SIGNED).tobytes()


@pytest.mark.parametrize(("forged", "words"), [
    (b"", "this node among"), (named(0, 1), "2 clients' nodes have shared, too few"),
    (named(1, 2, 3), "this node among"), (named(0, 2, 1, 3), "must rise"), (named(0, 1, 1, 2), "must rise"),
    (named(0, 1, 2, 9), "must be members"),
    (named(0, 1, 2, 3), "0 bytes of shares from 3"), (named(0, 1, 2) + b"x" * 9, "9 bytes of shares from 2"),
    ((9).to_bytes(4, "little") + b"abc", "cut short"), (b"\xff" * 8, "cut short"),
    (named(0, 1, 2, 3, 4), "of more than 4 nodes"),
])  # fmt: skip
def test_shares_that_do_not_fit_the_roster_get_no_vector(forged: bytes, words: str) -> None:
    own = begun()
    own.shares()
    with pytest.raises(FedprivError, match=words):
        own.heard(0, forged)


def survivors(*who: tuple[int, int]) -> bytes:
    return len(who).to_bytes(4, "little") + np.array(list(who), SPEAKS).tobytes()


@pytest.mark.parametrize(("content", "words"), [
    (b"", "survivors in 0 bytes"), ((1).to_bytes(4, "little") + b"x" * 5, "survivors in 5 bytes"),
    (survivors((0, 1), (1, 1)), "2 survivors"),
    (survivors((1, 1), (2, 1), (3, 1)), "do not hold this node"), (survivors((0, 1), (1, 1), (9, 1)), "shared nothing"),
    (survivors((0, 1), (1, 1), (1, 1)), "stands twice"), (survivors((0, 1), (1, 2), (2, 0)), "3 survivors"),
    (survivors((0, 2), (1, 1), (2, 1)), "this node as it is"), (survivors((0, 1), (1, 5)), "2 survivors"),
])  # fmt: skip
def test_survivors_that_are_too_few_or_impossible_open_nothing(content: bytes, words: str) -> None:
    own = begun()
    own.shares()
    own.masked()
    with pytest.raises(FedprivError, match=words):
        own.told(0, content)


def test_keys_that_differ_from_member_to_member_leave_nothing_to_open() -> None:
    own = begun()
    own.shares()
    lied = roster_with(
        own, lambda entries: entries.update({1: replace(entries[1], pairing=keys.public_key(b"m" * 32))})
    )
    own.states[0], _ = member.advertised_keys(own.terms, 0, Identity())
    mine = Entry(1, keys.public_key(own.states[0].channel), keys.public_key(own.states[0].pairing))
    honest = roster_with(own, lambda entries: entries.update({0: mine}))
    _, told = own.dealt(0, honest)
    _, misled = own.dealt(0, _with(lied, mine))
    assert len(told) == len(misled)
    assert Roster.read(own.terms, honest).digest != Roster.read(own.terms, _with(lied, mine)).digest
    roster, state = Roster.read(own.terms, honest), replace(own.states[1], roster=honest)
    others = roster.neighbours(1)[1:]  # behind member 0
    signed = np.array([(each, UNSIGNED) for each in roster.entries], SIGNED)
    for sent, is_opened in ((told, True), (misled, False)):
        letter = sent[SIGNATURE + member.COMMITMENT :][: member.SEALED]  # to member 1, who knows the roster as it is
        content = len(signed).to_bytes(4, "little") + signed.tobytes() + letter + bytes(member.SEALED * len(others))
        held = member.received_shares(state, own.terms, 1, 1, content, Identity()).held
        assert (held[: 2 * shamir.SHARE] != bytes(2 * shamir.SHARE)) is is_opened
        assert held[2 * shamir.SHARE :] == bytes(2 * shamir.SHARE * len(others))


def _with(content: bytes, mine: Entry) -> bytes:
    return content[:8] + mine.channel + mine.pairing + content[72:]


# --- what a server cannot talk members into who know each other's keys ----------------------------------------------


def known(count: int) -> list[Identity]:
    private = [Ed25519PrivateKey.generate() for _ in range(count)]
    return [Identity(each, tuple(other.public_key() for other in private)) for each in private]


def signed(members: int = 5, threshold: int = 3, **settings: Any) -> Sum:
    return Sum(vectors(members), terms(threshold, members), identities=known(members), **settings)


@pytest.mark.parametrize("phase", [*PHASES, "confirmed"])
def test_members_who_sign_have_the_exact_sum_whoever_drops_out(phase: str) -> None:
    own = signed(changes={phase: silent(1, 4)})
    assert (own.total() == own.plain).all()
    assert len(own.session.survivors) == (5 if phase in ("confirmed", "opened") else 3)


def test_a_server_that_stands_in_for_a_member_is_found_out() -> None:
    own = signed()
    own.keys()
    mine = keys.public_key(keys.private_key()) + keys.public_key(keys.private_key())
    swap = {1: replace(own.session.roster.entries[1], channel=mine[:32], pairing=mine[32:])}
    with pytest.raises(FedprivError, match="keys of node 1 are not signed by the node that this one knows"):
        own.dealt(0, roster_with(own, lambda entries: entries.update(swap)))
    one, two = (own.session.roster.entries[each] for each in (1, 2))
    with pytest.raises(FedprivError, match="keys of node 1 are not signed"):  # nor another member's, in its place
        own.dealt(0, roster_with(own, lambda entries: entries.update({1: two, 2: one})))


def test_keys_of_another_round_or_without_a_signature_are_no_members() -> None:
    was = signed()
    was.keys()
    own = Sum(vectors(5), terms(3, 5, round=2), identities=was.who)
    own.keys()
    old = {1: was.session.roster.entries[1]}
    with pytest.raises(FedprivError, match="keys of node 1 are not signed"):
        own.dealt(0, roster_with(own, lambda entries: entries.update(old)))
    own = Sum(vectors(5), terms(3, 5), identities=[*known(4), Identity()])
    own.keys()
    with pytest.raises(FedprivError, match="are not signed by the node that this one knows"):
        own.dealt(0, own.session.roster.content)


def masked_and_signed() -> Sum:
    own = signed()
    for phase in (own.keys, own.shares, own.masked, own.confirmed):
        phase()
    return own


def told_with(own: Sum, who: list[tuple[int, int]], signatures: dict[int, bytes]) -> bytes:
    return survivors(*who) + np.array(sorted(signatures.items()), SIGNED).tobytes()


def test_a_list_of_survivors_opens_nothing_until_enough_have_signed_it() -> None:
    own = masked_and_signed()
    everyone, given = [(each, 1) for each in range(5)], own.session._signatures
    assert own.told(0, told_with(own, everyone, {each: given[each] for each in (0, 2, 3)}))
    for too_few in (
        {}, {each: given[each] for each in (0, 2)}, {0: given[0], 1: given[0], 2: given[0]},
        dict.fromkeys((0, 1, 2), b"?" * 64),
        {0: given[0], 1: given[1], 9: given[2]},
    ):  # fmt: skip
        with pytest.raises(FedprivError, match="have signed who survives, 3 and 3 are needed"):
            own.told(0, told_with(own, everyone, too_few))
    twice = np.array([(0, given[0])] * 3, SIGNED).tobytes()
    with pytest.raises(FedprivError, match="that have signed must rise"):
        own.told(0, survivors(*everyone) + twice)
    with pytest.raises(FedprivError, match="of more than 5 nodes"):
        own.told(0, survivors(*everyone) + bytes(SIGNED.itemsize * 10**6))
    with pytest.raises(FedprivError, match="cut short"):
        own.told(0, told_with(own, everyone, given)[:-1])


def test_a_member_signs_one_list_and_opens_no_other() -> None:
    own = masked_and_signed()
    fewer = [(each, 1) for each in range(4)]
    with pytest.raises(FedprivError, match="has signed who survives"):
        member.confirmed_survivors(own.states[0], own.terms, 0, survivors(*fewer)[4:], own.who[0])
    with pytest.raises(FedprivError, match="others than this node has signed"):
        own.told(0, told_with(own, fewer, own.session._signatures))


def key_files(folder: Path, count: int = 3) -> dict[str, str]:
    private = [Ed25519PrivateKey.generate() for _ in range(count)]
    openssh = private[1].private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    (folder / "identity").write_bytes(openssh)
    lines = [each.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) for each in private]
    (folder / "peers").write_bytes(b" node\n".join(lines) + b"\n\n")
    return {name: str(folder / name) for name in ("identity", "peers")}


def test_an_identity_is_read_from_files_as_ssh_keygen_writes_them(tmp_path: Path) -> None:
    own = Identity.of(key_files(tmp_path) | {"partition-id": "1"})
    signature = own.signed(b"words")
    assert own.knows(1, b"words", signature)
    assert not any(
        (own.knows(0, b"words", signature), own.knows(1, b"word", signature), own.knows(3, b"words", signature))
    )
    assert Identity.of({"partition-id": 1}) == Identity()


@pytest.mark.parametrize(("spoil", "words"), [
    (lambda folder, config: config.pop("peers"), "needs both identity and peers"),
    (lambda folder, config: (folder / "identity").unlink(), "identity: .*: no key of ssh-keygen"),
    (lambda folder, config: (folder / "identity").write_text("?"), "identity: .*: no key of ssh-keygen"),
    (lambda folder, config: (folder / "peers").write_text("?"), "peers: .*: not a public key a line"),
    (lambda folder, config: (folder / "peers").unlink(), "peers: .*No such file"),
    (lambda folder, config: (folder / "peers").write_bytes((folder / "peers").read_bytes() * 2), "different keys"),
    (lambda folder, config: write_other_kind(folder / "identity"), "of another kind"),
])  # fmt: skip
def test_keys_that_cannot_be_read_are_one_line_and_no_answer(spoil: Any, words: str, tmp_path: Path) -> None:
    config = key_files(tmp_path)
    spoil(tmp_path, config)
    with pytest.raises(FedprivError, match=words) as error:
        Identity.of(config)
    assert "\n" not in str(error.value)


def write_other_kind(path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


# --- what a member cannot do to the others ------------------------------------------------------------------------


def rejected(own: Sum) -> list[str]:
    return [error.reason for error in (*own.refused, *own.session.rejected)]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("change", [lambda answer: b"", lambda answer: answer[:-1], lambda answer: answer * 2])
def test_an_answer_of_the_wrong_length_costs_its_sender_alone(phase: str, change: Any) -> None:
    own = Sum(vectors(5), terms(4, 5), changes={phase: changed(2, change)})
    assert (own.total() == own.plain).all()
    assert rejected(own) == ["shape"]


@pytest.mark.parametrize("sender", [0, 2, 4])
def test_garbage_among_the_shares_is_rejected_and_counted_and_the_sum_is_exact(sender: int) -> None:
    own = Sum(vectors(5), terms(4, 5), changes={"opened": changed(sender, lambda answer: b"\x07" * len(answer))})
    assert (own.total() == own.plain).all()
    assert "checksum" in rejected(own)
    assert {str(error).split(":")[1] for error in own.session.rejected} == {f" node {sender}"}


def test_letters_that_nobody_can_open_are_missing_shares_and_no_more() -> None:
    own = Sum(vectors(5), terms(4, 5), changes={
        "shares": changed(1, lambda answer: answer[: -member.SEALED] + b"?" * member.SEALED)
    })  # fmt: skip
    assert (own.total() == own.plain).all()
    own = Sum(
        vectors(5), terms(4, 5), changes={"shares": changed(1, lambda answer: answer[:96] + b"?" * (len(answer) - 96))}
    )
    with pytest.raises(FedprivError, match="1 shares of node 1's secret do not give it back"):
        own.total()


def test_too_much_garbage_is_no_sum_and_no_crash() -> None:
    own = Sum(
        vectors(5), terms(4, 5), changes={"opened": lambda each, answer: b"\x07" * len(answer) if each < 2 else answer}
    )
    with pytest.raises(FedprivError, match="secret do not give it back"):
        own.total()


def test_who_answers_twice_or_was_not_asked_is_rejected() -> None:
    own = Sum(vectors(4), terms(3, 4))
    for phase, take in (("keys", own.session.take_keys), ("shares", own.session.take_shares)):
        answers: dict[int, bytes] = {}
        own.changes = {phase: lambda each, answer, kept=answers: kept.setdefault(each, answer)}
        getattr(own, phase)()
        for who, reason in ((0, "duplicate"), (17, "sender")):
            with pytest.raises(Rejected) as error:
                take(who, answers[0])
            assert error.value.reason == reason
    own.changes = {}
    own.masked()
    for who, clients, reason in ((0, 1, "duplicate"), (17, 1, "sender")):
        with pytest.raises(Rejected) as error:
            own.session.take_masked(who, np.zeros(7, np.uint32), clients)
        assert error.value.reason == reason
    own.opened()
    with pytest.raises(Rejected, match="duplicate"):
        own.session.take_opened(0, b"")
    assert (own.session.total() == own.plain).all()


def test_a_member_that_claims_more_clients_than_it_was_asked_for_is_rejected() -> None:
    own = begun()
    own.shares()
    for clients in (0, 2):
        with pytest.raises(Rejected, match="sender"):
            own.session.take_masked(0, np.zeros(7, np.uint32), clients)


@pytest.mark.parametrize(("forge", "reason"), [
    (lambda first, own: first, "duplicate"), (lambda first, own: first[32:] + first[:32], "duplicate"),
    (lambda first, own: own[:32] + first[:32] + own[64:], "duplicate"),
    (lambda first, own: own[:32] * 2 + own[64:], "duplicate"),
    (lambda first, own: bytes(32) + own[32:], "alphabet"),
    (lambda first, own: own[:32] + b"\x01" + bytes(31) + own[64:], "alphabet"),
    (lambda first, own: b"", "shape"), (lambda first, own: own[:33], "shape"),
])  # fmt: skip
def test_keys_that_repeat_or_agree_with_everybody_cost_their_sender_alone(forge: Any, reason: str) -> None:
    first: list[bytes] = []

    def change(each: int, answer: bytes) -> bytes:
        first.append(answer)
        return forge(first[0], answer) if each == 3 else answer

    own = Sum(vectors(5), terms(4, 5), changes={"keys": change})
    assert (own.total() == own.plain).all()
    assert rejected(own) == [reason]
    assert 3 not in own.session.survivors


# --- what it stands on --------------------------------------------------------------------------------------------


@given(secret=st.binary(min_size=32, max_size=32), data=st.data())
def test_any_threshold_of_shares_gives_the_secret_and_one_fewer_fits_every_secret(
    secret: bytes, data: st.DataObject
) -> None:
    places = data.draw(st.lists(st.integers(1, 500), min_size=1, max_size=9, unique=True))
    threshold = data.draw(st.integers(1, len(places)))
    shares = dict(zip(places, shamir.split_secret(secret, places, threshold), strict=True))
    chosen = data.draw(st.permutations(places))[:threshold]
    base = {place: shares[place] for place in chosen}
    assert shamir.secret_of(shamir.share_curve(base)) == secret
    assert all(
        shamir.curve_at(shamir.share_curve(base), place) == int.from_bytes(share) for place, share in shares.items()
    )
    fewer = {place: shares[place] for place in chosen[1:]}
    other = shamir.curve_at(
        shamir.share_curve({0: bytes(shamir.SHARE)} | fewer), 501
    )  # a secret of zeros fits them as well
    assert shamir.secret_of(shamir.share_curve({501: other.to_bytes(shamir.SHARE)} | fewer)) == bytes(32)


@pytest.mark.parametrize(("places", "threshold"), [([1, 1], 1), ([0, 1], 1), ([1, 2], 3), ([1, 2], 0), ([], 0)])
def test_shares_are_not_dealt_where_they_would_give_the_secret_away(places: list[int], threshold: int) -> None:
    with pytest.raises((FedprivError, ValueError)):
        shamir.split_secret(bytes(32), places, threshold)


@given(members=st.integers(2, 400), data=st.data())
def test_every_arrangement_leaves_a_server_one_secret_no_cut_and_its_holders_enough(
    members: int, data: st.DataObject
) -> None:
    survivors = data.draw(st.integers(members // 2 + 1, members))
    colluding = data.draw(st.integers(0, 2 * survivors - members - 1))
    neighbours = data.draw(st.sampled_from([None, None, 0]) | st.integers(1, members).map(lambda half: 2 * half))
    try:
        degree, threshold = arranged(members, survivors, colluding, neighbours)
    except FedprivError:
        assume(False)
    if degree == members - 1:
        assert 2 * threshold > members + colluding
        assert threshold == survivors
        return
    one_secret = hypergeom.sf(2 * threshold - degree - 2, members - 1, colluding, degree)
    assert members * one_secret < 2.0**-80 * (1 + 1e-6)
    beyond = threshold - degree // 2 - 1  # that collude, in both of two gaps, and the sum comes apart
    assert beyond > 0
    both = members * hypergeom.sf(beyond - 1, members, colluding, degree // 2)
    assert 2 * beyond > colluding or both**2 / 2 < 2.0**-80 * (1 + 1e-6)
    assert hypergeom.sf(1 + degree - threshold, members - 1, members - survivors, degree) * members < 2.0**-30


@pytest.mark.parametrize(("members", "survivors"), [(100, 90), (300, 270), (1000, 900)])
def test_the_sparse_graph_stays_in_one_piece_without_those_that_drop_out_or_collude(
    members: int, survivors: int
) -> None:
    rng = np.random.default_rng(members)
    own = terms(survivors, members)
    roster = Roster(own, {each: Entry(1, rng.bytes(32), rng.bytes(32)) for each in range(members)})
    assert roster.arrangement.degree < members / 2
    around = {each: set(roster.neighbours(each)) for each in roster.entries}
    for each, others in around.items():
        assert len(others) == roster.arrangement.degree
        assert each not in others
        assert all(each in around[other] for other in others)
    left = set(range(members)) - set(rng.choice(members, members - survivors + members // 5, replace=False).tolist())
    reached, fresh = set(), {min(left)}
    while fresh:
        reached |= fresh
        fresh = {other for each in fresh for other in around[each] & left} - reached
    assert reached == left


def test_the_circle_follows_from_the_keys_and_from_nobodys_choice() -> None:
    rng = np.random.default_rng(3)
    entries = {each: Entry(1, rng.bytes(32), rng.bytes(32)) for each in range(100)}
    one = Roster(terms(90, 100), entries)
    other = Roster(terms(90, 100), entries | {7: Entry(1, rng.bytes(32), rng.bytes(32))})
    assert one.neighbours(0) != other.neighbours(0)
    assert one.neighbours(0) == Roster.read(terms(90, 100), one.content).neighbours(0)
    assert one.digest != other.digest != Roster(terms(91, 100), entries).digest


@given(st.integers(1, 80), st.data())
def test_tails_are_those_of_the_hypergeometric_law(others: int, data: st.DataObject) -> None:
    marked, drawn = data.draw(st.integers(0, others)), data.draw(st.integers(0, others))
    found = graph._most(others, marked, drawn, graph.SUCCESS)
    law = hypergeom(others, marked, drawn)
    assert law.sf(found) <= 2.0**-30 * (1 + 1e-6)
    assert found == 0 or law.sf(found - 1) > 2.0**-30 * (1 - 1e-6)


@pytest.mark.parametrize(("arguments", "words"), [
    ((5, 0, 0, None), "0 of 5 nodes are to stay"), ((5, 6, 0, None), "6 of 5"), ((4, 2, 0, None), "more than half"),
    ((5, 4, 3, 0), "half of 5 and 3 colluding"), ((100, 90, 0, 4), "neighbours = 4 are too few"),
    ((100, 90, 0, 41), "too few, or odd"), ((5, 4, -1, None), "with -1 colluding"),
])  # fmt: skip
def test_arrangements_that_keep_no_promise_are_refused(arguments: Any, words: str) -> None:
    with pytest.raises(FedprivError, match=words):
        arranged(*arguments)


def test_fewer_neighbours_are_chosen_the_more_members_there_are() -> None:
    shares = [arranged(members, members * 9 // 10, 0, None).degree / members for members in (10, 100, 1000, 4000)]
    assert all(more > fewer for more, fewer in pairwise(shares))


@pytest.mark.parametrize("width", [0, 63, -1])
def test_a_width_that_no_word_holds_is_refused(width: int) -> None:
    with pytest.raises(FedprivError, match="1 to 62 bits"):
        masks.mask_stream(bytes(32), 3, width)
