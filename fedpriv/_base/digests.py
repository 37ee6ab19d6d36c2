"""A digest of an object that somebody has in Python: of the code of its class, and of all values that it holds.

Code is taken as it was compiled, so that comments, and where it stands, change nothing. What a function reads is
followed: closures, defaults, and of its module's names, and of modules of one's own, all that it uses.
What is installed, and what ships with Python or fedpriv, goes by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dis import get_instructions
from hashlib import blake2b
from importlib.machinery import PathFinder
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fedpriv.errors import FAULTS

SCALARS = (type(None), bool, int, float, complex, str, bytes)
SAID_ELSEWHERE = {  # of what stands in a class: none of it says what the class does, and some is never the same twice
    "__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__", "__static_attributes__",
    "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__abstractmethods__", "_abc_impl",
    "__annotations__", "__annotations_cache__", "__annotate_func__",
}  # fmt: skip
SHIPPED = {*sys.stdlib_module_names, "fedpriv", "clients", "server", "simulations"} - {"__main__"}

READS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}  # instructions that look a name up in the module
Seen = dict[int, tuple[int, Any]]  # by id: which one it was, and the object, so that no other is given its id


class Unknown(Exception):
    """A value that nothing tells from another of its kind, such as an open file."""


def object_digest(value: Any) -> str | None:
    """Sixteen hexadecimal digits that tell an object, class or function from others; None where nothing can.

    >>> object_digest([1, 2.0, "a"]) == object_digest([1, 2.0, "a"]) != object_digest([1, 2, "a"])
    True
    >>> object_digest(open) == object_digest(print), object_digest(i for i in "a") is None
    (False, True)
    """
    found = blake2b(digest_size=8)
    try:
        for part in _parts(value, {}):
            found.update(len(part).to_bytes(8, "little") + part)
    except (Unknown, RecursionError):
        return None
    return found.hexdigest()


def _parts(value: Any, seen: Seen) -> Iterator[bytes]:
    """All that tells a value from others, piece by piece; an object met before is named by its turn."""
    if type(value) is bytes:
        yield from (b"bytes", value)
    elif isinstance(value, SCALARS):
        yield f"{type(value).__name__} {value!r}".encode("utf-8", "surrogatepass")
    elif id(value) in seen:
        yield f"again {seen[id(value)][0]}".encode()
    else:
        seen[id(value)] = len(seen), value
        yield f"{type(value).__module__}.{type(value).__qualname__}".encode()
        for each in _inside(value):
            yield from _parts(each, seen)


def _inside(value: Any) -> Iterator[Any]:
    """What a value consists of: bytes that say it, and values that it holds, which are told in turn."""
    match value:
        case np.ndarray() if not value.dtype.hasobject:
            yield from (f"{value.dtype.str} {value.shape}".encode(), np.ascontiguousarray(value).tobytes())
        case list() | tuple():
            yield from (len(value), *value)
        case dict():
            yield from (len(value), *value.keys(), *value.values())
        case set() | frozenset() if all(isinstance(each, SCALARS) for each in value):
            yield sorted(map(repr, value))
        case CodeType():
            yield from (value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_argcount)
            yield from (value.co_kwonlyargcount, value.co_flags, value.co_exceptiontable, value.co_consts)
        case FunctionType() | BuiltinFunctionType() | type() | ModuleType() if _goes_by_name(value):
            yield f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', value.__name__)}".encode()
        case FunctionType():
            yield from (value.__code__, value.__defaults__, value.__kwdefaults__, value.__dict__)
            yield [each.cell_contents for each in value.__closure__ or () if each != type(each)()]
            yield dict(sorted(_read_names(value).items()))
        case ModuleType():  # of one's own
            own = {name: each for name, each in vars(value).items() if not name.startswith("__")}
            yield dict(sorted(own.items()))
        case MethodType():
            yield from (value.__func__, value.__self__)
        case staticmethod() | classmethod():
            yield value.__func__
        case property():
            yield from (value.fget, value.fset, value.fdel)
        case type():
            own = {name: each for name, each in vars(value).items() if name not in SAID_ELSEWHERE}
            yield from (value.__qualname__, value.__bases__, dict(sorted(own.items())))
        case _ if hasattr(value, "detach") and hasattr(
            value, "requires_grad"
        ):  # a tensor of torch, which is not imported here
            yield from (bool(value.requires_grad), value.detach().cpu().numpy())
        case _:
            yield _reduced(value)


def _goes_by_name(value: Any) -> bool:
    """Whether a function, class or module is an installed one, or Python's or fedpriv's own: nobody wrote it here."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or "builtins"
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return name.partition(".")[0] in SHIPPED or "site-packages" in file or "dist-packages" in file


def _read_names(function: FunctionType) -> dict[str, Any]:
    """What a function reads of its module's names, for `object_digest`; unknown where it imports what is one's own."""
    codes, names = [function.__code__], set[str]()
    for code in codes:
        for each in get_instructions(code):
            if each.opname == "IMPORT_NAME" and not _is_installed(str(each.argval)):
                raise Unknown
            names |= {str(each.argval)} if each.opname in READS else set()
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    here = function.__globals__
    return {name: here[name] for name in names if name in here}


def _is_installed(name: str) -> bool:
    """Whether a module that a function imports when it is called is Python's, fedpriv's or an installed one."""
    first = name.partition(".")[0]
    if first in SHIPPED:
        return True
    found = None if not first else PathFinder.find_spec(first)
    return found is not None and "-packages" in (found.origin or "")


def _reduced(value: Any) -> list[Any]:
    """What pickle would keep of an object: by which all that it holds is known."""
    try:
        reduced = value.__reduce_ex__(4)
    except FAULTS:
        raise Unknown from None
    if isinstance(reduced, str):
        return [reduced]
    make, arguments, *rest = reduced
    state, items, pairs = (*rest, None, None, None)[:3]
    return [make, arguments, state, list(items or ()), dict(pairs or ())]
