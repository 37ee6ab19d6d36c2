"""The attacks, carried out: every model, every way to send, records of several seeds; numbers and pictures of each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf

import numpy as np

from clients.models.arrays import Labels
from clients.training.prepared import net_of, pool_of
from fedpriv._base.arrays import Rows, Vector
from fedpriv.randomness.streams import stream
from simulations.figures.intervals import Interval
from simulations.reproduce.inversion._attacks import Attacker, learnt_map
from simulations.reproduce.inversion._measures import (
    mean_over_records,
    share_taken,
    signal_to_noise,
    similarity,
    squared_errors,
)
from simulations.reproduce.inversion._ways import Way, base_study, sent_ways

MODELS = {
    "logistic": "{kind='Logistic'}",
    "MLP": "{kind='Mlp', hidden=[32]}",
    "CNN": "{kind='Cnn'}",
}
MATCHED = "CNN"  # whose first layer is no dense one: its records are found by matching gradients
SEEDS = 3  # of weights, of noise, and of which records are attacked
RECORDS, MATCHES = 40, 2  # attacked, a seed; those that are found by matching
PUBLIC = 1000  # records that an inversion is learnt from, at most
STEPS = 100  # of matching
RECORD = 0.999  # of the squared error taken off: what is found is the record
SHOWN = 2  # records of each model in the picture
NOTHING, CLASS = "no message: the mean public record", "the label alone: the mean of its class"


@dataclass(frozen=True)
class Outcome:
    """What one way to send leaves of records, over all seeds."""

    model: str
    way: str
    epsilon: float  # of the message alone
    attack: str
    records: int
    label: float | None  # the share of records whose class was found
    error: Interval  # mean squared error, of pixels from 0 to 1
    noise: Interval  # PSNR, dB
    alike: Interval  # SSIM
    gain: Interval  # the squared error that the message takes off the mean public record's, as a share of that

    @property
    def verdict(self) -> str:
        """What a message gives away beyond public records, in words that are true under the interval of its gain."""
        half = inf if self.gain.half is None else self.gain.half  # of one record alone nothing is told
        low, high = self.gain.mean - half, self.gain.mean + half
        if low > RECORD:
            return "the record itself"
        if low > 0:
            taken = f"{100 * low:.0f} to {min(100 * high, 100):.0f}% of its squared error are gone"
            return f"nearer to the record than the mean public record: {taken}"
        return "no nearer than the mean public record" if high < 0 else "not told from the mean public record"


@dataclass(frozen=True, eq=False)
class Shown:
    """A record's pictures in a row: itself, and as it was found again by each way to send."""

    model: str
    titles: tuple[str, ...]
    pictures: tuple[Vector, ...]


@dataclass(frozen=True, eq=False)
class Found:
    """What inversions came to."""

    data: str
    outcomes: list[Outcome]
    shown: list[Shown]


@dataclass(frozen=True, eq=False)
class Target:
    """The records of a seed that are attacked, and who attacks them."""

    model: str
    attacker: Attacker
    x: Rows
    y: Labels
    black: float  # what a pixel of 0 is to the model
    seed: int

    @staticmethod
    def of(model: str, data: str | None, seed: int) -> Target:
        """The records of a seed, drawn from those to train on, with the weights of that seed's first round."""
        study = base_study(data, MODELS[model], {"run.seed": str(seed)})
        pool = pool_of(study)
        order = stream(0, "inversion").permutation(len(pool))
        x, y = pool.batch(order[seed * RECORDS :][: MATCHES if model == MATCHED else RECORDS, None])
        public = stream(0, "inversion public").permutation(len(pool.x_test))[:PUBLIC]
        attacker = Attacker(net_of(study, pool), pool.x_test[public], pool.y_test[public])
        return Target(model, attacker, x[:, 0], y[:, 0], -pool.subtract, seed)

    def pixels(self, x: Vector) -> Vector:
        """Records as the model sees them as rows of pixels from 0 to 1, what lies beyond cut."""
        return np.asarray(np.clip(x.reshape(len(x), -1).astype(np.float64) - self.black, 0, 1))

    @property
    def mean(self) -> Vector:
        """The mean public record as pixels, a row for each record that is attacked: the guess without a message."""
        return self.pixels(np.repeat(self.attacker.x.mean(axis=0, keepdims=True), len(self.y), axis=0))

    def found_again(self, way: Way) -> tuple[Vector, Labels]:
        """The records as they are found in messages sent that way, as pixels, and their classes."""
        own = self.attacker
        messages = way.read(own.gradients(self.x, self.y), self.seed)
        labels = own.labels(messages)
        if self.model == MATCHED:
            each = zip(messages, labels.tolist(), strict=True)
            return self.pixels(np.stack([own.matched(message, label, STEPS) for message, label in each])), labels
        if way.exact:
            records, scale = own.through_first_layer(messages)
            return self.pixels(records / np.where(scale == 0, 1, scale)[:, None]), labels
        public = way.read(own.gradients(own.x, own.y), SEEDS + self.seed)
        records = own.x.reshape(len(own.x), -1).astype(np.float64)
        return self.pixels(learnt_map(own.told(public), records, own.told(messages))), labels

    def shown(self, ways: list[Way], found: dict[str, tuple[Vector, Labels]]) -> list[Shown]:
        """The rows of pictures of the first records: each as it is, then as it was found by the ways that have one."""
        named, shape = [way for way in ways if way.short], self.x.shape[1:]
        columns = [self.pixels(self.x), *(found[way.title][0] for way in named)]
        titles = ("record", *(way.short for way in named))
        rows = [tuple(column[row].reshape(shape) for column in columns) for row in range(SHOWN)]
        return [Shown(self.model, titles, row) for row in rows]


