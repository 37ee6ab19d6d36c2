"""Settings that several modules of mechanisms share: how they are checked, and what they are called."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any, Protocol

from fedpriv.errors import at_most, positive

Peak = Annotated[float, positive, "r, the largest |coordinate| of an input, at most clip; the clip if not given"]


def fill_peak(mechanism: Any) -> None:
    """Fill in a mechanism's peak, the clip where none was given, as it is made; refuse one above the clip."""
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
        """σ, the noise on propose-test-release's sum: σR on the whole, στ on the trimmed one."""

    @property
    def bound(self) -> float:
        """τ, the local sensitivity that propose-test-release proposes for the trimmed sum."""

    @property
    def test_noise(self) -> float | None:
        """b, the scale of the Laplace noise on propose-test-release's test, in records; None where it is a coin."""

    @property
    def failure(self) -> float:
        """δ₀, the chance that propose-test-release's test passes which should not."""

    @property
    def trimmed(self) -> int | None:
        """F of propose-test-release's coin, the margin at which it passes but for δ₀; None of the Laplace test."""

    @property
    def step(self) -> float | None:
        """μ of a step of propose-test-release's coin; None of the Laplace test."""

    @property
    def enough(self) -> int:
        """The least whole margin, noisy where there is noise, at which propose-test-release's test passes."""

    def log_chances(self, margin: int) -> tuple[float, float]:
        """ln of the chances that propose-test-release's test passes and fails at a margin."""
