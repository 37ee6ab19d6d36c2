"""Matrix products on one thread: their last bits depend on how many threads share them; and the cores there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock

from threadpoolctl import ThreadpoolController

_ALONE = RLock()  # the number of threads is one for the whole process
_libraries = cache(ThreadpoolController)  # the BLAS that numpy has loaded: to look for it takes as long as a product


def usable_cores() -> int:
    """How many cores this process may use: how many workers a run or a sweep has unless told."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """A `with` block in which numpy's matrix products use one thread: rules give the same bits on any cores.

    >>> import numpy as np
    >>> with one_thread():
    ...     np.eye(2) @ np.ones(2)
    array([1., 1.])
    """
    with _ALONE, _libraries().limit(limits=1, user_api="blas"):
        yield
