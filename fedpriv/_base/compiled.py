"""Loops compiled by numba, for work that would take numpy many passes over memory.

The first run of a machine compiles each, in a second or so, and keeps the result beside the source or in the user's
cache; where neither can be written to, every process compiles its own. Nothing is reordered and no operations are
fused, so that floats come out as numpy's do. numba itself takes a fifth of a second to load: the first call loads it,
for much of what asks for a number never makes one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class _Later:
    """A function that numba will make when it is first needed."""

    def __init__(self, make: Callable[[], Any]) -> None:
        """Keep what will make the function, `make`, until it is first called."""
        self._make = make
        self._made = None

    def made(self) -> Any:
        """The function that numba compiles, asked for once and kept; numba is loaded no sooner."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def __call__(self, *arguments: Any) -> Any:
        """What the compiled function gives for these arguments; the first call has numba make it."""
        return self.made()(*arguments)


def compiled(function: F) -> F:
    """A decorator for inner loops over arrays: numba compiles them at the first call, and other threads run meanwhile.

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
    return cast(F, _Later(lambda: _compiled(function)))


def _compiled(function: F) -> Any:
    """A Python function as numba compiles it, with the compiled ones that it calls; kept on disk where that can be."""
    from numba import njit

    known = function.__globals__  # where numba looks up what is called, and has to find its own kind
    known |= {name: known[name].made() for name in function.__code__.co_names if isinstance(known.get(name), _Later)}
    try:
        return njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # nowhere to keep it
        return njit(nogil=True, error_model="numpy")(function)


@_Later
def high_half() -> Any:
    """An instruction that numba lacks, for compiled random streams: the upper 64 of the 128 bits of a product."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    def upper(_context: Any, first: Any, second: Any) -> Any:
        """For numba, when it compiles a random stream: the types of a 128-bit product's upper half, and its code."""

        def code(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            """The machine code in LLVM of a 128-bit product's upper half: factors widened, multiplied, shifted down."""
            wide = ir.IntType(128)
            product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
            return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), code

    return intrinsic(upper)
