"""Masked sums under fire: a malicious node in each phase against the real server, and bodies against the real node.

Part of `tests/fuzz.py`. Against the server (`server.rounds.masked_sums`, `fedpriv.masking.session`): four nodes run the
clients' own code, and what one of them answers in one phase is changed. What must hold: the server raises nothing;
the sum is the exact one of those in it, or there is none and the reason is said; only by its vector, into which it
may put what it likes (or by a mask that is not the one it has shared out, which is the same), does a node move a sum.
Against the node (`clients.flower.masking.answered_phase`): the server's words are changed. It answers or refuses in one
line; it never answers one state twice, and never opens a sum of fewer than the study asks for.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

import fuzz
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, RecordDict

from clients.flower.masking import PHASES, Ask, Part, Seal, answered_phase
from clients.training.cohort import cohort_reply
from clients.training.prepared import net_of, pool_of
from fedpriv import wire
from fedpriv.errors import FedprivError, reason
from fedpriv.masking import member, roster, shamir, survivors
from fedpriv.masking.identity import SIGNATURE, Identity
from fedpriv.studies import file as study_file
from server.rounds.driver import Answer, Task
from server.rounds.inbox import Inbox
from server.rounds.masked_sums import MaskedSums

NODES, OWN = 4, 3  # nodes, and the clients of each
HOSTILE, ASKED = 0, 1  # the node that lies, and the node that is lied to
TEXT = (
    fuzz.SHARED
    + fuzz.VOTES % ("Binomial", fuzz.COUNTS, "Mean")
    + 'privacy.trust = "secure-aggregation"\nmasking.threshold = 0.6\n'
)
SMALL = [bytes.fromhex(point) for point in (  # points of small order, and names of theirs: they fix what is agreed on
    "00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "ed" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
)]  # fmt: skip
ENTRY = roster._ENTRY.itemsize
KEEPS = 6  # sums that went well, whose messages are replayed and changed
Lie = Callable[[Random, str, bytes, list[bytes], Callable[[], bytes]], bytes | None]


def clients_of(own: int) -> np.ndarray:
    return np.arange(OWN * own, OWN * (own + 1))


@dataclass(frozen=True, eq=False)
class Setting:
    """The study, and what the clients of each node say in rounds 1 and 2, which nobody else sees."""

    study: object
    weights: np.ndarray
    replies: Mapping[tuple[int, int], bytes]
    totals: Mapping[tuple[int, int], np.ndarray]
    known: tuple[Identity, ...]


@cache
def setting() -> Setting:
    study = study_file.parsed_study(TEXT)
    weights = net_of(study, pool_of(study)).initial()
    places = [(each, round) for each in range(NODES) for round in (1, 2)]
    replies = {(each, round): cohort_reply(TEXT, weights, round, clients_of(each)) for each, round in places}
    totals = {
        (each, round): opened(study, content, round, clients_of(each), len(weights))[1]
        for (each, round), content in replies.items()
    }
    private = [Ed25519PrivateKey.generate() for _ in range(NODES)]
    known = tuple(Identity(each, tuple(other.public_key() for other in private)) for each in private)
    return Setting(study, weights, replies, totals, known)


def opened(study: object, content: bytes, round: int, asked: np.ndarray, size: int) -> tuple[list[int], np.ndarray]:
    """Whose sum a reply is, and the sum."""
    expected = wire.Expected(study.id, round, asked, size, study.privacy.drawn_by, study.masked)  # type: ignore[attr-defined]
    found = [wire.opened_frame(frame, expected) for frame in wire.frames_of(content)[0]]
    assert all(isinstance(each, wire.Sum) for each in found)
    who = [client for each in found for client in each.clients.tolist()]
    return sorted(who), np.sum([each.total for each in found], axis=0)  # type: ignore[union-attr]


@dataclass
class Nodes:
    """Four nodes that mask a sum; `change` is asked what becomes of each answer of the hostile one."""

    round: int
    signed: bool
    change: Callable[[str, bytes, list[bytes], Callable[[], bytes]], bytes | None] = lambda _, own, others, again: own
    memory: dict[int, RecordDict] = field(default_factory=dict)
    before: dict[tuple[str, int], tuple[RecordDict, bytes]] = field(default_factory=dict)  # and what each was told
    said: dict[str, dict[int, bytes]] = field(default_factory=dict)

    def cohorts(self, clients: np.ndarray) -> dict[int, np.ndarray]:
        return {each: clients_of(each) for each in range(NODES)}

    @contextmanager
    def one_round(self) -> Iterator[None]:
        self.memory = {each: RecordDict() for each in range(NODES)}
        yield

    def close(self) -> None:
        """Nothing is held."""

    def ask(self, task: Task) -> Iterator[Answer]:
        raise AssertionError("a masked round has phases")

    def exchange(
        self, task: Task, cohorts: Mapping[int, np.ndarray], phase: str, bodies: Mapping[int, bytes]
    ) -> Iterator[tuple[int, Answer]]:
        said = self.said[phase] = {}
        for own in sorted(cohorts, reverse=True):  # the hostile one is the last, and has seen what the others say
            self.before[phase, own] = copied(self.memory[own]), bodies[own]
            try:
                content: bytes | None = self.answer(phase, own, bodies[own], self.memory[own])
            except (FedprivError, ValueError) as error:
                yield own, Answer(cohorts[own], None, f"raised: {error}")
                continue
            assert content is not None
            if own == HOSTILE:
                was = self.before[phase, own]
                content = self.change(
                    phase, content, list(said.values()),
                    lambda was=was, own=own: self.answer(phase, own, was[1], copied(was[0])),  # type: ignore[misc]
                )  # fmt: skip
            if content is not None:
                said[own] = content
            yield own, Answer(cohorts[own], content, "" if content is not None else "late: no answer")

    def answer(self, phase: str, own: int, body: bytes, memory: RecordDict) -> bytes:
        return node_answer(self.ask_of(phase, own, body), own, self.signed, memory)

    def ask_of(self, phase: str, own: int, body: bytes) -> Ask:
        weights = setting().weights if phase == "vector" else np.empty(0, np.float32)
        return Ask(phase=phase, text=TEXT, round=self.round, clients=clients_of(own), body=body, weights=weights)


def node_answer(ask: Ask, own: int, signed: bool, memory: RecordDict) -> bytes:
    """What a node says; its clients' messages are those of `setting`, whatever model it is sent."""
    at = setting()

    def drawn(_: bytes, seal: Seal) -> bytes:
        return seal(at.replies[own, 1 if ask.round == 1 else 2])

    part = Part(place=(own, NODES), identity=at.known[own] if signed else Identity())
    return answered_phase(ask, at.study, part, memory, drawn)  # type: ignore[arg-type]


