"""Ways to deal records out unevenly: to clients of unlike labels, of unlike sizes, or both.

The kinds of `[clients.split]`. Each is given the labels of a shuffled deck of `count · records` records and deals it
whole, at least one record to everybody: a client without any would have no gradient, and nothing to send. One that says
`by_user = True` is given whose each record is instead, of all in the order in which they stand. The laws are those of
Flower Datasets' partitioners, without its dependencies; draws are functions of the seed and the client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from scipy.special import gammaincinv, ndtri

from fedpriv._base.arrays import Numbers, Vector
from fedpriv.errors import FedprivError, above, at_least_zero, at_most, limited, real, whole
from fedpriv.population._apportioning import rounded, shares, uniform, with_least
from fedpriv.randomness.streams import random_words, stream, words_of_clients
from fedpriv.registry import Registry
from fedpriv.settings import check_fields


class Hands(NamedTuple):
    """Who gets what of a deck."""

    places: Numbers  # of the deck, client by client
    sizes: Numbers  # how many each client gets


class Dealing(Protocol):
    """How a deck is dealt."""

    def check(self, records: int) -> None:
        """Refuse a study that has so many records a client and asks of its split what they do not allow."""

    def dealt(self, labels: Numbers, clients: int, seed: int) -> Hands:
        """Which of a shuffled deck's records each client gets, given their labels, or whose they are (`by_user`)."""


Least = Annotated[int, whole, "records that everybody has; they come, one by one, from whoever has most"]


@dataclass(frozen=True, kw_only=True)
class Dirichlet:
    """Each label's records in shares drawn from the symmetric Dirichlet(α) over the clients; sizes differ too.

    A small α leaves a client few labels, α = ∞ gives each the same share of every label. Yurochkin et al., "Bayesian
    Nonparametric Federated Learning of Neural Networks" (2019), section 4; Flower Datasets' DirichletPartitioner
    without its balancing. Where that one draws again until nobody has fewer than `least` records, here they are taken,
    one by one, from where most of one label are at one client, so that many clients and a small α go together.
    """

    alpha: Annotated[
        float,
        at_least_zero,
        limited("must be positive, or inf for even shares", above=0),
        "α, how even a label's shares are: small leaves a client few labels, inf is even",
    ]
    least: Least = 1

    by_label: ClassVar = True

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, records: int) -> None:
        """Refuse a study in which so many records a client are no more than `split.least`: all would have the least."""
        above("split.least", self.least, records=records)

    def dealt(self, labels: Numbers, clients: int, seed: int) -> Hands:
        """Which records each client gets, its share of each label drawn from Dirichlet(α): places and sizes."""
        of_each = np.bincount(labels)
        # Logarithms of Gamma(α) variables up to a factor a label, as Gamma(α + 1) · U^(1/α): no underflow, however
        # small α is.
        alpha = min(self.alpha, 1e150)  # past which no two shares differ
        words = words_of_clients(seed, "split shares", 0, np.arange(clients), 2 * len(of_each))
        of_gamma, of_power = np.split(uniform(words), 2, axis=1)
        scaled = alpha * np.log(gammaincinv(alpha + 1, of_gamma)) + np.log(of_power)
        with np.errstate(over="ignore"):  # an infinite difference is a share of nothing
            logarithms = (scaled - scaled.max(axis=0)) / alpha
        parts = shares(logarithms)
        offsets = uniform(random_words(len(of_each), stream(seed, "split rounding")))
        columns = [rounded(*facts) for facts in zip(parts.T, of_each.tolist(), offsets.tolist(), strict=True)]
        counts = with_least(np.stack(columns, axis=1), self.least)
        owners = np.repeat(np.tile(np.arange(clients), len(of_each)), counts.T.reshape(-1))
        sorted_by_label = np.argsort(labels, kind="stable")
        return Hands(sorted_by_label[np.argsort(owners, kind="stable")], counts.sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Sorted by label and cut into shards, `each` of them to a client, which so sees about as many labels.

    McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017), section 3;
    Flower Datasets' ShardPartitioner. The sorted deck is cut into one row a client and each row into `each` shards, the
    larger ones first; the shards of each place in a row are dealt out by a shuffle of their own.
    """

    each: Annotated[int, whole, "shards a client"]

    by_label: ClassVar = True

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, records: int) -> None:
        """Refuse a study in which a client has fewer records than shards."""
        at_most("clients.records", records, **{"split.each": self.each})

    def dealt(self, labels: Numbers, clients: int, seed: int) -> Hands:
        """Which records each client gets, `each` shards of the deck sorted by label: places by client, and sizes."""
        rows = np.argsort(labels, kind="stable").reshape(clients, -1)
        shuffles = [shuffled_numbers(clients, stream(seed, "split shards", round=place)) for place in range(self.each)]
        shards = zip(shuffles, np.array_split(rows, self.each, axis=1), strict=True)
        places = np.concatenate([shard[shuffle] for shuffle, shard in shards], axis=1)
        return Hands(places.reshape(-1), np.full(clients, rows.shape[1]))


@dataclass(frozen=True, kw_only=True)
class PowerSizes:
    """Records at random; client c of 0, 1, … has a share in proportion to (c + 1)^exponent.

    Exponents 1 and 2 are Flower Datasets' LinearPartitioner and SquarePartitioner.
    """

    exponent: Annotated[float, real, at_least_zero, "how uneven: 0 is even, 1 a line, 2 a square"]
    least: Least = 1

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, records: int) -> None:
        """Refuse a study in which so many records a client are no more than `split.least`: all would have the least."""
        above("split.least", self.least, records=records)

    def dealt(self, labels: Numbers, clients: int, seed: int) -> Hands:
        """Which records each client gets, at random, client c about (c + 1)^exponent of them: places and sizes."""
        return _by_size(self.exponent * np.log(np.arange(1, clients + 1)), len(labels), self.least)


@dataclass(frozen=True, kw_only=True)
class LogNormalSizes:
    """Records at random; a client's share is in proportion to exp(deviation · z), its own z a standard normal."""

    deviation: Annotated[float, real, at_least_zero, "how uneven: the standard deviation of the sizes' logarithms"]
    least: Least = 1

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, records: int) -> None:
        """Refuse a study in which so many records a client are no more than `split.least`: all would have the least."""
        above("split.least", self.least, records=records)

    def dealt(self, labels: Numbers, clients: int, seed: int) -> Hands:
        """Which records each client gets, at random, as many as its log-normal share says: places and sizes."""
        words = words_of_clients(seed, "split sizes", 0, np.arange(clients), 1)[:, 0]
        return _by_size(self.deviation * ndtri(uniform(words)), len(labels), self.least)


