"""A cohort: the clients one node hosts. Their updates, attacked or not, clipped, encoded and packed, as one reply.

Clients are worked on in chunks that stay in cache, each with randomness of its own, so that a reply's content does not
depend on who else is in the cohort. Nothing but messages leaves: a loss on a client's own data would be a release too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from clients.data.splits import Uneven, records_of
from clients.models.gradients import block_slices
from clients.models.memory import Scratch
from clients.models.stobatch import sizes_of
from clients.training._batches import read, records_of_steps, used, widths
from clients.training._gathering import Gathered
from clients.training._insight import Insight
from clients.training.byzantine import Batches, Byzantine, Failures, Sent
from clients.training.chance import drawn_by_chance
from clients.training.corrupting import Corrupting
from clients.training.hidden import Hiding
from clients.training.prepared import Prepared, forget_prepared, prepared_before, prepared_study
from clients.training.releasing import Releasing
from clients.training.stobatch import Keeping
from clients.training.stobatch_noise import Source as Kept
from clients.training.stobatch_noise import seeded_source
from fedpriv import wire
from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv.channel.encoding import Fresh, Noise, Seeded
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.streams import stream
from fedpriv.releases.kept import filled_kept, mechanism_of
from fedpriv.studies import file as study_file
from fedpriv.studies.evaluating import Question, answers_seed, asked_about
from fedpriv.studies.promise import walk_of
from fedpriv.studies.tables import Noise as Source
from fedpriv.wire.replies import NOT_FINITE

Settings = NDArray[np.float64]
FAILED = "attack: it failed"  # all that a node says of an attacker's exception, whose text may be of records


def cohort_reply(
    study_text: str, weights: Rows, round: int, clients: Numbers, settings: Settings | None = None,
    asks: Question | None = None,
) -> bytes:  # fmt: skip
    """A simulated node's reply for these clients in a round, or in its evaluation; `settings` as their releases'."""
    own = _cohort(study_text)
    return own.answers(weights, round, clients, asks) if asks else own.reply(weights, round, clients, settings)


@lru_cache(maxsize=2)
def _cohort(study_text: str) -> Cohort:
    """The cohort of a study's text, its data and model prepared, kept in this process for the next round."""
    prepared = prepared_before(study_text) or prepared_study(study_file.parsed_study(study_text))
    return Cohort(prepared, answers=prepared.study.privacy.noise == "cryptographic")


def forget_all() -> None:
    """Drop what this process has prepared, before a run: the data under a study's names may have become others."""
    _cohort.cache_clear()
    forget_prepared()


