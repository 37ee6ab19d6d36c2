"""Checks that several mechanisms share."""

from __future__ import annotations

from typing import Any

from fedpriv.errors import at_most, positive


def fill_peak(mechanism: Any) -> None:
    """Check clip and peak, the peak being the clip where it was not given."""
    positive(clip=mechanism.clip)
    if mechanism.peak is None:
        object.__setattr__(mechanism, "peak", float(mechanism.clip))
    positive(peak=mechanism.peak)
    object.__setattr__(mechanism, "peak", float(mechanism.peak))
    at_most("clip", mechanism.clip, peak=mechanism.peak)
