"""Randomness that does not depend on who runs what, or in which order."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.random import PCG64, PCG64DXSM, SFC64, Generator, Philox
from numpy.typing import NDArray

from fedpriv._base.arrays import Words
from fedpriv._base.compiled import compiled, high_half
from fedpriv.errors import FedprivError, natural

_RAW_IS_64_BITS = {PCG64, PCG64DXSM, Philox, SFC64}  # MT19937, and several of randomgen's, give 32 or 52
_WORDS = 2**64  # as many different ones
# of Philox4x64: what two of its four words are multiplied by, and what both halves of the key grow by in each turn
_MULTIPLIERS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
_WEYL = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))


def stream(seed: int, purpose: str, round: int = 0, client: int = 0) -> Generator:
    """A simulation's random generator of one purpose, round and client: always the same for the same words.

    Philox with key = BLAKE2b(seed, purpose) and counter = (0, 0, client, round).

    Streams of one key are disjoint for 2¹²⁸ blocks. They are for simulation: who knows the seed knows the noise, so a
    deployed client draws from `fedpriv.randomness.cryptographic` instead.

    >>> stream(1, "encode", round=2, client=3).integers(100, size=3)
    array([46,  6, 49])
    """
    natural(seed=seed, round=round, client=client)
    if not isinstance(purpose, str):
        raise FedprivError(f"purpose must be a word, got {purpose!r}")
    if not (round < _WORDS and client < _WORDS):
        raise FedprivError(f"round and client must be below 2**64, got {round} and {client}")
    return Generator(Philox(key=_key(int(seed), purpose), counter=np.array([0, 0, client, round], np.uint64)))


@lru_cache(maxsize=1024)
def _key(seed: int, purpose: str) -> NDArray[np.uint64]:
    """The key of the random streams of a seed and a purpose: 128 bits of hash of both.

    The colon cannot stand in a number, so no two pairs are written alike.
    """
    digest = blake2b(f"{seed}:{purpose}".encode(), digest_size=16).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def words_of_clients(
    seed: int,
    purpose: str,
    round: int,
    clients: NDArray[np.int64],
    count: int,
    out: Words | None = None,
) -> Words:
    """The first `count` random words of every client's own stream, a row a client, for drawing a cohort at once.

    >>> rows = words_of_clients(1, "encode", 2, np.array([7, 3]), 5)
    >>> (rows[1] == random_words(5, stream(1, "encode", 2, 3))).all()
    np.True_
    """
    stream(seed, purpose, round)  # refuses what names no stream
    words = np.empty((clients.size, count), np.uint64) if out is None else out
    _philox(_key(int(seed), purpose), clients.astype(np.uint64), np.uint64(round), words)
    return words


@compiled
def _philox(key: Words, clients: Words, round: np.uint64, out: Words) -> None:
    """Fill rows with the words of clients' streams: Philox4x64-10 of the counters (1, 0, client, round), ….

    The words are as numpy's Philox gives them.

    Salmon, Moraes, Dror, Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (2011). Compiled, it needs no call a word.
    """
    for row in range(len(out)):
        own = out[row]
        for block in range(-(-len(own) // 4)):
            a, b, c, d = np.uint64(block + 1), np.uint64(0), clients[row], round
            first, second = key[0], key[1]
            for _ in range(10):
                over, under = high_half(_MULTIPLIERS[0], a), high_half(_MULTIPLIERS[1], c)
                a, b, c, d = under ^ b ^ first, _MULTIPLIERS[1] * c, over ^ d ^ second, _MULTIPLIERS[0] * a
                first += _WEYL[0]
                second += _WEYL[1]
            for place, word in enumerate((a, b, c, d)):
                if 4 * block + place < len(own):
                    own[4 * block + place] = word


class Replayed:
    """Words drawn before, then those of a generator: for an exact sampler to do over what was begun in bulk.

    Taken for a generator by all that draws through `random_words`.

    >>> again = Replayed(np.array([5, 6, 7], np.uint64), stream(1, "words"))
    >>> random_words(2, again), random_words(3, again)  # type: ignore[arg-type]
    (array([5, 6], dtype=uint64), array([                   7,  6888212232013727010, 15272446162341623448],
          dtype=uint64))
    """

    bit_generator = None

    def __init__(self, words: NDArray[np.uint64], rng: Generator) -> None:
        self._words, self._rng = words, rng

    def integers(self, low: int, high: int, count: int, **_: object) -> NDArray[np.uint64]:
        """The next `count` words, replayed while there are any, as `random_words` asks a generator for them."""
        known, self._words = self._words[:count], self._words[count:]
        return np.concatenate((known, random_words(count - known.size, self._rng)))


def random_words(count: int, rng: Generator) -> NDArray[np.uint64]:
    """`count` independent uniform 64-bit words, by the shortest way that is right for the generator.

    >>> random_words(2, stream(1, "words"))
    array([ 6888212232013727010, 15272446162341623448], dtype=uint64)
    """
    if type(rng.bit_generator) in _RAW_IS_64_BITS:
        return rng.bit_generator.random_raw(count)
    return rng.integers(0, _WORDS - 1, count, dtype=np.uint64, endpoint=True)


def random_bytes(count: int, rng: Generator) -> NDArray[np.uint8]:
    """`count` independent uniform bytes, from whole words: a count that is a multiple of eight wastes none.

    >>> random_bytes(3, stream(1, "bytes"))
    array([57, 71, 75], dtype=uint8)
    """
    return random_words(-(-count // 8), rng).view(np.uint8)[:count]
