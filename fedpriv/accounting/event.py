"""What a ledger is charged: a mechanism, behind which bound, on how many coordinates, how often, and who saw what.

An event says what happened, and what it costs is a function of it, so that a better proof can cost an old one anew.
What draws makes its own events: a channel's messages (`fedpriv.channel`), a client's releases of its records, a
curator's answers. `by_hand` makes one from words, for `fedpriv account` and for what nothing here draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never, get_args

from fedpriv.bounds import Bound, Box, Geometry, Norm, Normalised, bound_of, check_same, geometry_of, vectors
from fedpriv.errors import FedprivError, at_most, natural, one_of, positive, probability, whole
from fedpriv.mechanisms import (
    COSTED,
    BandedGaussian,
    Binomial,
    Cldp,
    Costed,
    Exponential,
    Gaussian,
    GeneralPtr,
    HiddenState,
    Histogram,
    Laplace,
    NoisySign,
    Ptr,
    StochasticSign,
    Ternary,
    settings_of,
)
from fedpriv.mechanisms.abilities import AddsUp, Particular
from fedpriv.mechanisms.own import is_own, try_own
from fedpriv.mechanisms.ptr import check_adjacency, check_seen, most_seen
from fedpriv.mechanisms.ptr_pairs import Seen
from fedpriv.registry import kind_of
from fedpriv.trust import (
    MOST,
    Adjacency,
    Central,
    Local,
    Sums,
    Trust,
    Unit,
    Word,
    certain_contributors,
    sums_only,
    trust_of,
    word_of,
)

Summed = (Binomial, StochasticSign, Cldp, NoisySign, Ternary)
# By themselves they stand for a curator's noise.
Curator = (Gaussian, Laplace, Ptr, Histogram, Exponential, GeneralPtr, BandedGaussian)
BOUNDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Bound)}
FACTS = {
    "kind", "settings", "bound", "dimension", "trust", "clients", "unit", "adjacency", "sampling", "rounds", "seen",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Event:
    """A mechanism applied `rounds` times to `dimension` coordinates within a bound, and who sees what.

    `sampling` is the Poisson rate of the unit in each round. `bound` is None of one coordinate, and of a batch of
    records, which its own mechanism bounds.
    """

    mechanism: Costed
    bound: Bound | None  # what inputs are held to
    dimension: int  # coordinates of one input
    trust: Trust  # who sees what
    unit: Unit  # what is protected: a record or a client
    adjacency: Adjacency  # how neighbours differ in one unit
    sampling: float = 1.0  # q
    rounds: int = 1  # T; an event of none has cost nothing yet
    seen: Seen | None = None  # of a test before a release: its margin and noise, or only which branch was taken

    def __post_init__(self) -> None:
        """Refuse an event that a ledger cannot be charged for: no proof speaks of its facts together."""
        _check_costed(self.mechanism)
        natural(rounds=self.rounds)
        whole(dimension=self.dimension)
        at_most("10^18", MOST, rounds=self.rounds, dimension=self.dimension)
        probability(sampling=self.sampling)
        one_of(get_args(Unit), unit=self.unit)
        one_of(get_args(Adjacency), adjacency=self.adjacency)
        for name, kinds in (("trust", get_args(Trust)), ("bound", (*get_args(Bound), type(None)))):
            if not isinstance(own := getattr(self, name), kinds):
                raise FedprivError(f"{name} must be one of {', '.join(kind.__name__ for kind in kinds)}, got {own!r}")
        if isinstance(self.mechanism, Ptr):
            if self.unit != "record":
                raise FedprivError("Ptr protects records, which it trims and counts: unit must be 'record'")
            check_adjacency(self.adjacency)
            positive(sampling=self.sampling)
        if isinstance(self.mechanism, Particular):
            self.mechanism.check_event(self.unit, self.trust, self.sampling, self.rounds)
        self._check_bound()
        self._check_trust()
        if isinstance(self.mechanism, Ptr):
            one_of(get_args(Seen), seen=self.seen)
            check_seen(self.mechanism, self.seen)
        elif self.seen is not None:
            raise FedprivError(
                f"seen = {self.seen!r} is of Ptr, whose test may be seen with its margin or by its branch alone; "
                f"{type(self.mechanism).__name__} has no test"
            )

    @property
    def of_sum(self) -> bool:
        """Whether real noise hides a record in a sum in which an absent one is 0: a message of it may be any other."""
        return self.adjacency == "add-remove" and isinstance(self.mechanism, Gaussian | Laplace | Ptr)

    @property
    def one_release(self) -> Event:
        """The event as one release where its rounds are one together, so that no two such add up; else as it is."""
        if not isinstance(self.mechanism, BandedGaussian) or not self.rounds:
            return self
        return replace(self, mechanism=self.mechanism.after(self.rounds), rounds=1)

    def _check_bound(self) -> None:
        """Refuse an event whose inputs are bounded otherwise than its mechanism says, or than its proof needs."""
        match self.bound:
            case None:
                if self.dimension > 1:
                    raise FedprivError(
                        f"geometry must be given for dimension {self.dimension}: l2 (norm at most clip) or linf"
                    )
            case Norm() | Normalised() | Box():
                if isinstance(self.mechanism, Ptr) and isinstance(self.bound, Box):
                    raise FedprivError("Ptr clips records by their ℓ2 norm: geometry must be l2, got linf")
                check_same(self.bound, self.mechanism)
            case _ as never:
                assert_never(never)

    def _check_trust(self) -> None:
        """Refuse an event whose mechanism has no proof under its trust, such as most under sums alone."""
        own = is_own(self.mechanism)
        match self.trust:
            case Central():
                if own:
                    raise FedprivError(
                        f"{kind_of(self.mechanism)} is of messages: trust must be 'local', not 'central'"
                    )
            case Local():
                self._check_sent()
            case Sums():
                self._check_sent()
                if own or not isinstance(self.mechanism, (*Summed, AddsUp)):
                    kinds = ", ".join([*(kind.__name__ for kind in Summed), "BinomialNoise", "Skellam", "Gaussian"])
                    name = kind_of(self.mechanism)
                    raise FedprivError(f"{name} has no certificate under secure aggregation; these have: {kinds}")
            case _ as never:
                assert_never(never)

    def _check_sent(self) -> None:
        """Refuse an event of clients sampled, or added and removed, whose messages are sent: who sends is seen.

        A client that is asked is seen to be there, and who is absent is seen to be: only what it sends is hidden.
        """
        match self.unit:
            case "record":
                return
            case "client":
                trust = word_of(self.trust)
            case _ as never:
                assert_never(never)
        if self.sampling < 1:
            raise FedprivError(
                f"sampling clients amplifies nothing under {trust} trust: the server knows whom it asked"
            )
        if self.adjacency != "replace":
            raise FedprivError(
                f"a client's message under {trust} trust is costed by replacement, for who sends none is seen to be "
                "absent: adjacency 'add-remove' needs trust 'central', or unit 'record'"
            )


def by_hand(
    mechanism: Costed, *, geometry: Geometry | None = None, dimension: int = 1,
    rounds: int = 1, sampling: float = 1.0, trust: Word | None = None, clients: int | None = None,
    unit: Unit | None = None, adjacency: Adjacency | None = None, seen: Seen | None = None,
) -> Event:  # fmt: skip
    """An event in words, as `fedpriv account` has it; what is not given is what the mechanism by itself stands for.

    Gaussian and Laplace noise, and releases of whole batches, are a curator's: trust central, unit record, and
    add-remove for all that add noise to a sum. Everything else is a client's message under local trust, by replacement,
    or of a record where it is sampled.

    >>> by_hand(Gaussian(clip=1, noise=1)).adjacency, by_hand(Gaussian(clip=1, noise=1), trust="local").adjacency
    ('add-remove', 'replace')
    """
    _check_costed(mechanism)
    if geometry is not None:
        one_of(get_args(Geometry), geometry=geometry)
    found = trust_of(trust or ("central" if isinstance(mechanism, Curator) else "local"), clients)
    curated = isinstance(found, Central)
    of_records = isinstance(mechanism, Ptr | HiddenState) or (isinstance(mechanism, Curator) and curated)
    unit = unit or ("record" if of_records or sampling < 1 else "client")
    on_a_sum = isinstance(mechanism, Gaussian | Laplace | Ptr | BandedGaussian) and (curated or unit == "record")
    return Event(
        mechanism=mechanism, bound=bound_of(geometry, clip=mechanism.clip, peak=mechanism.peak), dimension=dimension,
        trust=found, unit=unit, adjacency=adjacency or ("add-remove" if on_a_sum else "replace"),
        sampling=sampling, rounds=rounds, seen=seen or (most_seen(mechanism) if isinstance(mechanism, Ptr) else None),
    )  # fmt: skip


def event_as_data(event: Event) -> dict[str, Any]:
    """An event as plain data, words and numbers, that ledgers, run headers and reports keep as JSON."""
    return {
        "kind": kind_of(event.mechanism), "settings": settings_of(event.mechanism), "bound": _named(event.bound),
        "dimension": event.dimension, "trust": word_of(event.trust), "clients": certain_contributors(event.trust),
        "unit": event.unit, "adjacency": event.adjacency, "sampling": event.sampling, "rounds": event.rounds,
        "seen": event.seen,
    }  # fmt: skip


def event_of(entry: Mapping[str, Any]) -> Event:
    """The event in an entry of a ledger or a run's header, in the format of `event_as_data` or the one before it.

    A fact left out is never filled in: it may cost less.
    """
    if "geometry" in entry and "bound" not in entry:
        entry = _upgraded(entry)
    mechanism, bound = COSTED.made(entry["kind"], entry["settings"]), None
    if missing := sorted(FACTS - set(entry)):
        raise FedprivError(f"an event lacks {', '.join(missing)}")
    if unknown := sorted(set(entry) - FACTS):
        raise FedprivError(f"an event has no {', '.join(unknown)}")
    if (given := entry["bound"]) is not None:
        if not isinstance(given, Mapping) or given.get("kind") not in BOUNDS:
            raise FedprivError(f"bound must be a table of kind {', '.join(BOUNDS)}, or null, got {given!r}")
        bound = BOUNDS[given["kind"]](**{name: value for name, value in given.items() if name != "kind"})
    return Event(
        mechanism=mechanism, bound=bound, dimension=entry["dimension"],
        trust=trust_of(entry["trust"], entry["clients"]), unit=entry["unit"], adjacency=entry["adjacency"],
        sampling=entry["sampling"], rounds=entry["rounds"], seen=entry["seen"],
    )  # fmt: skip


def _upgraded(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A ledger's entry of the first format, which had a geometry, as one of today's that costs the same.

    It said of a client's message under Gaussian or Laplace noise that adding or removing it moves a sum by `clip`, as a
    curator's noise on that sum would be costed, which is what such an entry becomes. Every other message cost the same
    by either adjacency.
    """
    found = dict(entry)
    geometry = found.pop("geometry")
    mechanism = COSTED.made(entry["kind"], entry["settings"])
    bound = bound_of(geometry, clip=mechanism.clip, peak=mechanism.peak)
    found |= {"bound": _named(bound), "seen": "margin" if isinstance(mechanism, Ptr) else None}
    if (found["unit"], found["adjacency"]) != ("client", "add-remove") or found["trust"] == "central":
        return found
    if not isinstance(mechanism, Gaussian | Laplace):
        return found | {"adjacency": "replace"}
    if isinstance(mechanism, Gaussian) and sums_only(found["trust"]):
        found["settings"] = settings_of(mechanism.aggregated(found["clients"]))
    return found | {"trust": "central", "clients": None}


def _check_costed(mechanism: object) -> None:
    """Refuse as an event's mechanism whatever is none of those whose privacy is known."""
    if is_own(mechanism) and hasattr(mechanism, "encode"):
        try_own(mechanism)
    elif type(mechanism) not in COSTED.values():
        raise FedprivError(f"mechanism must be one of {', '.join(COSTED)}, got {mechanism!r}")


def levels_of(event: Event) -> list[tuple[float, int]]:
    """The inputs to tell apart in an event's coordinates: (level, k) for ±level on k of them, as its bound allows."""
    clip, peak = event.mechanism.clip, event.mechanism.peak
    if event.dimension == 1 or geometry_of(event.bound) == "linf":
        return [(peak, event.dimension)]
    return vectors.explicit_spans(clip=clip, peak=peak, dimension=event.dimension)


def _named(bound: Bound | None) -> dict[str, Any] | None:
    """A bound as plain data for a ledger's entry, from which `event_of` makes it again."""
    return None if bound is None else {"kind": type(bound).__name__, **vars(bound)}