@dataclass(frozen=True, kw_only=True)
class Users:
    """Each user that the data name is a client with its own records; where there are more than clients, some by lot.

    Flower Datasets' NaturalIdPartitioner. With `shuffled` the same users have as many records as before, and which
    they are is drawn: what is different then is due to whose the records are.
    """

    least: Annotated[int, whole, "records without which a user is no client; who is left out is said"] = 1
    shuffled: Annotated[bool, "whether these users' records are dealt at random, as many to each as it has"] = False

    by_user: ClassVar = True

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, records: int) -> None:
        """Nothing to refuse: how many records a client has is the data's to say."""

    def dealt(self, labels: Numbers, clients: int, seed: int) -> Hands:
        """Which records each client gets, given whose each is (`labels` are users): client after client, in order.

        >>> Users(least=2).dealt(np.array([0, 2, 1, 2, 0]), clients=2, seed=1)
        Hands(places=array([0, 4, 1, 3]), sizes=array([2, 2]))
        """
        sizes = np.bincount(labels)
        enough = np.flatnonzero(sizes >= self.least)
        if not clients <= len(enough):
            few = f" with at least {self.least:,} records" if self.least > 1 else ""
            raise FedprivError(f"count = {clients:,}, but the data name {len(enough):,} users{few}: ask for fewer")
        chosen = np.sort(enough[shuffled_numbers(len(enough), stream(seed, "split users"))[:clients]])
        order = np.argsort(labels, kind="stable")
        places = order[np.isin(labels[order], chosen)]
        if self.shuffled:
            places = places[shuffled_numbers(len(places), stream(seed, "split users' records"))]
        return Hands(places, sizes[chosen])


SPLITS = Registry("split", Dealing, (Dirichlet, Shards, PowerSizes, LogNormalSizes, Users))


def shuffled_numbers(count: int, rng: Generator) -> Numbers:
    """A permutation for dealing out records, by sorting raw words, which no version of numpy changes."""
    return np.argsort(random_words(count, rng), kind="stable").astype(np.int64)


def _by_size(logarithms: Vector, records: int, least: int) -> Hands:
    """The hands of clients given the logarithms of their shares: a shuffled deck in its order, cut where they say."""
    sizes = rounded(shares(logarithms), records, offset=0.5)
    return Hands(np.arange(records), with_least(sizes[:, None], least)[:, 0])
