"""The server's side of a masked sum: what it hands on, what it rejects, and the sum of those who stay.

It follows the members phase by phase; a message that does not fit is `Rejected` and its member has dropped out. Where
fewer are left than the study's threshold asks for, there is no sum: `FedprivError`, in one line.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from fedpriv.errors import FedprivError
from fedpriv.masking import keys, masks, shamir
from fedpriv.masking.identity import SIGNATURE
from fedpriv.masking.masks import Residues
from fedpriv.masking.member import (
    COMMITMENT,
    SEALED,
    context_of,
    own_key,
    seed_commitment,
    wards_of,
)
from fedpriv.masking.roster import Entry, Roster, Terms
from fedpriv.masking.survivors import SIGNED, SPEAKS
from fedpriv.wire import Rejected

_PARTS = (0, keys.KEY, 2 * keys.KEY, 2 * keys.KEY + SIGNATURE)  # of what a member advertises
_TRIES = 200  # choices of shares, before a secret is given up
_NONE = bytes(shamir.SHARE)  # what a member sends that was given no share it could open


class Session:
    """One sum. `asked` says for how many clients each member speaks; `model`, what their vectors are made from."""

    def __init__(self, terms: Terms, asked: Mapping[int, int], dimension: int, width: int, model: bytes) -> None:
        self.rejected: list[Rejected] = []  # shares that did not belong
        self._terms = terms
        self._asked = asked
        self._width = width  # bits a coordinate
        self._model = model
        self._keys: dict[int, Entry] = {}  # what each member advertises
        self._shared: dict[int, bytes] = {}  # by member: its signature, its commitment, its letters
        self._survivors: dict[int, int] = {}  # whose vectors are in the sum, and for how many clients each speaks
        self._signatures: dict[int, bytes] = {}  # of the list of survivors
        self._opened: set[int] = set()  # who has given shares of its wards' secrets
        self._shares: dict[int, dict[int, bytes]] = {}  # of each member's one secret, by who gave it
        self._total: Residues = np.zeros(dimension, masks.residue_type(width))
        self._suspects: set[int] = set()  # who has given a share that did not belong

    # --- 1. keys ---------------------------------------------------------------------------------------------------

    def take_keys(self, member: int, content: bytes) -> None:
        """Phase 1: take a node's two public keys, which nobody else has sent, and a signature, which members check."""
        self._expect(member, self._asked, self._keys)
        _check_size(member, content, 2 * keys.KEY + SIGNATURE, ", where two signed keys were expected")
        entry = Entry(self._asked[member], *(content[start:end] for start, end in pairwise(_PARTS)))
        known = {key for other in self._keys.values() for key in (other.channel, other.pairing)}
        if entry.channel == entry.pairing or known & {entry.channel, entry.pairing}:
            raise Rejected("duplicate", f"node {member}: a key that was sent before")
        try:
            for key in (entry.channel, entry.pairing):
                keys.agreed_secret(keys.opened_key(keys.private_key()), key, b"", b"")
        except ValueError:
            raise Rejected("alphabet", f"node {member}: a point that agrees on the same key with everybody") from None
        self._keys[member] = entry

    @cached_property
    def roster(self) -> Roster:
        """All members that have sent keys, as every one of them is told: from here on there are no others."""
        return Roster(self._terms, dict(sorted(self._keys.items())))

    # --- 2. shares -------------------------------------------------------------------------------------------------

    def take_shares(self, member: int, content: bytes) -> None:
        """Phase 2: take a node's signature of the roster, commitment and sealed letters, which nobody here can open."""
        self._expect(member, self.roster.entries, self._shared)
        _check_size(member, content, SIGNATURE + COMMITMENT + SEALED * self.roster.arrangement.degree, " of shares")
        self._shared[member] = content

    @cached_property
    def present(self) -> tuple[int, ...]:
        """The members that have shared their secrets: their masks must go from the sum, one way or the other."""
        return tuple(sorted(self._shared))

    def letters(self, member: int) -> bytes:
        """What a member is told before its vector: who has shared, with signatures, and the letters written to it."""
        self._enough(self.present, "have shared their secrets")
        letters = []
        for writer in self.roster.neighbours(member):
            if writer in self._shared:
                place = SIGNATURE + COMMITMENT + SEALED * self.roster.neighbours(writer).index(member)
                letters.append(self._shared[writer][place : place + SEALED])
        return self._told_present + b"".join(letters)

    @cached_property
    def _told_present(self) -> bytes:
        """The members that have shared, with their signatures of the roster: what every one of them is told."""
        rows = np.array([(each, self._shared[each][:SIGNATURE]) for each in self.present], SIGNED)
        return len(rows).to_bytes(4, "little") + rows.tobytes()

    # --- 3. masked vectors -----------------------------------------------------------------------------------------

    def take_masked(self, member: int, vector: Residues, clients: int) -> None:
        """Phase 3: take a node's masked vector, the sum of so many clients' messages, into the sum."""
        self._expect(member, self._shared, self._survivors)
        if not 0 < clients <= self._asked[member]:
            raise Rejected("sender", f"node {member}: speaks for {clients} clients, asked were {self._asked[member]}")
        self._total = self._total + vector
        self._survivors[member] = clients

    @property
    def survivors(self) -> Mapping[int, int]:
        """The members whose vectors are in the masked sum, each with the number of its clients."""
        return self._survivors

    def listed(self) -> bytes:
        """The masked sum's survivors and the numbers of their clients, as bytes for members to sign."""
        self._enough(self._survivors, "have sent a masked vector")
        return np.array(sorted(self._survivors.items()), SPEAKS).tobytes()

    # --- 4. where members sign their keys: survivors, signed by them -------------------------------------------------

    def take_signature(self, member: int, content: bytes) -> None:
        """Phase 4: take a node's signature of the list of survivors, which other members check."""
        self._expect(member, self._survivors, self._signatures)
        _check_size(member, content, SIGNATURE, ", where a signature was expected")
        self._signatures[member] = content

    def opening(self) -> bytes:
        """What every survivor is told before it opens the sum: the list of survivors, and who has signed it."""
        if self.roster.signed:
            self._enough(self._signatures, "have signed who survives")
        rows = np.array(sorted(self._signatures.items()), SIGNED)
        return len(self._survivors).to_bytes(4, "little") + self.listed() + rows.tobytes()

    # --- 5. unmasking ----------------------------------------------------------------------------------------------

    def take_opened(self, member: int, content: bytes) -> None:
        """Phase 5: take a node's share of one secret of each of its wards, by which masks come off the sum."""
        self._expect(member, self._survivors, self._opened)
        own = wards_of(self.roster, member, self.present)
        _check_size(member, content, shamir.SHARE * len(own), f", where {len(own)} shares were asked")
        self._opened.add(member)
        for place, ward in enumerate(own):
            self._shares.setdefault(ward, {})[member] = content[shamir.SHARE * place :][: shamir.SHARE]

    def total(self) -> NDArray[np.int64]:
        """The sum of the survivors' vectors with all masks taken off, modulo 2ʷ, from 0."""
        total = self._total
        context, dimension = context_of(self.present, self._model), len(self._total)
        for member in self.present:
            secret = self._recovered(member)
            if member in self._survivors:  # its own mask was added
                total = total - masks.mask_stream(own_key(self.roster, secret, context), dimension, self._width)
                continue
            private = keys.opened_key(secret)
            for other in self.roster.neighbours(member):  # the earlier of two added what they share
                if other in self._survivors:
                    key = keys.agreed_secret(private, self.roster.entries[other].pairing, self.roster.digest, context)
                    mask = masks.mask_stream(key, dimension, self._width)
                    total = total - mask if other < member else total + mask
        return masks.whole_numbers(total, self._width)

    def _recovered(self, member: int) -> bytes:
        """A survivor's seed, or a dropped member's private key, from the shares given of it, to take off its masks.

        It is right where it comes to what the member has told: the seed's commitment, or the public key. Shares that do
        not belong to the others are rejected and counted.
        """
        given = {each: share for each, share in self._shares.get(member, {}).items() if share != _NONE}
        threshold, at = self.roster.arrangement.threshold, self.roster.place
        survives = member in self._survivors
        told = self._shared[member][SIGNATURE:][:COMMITMENT] if survives else self.roster.entries[member].pairing
        # Tried together are first the shares of those that nothing speaks against, then some by lot.
        believed = sorted(given, key=lambda each: (each in self._suspects, each))[:threshold]
        lot = random.Random(0)
        drawn = (lot.sample(list(given), threshold) for _ in range(_TRIES if len(given) > threshold else 0))
        for chosen in chain([believed] if len(believed) == threshold else [], drawn):
            curve = shamir.share_curve({at(each): given[each] for each in chosen})
            try:
                secret = shamir.secret_of(curve)
            except FedprivError:
                continue
            if told != (seed_commitment(self.roster, secret) if survives else keys.public_key(secret)):
                continue
            for each, share in given.items():
                if shamir.curve_at(curve, at(each)) != int.from_bytes(share):
                    self._suspects.add(each)
                    why = f"node {each}: a share that does not belong to the others"
                    self.rejected.append(Rejected("checksum", why))
            return secret
        raise FedprivError(f"masking: {len(given)} shares of node {member}'s secret do not give it back")

    def _expect(self, member: int, may: Iterable[int], have: Iterable[int]) -> None:
        """Refuse a phase's answer of a member of the masked sum that was not asked, or has answered."""
        if member not in may:
            raise Rejected("sender", f"node {member}: was not asked here")
        if member in have:
            raise Rejected("duplicate", f"node {member}: has answered already")

    def _enough(self, members: Iterable[int], what: str) -> None:
        """Refuse to go on with a masked sum where these are fewer nodes, or of fewer clients, than the study asks."""
        left = list(members)
        spoken = sum(self._survivors.get(each, self._asked[each]) for each in left)
        if spoken < self._terms.threshold or len(left) < self.roster.nodes:
            raise FedprivError(
                f"masking: {len(left)} of {len(self._asked)} nodes, of {spoken} clients, {what}, where "
                f"{self._terms.threshold} clients are needed"
            )


def _check_size(member: int, content: bytes, size: int, words: str) -> None:
    """Refuse a member's answer in a masked sum that is of another size; `words` say what was expected."""
    if len(content) != size:
        raise Rejected("shape", f"node {member}: {len(content)} bytes{words}")