def copied(memory: RecordDict) -> RecordDict:
    return RecordDict({name: ConfigRecord(dict(record)) for name, record in memory.config_records.items()})


@cache
def honest(signed: bool) -> list[Nodes]:
    """Sums that went well, in both rounds, with all that was said."""
    found = [Nodes(1 + number % 2, signed) for number in range(KEEPS)]
    for nodes in found:
        assert summed(nodes)[0].content is not None
    return found


def summed(nodes: Nodes) -> list[Answer]:
    task = Task(nodes.round, setting().weights, np.arange(NODES * OWN), TEXT, 1.0)
    return list(MaskedSums(nodes).ask(task))


# --- a node that lies -----------------------------------------------------------------------------------------------


def phases(signed: bool) -> list[str]:
    return [phase for phase in PHASES if signed or phase != "survivors"]


def attacked(rng: Random, messages: int, phase: str, found: Counter[str]) -> float:
    """So many sums in each of which one node lies in that phase, and perhaps goes silent; the slowest one's seconds."""
    slowest = 0.0
    for _ in range(messages):
        signed = phase == "survivors" or rng.random() < 0.5
        silent = phases(signed)[phases(signed).index(phase) + 1 :] if rng.random() < 0.25 else []
        past = [other.said[phase][HOSTILE] for other in honest(signed)]

        def change(at: str, own: bytes, others: list[bytes], again: Callable[[], bytes]) -> bytes | None:
            if at != phase:
                return None if at in silent else own  # noqa: B023
            return lied(rng, phase, own, [*others, *past], again)  # noqa: B023

        nodes = Nodes(rng.choice([1, 2]), signed, change)
        begun = time.perf_counter()
        found[judged(nodes, summed(nodes), phase)] += 1
        slowest = max(slowest, time.perf_counter() - begun)
    return slowest


def judged(nodes: Nodes, answers: list[Answer], phase: str) -> str:
    """What has become of a sum: exact, or none, or moved by what one node may put into it."""
    at, everyone = setting(), np.arange(NODES * OWN)
    inbox = Inbox(at.study, len(at.weights), nodes.round, everyone)  # type: ignore[arg-type]
    for each in answers:
        inbox.take(each)
    assert set(inbox.rejected) <= set(wire.REASONS), inbox.rejected
    assert inbox.note is None or inbox.note.isprintable(), inbox.note
    assert sum(len(each.asked) for each in answers) == len(everyone), "somebody is not accounted for"
    if answers[0].content is None:
        return "no sum"
    with suppress(FedprivError):
        assert np.isfinite(inbox.direction()).all(), "the direction is not finite"
    who, total = opened(at.study, answers[0].content, nodes.round, everyone, len(at.weights))
    inside = [each for each in range(NODES) if OWN * each in who or (each == HOSTILE and set(who) & {0, 1, 2})]
    assert set(range(1, NODES)) <= set(inside), "the honest nodes' clients do not count"
    exact = bool((total == sum(at.totals[each, nodes.round] for each in inside)).all())
    if HOSTILE in inside and phase in ("shares", "vector"):  # a mask that is not the one it shared out moves it, too
        return "valid" if exact else "valid, and moves the sum"
    assert exact, f"a sum of {who} that is not exact"
    if HOSTILE in inside:
        return "valid" if not inbox.rejected else "in the sum, and its shares rejected"
    return f"rejected: {next(iter(inbox.rejected), 'no answer')}"


