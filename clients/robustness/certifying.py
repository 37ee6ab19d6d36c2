"""Verified inference ([S] Algorithm 3): a prediction with a radius in which nothing changes it, or an abstention.

A randomised network is any module with `Noised` layers in it. What stands before the first of them is worked out once
an image and not once a draw. Every image has a random stream of its own, so its verdict does not depend on which others
are asked about, or on how many threads do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import log
from queue import SimpleQueue
from typing import TypeVar, get_args

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor, nn

from clients.models.arrays import Floats
from clients.models.gradients import block_slices, torch_on_one_thread
from clients.models.memory import channels_last
from clients.models.randomised import Noised, check_network, draw_from
from fedpriv._base.arrays import Vector
from fedpriv.certified.confidence import Interval, clopper_pearson, hoeffding_interval, leading_bounds, of_scores
from fedpriv.certified.functional import EDGE
from fedpriv.certified.smoothing import By, Smoothing
from fedpriv.errors import FAULTS, FedprivError, natural, one_of, real, whole, whole_from
from fedpriv.randomness.streams import stream

Result = TypeVar("Result")

AT_ONCE = 1 << 20  # numbers of noise drawn at once: they stay in cache


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is known about one image, with the stated confidence."""

    image: int
    best: int  # the class that most draws, or the highest mean score, are for
    prediction: int | None  # `best`; None where the bounds do not set it apart: an abstention
    radius: float  # in which no move changes the prediction; 0 for an abstention
    published: float  # the radius that the method's paper prints
    lower: float  # bounds of the expected score of `best`, and of the best of the others
    upper: float


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How images are judged."""

    smoothing: Smoothing  # the noise, and the radius that it certifies
    draws: int = 2000  # of noise for each image
    confidence: float = 0.999  # of each verdict, over all its classes
    by: By = "votes"  # how often a class has the highest score, or the mean of its score
    seed: int = 1

    def __post_init__(self) -> None:
        whole_from(2)(draws=self.draws)
        natural(seed=self.seed)
        one_of(get_args(By), by=self.by)
        real(confidence=self.confidence)
        if not 0 < 1 - self.confidence < 1:
            raise FedprivError(f"confidence must be above 0 and below 1, got {self.confidence}")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What the draws of one image have come to, class by class."""

    votes: Vector  # draws in which the class has the highest score
    means: Vector  # of its score
    variances: Vector  # of its score

    def verdict(self, image: int, terms: Terms) -> Verdict:
        """An image's certified verdict, by bounds wrong for some class with probability 1 − confidence at most."""
        best, lower, upper = self.leader(terms)
        printed = self._by_votes(terms)
        if terms.smoothing.published_by == "scores":
            printed = hoeffding_interval(self.means, terms.draws, 1 - terms.confidence)
        return Verdict(
            image=image, best=best, prediction=best if lower > upper else None,
            radius=terms.smoothing.radius(lower, upper), lower=lower, upper=upper,
            published=terms.smoothing.published(*leading_bounds(printed, best)),
        )  # fmt: skip

    def leader(self, terms: Terms) -> tuple[int, float, float]:
        """An image's class ahead, a lower bound of its expected score, and an upper one of the best other's."""
        if terms.by == "votes":
            best, bounds = int(np.argmax(self.votes)), self._by_votes(terms)
        else:
            best = int(np.argmax(self.means))
            bounds = of_scores(self.means, self.variances, terms.draws, 1 - terms.confidence)
        return best, *leading_bounds(bounds, best)

    def _by_votes(self, terms: Terms) -> Interval:
        """An image's bounds for every class's share of votes, by Clopper and Pearson at the terms' confidence."""
        return clopper_pearson(self.votes.astype(np.int64), terms.draws, 1 - terms.confidence)


def verdicts_of(
    network: nn.Module, x: Floats, terms: Terms, images: Iterable[int] | None = None, workers: int = 1
) -> Iterator[Verdict]:
    """The certified verdicts of `fedpriv certify` on `images` (rows of x; None: all), in order, as they are found.

    `network` is a randomised one in evaluation mode, from records (rows, *shape) to logits.
    """
    check_network(network)
    check_inputs(x)
    check_alone(network, x)
    asked = range(len(x)) if images is None else list(images)
    if not all(0 <= image < len(x) for image in asked):
        raise FedprivError(f"images must be numbers of rows of x, from 0 to {len(x) - 1}, got {list(asked)[:10]}")
    yield from each_image(network, x, partial(_judged, x, terms), asked, workers)