class Cohort:
    """What the clients of a study have in common; its scratch memory serves one thread.

    Records and the sources of noise are the study's, unless a client that is deployed has its own: `kept` is that of
    noise drawn once for all. `answers` says that all do, as where noise is secret: who has no update sends that of one
    whose update is 0, for whether there is one depends on its records, and a server chooses the model asked with.
    """

    def __init__(
        self,
        prepared: Prepared,
        source: Source | None = None,  # of messages' noise
        kept: Kept | None = None,  # of noise that is drawn once
        *,
        answers: bool = False,
    ) -> None:
        self._prepared, self.plan, self.study, self._answers = prepared, prepared.plan, prepared.study, answers
        self.channel, self.source = self.plan.channel, source or self.study.privacy.noise
        self.pool, self.net, self.division = prepared.pool, prepared.net, prepared.division
        self.byzantine = Byzantine(self.plan, self.pool)
        self.corrupting = Corrupting(self.plan, self.pool.classes)
        private, working = self.plan.private_sum, (self.byzantine, self.corrupting)
        held = self.pool, self.net, self.division
        self.releasing = None if private is None else Releasing(self.study, private, *held, *working, self.source)
        self.hiding: Hiding | None = None
        if (hidden := self.study.privacy.hidden) is not None:
            walk = walk_of(self.study, hidden, self.net.dimension)
            self.hiding = Hiding(self.study, walk, *held, *working, self.source)
        self.keeping: Keeping | None = None
        if self.plan.kept is not None:
            try:
                release = filled_kept(self.plan.kept, self.study.clients.records, sizes_of(self.net))
            except FedprivError as error:
                raise FedprivError(f"privacy.release: {error}") from None
            mechanism = mechanism_of(release)
            drawn = kept or seeded_source(self.study.run.seed, mechanism)
            self.keeping = Keeping(self.study, release, *held, *working, mechanism, drawn)
        self._scratch = Scratch()
        self._updates = np.empty((self.net.chunk, self.net.dimension), np.float32)
        self._insight: Insight | None = None

    def reply(self, weights: Rows, round: int, clients: Numbers, settings: Settings | None = None) -> bytes:
        """A node's reply to a round: its clients' messages in one frame, stacked or summed; forged ones apart."""
        failed: dict[int, str] = {}
        if self.releasing is not None:
            self.releasing.begin(clients, settings)
        gathered = Gathered(self.plan, len(clients), round)
        seen = self._insight  # what attackers can know in this round, kept for the other cohorts of this process
        if seen is None or seen.round != round or not np.array_equal(seen.weights, weights):
            byzantine = self.byzantine.clients
            self._insight = seen = Insight(self._prepared, weights, round, byzantine, self._foreseen)
        for start in range(0, len(clients), self.net.chunk):
            chunk = clients[start : start + self.net.chunk]
            sent, failures = self._sent(seen, chunk)
            failed |= {int(chunk[row]): why for row, why in failures.items()}
            left, failures = self.byzantine.speak(sent, seen, gathered)
            failed |= {int(sent.clients[row]): why for row, why in failures.items()}
            gathered.add(left.clients, left.payload)
        frames = list(gathered.frames())
        if self.releasing is not None and self.releasing.adapted:
            who, settings = self.releasing.moved()
            frames.append(wire.adapted_frame(self.study.id, round, who, settings))
        return wire.reply_bytes(frames, dict.fromkeys(failed, FAILED) if self._answers else failed)

    def answers(self, weights: Rows, round: int, clients: Numbers, asks: Question = "right") -> bytes:
        """A node's reply to an evaluation: what each client is asked, of its own records, through its mechanism.

        Byzantine clients answer as honest ones do. Where all answer, whose records allow no answer answers 0.
        """
        asking = self.plan.asking if asks == "right" else self.plan.asking_labels
        if asking is None:
            raise FedprivError("the study has no [evaluation] that asks this: nobody answers it")
        told, failed = np.zeros((len(clients), 1)), Failures()
        for row, client in enumerate(clients.tolist()):
            try:
                if asks == "labels":
                    told[row] = self._label_told(round, client)
                elif isfinite(share := self._share_right(weights, client)):
                    told[row] = share
            except FAULTS as error:
                failed[row] = reason(error)
        kept = np.arange(len(clients)) if self._answers else np.setdiff1d(np.arange(len(clients)), list(failed))
        who = clients[kept]
        noise = noise_of(self.source, answers_seed(self.study.run.seed, asked_about(asks, weights)), round, who)
        gathered = Gathered(asking, len(clients), round)
        gathered.add(who, asking.channel.messages(told[kept], noise))
        silent = {} if self._answers else {int(clients[row]): why for row, why in failed.items()}
        return wire.reply_bytes(list(gathered.frames()), silent)

    def _share_right(self, weights: Rows, client: int) -> float:
        """2s − 1 for the share s of one client's records that the model gets right; 0 where it has none."""
        numbers = records_of(self._prepared.asked_about, client)[None]
        if not numbers.size:
            return 0.0
        [(x, y)] = self._read(iter([numbers]))
        return 2 * self.net.evaluate(weights, x[0], y[0])[0] - 1

    def _label_told(self, round: int, client: int) -> float:
        """The class of one record of a client's own, drawn by lot, as its point of the grid; without one, any class."""
        asked = self.study.evaluation and self.study.evaluation.labels
        assert asked  # or there were no such question
        lot = stream(self.study.run.seed, "label told", round, client)
        if not (own := records_of(self._prepared.asked_about, client)).size:
            told = int(lot.integers(asked.classes))
        else:
            [(_, y)] = self._read(iter([own[None, [int(lot.integers(own.size))]]]))
            told = int(y[0, 0])
        return float(np.linspace(-1, 1, asked.classes)[told])

    def honest_mean(self, weights: Rows, round: int, clients: Numbers) -> Vector:
        """The mean of what the messages of these honest clients stand for in a round: their updates, as bounded."""
        total, count = np.zeros(self.net.dimension), 0
        for part in block_slices(len(clients), self.net.chunk):
            updates = self._updates[: len(clients[part])]
            failures = self._train(weights, round, clients[part], updates)
            bounded = self.channel.bounded(updates)
            good = bounded.finite
            good[list(failures)] = False
            total += bounded.only(good).applied.sum(axis=0, dtype=np.float64)
            count += int(good.sum())
        return total / max(count, 1)

    def _sent(self, seen: Insight, clients: Numbers) -> tuple[Sent, dict[int, str]]:
        """The messages of a chunk of clients, all drawn as honest ones are; which rows have none, and why."""
        updates = self._updates[: len(clients)]
        failures = self._train(seen.weights, seen.round, clients, updates)
        failures |= self.byzantine.change(updates, clients, seen)
        bounded = self.channel.bounded(updates)
        if not bounded.finite.all():
            failures |= {int(i): NOT_FINITE for i in np.flatnonzero(~bounded.finite) if i not in failures}
        if silent := self._zeroed(failures, clients):
            updates[silent] = 0.0
            bounded = self.channel.bounded(updates)
            failures = {row: why for row, why in failures.items() if row not in silent}
        if failures:
            kept = np.setdiff1d(np.arange(len(clients)), list(failures))
            clients, bounded = clients[kept], bounded.only(kept)
        payload = self.channel.messages(bounded, noise_of(self.source, self.study.run.seed, seen.round, clients))
        return Sent(clients, bounded.rows, payload), failures

    def _zeroed(self, failures: Failures, clients: Numbers) -> list[int]:
        """The rows of a chunk without an update that send one of 0, lest silence tell of records that were drawn."""
        if self._answers:
            return list(failures)
        if self.study.training.sampling is None or self.study.privacy.protected != "record":
            return []
        return [row for row in failures if clients[row] not in self.byzantine.clients]

    def _foreseen(self, weights: Rows, round: int, clients: Numbers, out: Rows) -> Failures:
        """Clients' updates as attackers may know them, those sent as 0 among them; which rows have none, and why."""
        failures = self._train(weights, round, clients, out)
        silent = self._zeroed(failures, clients)
        out[silent] = 0.0
        return {row: why for row, why in failures.items() if row not in silent}

    def _train(self, weights: Rows, round: int, clients: Numbers, out: Rows) -> Failures:
        """Clients' updates of a round into `out`: by releases, kept records or gradients; which rows failed, why."""
        if self.releasing is not None:
            return self.releasing.updates(weights, round, clients, out)
        if self.hiding is not None:
            return self.hiding.updates(weights, round, clients, out)
        if self.keeping is not None:
            return self.keeping.updates(weights, round, clients, out)
        training = self.study.training
        if training.sampling is not None:
            drawn = drawn_by_chance(self.study, self.division, self.source, round, clients)

            def sampled(rows: Numbers, width: int, part: Rows) -> Failures:
                """Updates of clients of one width, each from the records that it has drawn; which failed, and why."""
                own = drawn.only(rows)
                batches = own.alone(self._read(own.records(self.division, width)))
                return self._along(batches, weights, round, own.clients, part, own.counts)

            return self._by_width(drawn.widths, sampled, out)

        def fixed(some: Numbers, part: Rows, counts: Numbers | None = None) -> Failures:
            """Updates of clients of one width, from batches of a fixed size; which failed, and why."""
            steps, seed = training.local_steps, self.study.run.seed
            numbers = records_of_steps(self.division, training.batch, steps, seed, round, some)
            every = None if counts is None else np.tile(counts, (steps, 1))
            return self._along(self._read(numbers), weights, round, some, part, every)

        if not isinstance(self.division, Uneven):
            return fixed(clients, out)
        sizes = self.division.sizes(clients)
        counts, wide = used(sizes, training.batch), np.where(sizes > 0, widths(sizes, training.batch), 0)
        return self._by_width(wide, lambda rows, _, part: fixed(clients[rows], part, counts[rows]), out)

    def _by_width(self, wide: Numbers, updates: Callable[[Numbers, int, Rows], Failures], out: Rows) -> Failures:
        """Updates of clients who have so many records each, into `out`, width by width; which failed, and why."""
        failures: Failures = {}
        out[wide == 0] = 0
        for width in np.unique(wide[wide > 0]).tolist():
            rows = np.flatnonzero(wide == width)
            part = self._scratch("updates", len(rows), out.shape[1]).numpy()
            found = updates(rows, width, part)
            failures |= {int(rows[row]): why for row, why in found.items()}
            out[rows] = part
        return failures

    def _read(self, numbers: Iterator[Numbers]) -> Batches:
        """The batches of a chunk of clients, step by step, from the numbers of their records."""
        return read(numbers, self.pool, self.corrupting, self._scratch)

    def _along(
        self, batches: Batches, weights: Rows, round: int, clients: Numbers, out: Rows, counts: Numbers | None
    ) -> Failures:
        """Updates of clients along steps of which these are the batches, `counts` of a row being a client's own."""
        training, records = self.study.training, self.study.clients.records
        keys = int(stream(self.study.run.seed, "model", round).integers(2**62)) + clients  # models' own randomness
        failures: Failures = {}
        batches = self.byzantine.poisoned(batches, round, clients, counts, self.pool.classes, failures)
        expected = training.sampling * records if training.sampling and training.divisor == "expected" else None
        self.net.updates(
            weights, batches, training.learning_rate, out, keys, counts, expected,
            optimiser=training.stepping, proximal=training.proximal,
        )  # fmt: skip
        return self.net.failures | failures


def noise_of(source: Source, seed: int, round: int, clients: Numbers) -> Noise:
    """What a round's messages are drawn from: each client's own seeded stream, or noise that nobody draws again."""
    if source == "cryptographic":
        return Fresh(cryptographic_generator(), len(clients))
    return Seeded(seed, round, clients)
