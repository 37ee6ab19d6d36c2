"""A server that keeps all it is sent: who survives is its choice, after it has seen the circle, and so is all else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fedpriv.errors import FedprivError
from fedpriv.masking import keys, masks, member, shamir
from fedpriv.masking.identity import Identity
from fedpriv.masking.member import context_of, own_key
from fedpriv.masking.survivors import SIGNED, SPEAKS
from tests.masked_sums import MODEL, Sum

Members = frozenset[int]


def known(count: int) -> list[Identity]:
    private = [Ed25519PrivateKey.generate() for _ in range(count)]
    return [Identity(each, tuple(other.public_key() for other in private)) for each in private]


@dataclass
class LyingSum(Sum):
    """A sum by nodes that know each other, on real states; `models` are what some are sent in place of the true one."""

    survivors: Members = frozenset()  # by number, not by place; all others have dropped out
    colluders: Members = frozenset()
    models: dict[int, bytes] = field(default_factory=dict)
    claims: dict[int, int] = field(default_factory=dict)  # how many clients the list gives others, where not the truth
    actual: dict[int, int] = field(default_factory=dict)  # the clients in a vector, where not all that were asked

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sent: dict[int, masks.Residues] = {}
        self.before: dict[int, member.State] = {}  # masks were made of it; of a colluder that is the server's
        self.refusals: dict[int, str] = {}
        self.signatures: dict[int, bytes] = {}
        self.given: dict[tuple[int, str], dict[int, bytes]] = {}  # of a secret, by who gave a share

    def at(self, *places: int) -> Members:
        """The members at these places of the circle."""
        circle = sorted(self.session.roster.entries, key=self.session.roster.place)
        return frozenset(circle[place % len(circle)] for place in places)

    def hidden(self, each: int, state: member.State) -> tuple[member.State, masks.Residues]:
        vector, spoken = masks.residues_of(self.vectors[each], self.width), self.actual.get(each, self.spoken[each])
        model = self.models.get(each, MODEL)
        self.before[each] = state
        after, self.sent[each] = member.masked_vector(state, self.terms, each, vector, self.width, model, spoken)
        return after, self.sent[each]

    def begin(self) -> None:
        self.keys()
        self.shares()

    def listed(self) -> bytes:
        own = {each: self.claims.get(each, self.spoken[each]) for each in sorted(self.survivors)}
        return np.array(list(own.items()), SPEAKS).tobytes()

    def open(self) -> None:
        """One list for all who survive: they sign it, and open it with what the others have signed."""
        listed = self.listed()
        for each in sorted(self.survivors):
            try:
                self.states[each], self.signatures[each] = member.confirmed_survivors(
                    self.states[each], self.terms, each, listed, self.who[each]
                )
            except FedprivError as error:
                self.refusals[each] = str(error)
        told = len(self.survivors).to_bytes(4, "little") + listed
        told += np.array(sorted(self.signatures.items()), SIGNED).tobytes()
        for each in sorted(self.survivors - self.colluders):
            self.take(each, told)
        for each in self.colluders:
            state = self.states[each]
            pairs = iter(np.frombuffer(state.held, f"V{2 * shamir.SHARE}"))  # of its neighbours, in the order of wards
            present = tuple(np.frombuffer(state.present, member.MEMBER).tolist())
            for ward in member.wards_of(self.session.roster, each, present):
                pair = state.own if ward == each else bytes(next(pairs))
                self.gives(each, ward, "seed", pair[: shamir.SHARE])
                self.gives(each, ward, "key", pair[shamir.SHARE :])

    def take(self, each: int, told: bytes) -> None:
        try:
            self.states[each], answer = self.told(each, told)
        except FedprivError as error:
            self.refusals.setdefault(each, str(error))
            return
        for place, ward in enumerate(member.wards_of(self.session.roster, each, self.session.present)):
            share = answer[shamir.SHARE * place :][: shamir.SHARE]
            self.gives(each, ward, "seed" if ward in self.survivors else "key", share)

    def gives(self, each: int, ward: int, secret: str, share: bytes) -> None:
        if share != bytes(shamir.SHARE):
            self.given.setdefault((ward, secret), {})[each] = share

    @property
    def givers(self) -> Members:
        """The honest members that have opened the list."""
        return frozenset(each for own in self.given.values() for each in own) - self.colluders

    def recovered(self, ward: int, secret: str) -> bytes:
        """A secret, of as many shares as it takes."""
        roster, shares = self.session.roster, self.given.get((ward, secret), {})
        threshold = roster.arrangement.threshold
        if len(shares) < threshold:
            raise FedprivError(f"{len(shares)} shares of node {ward}'s {secret}, where {threshold} are needed")
        return shamir.secret_of(
            shamir.share_curve({roster.place(each): share for each, share in list(shares.items())[:threshold]})
        )

    def sum_of(self, part: Iterable[int]) -> NDArray[np.int64]:
        """What the server makes of the vectors of these members alone, with all that it knows."""
        part, roster, size, width = frozenset(part), self.session.roster, self.vectors.shape[1], self.width
        total = np.zeros(size, masks.residue_type(width))
        for each in part:
            context = context_of(self.session.present, self.models.get(each, MODEL))
            total = total + self.sent[each] - masks.mask_stream(
                own_key(roster, self.recovered(each, "seed"), context), size, width
            )  # fmt: skip
            for other in set(roster.neighbours(each)) & set(self.session.present) - part:
                key = keys.agreed_secret(*self.pair(other, each), roster.digest, context)
                total = (
                    total - masks.mask_stream(key, size, width)
                    if each < other
                    else total + masks.mask_stream(key, size, width)
                )
        return masks.whole_numbers(total, width)

    def pair(self, other: int, each: int) -> tuple[keys.Private, bytes]:
        """The private key of one of two, whichever the server has, and the public one of the other."""
        if other in self.colluders:
            return keys.opened_key(self.before[other].pairing), self.session.roster.entries[each].pairing
        try:
            return keys.opened_key(self.recovered(other, "key")), self.session.roster.entries[each].pairing
        except FedprivError:
            if len(self.given.get((each, "key"), {})) < self.session.roster.arrangement.threshold:
                raise
            return keys.opened_key(self.recovered(each, "key")), self.session.roster.entries[other].pairing

    def plain_of(self, part: Iterable[int]) -> NDArray[np.int64]:
        whole: NDArray[np.int64] = self.vectors[sorted(part)].sum(axis=0) % (1 << self.width)
        return whole
