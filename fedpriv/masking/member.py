"""A member of a masked sum: functions, one a phase, each of which takes the member's state and what the server says.

A state is used once. Whoever keeps it replaces it by the next before the answer leaves, and forgets the last: the same
masks must never hide two vectors, and nobody may learn both secrets of one member. All that a member reads is checked
against its own study and what it saw before; whatever does not fit raises FedprivError, and costs the round.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from fedpriv.errors import FedprivError
from fedpriv.masking import keys, masks, shamir, survivors
from fedpriv.masking.identity import Identity
from fedpriv.masking.masks import Residues
from fedpriv.masking.roster import Owner, Roster, Terms
from fedpriv.masking.survivors import SIGNED, Survivors

SEALED = 2 * shamir.SHARE + keys.SEALED  # a share of each secret, on its way
COMMITMENT = 32  # bytes: SHA-256's
SESSION = 16  # bytes
MEMBER = np.dtype("<u4")


@dataclass(frozen=True, kw_only=True)
class State:
    """All that a member keeps between two messages: words, whole numbers and bytes."""

    stage: str  # what comes next
    session: bytes  # by chance: the marker on the node's disk names no other
    about: bytes  # a digest of study and round, as in its terms
    channel: bytes  # the private key of what is written to it
    pairing: bytes  # the private key of its masks
    roster: bytes = b""  # as the server has sent it
    seed: bytes = b""  # of the mask that is its own
    own: bytes = b""  # its shares of its own secrets
    present: bytes = b""  # who has shared secrets out
    held: bytes = b""  # the shares of others, by neighbour as in `present`
    context: bytes = b""  # of its masks: who was present, and the model
    clients: int = 0  # how many it has spoken for in the end
    named: bytes = b""  # a digest of the survivors it has signed


def advertised_keys(terms: Terms, me: int, identity: Identity) -> tuple[State, bytes]:
    """Phase 1 of a masked sum: a member's new state with two private keys, and their public halves, signed."""
    channel, pairing = keys.private_key(), keys.private_key()
    session = secrets.token_bytes(SESSION)
    state = State(stage="shares", session=session, about=terms.about, channel=channel, pairing=pairing)
    pair = keys.public_key(channel) + keys.public_key(pairing)
    return state, pair + identity.signed(_signed_keys(terms, me, pair))


def shared_secrets(
    state: State, terms: Terms, me: int, clients: int, content: bytes, identity: Identity, owner: Owner | None = None
) -> tuple[State, bytes]:
    """Phase 2: a member's secrets for its neighbours, a commitment to its seed and a sealed pair of shares for each.

    In front, its signature of the roster: nobody is present who does not sign these very keys, now.
    """
    _expect(state, "shares", terms)
    roster = Roster.read(terms, content)
    own, public = roster.entries.get(me), (keys.public_key(state.channel), keys.public_key(state.pairing))
    if own is None or (own.channel, own.pairing) != public or own.clients != clients:
        raise FedprivError("masking: the roster does not hold this node as it is")
    if owner:
        owner.check(roster)
    for member, entry in roster.entries.items():
        if not identity.knows(member, _signed_keys(terms, member, entry.channel + entry.pairing), entry.signature):
            raise FedprivError(f"masking: the keys of node {member} are not signed by the node that this one knows")
    holders, seed = roster.holders(me), secrets.token_bytes(keys.KEY)
    places, threshold = [roster.place(each) for each in holders], roster.arrangement.threshold
    pairs = zip(
        shamir.split_secret(seed, places, threshold), shamir.split_secret(state.pairing, places, threshold), strict=True
    )
    shares = {holder: b"".join(pair) for holder, pair in zip(holders, pairs, strict=True)}
    private = keys.opened_key(state.channel)
    sent = [
        keys.sealed_bytes(_key_with(private, roster, holder), share, _about(roster, me, holder))
        for holder, share in shares.items() if holder != me
    ]  # fmt: skip
    state = replace(state, stage="input", roster=content, seed=seed, own=shares[me])
    return state, identity.signed(_signed_roster(roster)) + seed_commitment(roster, seed) + b"".join(sent)