def lied(rng: Random, phase: str, own: bytes, others: list[bytes], again: Callable[[], bytes]) -> bytes | None:
    """What a node says in place of what it should: sizes, replays, small orders, shares that do not fit."""
    if rng.random() < 0.4:
        return generic(rng, own, others)
    if phase == "keys":
        return rng.choice([
            rng.choice(SMALL) + own[32:], own[:32] + rng.choice(SMALL) + own[64:], own[:32] * 2 + own[64:],
            own[32:64] + own[:32] + own[64:], rng.choice(others)[:32] + own[32:], own[:64] + rng.choice(others)[64:],
            own[:64] + bytes(64), again(),
        ])  # fmt: skip
    if phase == "shares":
        seal, mixed, first = member.SEALED, again(), SIGNATURE + member.COMMITMENT
        letters = [own[place : place + seal] for place in range(first, len(own), seal)]
        cut = first + seal * rng.randint(0, len(letters))
        return rng.choice([
            own[:first] + b"".join(rng.sample(letters, len(letters))), own[:cut] + mixed[cut:],
            own[:SIGNATURE] + mixed[SIGNATURE:first] + own[first:], own[:cut] + bytes(len(own) - cut), mixed,
            rng.choice(others)[:SIGNATURE] + own[SIGNATURE:],
        ])  # fmt: skip
    if phase == "vector":
        at = setting()
        kept = fuzz.Scene(at.study, TEXT, len(at.weights), at.weights, (own, own), (others[0], others[-1]))
        return fuzz.changed_reply(rng, kept)
    if phase == "opening":
        shares = [own[place : place + shamir.SHARE] for place in range(0, len(own), shamir.SHARE)]
        shares[rng.randrange(len(shares))] = rng.choice(
            [bytes(shamir.SHARE), b"\xff" * shamir.SHARE, shamir.PRIME.to_bytes(shamir.SHARE), rng.choice(shares),
             rng.randbytes(shamir.SHARE)]
        )  # fmt: skip
        return b"".join(rng.sample(shares, len(shares)) if rng.random() < 0.3 else shares)
    return generic(rng, own, others)


def generic(rng: Random, own: bytes, others: list[bytes]) -> bytes | None:
    """Bytes cut, flipped, doubled or others altogether; another member's or another round's; or none."""
    how = rng.randrange(8)
    if how == 0:
        return rng.choice(others)
    if how == 1:
        return rng.choice([b"", bytes(len(own)), b"\xff" * len(own), rng.randbytes(len(own)), own * 999])
    if how == 2:
        return None if rng.random() < 0.3 else own
    return fuzz.blurred(rng, own)


# --- a server that lies ---------------------------------------------------------------------------------------------


def misled(rng: Random, messages: int, phase: str, found: Counter[str]) -> float:
    """So many messages of that phase to a node that is to answer it, in a sum that went well; the slowest's seconds."""
    slowest = 0.0
    for _ in range(messages):
        signed = phase == "survivors" or rng.random() < 0.5
        kept = rng.choice(honest(signed))
        before, body = kept.before[phase, ASKED]
        past = [other.before[phase, ASKED][1] for other in honest(signed)]
        memory, ask = copied(before), twisted(rng, kept.ask_of(phase, ASKED, told(rng, phase, body, past)))
        begun = time.perf_counter()
        try:
            content = node_answer(ask, ASKED, signed, memory)
        except (FedprivError, ValueError) as error:  # a point of small order is the second, from the library
            check_refused(ask, memory, reason(error))
            found[f"refused: {type(error).__name__}"] += 1
        else:
            assert isinstance(content, bytes)
            check_answered(ask, signed, memory, before)
            found["answered, as nothing was wrong" if ask.body == body else "answered all the same"] += 1
        slowest = max(slowest, time.perf_counter() - begun)
    return slowest


def check_refused(ask: Ask, memory: RecordDict, why: str) -> None:
    """One line, and nothing is left to be asked again."""
    assert why.isprintable(), why
    unread = ask.phase == "nothing" or (ask.phase == "vector" and not len(ask.weights))
    assert unread or "masking" not in memory.config_records, "a state that was refused with is kept"


