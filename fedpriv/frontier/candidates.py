"""What is asked of every mechanism, and what one that answers comes to: its ε, its bits, its error, its attackers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, NamedTuple

from fedpriv.accounting.account import Cost
from fedpriv.accounting.event import Event
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError, limited, natural, real, whole
from fedpriv.frontier.sphere import MeanError, mean_error, typical_mean
from fedpriv.mechanisms import Mechanism
from fedpriv.settings import check_fields
from fedpriv.tolerance import Vote
from fedpriv.tolerance.ballots import Attack
from fedpriv.trust import Local, Sums, Trust, Word, sums_only
from fedpriv.wire import masked_bits, packed_bits

CLIP = 1.0  # of every input: errors are in units of it
LEAST = 1e-6  # of ε: below it, all that is computed is whether the whole loss is at most δ
MOST = 10**9  # clients, or coordinates
TRUSTS: tuple[Word, ...] = ("local", "secure-aggregation")  # under which a client draws the noise itself


@dataclass(frozen=True, kw_only=True)
class Target:
    """Messages that are sent, and what all of one client's may give away: the same for every mechanism.

    What is hidden is a client, all of whose data are replaced.

    >>> Target(epsilon=2, delta=1e-5, rounds=100, clients=1000, byzantine=50).trust("secure-aggregation")
    Sums(certain=950)
    """

    epsilon: Annotated[float, real, limited(least=LEAST), "ε, at most, of all rounds together"]
    delta: Annotated[float, limited(above=0, below=1), "δ, at which ε is certified"]
    rounds: Annotated[int, whole, "T, messages of each client"] = 1
    clients: Annotated[int, whole, limited(most=MOST), "N, the Byzantine among them"]
    byzantine: Annotated[int, natural, "K, clients whose noise hides nobody"] = 0
    dimension: Annotated[int, whole, limited(most=MOST), "d, coordinates of a message"] = 650

    def __post_init__(self) -> None:
        check_fields(self)
        if 2 * self.byzantine >= self.clients:
            raise FedprivError(
                f"byzantine must be below half of the clients, {self.clients:,}: got {self.byzantine:,}, and no vote "
                "or median survives as many as there are others"
            )

    @property
    def honest(self) -> int:
        """N − K, the clients that certainly draw their noise."""
        return self.clients - self.byzantine

    @property
    def mean(self) -> float:
        """|x̄|, where votes are counted: the mean |x_j| of an input uniform on the sphere."""
        return typical_mean(self.dimension, CLIP)

    def trust(self, word: Word) -> Trust:
        """Who sees what, of that name: of sums, those that are not Byzantine have certainly drawn noise."""
        return Sums(self.honest) if sums_only(word) else Local()

    def event(self, mechanism: Mechanism, word: Word) -> Event:
        """What a ledger is charged for all messages of one client."""
        return Channel.of("clip", mechanism).event(self.dimension, self.trust(word), rounds=self.rounds)

    def bits(self, mechanism: Mechanism, word: Word) -> tuple[float, str]:
        """Bits a coordinate that are really sent, headers aside, and whether exact or expected: masked ones of sums."""
        if sums_only(word):
            return float(masked_bits(mechanism, self.clients)), "exact"
        return packed_bits(mechanism, self.dimension)


class Survived(NamedTuple):
    """How many attackers beside the N − K honest clients a vote survives: see `fedpriv.tolerance`."""

    published: float | None  # [F]'s theorem; None where none speaks, or says nothing
    certified: int | None  # of all honest data of that mean
    exact: int  # each honest client at the mean; −1 where the vote fails without attackers


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A mechanism whose ε meets the target, and what else it comes to."""

    mechanism: Mechanism
    trust: Word
    cost: Cost  # ε at the target's δ, from both sides, with proofs
    error: MeanError | None  # of the mean of N messages; None where no decoder is known
    entropy: float  # bits of information in a coordinate, the most there are
    bits: float  # a coordinate, as it is sent
    bits_are: str  # exact, expected, or at most what is expected

    @property
    def kind(self) -> str:
        """The class's name."""
        return type(self.mechanism).__name__

    @property
    def distance(self) -> float:
        """The error in one number, noise and bias together; ∞ where it is not known."""
        return inf if self.error is None else self.error.total


def candidate_of(target: Target, mechanism: Mechanism, word: Word, cost: Cost) -> Candidate:
    """A mechanism of that ε under a trust, with what it sends and what its mean is off by; refused where none is known.

    A noise too wide to write its law down has no entropy, and is refused by its own line.
    """
    bits, word_of_bits = target.bits(mechanism, word)
    return Candidate(
        mechanism=mechanism, trust=word, cost=cost, error=mean_error(mechanism, target.dimension, target.clients),
        entropy=mechanism.entropy, bits=bits, bits_are=word_of_bits,
    )  # fmt: skip


def attackers_survived(target: Target, mechanism: Mechanism, attack: Attack) -> Survived | None:
    """How many attackers the vote on a coordinate survives, of the target's N − K honest clients; None where none is.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> target = Target(epsilon=2, delta=1e-5, clients=1000, byzantine=50, dimension=4)
    >>> attackers_survived(target, StochasticSign(clip=1, scale=2), "omniscient").exact
    201
    """
    try:
        vote = Vote(mechanism=mechanism, honest=target.honest, mean=target.mean, attack=attack)
        exact = vote.exact
    except FedprivError:  # no votes, or none that can be counted
        return None
    return Survived(vote.published[1], vote.certified, exact)


def unbeaten_candidates(found: Sequence[Candidate]) -> list[Candidate]:
    """The frontier: those than which no other one sends fewer bits at no more error, by bits."""
    kept: list[Candidate] = []
    for each in sorted(found, key=lambda one: (one.bits, one.distance)):
        if each.distance < (kept[-1].distance if kept else inf):
            kept.append(each)
    return kept
