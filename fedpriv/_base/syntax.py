"""What sources say to Python, as a digest: comments, docstrings and layout change nothing in it, a constant does.

Every Python reads the same: fields that are empty, which some versions lack, are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from fedpriv._base.files import replace_file, user_cache

SIZE = 8  # bytes


def code_digest(folders: Iterable[Path], besides: Iterable[str] = ()) -> str:
    """A digest of all modules in folders, by syntax tree, less packages `besides`: nodes compare it with the server.

    Parsing them takes most of a second, so what was found is kept under a digest of the very bytes: beside the sources,
    or in the user's own cache where nothing can be written there.
    """
    files = [(folder, file) for folder in folders for file in sorted(folder.rglob("*.py"))]
    named = [(f"{folder.name}/{file.relative_to(folder).as_posix()}", file) for folder, file in files]
    without = tuple(f"{each}/" for each in besides)
    sources = [(name, file.read_bytes()) for name, file in named if not name.startswith(without)]
    written = blake2b(digest_size=16)
    for name, content in sources:
        written.update(f"{name}\0{len(content)}\0".encode() + content)
    places = [folder / f"syntax-{written.hexdigest()}" for folder in _caches()]
    for place in places:
        with suppress(OSError, UnicodeError):
            if re.fullmatch(f"[0-9a-f]{{{2 * SIZE}}}", known := place.read_text(encoding="ascii")):
                return known
    found = blake2b(digest_size=SIZE)
    for name, content in sources:
        found.update(f"{name}\0{syntax_text(content)}\0".encode())
    for place in places:
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_file(place, found.hexdigest().encode())
            break
    return found.hexdigest()


def syntax_text(source: str | bytes) -> str:
    """A source file's syntax tree as text that comments, docstrings and layout do not change: what `code_digest` reads.

    >>> syntax_text("def f(x):\\n    'Twice.'\\n    return 2 * x  # yes") == syntax_text("def f(x): return (2 * x)")
    True
    >>> syntax_text("LIMIT = 2") == syntax_text("LIMIT = 2.0")
    False
    """
    return repr(_said(ast.parse(source)))


def _said(node: object) -> object:
    """A part of a syntax tree as plain tuples and lists, without positions or docstrings: what `syntax_text` prints."""
    if isinstance(node, ast.AST):
        own = ((name, _said(value)) for name, value in ast.iter_fields(node))
        return type(node).__name__, *((name, said) for name, said in own if said not in (None, []))
    if isinstance(node, list):
        return [
            _said(each)
            for each in node  # but docstrings, and whatever other strings stand alone
            if not (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            )
        ]
    return None if node is None else (type(node).__name__, repr(node))


def _caches() -> tuple[Path, Path]:
    """The two folders in which a digest of code may be kept: beside the sources, or else in the user's cache."""
    return Path(__file__).parent / "__pycache__", user_cache()
