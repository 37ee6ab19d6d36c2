"""What settings of private sums share: how they are checked, and F as a number or a share."""

from __future__ import annotations

from fedpriv.errors import FedprivError, one_of, positive, probability, real, whole
from fedpriv.private_sums.batch import NORMS, Bound

LARGEST = 1e30


def check_noisy(clip: float, noise: float, sampling: float, norm: Bound = "clip") -> None:
    """Refuse what no release can have."""
    positive(clip=clip, noise=noise)
    one_of(NORMS, norm=norm)
    real(sampling=sampling)
    probability(sampling=sampling)
    if not sampling > 0:
        raise FedprivError(f"sampling is the share of the records in a step, in (0, 1], got {sampling}")
    if not max(noise, 1) * clip <= LARGEST:
        raise FedprivError(f"clip and noise · clip must be at most {LARGEST:g} for float32 to hold them, got {clip:g}")


def check_part(**parts: int | float) -> None:
    """Refuse what is neither a number of records nor a share of them."""
    for name, part in parts.items():
        if isinstance(part, int):
            whole(at_least=0, **{name: part})
        else:
            probability(**{name: part})


def number_of(part: int | float, expected: float) -> int:
    """The number that is given, or the share of the batch expected, rounded down.

    >>> number_of(64, 256), number_of(0.25, 256)
    (64, 64)
    """
    return part if isinstance(part, int) else int(part * expected * (1 + 1e-12))