def received_shares(state: State, terms: Terms, me: int, clients: int, content: bytes, identity: Identity) -> State:
    """Phase 3: take in who has shared secrets out, and the shares for this member; what no key opens is held as zeros.

    The vector is asked of as many clients as the roster says, or of none.
    """
    _expect(state, "input", terms)
    roster = Roster.read(terms, state.roster)
    if clients != roster.entries[me].clients:
        raise FedprivError(
            f"masking: a vector of {clients} clients is asked for, where the roster says {roster.entries[me].clients}"
        )
    size = SIGNED.itemsize * int.from_bytes(content[:4], "little")
    signatures, letters = survivors.rows_of(content[4:][:size], most=len(roster.entries)), content[4 + size :]
    present = np.array(list(signatures), MEMBER).tobytes()
    _check_present(roster, signatures, me, identity)
    there = set(signatures)
    neighbours = [each for each in roster.neighbours(me) if each in there]
    if len(letters) != SEALED * len(neighbours):
        raise FedprivError(f"masking: {len(letters)} bytes of shares from {len(neighbours)} neighbours")
    if len(neighbours) + 1 < roster.arrangement.threshold:
        raise FedprivError(f"masking: {len(neighbours)} neighbours have shared, too few to bring anything back")
    private, held = keys.opened_key(state.channel), b""
    for place, each in enumerate(neighbours):
        letter, key = letters[SEALED * place :][:SEALED], _key_with(private, roster, each)
        pair = keys.unsealed_bytes(key, letter, _about(roster, each, me))
        # zeros, which the server will find out, where a letter is not from whom it should be
        held += pair if pair is not None and len(pair) == 2 * shamir.SHARE else bytes(2 * shamir.SHARE)
    return replace(state, stage="masking", present=present, held=held)


def masked_vector(state: State, terms: Terms, me: int, vector: Residues, width: int, model: bytes, clients: int) \
        -> tuple[State, Residues]:  # fmt: skip
    """Phase 3: a member's vector under its own mask and one with each neighbour; `model` is what it was made from.

    That goes into the masks: a server that sends some members another model gets no sum, and asking twice, were a state
    ever used twice, would not give two vectors under one mask.
    """
    _expect(state, "masking", terms)
    roster, present = Roster.read(terms, state.roster), _members(state)
    if not 0 < clients <= roster.entries[me].clients:
        raise FedprivError(f"masking: {clients} clients, where {roster.entries[me].clients} were spoken of")
    context = context_of(present, model)
    total = vector + masks.mask_stream(own_key(roster, state.seed, context), len(vector), width)
    private, there = keys.opened_key(state.pairing), set(present)
    for other in roster.neighbours(me):
        if other in there:
            key = keys.agreed_secret(private, roster.entries[other].pairing, roster.digest, context)
            mask = masks.mask_stream(key, len(vector), width)
            total = total + mask if me < other else total - mask
    forgotten = {"seed": b"", "channel": b"", "pairing": b""}
    return replace(state, stage="opening", context=context, clients=clients, **forgotten), total


def confirmed_survivors(state: State, terms: Terms, me: int, content: bytes, identity: Identity) -> tuple[State, bytes]:
    """Phase 4: a member's signature of who survives, once: any two lists that enough have signed are the same."""
    _expect(state, "opening", terms)
    if state.named:
        raise FedprivError("masking: this node has signed who survives")
    roster, _ = _checked(state, terms, content, me)
    signature = identity.signed(survivors.to_be_signed(content, roster, state.context))
    return replace(state, named=name_of(content)), signature


def opened_shares(state: State, terms: Terms, me: int, content: bytes, identity: Identity) -> tuple[State, bytes]:
    """Phase 5: a share of each ward's secret for the server: the seed's where it survives, else the pairing key's.

    Never both: the state is spent. Refused unless the survivors speak for the threshold's clients, in as many members
    as that takes at least, and, where this node knows its peers, those among them who have signed the same list, of
    vectors made from the same model, do so by themselves.
    """
    _expect(state, "opening", terms)
    names = survivors.SPEAKS.itemsize * int.from_bytes(content[:4], "little")
    listed, signatures = content[4:][:names], content[4 + names :]
    roster, found = _checked(state, terms, listed, me)
    survivors.check_signatures(listed, found, signatures, roster, state.context, identity)
    pairs, answer = iter(np.frombuffer(state.held, f"V{2 * shamir.SHARE}")), b""
    for ward in wards_of(roster, me, _members(state)):
        pair = state.own if ward == me else bytes(next(pairs))
        answer += pair[: shamir.SHARE] if ward in found else pair[shamir.SHARE :]
    return State(stage="spent", session=state.session, about=state.about, channel=b"", pairing=b""), answer


