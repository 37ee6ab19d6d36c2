"""What a simulation alone can measure of a round: which votes came out wrong, of the honest mean and of the gradient.

A deployed server knows neither: it sees messages, and no loss of anybody's. Here every client's honest work is done
once more, in the order of clients, so what is measured is the same bits whoever carried the messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from clients.data.splits import Uneven
from clients.models.gradients import block_slices
from clients.models.memory import Scratch
from clients.training._batches import read, records_of_steps, used, widths
from clients.training.cohort import Cohort
from clients.training.prepared import Prepared
from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv.population.participation import byzantine_clients
from fedpriv.studies.judged import judged_attackers
from fedpriv.tolerance import expected_wrong
from fedpriv.tolerance.ballots import is_polled

MOST_FEATURES = 4096  # of which λ_max is found
ROUNDED_UP = 1 + 1e-9  # more than an eigenvalue's rounding


class Measuring:
    """The votes of a study's rounds, beside what its clients meant and what the mean of their losses asks for."""

    def __init__(self, prepared: Prepared) -> None:
        own = prepared.study
        self._prepared, self._cohort, self._scratch = prepared, Cohort(prepared), Scratch()
        self._byzantine = byzantine_clients(own.clients.count, own.clients.attackers, own.run.seed)
        self._honest = np.setdiff1d(np.arange(own.clients.count), self._byzantine)
        self._judged = judged_attackers(own)
        self._counted = not own.rule.needs_rows and is_polled(own.privacy.mechanism.kind)
        self._smoothness: float | None = None

    def votes(self, weights: Vector, round: int, answered: Numbers, direction: Vector | None) -> dict[str, Any]:
        """The line of one round; `direction` is what the votes came to, None in a round that was skipped.

        Shares of coordinates, a tie being wrong, those left out whose mean (gradient) is 0: of votes against the honest
        mean of those who answered (ρ₂), of that mean against the gradient of the honest clients' mean loss (ρ₁), and of
        votes against that gradient; what the count of votes expected for ρ₂; then that gradient's ℓ1 norm, Λ, and the
        loss. A client's loss is the mean over all its records, and all clients weigh the same, as their votes do.
        """
        now = weights.astype(np.float32)
        gradient, loss = self._full_gradient(now)
        vote = np.zeros_like(gradient) if direction is None else np.sign(direction)
        right = np.where(vote == np.sign(gradient), 1.0, -1.0)
        found = {
            "against_mean": None, "mean_against_gradient": None, "expected": None,
            "against_gradient": wrong_share(vote, gradient), "gradient": float(np.abs(gradient).sum()),
            "progress": float((np.abs(gradient) * right).sum()), "loss": loss,
        }  # fmt: skip
        honest = np.setdiff1d(answered, self._byzantine)
        if direction is None or not honest.size:
            return found
        mean = self._cohort.honest_mean(now, round, honest)
        byzantine = len(answered) - len(honest)
        if self._counted:
            drawn_by = self._prepared.study.privacy.drawn_by
            found["expected"] = expected_wrong(drawn_by, len(honest), byzantine, mean, *self._judged)
        return found | {
            "against_mean": wrong_share(vote, mean), "mean_against_gradient": wrong_share(mean, gradient)
        }  # fmt: skip

    @property
    def facts(self) -> dict[str, Any]:
        """What of the run its votes are to be read by: the step, and L where it is known.

        L bounds the curvature of the mean loss: ½λ_max of the records' second moments, each with a 1 for the bias
        (the Hessian of log-sum-exp is at most ½); known of logistic regression, given where the step is always the
        same multiple of the vote.
        """
        own = self._prepared.study
        plain = own.server.optimiser.kind == "Sgd" and own.server.momentum == 0
        convex = own.training.model.kind == "Logistic" and own.training.loss.kind == "CrossEntropy"
        if plain and convex and self._smoothness is None:
            self._smoothness = self._curvature()
        return {"step": own.server.step, "smoothness": self._smoothness}

    def _full_gradient(self, weights: Rows) -> tuple[Vector, float]:
        """The gradient of the honest clients' mean loss, and that loss; clients without one are left out."""
        net, total, loss, count = self._prepared.net, np.zeros(len(weights)), 0.0, 0
        for x, y, counts in self._records():
            out = np.empty((len(x), net.dimension), np.float32)
            losses = net.gradients(weights, x, y, out, None, counts)
            good = np.isfinite(losses)
            total += out[good].sum(axis=0, dtype=np.float64)
            loss, count = loss + float(losses[good].sum()), count + int(good.sum())
        return total / max(count, 1), loss / max(count, 1)

    def _curvature(self) -> float | None:
        """L of logistic regression; None where there are too many features to find it."""
        features = int(np.prod(self._prepared.pool.shape)) + 1
        if features > MOST_FEATURES:
            return None
        moments, clients = np.zeros((features, features)), 0
        for x, _, counts in self._records():
            sizes = np.full(len(x), x.shape[1]) if counts is None else counts
            own = np.arange(x.shape[1]) < sizes[:, None]
            rows = np.concatenate([x.reshape(*x.shape[:2], -1), np.ones((*x.shape[:2], 1))], axis=2, dtype=np.float64)
            rows *= (own / np.sqrt(np.maximum(sizes, 1))[:, None])[..., None]
            flat = rows.reshape(-1, features)
            moments += flat.T @ flat
            clients += len(x)
        return float(np.linalg.eigvalsh(moments)[-1]) / (2 * max(clients, 1)) * ROUNDED_UP

    def _records(self) -> Iterator[tuple[Rows, Numbers, Numbers | None]]:
        """All records of the honest clients, a block of clients at a time; of uneven ones, how many each has."""
        division, seed = self._prepared.division, self._prepared.study.run.seed
        for part in block_slices(len(self._honest), self._prepared.net.chunk):
            clients = self._honest[part]
            for some, counts in _of_one_width(division, clients) if isinstance(division, Uneven) else [(clients, None)]:
                numbers = records_of_steps(division, 0, 1, seed, 0, some)
                for x, y in read(numbers, self._prepared.pool, self._cohort.corrupting, self._scratch):
                    yield x, y, counts


def _of_one_width(division: Uneven, clients: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Clients that have records, by how wide they are computed, and how many each has."""
    sizes = division.sizes(clients)
    wide = widths(sizes, 0)
    for width in np.unique(wide[sizes > 0]).tolist():
        own = (wide == width) & (sizes > 0)
        yield clients[own], used(sizes[own], 0)


def wrong_share(votes: Vector, truth: Vector) -> float:
    """The share of coordinates whose sign is not that of the truth, among those where this has one.

    >>> wrong_share(np.array([1.0, -1.0, 0.0, 1.0]), np.array([0.3, 0.2, 0.1, 0.0]))
    0.6666666666666666
    """
    signed = truth != 0
    return float(np.mean(np.sign(votes[signed]) != np.sign(truth[signed]))) if signed.any() else 0.0