def each_image(
    network: nn.Module, x: Floats, work: Callable[[nn.Module, int], Result], images: Sequence[int], workers: int
) -> Iterator[Result]:
    """What `work` (a verdict, attacks) makes of each image by its number, in order, on threads with a network each."""
    whole(workers=workers)
    workers = min(workers, len(images)) or 1
    copies: SimpleQueue[nn.Module] = SimpleQueue()
    arranged = channels_last(deepcopy(network))  # half as fast again for convolutions on a CPU
    if any(isinstance(layer, Noised) for layer in arranged.modules()):
        draw_from(arranged, np.random.default_rng(0), 2)
    try:
        with torch.inference_mode():
            arranged(torch.tensor(x[:1], dtype=torch.float32))
    except FAULTS:  # it cannot bear that: a view of what lies in another order, say
        arranged = network
    for _ in range(workers):
        copies.put(deepcopy(arranged))

    def worked(image: int) -> Result:
        """`work` on one image, in a thread, with a copy of the network that no other thread has meanwhile."""
        own = copies.get()
        try:
            return work(own, image)
        finally:
            copies.put(own)

    with ThreadPoolExecutor(workers, initializer=torch_on_one_thread) as pool:
        waiting = [pool.submit(worked, image) for image in images]
        try:
            for each in waiting:
                yield each.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _judged(x: Floats, terms: Terms, network: nn.Module, image: int) -> Verdict:
    """One image's certified verdict, from draws of a random stream of its own."""
    rng = stream(terms.seed, "certify", client=image)
    return estimated_scores(network, x[image], terms.draws, rng, f"input {image}").verdict(image, terms)


def estimated_scores(network: nn.Module, x: Floats, draws: int, rng: Generator, name: str = "the input") -> Estimate:
    """One record's votes, mean scores and variances over draws of a noisy network: what verdicts are based on."""
    votes, total, squares = (np.zeros(1) for _ in range(3))
    one = torch.tensor(x[None], dtype=torch.float32)
    for part in block_slices(draws, max(64, AT_ONCE // max(x.size, 1))):
        draw_from(network, rng, part.stop - part.start)
        with torch.inference_mode():
            logits = network(one).float()
            scores = logits.softmax(1)
        votes = votes + np.bincount(logits.argmax(1).numpy(), minlength=logits.shape[1])
        total = total + scores.sum(0, dtype=torch.float64).numpy()
        squares = squares + (scores.double() ** 2).sum(0).numpy()
    if not np.isfinite(total).all() or votes.sum() != draws:
        raise FedprivError(f"{name}: the network's outputs are not finite, or it makes other rows than {draws}")
    return Estimate(votes=votes, means=total / draws, variances=np.maximum(squares - total**2 / draws, 0) / (draws - 1))


def averaged_score(network: nn.Module, draws: int, rng: Generator) -> Callable[[Tensor], Tensor]:
    """The logarithm of a noisy network's mean score over fresh draws, as a function that attacks differentiate.

    Its gradient is that of the expectation over noise (Athalye et al. 2018), which no single draw shows.
    """
    check_network(network)

    def scores(x: Tensor) -> Tensor:
        """The logarithm of each class's mean softmax over the draws, (records, classes), for records x."""
        if len(x) == 1:  # which becomes as many rows as there are draws
            draw_from(network, rng, draws)
            found: Tensor = network(x).log_softmax(1).logsumexp(0, keepdim=True) - log(draws)
            return found
        draw_from(network, rng)
        return torch.stack([network(x).log_softmax(1) for _ in range(draws)]).logsumexp(0) - log(draws)

    return scores


def check_alone(network: nn.Module, x: Floats) -> None:
    """Refuse to certify a network in which inputs meet: draws of one image would not be draws of their own."""
    quiet = deepcopy(network)
    for layer in quiet.modules():
        if isinstance(layer, Noised):
            layer.scale = 0.0
    draw_from(quiet, np.random.default_rng(0))
    noise = np.random.default_rng(1).uniform(-1, 1, (3, *x.shape[1:])) * np.array([0.3, 1, 3]).reshape(
        3, *[1] * (x.ndim - 1)
    )
    rows = torch.tensor(np.concatenate([x[:2], -x[:1], x[:1] / 2, noise]), dtype=torch.float32)
    with torch.inference_mode():
        together, alone = quiet(rows), [quiet(row[None]) for row in rows]
    apart = together.shape[:1] == (len(rows),) and all(
        torch.allclose(own[0], row, rtol=1e-3, atol=1e-3, equal_nan=True)
        for own, row in zip(alone, together, strict=True)
    )
    if not apart:
        raise FedprivError(
            "what the network says of an input depends on the inputs beside it, or it makes other rows than it is "
            "given: no certificate would hold"
        )


def check_inputs(x: Floats) -> None:
    """Refuse to certify or attack images outside of the box [−1, 1], naming the first by its number."""
    if x.ndim < 2 or not len(x):
        raise FedprivError(f"inputs must be (images, …), got an array of shape {x.shape}")
    inside = (np.abs(x.reshape(len(x), -1)) <= EDGE).all(1)
    if not inside.all():
        row = int(np.argmin(inside))
        raise FedprivError(
            f"inputs must be in [-1, 1], input {row} reaches {np.abs(x[row]).max():.6g}: data.divide and data.subtract "
            "bring them there"
        )