def name_of(listed: bytes) -> bytes:
    """SHA-256 of a list of survivors, by which a member's state and its node's disk remember what was signed."""
    return sha256(listed).digest()


def _checked(state: State, terms: Terms, content: bytes, me: int) -> tuple[Roster, Survivors]:
    """The roster, and who survives, if a sum of these may be opened; other than this member has signed it is not."""
    roster = Roster.read(terms, state.roster)
    if state.named not in (b"", name_of(content)):
        raise FedprivError("masking: the survivors are others than this node has signed")
    return roster, survivors.read_survivors(content, roster, _members(state), me, state.clients)


def _signed_keys(terms: Terms, member: int, pair: bytes) -> bytes:
    """The bytes a member signs for its public keys, of this study, round and member: phase 1, and checked in 2."""
    return b"fedpriv masking keys\0" + terms.about + member.to_bytes(4) + pair


def _signed_roster(roster: Roster) -> bytes:
    """The bytes a member signs to say that it has seen this roster: phase 2, and checked by the others in 3."""
    return b"fedpriv masking roster\0" + roster.digest


def seed_commitment(roster: Roster, seed: bytes) -> bytes:
    """A member's commitment to its mask's seed: what the server checks a seed by that it put together from shares."""
    return sha256(b"seed\0" + roster.digest + seed).digest()


def context_of(present: tuple[int, ...], model: bytes) -> bytes:
    """The bytes that go into every mask's key besides the roster: digests of who has shared, and of the model."""
    return b"mask\0" + sha256(np.array(present, MEMBER).tobytes()).digest() + sha256(model).digest()


def own_key(roster: Roster, seed: bytes, context: bytes) -> bytes:
    """The key of the mask that is a member's own, from its seed: for the member, and the server that takes it off."""
    return keys.derived_key(seed, roster.digest, b"own\0" + context)


def wards_of(roster: Roster, me: int, present: tuple[int, ...]) -> list[int]:
    """The members whose shares a member gives the server in the end, in order: itself and its present neighbours."""
    there = set(present)
    return [each for each in roster.holders(me) if each in there]


def _expect(state: State, stage: str, terms: Terms) -> None:
    """Refuse a phase that does not come next in a member's state, or is of another round or study."""
    if state.stage != stage or state.about != terms.about:
        raise FedprivError(f"masking: {stage} asked where {state.stage} comes next, or in another round or study")


def _check_present(roster: Roster, signatures: Mapping[int, bytes], me: int, identity: Identity) -> None:
    """Refuse a server's list of who has shared that lacks this member, enough clients or the roster's signatures."""
    if not set(signatures) <= set(roster.entries) or me not in signatures:
        raise FedprivError("masking: who has shared must be members, and this node among them")
    if roster.clients(signatures) < roster.terms.threshold:
        raise FedprivError(f"masking: {roster.clients(signatures)} clients' nodes have shared, too few to go on")
    content = _signed_roster(roster)
    for member, signature in signatures.items():
        if not identity.knows(member, content, signature):
            raise FedprivError(f"masking: node {member} has not signed this roster: it may be of another session")


def _members(state: State) -> tuple[int, ...]:
    """The members present in a masked sum, from the bytes in which a state holds them."""
    return tuple(np.frombuffer(state.present, MEMBER).tolist())


def _key_with(private: keys.Private, roster: Roster, other: int) -> bytes:
    """The key of sealed letters (pairs of shares) between this member and another, in either direction."""
    return keys.agreed_secret(private, roster.entries[other].channel, roster.digest, b"channel")


def _about(roster: Roster, writer: int, reader: int) -> bytes:
    """What a sealed letter is bound to, so that no server can pass it off as another's: sum, writer and reader."""
    return roster.digest + writer.to_bytes(4) + reader.to_bytes(4)