def check_answered(ask: Ask, signed: bool, memory: RecordDict, before: RecordDict) -> None:
    """What must hold of an answer that a node has given."""
    if ask.phase == "opening":
        state = member.State(**before.config_records["masking"])  # type: ignore[arg-type]
        terms = roster.terms_of(
            setting().study, TEXT, ask.round, roster.hosted_clients(setting().study, ask.round, NODES)
        )  # type: ignore[arg-type]
        size = survivors.SPEAKS.itemsize * int.from_bytes(ask.body[:4], "little")
        members = roster.Roster.read(terms, state.roster)
        rows = np.frombuffer(ask.body[4:][:size], survivors.SPEAKS)
        listed = dict(rows.tolist())
        assert 0 < len(listed) == len(rows) <= len(members.entries)
        signed_by = survivors.rows_of(ask.body[4 + size :], len(listed)) if signed else listed  # each its own count
        assert sum(listed[each] for each in signed_by if each in listed) >= terms.threshold
        assert 2 * len(signed_by) > len(members.entries)
    if ask.phase != "keys":
        with suppress(FedprivError):
            node_answer(ask, ASKED, signed, memory)
            raise AssertionError(f"{ask.phase} was answered twice")


def twisted(rng: Random, ask: Ask) -> Ask:
    """The same of another round, phase or clients, now and then."""
    how = rng.randrange(30)
    if how == 0:
        return replace(ask, round=rng.choice([0, 1, 2, 3, 2**32, 2**63]))
    if how == 1:
        return replace(ask, phase=rng.choice([*PHASES, "nothing"]))
    if how == 2:
        return replace(ask, clients=rng.choice([clients_of(0), np.arange(2), np.arange(12), np.empty(0, np.int64)]))
    if how == 3 and len(ask.weights):
        return replace(ask, weights=rng.choice([ask.weights[:-1], np.zeros(1, np.float32), ask.weights * np.nan]))
    return ask


def told(rng: Random, phase: str, body: bytes, past: list[bytes]) -> bytes:
    """The server's words, changed: rosters, who has shared, who survives, and who has signed that."""
    if rng.random() < 0.3 or phase == "keys":
        return generic(rng, body, past) or b""
    if phase == "shares":
        return changed_roster(rng, body, past)
    changed, names = bytearray(body), {"vector": survivors.SIGNED.itemsize, "opening": 8}.get(phase, 8)
    start = 0 if phase == "survivors" else 4
    count = len(body) // 8 if phase == "survivors" else int.from_bytes(body[:4], "little")
    how = rng.randrange(5)
    if how == 0 and start:
        changed[:4] = (fuzz.number(rng, count) % 2**32).to_bytes(4, "little")
    elif how == 1:  # a number of a list: of members, or of their clients
        place = start + 4 * rng.randrange(count * names // 4)
        was = struct.unpack_from("<I", body, place)[0]
        struct.pack_into("<I", changed, place, fuzz.number(rng, was) % 2**32)
    elif how == 2:  # somebody is left out
        place = start + names * rng.randrange(count)
        del changed[place : place + names]
        changed[:start] = (count - 1).to_bytes(4, "little")[:start]
    elif how == 3:  # or stands twice
        place = start + names * rng.randrange(count)
        changed[place:place] = changed[place : place + names]
        changed[:start] = (count + 1).to_bytes(4, "little")[:start]
    else:  # what follows the list: letters or signatures, another round's too
        cut = start + names * count
        changed[cut:] = rng.choice([fuzz.blurred(rng, body[cut:]), rng.choice(past)[cut:], body[cut:][::-1]])
    return bytes(changed)


def changed_roster(rng: Random, body: bytes, past: list[bytes]) -> bytes:
    """Members that are others, fewer, more, in another order, or of keys that agree with everybody's."""
    entries = [body[place : place + ENTRY] for place in range(0, len(body), ENTRY)]
    place = rng.randrange(len(entries))
    head, channel, pairing, signature = (
        entries[place][low:high] for low, high in ((0, 8), (8, 40), (40, 72), (72, 136))
    )
    other = rng.choice(past)[:ENTRY]
    entries[place] = rng.choice([
        head + rng.choice(SMALL) + pairing + signature, head + channel + rng.choice(SMALL) + signature,
        head + pairing + channel + signature, head + other[8:], head + channel + pairing + bytes(64),
        struct.pack("<II", *(fuzz.number(rng, was) % 2**32 for was in struct.unpack("<II", head))) + entries[place][8:],
        b"", entries[place] * 2, other, head + rng.randbytes(ENTRY - 8),
    ])  # fmt: skip
    return b"".join(rng.sample(entries, len(entries)) if rng.random() < 0.1 else entries)
