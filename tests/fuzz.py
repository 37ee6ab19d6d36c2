"""A malicious client against the real server: every field of every message changed, by the thousand.

    python tests/fuzz.py [--messages 100000] [--seed 1]

Each message goes the server's own way: Flower's message objects, `GridDriver`, `Inbox`, `wire`, the aggregation rule.
Beside the hostile node an honest one answers every time. What must hold: the server raises nothing; the hostile reply
is taken as valid, rejected for one of `wire.REASONS`, or counted as failed; and the honest node's clients always count.
A fifth of the messages are those of masked sums, in each phase a tenth of them (`tests/fuzz_masked.py`): half are a
node's, half are a server's to a node. Printed are the counts, the slowest message and the memory. Exit code 1 where
anything did not hold.
"""

from __future__ import annotations

import argparse
import resource
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from clients import app as client
from clients.flower.answering import RAW
from clients.training.cohort import cohort_reply
from clients.training.prepared import net_of, pool_of
from fedpriv import wire
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.wire import frames
from server.nodes import GridDriver
from server.rounds.driver import Task
from server.rounds.inbox import Inbox

SHARED = """
name = "fuzz"
data = { kind = "Synthetic", records = 60, features = 9, classes = 3, held_out = 20 }
clients = { count = 12, records = 4 }
run.rounds = 3
"""
VOTES = 'privacy.mechanism = { kind = "%s", clip = 1.0%s }\naggregation.kind = "%s"\n'
COUNTS = ", peak = 0.4, trials = 4, scale = 1.0"
STUDIES = {
    "bits": VOTES % ("StochasticSign", ", scale = 4.0", "MajorityVote"),
    "trits": VOTES % ("Ternary", ", peak = 0.1, spread = 0.2, scale = 9.0", "Mean"),
    "rows": VOTES % ("Binomial", COUNTS, "TrimmedMean") + "aggregation.dropped = 2",
    "sums": VOTES % ("Binomial", COUNTS, "Mean") + 'privacy.trust = "secure-aggregation"\nserver.fewest = 6',
    "whole numbers": VOTES % ("Skellam", ", levels = 16, noise = 2.0", "Mean"),
    "reals": VOTES % ("Plain", "", "Median"),
    "settings": 'privacy.release = { kind = "AdaptiveDpSgd", clip = 1.0, sampling = 0.5, noise = 2.0, '
    'count_noise = 2.0 }\naggregation.kind = "Mean"',
}
HOSTILE, HONEST = 11, 22  # node ids; the hostile one holds partition 0
TIMEOUT = 1.0  # seconds: some messages never come
EDGES = (0, 1, 2, 3, 5, 6, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


class Wires:
    """Flower's grid with two nodes; what the hostile one sends is made by a function of the message it is asked by."""

    def __init__(self) -> None:
        self.hostile: Callable[[Message], list[Message]] = lambda message: []
        self.honest = b""
        self._held: dict[str, list[Message]] = {}
        self._sent = 0

    def get_node_ids(self) -> Iterable[int]:
        return [HOSTILE, HONEST]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        for message in messages:
            self._sent += 1
            name, node = f"m{self._sent}", message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = name
            if message.metadata.message_type == "query":
                place: Any = {"partition-id": [HOSTILE, HONEST].index(node), "num-partitions": 2}
                context = Context(run_id=1, node_id=node, node_config=place, state=RecordDict(), run_config={})
                self._held[name] = [client.app(message, context)]
            else:
                self._held[name] = self.hostile(message) if node == HOSTILE else [replied(message, self.honest)]
            yield name

    def pull_messages(self, names: Iterable[str]) -> Iterable[Message]:
        return [reply for name in list(names) for reply in self._held.pop(name, [])]


def replied(message: Message, content: bytes, stype: str = RAW) -> Message:
    array = Array("uint8", (len(content),), stype, content)
    return Message(RecordDict({"answer": ArrayRecord({"frames": array})}), reply_to=message)


@dataclass(frozen=True, eq=False)
class Scene:
    """A study, who is asked, and what honest nodes say in rounds 1 and 2."""

    study: Any
    text: str
    dimension: int
    weights: Any
    mine: tuple[bytes, bytes]
    others: tuple[bytes, bytes]


@cache
def scene(name: str) -> Scene:
    text = SHARED + STUDIES[name]
    study = study_file.parsed_study(text)
    weights = net_of(study, pool_of(study)).initial()
    settings = np.tile(study.first_settings, (6, 1)) if study.first_settings else None
    own, other = (
        tuple(cohort_reply(text, weights, round, np.arange(first, first + 6), settings) for round in (1, 2))
        for first in (0, 6)
    )
    return Scene(study, text, len(weights), weights, own, other)  # type: ignore[arg-type]


# What a hostile node may send: replies whose frames, counts, lengths, headers and contents are changed


def parts_of(frame: bytes) -> tuple[list[Any], bytes, bytes]:
    """Header fields, the clients' numbers and the content."""
    head = list(frames._HEAD.unpack_from(frame))
    middle = frames.FRONT + 4 * head[5]
    return head, frame[frames.FRONT : middle], frame[middle:]


def put_together(head: list[Any], who: bytes, content: bytes, checksum: bool) -> bytes:
    """A frame whose numbers are cut to what their fields hold, with the right checksum or none."""
    widths = (None, 8, 8, None, 32, 32, 32, 64)
    head = [value if bits is None else int(value) % 2**bits for value, bits in zip(head, widths, strict=True)]
    front = frames._HEAD.pack(*head)
    crc = zlib.crc32(content, zlib.crc32(who, zlib.crc32(front))) if checksum else 7
    return front + frames._CHECKSUM.pack(crc) + who + content


def number(rng: Random, near: int) -> int:
    return rng.choice([*EDGES, near, near + 1, near - 1, near * 2, rng.getrandbits(8), rng.getrandbits(32)])


def blurred(rng: Random, content: bytes) -> bytes:
    """Bytes flipped, cut, added, doubled, or others altogether."""
    changed = bytearray(content)
    how = rng.randrange(7)
    if how == 0 and changed:
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.choice([0, 255, 128, rng.getrandbits(8)])
    elif how == 1:
        del changed[rng.randint(0, len(changed)) :]
    elif how == 2:
        changed += rng.randbytes(rng.choice([1, 4, 100]))
    elif how == 3:
        changed *= rng.choice([2, 7])
    elif how == 4:
        changed = bytearray(rng.randbytes(len(changed)))
    elif how == 5:
        changed = bytearray(rng.choice([b"\0", b"\xff", b"\x7f\xc0"]) * len(changed))[: len(changed)]
    return bytes(changed)


def changed_frame(rng: Random, frame: bytes, honest: list[bytes]) -> bytes:
    head, who, content = parts_of(frame)
    consistent = rng.random() < 0.7  # lengths and counts that fit, so that the later checks are reached
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        how = rng.randrange(9)
        if how == 0:
            place = rng.choice([1, 2, 4, 5, 6, 7])
            head[place] = number(rng, head[place])
        elif how == 1:
            head[2] = rng.choice([0, 1, 2, 3, 4, 5, 6, 7])
        elif how == 2:
            head[rng.choice([0, 3])] = rng.randbytes(8)
        elif how == 3:
            clients = [number(rng, each) % 2**32 if rng.random() < 0.4 else each for each in range(rng.randint(0, 13))]
            who = struct.pack(f"<{len(clients)}I", *clients)
        elif how == 4:
            who = blurred(rng, who)
        elif how == 5:  # a sum, of whatever type and values
            kind, form = rng.choice([("<i1", 2), ("<i2", 3), ("<i4", 4), ("<i8", 5)])
            bits = 8 * np.dtype(kind).itemsize
            reach = rng.choice([1, 4, 30, 2 ** (bits - 1) - 1])
            totals = [max(-(2 ** (bits - 1)), rng.randint(-reach - 1, reach)) for _ in range(head[6] % 10_000)]
            head[2], content = form, np.array(totals, kind).tobytes()
        elif how == 6:  # sparse rows that say they are long
            count = max(1, len(who) // 4)
            counts = [rng.choice([0, 1, 5, 2**31, 2**32 - 1]) for _ in range(count)]
            head[2], content = 1, struct.pack(f"<{count}I", *counts) + rng.randbytes(rng.choice([0, 3, 40]))
        elif how == 7:  # settings
            values = [
                rng.choice([0.0, 1.0, -1.0, 1e308, float("nan"), float("inf"), 0.5]) for _ in range(len(who) // 4)
            ]
            head[2], head[6], content = 6, rng.choice([1, 1, 1, 2]), struct.pack(f"<{len(values)}d", *values)
        else:
            content = blurred(rng, content)
    if consistent:
        who = who[: len(who) // 4 * 4]
        head[5], head[7] = len(who) // 4, len(content)
    return put_together(head, who, content, checksum=rng.random() < 0.9)


def changed_reply(rng: Random, at: Scene) -> bytes:
    """A reply of which something is not as it should be (now and then everything is)."""
    honest = [bytes(frame) for content in (*at.mine, *at.others) for frame in wire.frames_of(content)[0]]
    own = [bytes(frame) for frame in wire.frames_of(at.mine[0])[0]]
    how = rng.randrange(10)
    if how == 0:
        return blurred(rng, at.mine[0])
    if how == 1:
        return rng.choice([*at.mine, *at.others, b"", b"\0" * 8, rng.randbytes(rng.randrange(60))])
    if how == 2:  # other frames: other rounds', other clients', twice
        return wire.reply_bytes([rng.choice(honest) for _ in range(rng.randint(0, 9))], {})
    if how == 3:  # counts and lengths of the reply itself
        content = bytearray(at.mine[0])
        struct.pack_into("<I", content, rng.choice([0, 4]), number(rng, 1) % 2**32)
        return bytes(content)
    if how == 4:  # many that are nothing
        count, failures = rng.choice([(2**10, 0), (0, 2**10), (50, 50)])
        return struct.pack("<II", count, failures) + b"\0" * (8 * count + 5 * failures)
    if how == 5:
        why = {rng.randrange(2**32): rng.choice(["\x1b[2J", "late: no", "x" * 999, "", "☃"]) for _ in range(9)}
        return wire.reply_bytes(own[: rng.randint(0, 1)], {rng.randrange(8): "silent: \n", **why})
    kept = [changed_frame(rng, rng.choice([*own, *honest]), honest)]
    return wire.reply_bytes(own[1:] + kept if rng.random() < 0.5 else kept, {})


def changed_message(rng: Random, at: Scene, asked: Message) -> list[Message]:
    """Replies in Flower's own wrapping, which may be wrong too."""
    content = changed_reply(rng, at)
    if rng.random() < 0.75:
        return [replied(asked, content)]
    words = rng.choice(["", "no\nluck", "\x1b]0;title\x07" * 9, "x" * 100_000, "RayTaskError\na\nb"])
    odd: list[Callable[[], list[Message]]] = [
        lambda: [] if rng.random() < 0.01 else [Message(Error(0, None), reply_to=asked)],
        lambda: [Message(Error(rng.choice([0, 1, 2, 3, 99, -1, 2**31]), words), reply_to=asked)],
        lambda: [replied(asked, content, stype=rng.choice(["numpy.ndarray", "", "\0"]))],
        lambda: [replied(asked, content), replied(asked, content)],
        lambda: [Message(RecordDict(), reply_to=asked)],
        lambda: [Message(RecordDict({"answer": ConfigRecord({"frames": content})}), reply_to=asked)],
        lambda: [Message(RecordDict({"answer": MetricRecord({"frames": 1})}), reply_to=asked)],
        lambda: [Message(RecordDict({"answer": ArrayRecord({})}), reply_to=asked)],
        lambda: [Message(RecordDict({"answer": ArrayRecord({
            "frames": Array(rng.choice(["uint8", "object", "float64", "?"]), (-1, 2**60), RAW, content),
            "more": Array("uint8", (0,), RAW, b"")}), "c": ConfigRecord({"a": 2**62})}), reply_to=asked)],
    ]  # fmt: skip
    return rng.choice(odd)()


@dataclass
class Found:
    """What has become of the messages."""

    outcomes: Counter[str]
    slowest: float = 0.0
    seconds: float = 0.0


def attacked(name: str, rng: Random, messages: int, found: Found) -> None:
    """So many rounds of a study's server, each with one hostile reply; raises where something does not hold."""
    at, grid = scene(name), Wires()
    grid.honest = at.others[0]
    driver = GridDriver(grid, 12)  # type: ignore[arg-type]
    driver.meet(5.0)
    settings = np.tile(at.study.first_settings, (12, 1)) if at.study.first_settings else None
    for _ in range(messages):
        grid.hostile = lambda message: changed_message(rng, at, message)
        inbox = Inbox(at.study, at.dimension, 1, np.arange(12))
        driver._silent.clear()  # or the hostile node would not be asked again
        begun = time.perf_counter()
        for each in driver.ask(Task(1, at.weights, np.arange(12), at.text, TIMEOUT, settings)):
            inbox.take(each)
        with suppress(FedprivError):
            assert np.isfinite(inbox.direction()).all(), "the direction is not finite"
        seconds = time.perf_counter() - begun
        if seconds < TIMEOUT:  # or it was none of ours
            found.seconds, found.slowest = found.seconds + seconds, max(found.slowest, seconds)
        found.outcomes[outcome(inbox)] += 1


def outcome(inbox: Inbox) -> str:
    """What a round says of the hostile reply, the honest one being in."""
    assert set(range(6, 12)).isdisjoint(inbox.missing.tolist()), "the honest node's clients do not count"
    assert set(inbox.rejected) <= set(wire.REASONS), inbox.rejected
    assert all(client < 6 and np.isfinite(own).all() for client, own in inbox.settings.items() if client < 6)
    assert all(word.isprintable() and len(word) <= 40 for word in inbox.failed), inbox.failed
    assert inbox.note is None or (inbox.note.isprintable() and len(inbox.note) < 400), inbox.note
    if inbox.rejected:
        return f"rejected: {next(iter(inbox.rejected))}"
    return "valid" if not inbox.missing.size else "failed" if inbox.failed else "valid for some, nothing for others"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    found, crashes, before = Found(Counter()), 0, held()
    for kind, count, attack in attacks(options.messages):
        own = Found(Counter())
        try:
            attack(Random(f"{options.seed} {kind}"), count, own)
        except Exception as error:
            crashes += 1
            done = sum(own.outcomes.values())
            print(f"{kind}: message {done + 1}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        found = Found(found.outcomes + own.outcomes, max(found.slowest, own.slowest), found.seconds + own.seconds)
        told = ", ".join(f"{count:,} {what}" for what, count in own.outcomes.most_common())
        print(f"{sum(own.outcomes.values()):>9,}  {kind}: {told}", flush=True)
    total = sum(found.outcomes.values())
    print("in all:")
    for what, count in found.outcomes.most_common():
        print(f"{count:>9,}  {what}")
    print(
        f"{total:>9,}  messages, {crashes} crashes, {total / (found.seconds or 1):,.0f} a second, the slowest", end=" "
    )
    print(f"{1e3 * found.slowest:.1f} ms, memory {before:.0f} MB before, {held():.0f} MB at most")
    return 1 if crashes else 0


def attacks(messages: int) -> Iterator[tuple[str, int, Callable[[Random, int, Found], None]]]:
    """What is attacked, by how many messages, and how: studies, and the phases of a masked sum from both sides."""
    import fuzz_masked

    from clients.flower.masking import PHASES as phases

    each = messages // 10 // len(phases)
    first, more = divmod(messages - 2 * each * len(phases), len(STUDIES))
    for place, name in enumerate(STUDIES):
        yield name, first + (place < more), partial(_of_study, name)
    for phase in phases:
        yield f"masked, {phase} from a node", each, partial(_timed, fuzz_masked.attacked, phase)
    for phase in phases:
        yield f"masked, {phase} to a node", each, partial(_timed, fuzz_masked.misled, phase)


def _of_study(name: str, rng: Random, messages: int, found: Found) -> None:
    attacked(name, rng, messages, found)


def _timed(attack: Callable[[Random, int, str, Counter[str]], float], phase: str, rng: Random, messages: int,
           found: Found) -> None:  # fmt: skip
    begun = time.perf_counter()
    found.slowest = attack(rng, messages, phase, found.outcomes)
    found.seconds = time.perf_counter() - begun


def held() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
