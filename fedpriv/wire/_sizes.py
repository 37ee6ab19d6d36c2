"""How many bytes a client sends: its messages, alone or added up unseen, and the settings of its release."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from fedpriv._base.arrays import Bytes
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism, Ternarize, Ternary
from fedpriv.packed import sparse
from fedpriv.packed.forms import Trits
from fedpriv.packed.symbols import packing_of, whole_numbers
from fedpriv.wire.frames import CLIENT, FRONT

SETTING = np.dtype("<f8")  # how a setting travels
HEADER = FRONT + CLIENT.itemsize  # bytes a client that sends alone pays besides its payload


def varies(mechanism: Mechanism, masked: int | None) -> bool:
    """Whether the bytes of a client's message depend on what it says: unmasked ternary ones may be sparse."""
    return masked is None and isinstance(packing_of(mechanism), Trits)


def masked_bits(mechanism: Mechanism, clients: int) -> int:
    """Bits that a coordinate takes under secure aggregation, ⌈log₂(M·n + 1)⌉: one message has M + 1 values.

    >>> from fedpriv.mechanisms import Binomial
    >>> masked_bits(Binomial(clip=1, scale=2, trials=4), 1437)
    13
    """
    alphabet = whole_numbers(mechanism)
    if alphabet is None:
        raise FedprivError(f"{type(mechanism).__name__} sends reals, which secure aggregation cannot add")
    return ((len(alphabet) - 1) * clients).bit_length()


def alone(mechanism: Mechanism, dimension: int, payload: Bytes) -> int | None:
    """Bytes that these packed messages would take, each sent by itself, for a round's record; None: all take the same.

    >>> from fedpriv.mechanisms import StochasticSign, Ternary
    >>> silent = np.full((3, 200), 121, np.uint8)
    >>> alone(Ternary(clip=1, spread=2, scale=4), 1000, silent) - 3 * HEADER
    12
    >>> alone(StochasticSign(clip=1, scale=2), 1000, silent)
    """
    if not varies(mechanism, None):
        return None
    return HEADER * len(payload) + int(sparse.sparse_sizes(payload, dimension).sum())


class Size(NamedTuple):
    """What a client sends in a round."""

    bytes: float
    word: str  # whether that is "exact", "expected", or "at most" what is expected

    @property
    def whole(self) -> int:
        """A client's bytes in a round, to the nearest whole one."""
        return round(self.bytes)


def client_bytes(
    mechanism: Mechanism, dimension: int, masked_clients: int | None, settings: int = 0, *, boxed: bool = False
) -> Size:
    """Bytes one client sends in a round, header and all, for forecasts and run headers; masked, at that width.

    Settings that adapt travel in a frame of their own. A ternary message is as short as it speaks rarely: of `Ternary`
    each coordinate does with probability A/B, whatever it is; of `Ternarize` with |x|/B, which is at most
    min(r, c/√d)/B on average, or r/B where coordinates alone are bounded (`boxed`).

    >>> from fedpriv.mechanisms import Ternary
    >>> client_bytes(Ternary(clip=1, peak=0.1, spread=1, scale=10), 100_000, None).whole
    11296
    """
    if settings:
        own = client_bytes(mechanism, dimension, masked_clients, boxed=boxed)
        return Size(own.bytes + settings_bytes(settings), own.word)
    if masked_clients is not None:
        return Size(HEADER + -(-dimension * masked_bits(mechanism, masked_clients) // 8), "exact")
    if isinstance(mechanism, Ternary):
        return Size(HEADER + sparse.expected_size(dimension, mechanism.spread / mechanism.scale), "expected")
    if isinstance(mechanism, Ternarize):
        largest = mechanism.peak if boxed else min(mechanism.peak, mechanism.clip / sqrt(dimension))
        return Size(HEADER + sparse.largest_expected_size(dimension, largest / mechanism.scale), "at most")
    return Size(HEADER + packing_of(mechanism).size(dimension), "exact")


def settings_bytes(settings: int) -> int:
    """Bytes that a client sends besides its message where so many settings of its release adapt."""
    return HEADER + SETTING.itemsize * settings if settings else 0


def packed_bits(mechanism: Any, dimension: int, *, boxed: bool = False) -> tuple[float, str]:
    """Bits that a coordinate of one client's message takes without its header, and whether exact or expected.

    >>> from fedpriv.mechanisms import Ternary
    >>> bits, word = packed_bits(Ternary(clip=1, peak=0.1, spread=1, scale=10), 100_000)
    >>> round(bits, 4), word
    (0.9004, 'expected')
    """
    if not isinstance(mechanism, Ternary | Ternarize):
        return float(mechanism.bits), "exact"
    found, word = client_bytes(mechanism, dimension, None, boxed=boxed)
    if found - HEADER >= packing_of(mechanism).size(dimension):
        return float(mechanism.bits), "exact"
    return 8 * (found - HEADER) / dimension, word
