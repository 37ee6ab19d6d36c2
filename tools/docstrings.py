"""For the reference: sessions in docstrings are code, and a field is described by its own sentence or comment."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from typing import Any

import griffe

SESSION = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)  # to the next empty line


class Docstrings(griffe.Extension):
    """Makes the docstrings of this project what the reference's generator takes."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Fence the sessions of a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_attribute(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Give an attribute without a docstring its sentence, or its comment."""
        if (
            attr.docstring is None
            and attr.lineno is not None
            and (words := sentence(attr.lines) or comment(attr.lines))
        ):
            attr.docstring = griffe.Docstring(words, lineno=attr.lineno, parent=attr)


def fenced(words: str) -> str:
    """A docstring whose sessions are blocks of code.

    >>> fenced("One.\\n\\n>" + ">> 1\\n1")
    'One.\\n\\n```pycon\\n>>> 1\\n1\\n```'
    """
    return SESSION.sub(lambda session: f"```pycon\n{session[0]}\n```", words)


def sentence(lines: list[str]) -> str:
    """What a field is, where its type says so.

    >>> sentence(['clip: Annotated[float, positive, "c, the ℓ2 norm"] = 1.0'])
    'c, the ℓ2 norm'
    """
    try:
        tree = ast.parse(textwrap.dedent("\n".join(lines)))
    except SyntaxError:
        return ""
    match tree.body:
        case [ast.AnnAssign(annotation=ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=parts)))]:
            return next(
                (each.value for each in parts if isinstance(each, ast.Constant) and type(each.value) is str), ""
            )
    return ""


def comment(lines: list[str]) -> str:
    """The comment behind a statement; nothing where it is for tools.

    >>> comment(["clip: float  # c, the ℓ2 norm"])
    'c, the ℓ2 norm'
    """
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline))
    except tokenize.TokenError:
        return ""
    words = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return next((each for each in words if not each.startswith(("type:", "noqa", "fmt:"))), "").partition("  # ")[0]
