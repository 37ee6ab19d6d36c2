"""What a server with records of its own knows without any client, beside what `credible` finds of FlTrust and MoNna.

    python -m benchmarks.server_alone

The accuracy, on the records held out, of a logistic regression (scikit-learn's, C = 1) on the hundred records that
FlTrust trusts by, in each of the seeds of `credible`.
"""

from __future__ import annotations

from sklearn.linear_model import LogisticRegression

from clients.training.prepared import pool_of
from clients.training.root import root_records
from simulations.figures.intervals import interval_of, interval_words
from simulations.sweep.grid import grid_of

ROOT = 100
ONE_PLACE = {
    "sweep.alphabet": [{"privacy.mechanism.trials": 1}],
    "sweep.attack": [{"kind": "Ipm"}],
    "sweep.defence": [{"aggregation": {"kind": "FlTrust", "root": ROOT}}],
}


def main() -> None:
    """Print the accuracy of the server alone in each of the seeds of `credible`, and its interval."""
    found = {}
    for study in (cell.study for cell in grid_of("credible", ONE_PLACE).cells):
        pool, seed = pool_of(study), study.run.seed
        assert pool.aside is not None
        x, y = pool.aside.batch(root_records(seed, pool.aside, ROOT)[None])
        model = LogisticRegression(C=1.0, max_iter=1000).fit(x.reshape(ROOT, -1), y[0])
        found[seed] = float(model.score(pool.x_test.reshape(len(pool.y_test), -1), pool.y_test))
    print(", ".join(f"seed {seed}: {accuracy:.3f}" for seed, accuracy in found.items()))
    print(interval_words(interval_of(list(found.values()))))


if __name__ == "__main__":
    main()
