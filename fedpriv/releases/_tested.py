"""Propose-test-release: a trimmed sum with less noise, where a private test allows it. [P] Algorithms 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from fedpriv import mechanisms
from fedpriv.errors import FedprivError, positive, whole
from fedpriv.mechanisms.ptr import INVERTIBLE, RATIO, Failure, How, TestNoise, check_test, test_of
from fedpriv.randomness.grid import FineGrid
from fedpriv.releases import ptr
from fedpriv.releases._batch import Batch, Bound, Released
from fedpriv.releases._settings import Part, Sampling, check_size, number_of
from fedpriv.settings import check_fields

Rates = Literal["equal", "by-trimmed"]
AfterPass = Literal["less", "more"]


@dataclass(frozen=True, kw_only=True)
class Ptr:
    """Σ + σR·N(0, I); or TSUM_F + στ·N(0, I), where a private test passes. TSGD + PTR of [P], docs/ptr.md.

    What leaves is the sum, and F of the next step, from which all see whether the test passed; the margin stays. The
    test is a coin whose chance rises with the margin, or [P]'s Laplace noise on it, which costs more.

    F moves by `step` after every test, up where it failed and down where it passed, as Algorithm 2 has it; with
    `after_pass = "more"` the other way, as Appendix B.1.3 has it. Left to itself it would come to trim the whole batch
    where most gradients are long, so `most` bounds it. Gradients are ordered by their length before clipping (see
    `TrimmedGaussian`).

    `rates` is the step after SUM beside the one after TSUM_F, which adds up fewer: as long, or (n − F)/n of it, η_A/η_B
    of Theorem 5.2, n the batch expected. Test and F are seen by all, so it costs nothing. The theorem itself promises
    nothing at the τ/R of [P], 0.5 to 0.667: it needs σ₂² ≥ (n − F)(n + 1)/n²·σ₁² at least, 0.868 at n = 256, F = 64.
    """

    clip: Annotated[float, positive, "R, the ℓ2 norm that a record's gradient is held to"]
    bound: Annotated[float, positive, INVERTIBLE, RATIO, "τ/R, the local sensitivity proposed for the trimmed sum"]
    noise: Annotated[float, positive, INVERTIBLE, "σ, a multiple of clip on the sum, of τ on the trimmed sum"]
    test_noise: TestNoise = None
    failure: Failure
    sampling: Sampling
    trimmed: Annotated[Part, "F to begin with: records, or a share of the batch expected"]
    sure: Annotated[
        int | None,
        whole,
        "the margin in records at which a coin passes but for δ₀, whatever F comes to; trimmed if not given",
    ] = None
    test: How = None
    step: Annotated[Part, "by how much F moves after a test, as F; 0 leaves it"] = 0.02
    most: Annotated[Part, "the largest F it comes to"] = 0.5
    after_pass: Annotated[AfterPass, "F after a test that passed: less, and more after one that failed; or more"] = (
        "less"
    )
    rates: Annotated[Rates, "the step after SUM beside the one after TSUM_F: as long, or (n − F)/n of it"] = "equal"

    norm: ClassVar[Bound] = "clip"
    kind_of_cost: ClassVar = "Ptr"
    adapts: ClassVar[tuple[str, ...]] = ("trimmed",)
    unit: ClassVar = 1.0
    orders: ClassVar = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_size(self.clip, self.noise)
        given = "trimmed" if self.sure is None else "sure"
        if self.sure is None and test_of(vars(self)) == "coin":
            if not isinstance(self.trimmed, int):
                told = f"trimmed = {self.trimmed:g} is a share, and a share needs a number of records"
                raise FedprivError(
                    f"{told}: give sure, the margin in records at which the coin passes, or such a trimmed"
                )
            object.__setattr__(self, "sure", self.trimmed)  # which stays where F moves
        check_test(self.test, self.test_noise, self.failure, **{given: self.sure})
        check_fields(self.tested)

    @staticmethod
    def of_records(settings: Mapping[str, Any], records: int) -> dict[str, Any]:
        """The settings of a study of so many records: of a coin with the margin that a share of the batch comes to."""
        share, sampling = settings.get("trimmed"), settings.get("sampling")
        if test_of(settings) != "coin" or "sure" in settings or not isinstance(share, float) or sampling is None:
            return dict(settings)
        return {**settings, "sure": max(number_of(share, sampling * records), 1)}

    @property
    def tested(self) -> mechanisms.Ptr:
        """Propose-test-release's test and branches as a mechanism, in the data's units: the test is run by it."""
        return mechanisms.Ptr(
            clip=self.clip, bound=self.bound, noise=self.noise, test_noise=self.test_noise, failure=self.failure,
            trimmed=self.sure,
        )  # fmt: skip

    @property
    def fine(self) -> FineGrid:
        """The grid on which sums, trimmed or not, are added up and noised: fine enough for the smaller noise."""
        limit = self.bound * self.clip
        return FineGrid.of(limit, self.noise * limit)

    @property
    def mechanism(self) -> mechanisms.Ptr:
        """Propose-test-release as the mechanism that the ledger charges, at sensitivity 1."""
        return replace(self.tested, clip=1.0)

    def check(self, expected: float) -> None:
        """Refuse a study whose F (gradients to trim) is no less than the batch, or too small for a test to pass."""
        self.fine.check(expected / self.sampling, self.clip)
        if not expected >= 2:
            raise FedprivError(f"a trimmed batch needs at least 2 records expected, got {expected:.6g}")
        ptr.check_trimmed(self.tested, max(number_of(self.trimmed, expected), 1), int(expected))
        most, enough = number_of(self.most, expected), self.tested.enough
        if self.step and most < enough:
            raise FedprivError(f"most must be at least {enough} for the test to pass, got {most} of {expected:.6g}")

    def released(self, batch: Batch, rng: Generator) -> Released:
        """What a client releases of a batch: the noisy sum, trimmed if a test passes, and how many to trim next."""
        trimmed, usable, tested = number_of(self.trimmed, batch.expected), batch.usable, self.tested
        clipped = np.minimum(batch.lengths[usable], self.clip)
        passed = ptr.passes_test(tested, ptr.safety_margin(tested, clipped, trimmed), rng)
        kept, most = (batch.shortest(trimmed), tested.limit) if passed else (usable, self.clip)
        total = self.fine.noisy(batch.summed(kept, self), self.noise * most, 2, rng)
        if not passed and self.rates == "by-trimmed":
            total = total * ptr.step_ratio(min(trimmed, int(batch.expected) - 1), int(batch.expected))
        return Released(total, (float(self.next_trimmed(trimmed, passed, batch.expected)),))

    def next_trimmed(self, trimmed: int, passed: bool, expected: float) -> int:
        """F, how many gradients the next step trims, from the released test alone: within 1 and `most`."""
        if not self.step:
            return trimmed
        step = max(number_of(self.step, expected), 1)
        most = min(number_of(self.most, expected), int(expected) - 1)
        less = passed == (self.after_pass == "less")
        return ptr.next_trimmed(max(trimmed, 1), less, step=step, most=max(most, 1))
