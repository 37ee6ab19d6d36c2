"""Mean estimators: a matrix of records in, a mean and its guarantee out. Each by its kind, the class's name."""

from __future__ import annotations

from typing import Any

from fedpriv.errors import FedprivError, nearest_hint
from fedpriv.estimation._centres import CoordinateMedian, EmpiricalMean, GeometricMedian, MedianOfMeans
from fedpriv.estimation._coinpress import Coinpress
from fedpriv.estimation._dp_filter import DpFilter
from fedpriv.estimation._estimate import Estimate, Estimator
from fedpriv.estimation._heavy_tailed import PrimeHeavyTailed
from fedpriv.estimation._noisy_means import DpMean
from fedpriv.estimation._robust_filter import RobustFilter
from fedpriv.estimation._robust_ptr import IqrPtr, MedianPtr, ModePtr, TrimmedSumPtr
from fedpriv.estimation._trimmed import TrimmedDistance
from fedpriv.estimation._tukey import TukeyMedian
from fedpriv.estimation.prime import Prime
from fedpriv.estimation.tested import ProposeTestRelease
from fedpriv.registry import UNPROVED, Registry

__all__ = [
    "ESTIMATORS", "Coinpress", "CoordinateMedian", "DpFilter", "DpMean", "EmpiricalMean", "Estimate", "Estimator",
    "GeometricMedian", "IqrPtr", "MedianOfMeans", "MedianPtr", "ModePtr", "Prime", "PrimeHeavyTailed",
    "ProposeTestRelease", "RobustFilter", "TrimmedDistance", "TrimmedSumPtr", "TukeyMedian", "method_of",
    "spelled_name",
]  # fmt: skip

ESTIMATORS = Registry(
    "estimator",
    Estimator,
    (
        Prime, PrimeHeavyTailed, DpFilter, DpMean, Coinpress, TrimmedDistance, TukeyMedian, MedianPtr, IqrPtr, ModePtr,
        TrimmedSumPtr, RobustFilter, EmpiricalMean, CoordinateMedian, GeometricMedian, MedianOfMeans,
    ),
    proof=UNPROVED,
)  # fmt: skip


def method_of(word: str) -> type[Any]:
    """The estimator's class for a `--method` of `fedpriv estimate`, which may be written small and with dashes.

    >>> method_of("dp-mean").__name__
    'DpMean'
    """
    if ":" in word:
        return ESTIMATORS.named(word)
    plain = {name.lower(): kind for name, kind in ESTIMATORS.items()}
    if (found := plain.get(word.replace("-", "").lower())) is None:
        words = [spelled_name(name) for name in ESTIMATORS]
        raise FedprivError(f"unknown method {word!r}{nearest_hint(word, words)}; methods: {', '.join(words)}")
    return found


def spelled_name(kind: str) -> str:
    """An estimator's class name as `--method` of `fedpriv estimate` spells it: small, with dashes.

    >>> spelled_name("MedianOfMeans")
    'median-of-means'
    """
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in kind).lstrip("-")
