"""Settings that several modules of mechanisms share: how they are checked, and what they are called."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any, Protocol

from fedpriv.errors import at_most, positive

Peak = Annotated[float, positive, "r, the largest |coordinate| of an input, at most clip; the clip if not given"]


def fill_peak(mechanism: Any) -> None:
    """Fill in the peak, which is the clip where it was not given, and refuse one above it."""
    if mechanism.peak is None:
        object.__setattr__(mechanism, "peak", float(mechanism.clip))
    object.__setattr__(mechanism, "peak", float(mechanism.peak))
    at_most("clip", mechanism.clip, peak=mechanism.peak)


class Tested(Hashable, Protocol):
    """The settings of propose-test-release that its bounds are made of (`fedpriv.mechanisms.Ptr`), R being 1.

    They are hashable, so that what follows from them is remembered.
    """

    @property
    def noise(self) -> float:
        """σ, the noise on the sum."""

    @property
    def bound(self) -> float:
        """τ, the local sensitivity proposed for the trimmed sum."""

    @property
    def test_noise(self) -> float:
        """b, the scale of the test's Laplace noise, in records."""

    @property
    def failure(self) -> float:
        """δ₀, the chance that a test passes which should not."""

    @property
    def enough(self) -> int:
        """The least whole Δ̂ that passes."""
