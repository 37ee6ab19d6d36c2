"""What every test may count on: the same examples in every run, one thread a process, nothing sent anywhere."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

os.environ.update(
    OMP_NUM_THREADS="1",  # the suite runs one process a core; torch's threads would fight over them
    MPLBACKEND="Agg",
    FLWR_TELEMETRY_ENABLED="0",
    FLWR_DISABLE_UPDATE_CHECK="1",
    FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION="1",
    RAY_USAGE_STATS_ENABLED="0",
)

# `HYPOTHESIS_PROFILE=search pytest …` looks for new examples; without it a test that passed passes again.
settings.register_profile(
    "repeat",
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))
