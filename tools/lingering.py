"""A plugin of pytest that measures: tests/lingering.txt lists the tests that `make test-fast` has no time for."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

LIST = Path(__file__).resolve().parent.parent / "tests" / "lingering.txt"
SECONDS = 40.0  # of CPU for all that are left: half of what two cores have in a minute, less what it takes to begin
measured: defaultdict[str, float] = defaultdict(
    float
)  # seconds of CPU, children's as well, of a test with all its parameters


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure one test."""
    before = sum(os.times()[:4])
    found = yield
    measured[item.nodeid.partition("[")[0]] += sum(os.times()[:4]) - before
    return found


def pytest_sessionfinish(exitstatus: int) -> None:
    """Write the list, if every test passed."""
    if exitstatus == 0:
        LIST.write_text("".join(f"{name}\n" for name in sorted(too_long(measured))), encoding="utf-8")


def too_long(seconds: Mapping[str, float], most: float = SECONDS) -> list[str]:
    """The fewest tests without which the others take at most so many seconds.

    >>> too_long({"a": 3.0, "b": 1.0, "c": 2.0}, most=3.5)
    ['a']
    """
    left, found = sum(seconds.values()), []
    for name in sorted(seconds, key=seconds.__getitem__, reverse=True):
        if left <= most:
            break
        found.append(name)
        left -= seconds[name]
    return found
