"""What the settings of several estimators are."""

from __future__ import annotations

from typing import Annotated

from fedpriv.errors import limited, natural, positive, real
from fedpriv.estimation._budget import LEAST_DELTA, LEAST_EPSILON, Composition

OUTVOTED = limited("must be between 0 and 1/2, both excluded", above=0, below=0.5)  # else others outvote the honest

Epsilon = Annotated[float, positive, limited(least=LEAST_EPSILON), "ε that all accesses together may cost"]
Delta = Annotated[float, positive, limited(below=1), limited(least=LEAST_DELTA), "δ it holds at"]
Corrupted = Annotated[float, real, OUTVOTED, "α, the share of records that may be anything"]
Deviation = Annotated[float, positive, "the standard deviation of honest records in every direction: public"]
LargestDeviation = Annotated[float, positive, "the largest standard deviation of honest records: public"]
Held = Annotated[float | None, positive, "an ℓ2 norm that all records are held to, where one is known beforehand"]
Composed = Annotated[Composition, "how accesses are costed: by what is certified, or as the paper has it"]
Interactive = Annotated[bool, "filter all records anew for every answer; the answers are the same"]
Recentrings = Annotated[int, natural, "times that the filters are applied anew about the mean they led to"]
