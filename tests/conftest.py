"""What every test may count on: the same examples in every run, one thread a process, nothing sent anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
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

LINGERING = Path(__file__).with_name("lingering.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out what tests/lingering.txt lists")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        listed = set(LINGERING.read_text(encoding="utf-8").splitlines())
        left = [item for item in items if item.nodeid.partition("[")[0] in listed]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.nodeid.partition("[")[0] not in listed]