def worked_inversions(data: str | None, minutes: float | None) -> Found:
    """Carry out all attacks on digits, or on the images in a directory; matching stops at a seed where time is up."""
    until = time.monotonic() + 60 * (inf if minutes is None else minutes)
    outcomes, shown = list[Outcome](), list[Shown]()
    for model in MODELS:
        targets = [Target.of(model, data, seed) for seed in range(1, SEEDS + 1)]
        ways = list(sent_ways(data, MODELS[model], targets[0].attacker.net.dimension))
        if model == MATCHED:
            ways = [way for way in ways if way.short]
        again: list[dict[str, tuple[Vector, Labels]]] = []
        while len(again) < SEEDS and (model != MATCHED or time.monotonic() < until):
            again.append({way.title: targets[len(again)].found_again(way) for way in ways})
        if again:
            found = [(way, [each[way.title] for each in again]) for way in ways]
            outcomes += outcomes_without_message(targets[: len(again)])
            outcomes += [message_outcome(targets[: len(again)], way, own) for way, own in found]
            shown += targets[0].shown(ways, again[0])
    words = "scikit-learn's digits" if data in (None, "digits") else f"the images in {data}"
    return Found(words, outcomes, shown)


def message_outcome(targets: list[Target], way: Way, found: list[tuple[Vector, Labels]]) -> Outcome:
    """What a way to send leaves, of what was found of each seed's records."""
    hits = np.concatenate([labels == target.y for target, (_, labels) in zip(targets, found, strict=True)])
    attack = "matched" if targets[0].model == MATCHED else "closed form" if way.exact else "learnt"
    pictures = [pixels for pixels, _ in found]
    return _judged(targets, way.title, way.epsilon, attack, float(hits.mean()), pictures)


def outcomes_without_message(targets: list[Target]) -> list[Outcome]:
    """What is known without a message, and of one that gives away the label alone: the mean of public records."""
    mean = [target.mean for target in targets]
    by_class = [target.pixels(target.attacker.means[target.y]) for target in targets]
    return [_judged(targets, NOTHING, 0.0, "–", None, mean), _judged(targets, CLASS, inf, "–", 1.0, by_class)]


def _judged(
    targets: list[Target], way: str, epsilon: float, attack: str, label: float | None, pictures: list[Vector]
) -> Outcome:
    """An outcome's numbers: each record's picture beside the record, and beside the mean public record."""
    shape = targets[0].x.shape[1:]
    truth = np.concatenate([target.pixels(target.x) for target in targets])
    found, guessed = np.concatenate(pictures), np.concatenate([target.mean for target in targets])
    own, errors = squared_errors(found, truth), squared_errors(guessed, truth)
    pairs = zip(found.reshape(-1, *shape), truth.reshape(-1, *shape), strict=True)
    alike = np.array([similarity(one, other) for one, other in pairs])
    return Outcome(
        targets[0].model, way, epsilon, attack, len(truth), label, mean_over_records(own),
        mean_over_records(signal_to_noise(own)), mean_over_records(alike), share_taken(own, errors),
    )  # fmt: skip
