"""Shamir's secret sharing over the integers modulo 2⁵²¹ − 1: t shares give the secret, fewer say nothing of it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

from fedpriv.errors import FedprivError

PRIME = 2**521 - 1  # a Mersenne prime, well above any 32-byte secret
SECRET = 32  # bytes
SHARE = 66  # bytes, which hold any number below PRIME

_inverse = lru_cache(maxsize=1 << 14)(partial(pow, exp=-1, mod=PRIME))  # of differences of places: few, and often

Curve = list[tuple[int, int]]  # places, and Newton's coefficients at them


def split_secret(secret: bytes, places: Sequence[int], threshold: int) -> list[bytes]:
    """A share of a member's secret for each place (different, not 0): a random polynomial's value there.

    Its coefficients come from the operating system. Python's whole numbers take a time that depends on their values;
    who measures that must already be in the process that knows the secret.

    >>> shares = split_secret(bytes(31) + b"x", [1, 2, 5], threshold=2)
    >>> secret_of(share_curve({1: shares[0], 5: shares[2]}))[-1:]
    b'x'
    """
    if len(set(places)) != len(places) or not 0 < threshold <= len(places) or not min(places) > 0:
        raise FedprivError(f"threshold = {threshold} must be 1 to the number of different places, got {places}")
    polynomial = [secrets.randbelow(PRIME) for _ in range(threshold - 1)] + [int.from_bytes(secret)]
    shares = []
    for place in places:
        value = 0
        for coefficient in polynomial:  # by Horner's rule, the highest power first
            value = (value * place + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE))
    return shares


def secret_of(found: Curve) -> bytes:
    """A member's secret, put together by the server: the polynomial's value at 0; shares of no secret are refused."""
    secret = curve_at(found, 0)
    if secret >> (8 * SECRET):
        raise FedprivError("these shares are not of one secret")
    return secret.to_bytes(SECRET)


def share_curve(shares: Mapping[int, bytes]) -> Curve:
    """The polynomial that shares of a member's secret lie on, as many as its threshold, by Newton's differences."""
    places, values = list(shares), [int.from_bytes(share) for share in shares.values()]
    for step in range(1, len(places)):
        for last in range(len(places) - 1, step - 1, -1):
            apart = _inverse(places[last] - places[last - step])
            values[last] = (values[last] - values[last - 1]) * apart % PRIME
    return list(zip(places, values, strict=True))


def curve_at(found: Curve, place: int) -> int:
    """A share polynomial's value at a place: the secret at 0, else a holder's true share, which betrays false ones."""
    value = 0
    for where, coefficient in reversed(found):
        value = (value * (place - where) + coefficient) % PRIME
    return value
