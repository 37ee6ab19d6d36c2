"""Loops compiled by numba, for work that would take numpy many passes over memory.

The first run of a machine compiles each, in a second or so, and keeps the result beside the source or in the user's
cache; where neither can be written to, every process compiles its own. Nothing is reordered and no operations are
fused, so that floats come out as numpy's do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function, compiled at its first call for the types of its arguments; it lets other threads run.

    >>> @compiled
    ... def total(numbers):
    ...     so_far = 0.0
    ...     for number in numbers:
    ...         so_far += number
    ...     return so_far
    >>> import numpy as np
    >>> total(np.arange(4.0))
    6.0
    """
    try:
        return cast(F, njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:  # nowhere to keep it
        return cast(F, njit(nogil=True, error_model="numpy")(function))


def _high_half(_context: Any, first: Any, second: Any) -> Any:
    """The upper 64 of the 128 bits of a product, for compiled functions: an instruction that numba has no name for."""

    def code(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), code


high_half = cast(Callable[[Any, Any], Any], intrinsic(_high_half))
