"""Pieces of a page in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table below its head.

    >>> print(table(["ε", "accuracy"], [["2", "84.0"]]))
    | ε | accuracy |
    | --- | --- |
    | 2 | 84.0 |
    """
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def bullets(words: Sequence[str]) -> str:
    """A list.

    >>> print(bullets(["one", "another"]))
    - one
    - another
    """
    return "\n".join(f"- {line}" for line in words)
