"""Matrix products on one thread: their last bits depend on how many threads share them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock

from threadpoolctl import ThreadpoolController

_ALONE = RLock()  # the number of threads is one for the whole process
_libraries = cache(ThreadpoolController)  # the BLAS that numpy has loaded: to look for it takes as long as a product


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
