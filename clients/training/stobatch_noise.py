"""Noised records, drawn once: the same whenever they are asked for, and others under any other scale or other records.

In a simulation the noise is a function of the seed. A deployed client derives it from a secret key of its own, which
stands beside its ledger, and from everything that the release depends on. Under one noise two scales would give
x + b₁Z and x + b₂Z, and records of which one has changed the difference to what it was: both reveal x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.random import Generator
from randomgen import ChaCha

from clients.data.pool import Pool
from fedpriv._base.arrays import Numbers
from fedpriv.certified.functional import FunctionalMechanism
from fedpriv.randomness.cryptographic import KEY_BYTES
from fedpriv.randomness.streams import stream

Source = Callable[[int, str], Generator]  # of a batch, by the number of its first record, and a part


def seeded_source(seed: int, mechanism: FunctionalMechanism) -> Source:
    """A simulation's source of kept noise, by batch and part, from the study's seed: who knows it can subtract it."""
    scales = f"{mechanism.noise!r} {mechanism.label_noise!r}"
    return lambda number, part: stream(seed, f"kept {part} {scales}", client=number)


@dataclass(frozen=True)
class Secret:
    """A deployed client's source of noise that is drawn once."""

    name: str  # what its ledger calls the release, which is charged once
    _key: bytes = field(repr=False)  # from which every batch's and part's key is derived

    def __call__(self, number: int, part: str) -> Generator:
        """The generator of a node's kept noise for one batch and part: ChaCha20 under a key of its own."""
        own = blake2b(f"{number} {part}".encode(), key=self._key, digest_size=KEY_BYTES).digest()
        return Generator(ChaCha(key=int.from_bytes(own, "little"), rounds=20))


def secret_source(
    key: bytes, mechanism: FunctionalMechanism, pool: Pool, held: Iterable[Numbers], besides: object
) -> Secret:
    """A node's source of kept noise, from its key: for these records at these scales, in the mechanism's batches.

    `held` are the numbers of each client's records, `besides` what alters them. Two are the same if and only if all of
    that is: what one client has under one number, the next study may give another number, and it is the same release.
    """
    words = blake2b(key=key, digest_size=KEY_BYTES)
    scales = mechanism.noise, mechanism.label_noise, mechanism.inputs, mechanism.batch
    parts = [repr((scales, pool.classes, besides)).encode()]
    parts += [repr((pool.divide, pool.subtract, str(pool.x.dtype), pool.x.shape)).encode()]
    for part in (*parts, *(np.ascontiguousarray(own, "<i8").tobytes() for own in held)):
        words.update(len(part).to_bytes(8, "little") + part)
    for stored in (pool.y, np.asarray(pool.x)):
        words.update(stored.tobytes())
    found = words.digest()
    return Secret(blake2b(b"name", key=found, digest_size=16).hexdigest(), found)
