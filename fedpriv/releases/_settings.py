"""What settings of private sums share: how they are checked, and F as a number or a share."""

from __future__ import annotations

from typing import Annotated

from fedpriv.errors import FedprivError, limited, natural, positive, probability, real
from fedpriv.releases._batch import Bound

LARGEST = 1e30


Sampling = Annotated[
    float, real, probability, limited("is the share of the records in a step, in (0, 1]", above=0),
    "q, how likely each record takes part in a step: batches are Poisson",
]  # fmt: skip
Scale = Annotated[float, positive, "σ, the noise's standard deviation as a multiple of clip"]
How = Annotated[Bound, "how a gradient is held to clip: longer ones shortened, or all brought to it"]


def check_size(clip: float, noise: float) -> None:
    """Refuse settings of a private sum with noise that float32 cannot hold."""
    if not max(noise, 1) * clip <= LARGEST:
        raise FedprivError(f"clip and noise · clip must be at most {LARGEST:g} for float32 to hold them, got {clip:g}")


Part = Annotated[int, natural] | Annotated[float, probability]  # a number of records, or a share of the batch expected


def number_of(part: int | float, expected: float) -> int:
    """A setting of a private sum in records, as F: the number given, or that share of the batch expected, rounded down.

    >>> number_of(64, 256), number_of(0.25, 256)
    (64, 64)
    """
    return part if isinstance(part, int) else int(part * expected * (1 + 1e-12))
